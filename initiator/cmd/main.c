/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblk VERB ...: the table of verbs, and what is not a verb's: --help and --version.
 */
#include "initiator/cmd/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cmd_verb *const verbs[] = {
	&cmd_verb_list,   &cmd_verb_info,   &cmd_verb_copy,   &cmd_verb_ping,
	&cmd_verb_attach, &cmd_verb_detach, &cmd_verb_doctor,
};
#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

static const struct cmd_verb *main_find(const char *name)
{
	size_t i;

	for (i = 0; i < VERB_COUNT; i++)
		if (!strcmp(verbs[i]->name, name))
			return verbs[i];
	return NULL;
}

static void main_help(FILE *out)
{
	size_t i;

	fputs("rblk VERB [OPTION]... OPERAND...\n"
	      "Use block volumes that rblkd serves over RDMA or TCP.\n\n",
	      out);
	for (i = 0; i < VERB_COUNT; i++)
		fprintf(out, "  %-8s %s\n", verbs[i]->name, verbs[i]->summary);
	fputs("  help     how to use a verb: rblk help VERB\n"
	      "  version  the version of the command and of its library\n"
	      "\n"
	      "A target is rblk://HOST[:PORT] (RDMA) or rblk+tcp://HOST[:PORT] (TCP); a volume "
	      "has\n"
	      "/NAME behind it.\n",
	      out);
}

static int main_version(void)
{
	printf("rblk %s, librblk %s\n", RBLK_VERSION, rblk_version());
	return CMD_OK;
}

static int main_unknown(const char *name)
{
	cmd_error("no verb \"%s\"; see rblk --help", name);
	return CMD_USAGE;
}

static int main_verb(const struct cmd_verb *verb, char **argv, int argc)
{
	char **operands = calloc((size_t)argc + 1, sizeof(*operands));
	int status = CMD_USAGE;
	bool help;
	int count;

	if (!operands)
		return cmd_error("out of memory");
	count = cmd_options_parse(verb, argv, argc, operands, &help);
	if (count >= 0 && help) {
		cmd_options_help(verb);
		status = CMD_OK;
	} else if (count >= 0) {
		status = verb->run(operands, count);
	}
	free(operands);
	return status;
}

int main(int argc, char **argv)
{
	const struct cmd_verb *verb;

	if (argc < 2) {
		main_help(stderr);
		return CMD_USAGE;
	}
	if (!strcmp(argv[1], "version") || !strcmp(argv[1], "--version"))
		return main_version();
	if (!strcmp(argv[1], "help") && argc > 2) {
		verb = main_find(argv[2]);
		if (!verb)
			return main_unknown(argv[2]);
		cmd_options_help(verb);
		return CMD_OK;
	}
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		main_help(stdout);
		return CMD_OK;
	}
	verb = main_find(argv[1]);
	return verb ? main_verb(verb, argv + 2, argc - 2) : main_unknown(argv[1]);
}
