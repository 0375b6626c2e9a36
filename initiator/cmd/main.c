/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk VERB ...: one verb of the table (options.c), and what is not a verb's: help and version.
 */
#include "initiator/cmd/cmd.h"
#include "initiator/cmd/discover.h"
#include "proto/program/program.h"
#include "proto/words/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cmd_verb *main_find(const char *name)
{
	size_t i;

	for (i = 0; cmd_verbs[i]; i++)
		if (!strcmp(cmd_verbs[i]->name, name))
			return cmd_verbs[i];
	return NULL;
}

static void main_help(FILE *out)
{
	size_t i;

	fputs("rblk VERB [OPTION]... OPERAND...\n"
	      "Use block volumes that rblkd serves over RDMA or TCP.\n\n",
	      out);
	for (i = 0; cmd_verbs[i]; i++)
		fprintf(out, "  %-11s %s\n", cmd_verbs[i]->name, cmd_verbs[i]->summary);
	fputs("  help        how to use a verb: rblk help VERB\n"
	      "  version     the version of the command and of its library\n"
	      "\n"
	      "A target is rblk://HOST[:PORT] (RDMA) or rblk+tcp://HOST[:PORT] (TCP); a volume is\n"
	      "a target followed by /NAME. With discover://NAME a target is found by its name.\n",
	      out);
}

static bool main_is(const char *text, const char *name, const char *option, const char *letter)
{
	return !strcmp(text, name) || !strcmp(text, option) || !strcmp(text, letter);
}

static int main_version(char **argv, int argc)
{
	if (argc && main_is(argv[0], "--help", "--help", "-h")) {
		printf("rblk version\nthe version of the command and of its library\n");
		return CMD_OK;
	}
	if (argc) {
		cmd_error("usage: rblk version");
		return CMD_USAGE;
	}
	printf("rblk %s, librblk %s\n", RBLK_VERSION, rblk_version());
	return CMD_OK;
}

static int main_unknown(const char *name)
{
	struct words_nearest search = words_nearest_to(name);
	char hint[WORDS_HINT_BYTES];

	for (size_t i = 0; cmd_verbs[i]; i++)
		words_nearest_offer(&search, cmd_verbs[i]->name);
	words_nearest_offer(&search, "help");
	words_nearest_offer(&search, "version");
	cmd_error("unknown verb \"%.64s\"; %s", name, words_hint(&search, "", "see rblk --help", hint));
	return CMD_USAGE;
}

/* help VERB; help and version are not verbs of the table, but have a help, too. */
static int main_help_of(char **argv, int argc)
{
	const struct cmd_verb *verb;

	if (argc > 1) {
		cmd_error("usage: rblk help [VERB]");
		return CMD_USAGE;
	}
	if (!argc || main_is(argv[0], "help", "--help", "-h")) {
		main_help(stdout);
		return CMD_OK;
	}
	if (!strcmp(argv[0], "version"))
		return main_version((char *[]){ "--help" }, 1);
	verb = main_find(argv[0]);
	if (!verb)
		return main_unknown(argv[0]);
	cmd_options_help(verb);
	return CMD_OK;
}

/* Known before the options are read, because their errors are printed as JSON, too. */
static bool main_wants_json(const struct cmd_verb *verb, char **argv, int argc)
{
	int i;

	if (!cmd_option_find(verb->options, "json", 4))
		return false;
	for (i = 0; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--json") || !strcmp(argv[i], "-j"))
			return true;
	return false;
}

/* enum cmd_exit. found[]: as many as operands, NULL; those that take an operand's place are the caller's. */
static int main_discover(const struct cmd_verb *verb, char **operands, int count, char **found)
{
	char name[RBLK_NAME_BYTES], volume[RBLK_NAME_BYTES], reason[DISCOVER_REASON_BYTES];

	for (int i = 0; i < count && verb->connects; i++) {
		if (!discover_uri_is(operands[i]))
			continue;
		if (discover_uri_parse(operands[i], name, volume, reason)) {
			cmd_error("%s", reason);
			return CMD_USAGE;
		}
		found[i] = malloc(RBLK_URI_BYTES);
		if (!found[i])
			return cmd_error("out of memory");
		if (discover_uri_resolve(operands[i], discover_fabric_here(), found[i]))
			return CMD_FAILED;
		operands[i] = found[i];
	}
	return CMD_OK;
}

static int main_run(const struct cmd_verb *verb, char **operands, int count)
{
	char **found = calloc((size_t)count + 1, sizeof(*found));
	int status;

	if (!found)
		return cmd_error("out of memory");
	status = main_discover(verb, operands, count, found);
	if (status == CMD_OK)
		status = verb->run(operands, count);
	for (int i = 0; i < count; i++)
		free(found[i]);
	free(found);
	return status;
}

static int main_verb(const struct cmd_verb *verb, char **argv, int argc)
{
	char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	int status = CMD_USAGE;
	bool help;
	int count;

	if (!operands)
		return cmd_error("out of memory");
	if (main_wants_json(verb, argv, argc))
		cmd_json_begin();
	count = cmd_options_parse(verb, argv, argc, operands, &help);
	if (count >= 0 && help) {
		cmd_options_help(verb);
		status = CMD_OK;
	} else if (count >= 0) {
		status = main_run(verb, operands, count);
	}
	free(operands);
	return cmd_json_end(status);
}

static int main_command(int argc, char **argv)
{
	const struct cmd_verb *verb;

	if (argc < 2) {
		main_help(stderr);
		return CMD_USAGE;
	}
	verb = main_find(argv[1]);
	if (verb)
		return main_verb(verb, argv + 2, argc - 2);
	if (main_is(argv[1], "help", "--help", "-h"))
		return main_help_of(argv + 2, argc - 2);
	if (main_is(argv[1], "version", "--version", "-V"))
		return main_version(argv + 2, argc - 2);
	return main_unknown(argv[1]);
}

int main(int argc, char **argv)
{
	rblk_program_begin();
	return rblk_program_end("rblk", main_command(argc, argv));
}
