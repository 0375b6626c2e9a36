/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* rblkctl VERB ...: one verb of the table, and what is not a verb's: help and version. */
#include <stdio.h>
#include <string.h>

#include "proto/program/program.h"
#include "proto/words/nearest.h"
#include "target/ctl/ctl.h"

static const struct ctl_verb *verb_find(const char *name)
{
	for (unsigned int i = 0; ctl_verbs[i].name; i++)
		if (!strcmp(ctl_verbs[i].name, name))
			return &ctl_verbs[i];
	return NULL;
}

static void help(FILE *out)
{
	fputs("rblkctl VERB [OPTION]...\n"
	      "Ask and direct the rblkd that runs on this machine.\n\n",
	      out);
	for (unsigned int i = 0; ctl_verbs[i].name; i++)
		fprintf(out, "  %-11s %s\n", ctl_verbs[i].name, ctl_verbs[i].summary);
	fputs("  help        how to use a verb: rblkctl help VERB\n"
	      "  version     the version of this program\n",
	      out);
}

static bool is(const char *text, const char *name, const char *option, const char *letter)
{
	return !strcmp(text, name) || !strcmp(text, option) || !strcmp(text, letter);
}

static int unknown(const char *name)
{
	struct words_nearest search = words_nearest_to(name);
	char hint[WORDS_HINT_BYTES];

	for (unsigned int i = 0; ctl_verbs[i].name; i++)
		words_nearest_offer(&search, ctl_verbs[i].name);
	words_nearest_offer(&search, "help");
	words_nearest_offer(&search, "version");
	ctl_error("unknown verb \"%.64s\"; %s", name, words_hint(&search, "", "see rblkctl --help", hint));
	return CTL_USAGE;
}

static int help_of(char **argv, int argc)
{
	const struct ctl_verb *verb = argc ? verb_find(argv[0]) : NULL;

	if (argc && !verb)
		return unknown(argv[0]);
	if (verb)
		ctl_options_help(verb);
	else
		help(stdout);
	return CTL_OK;
}

/* Known before the options are read, because their errors are printed as JSON, too. */
static bool wants_json(char **argv, int argc)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--json") || !strcmp(argv[i], "-j"))
			return true;
	return false;
}

static int ctl_main(int argc, char **argv)
{
	struct ctl_values values = {.socket = CTL_SOCKET, .interval_ms = 2000, .sort = "iops"};
	const struct ctl_verb *verb;
	int count;

	if (argc < 2) {
		help(stderr);
		return CTL_USAGE;
	}
	if (is(argv[1], "help", "--help", "-h"))
		return help_of(argv + 2, argc - 2);
	if (is(argv[1], "version", "--version", "-V")) {
		printf("rblkctl %s\n", RBLK_VERSION);
		return CTL_OK;
	}
	verb = verb_find(argv[1]);
	if (!verb)
		return unknown(argv[1]);
	ctl_begin(verb->name, wants_json(argv + 2, argc - 2));
	count = ctl_options_parse(verb, &values, argv + 2, argc - 2);
	if (count < 0)
		return CTL_USAGE;
	if (values.help) {
		ctl_options_help(verb);
		return CTL_OK;
	}
	return verb->run(&values, argv + 2, count);
}

int main(int argc, char **argv)
{
	rblk_program_begin();
	return rblk_program_end("rblkctl", ctl_main(argc, argv));
}
