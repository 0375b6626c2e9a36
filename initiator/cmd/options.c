/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the tables of the command line: the verbs, and how the options of each are parsed and explained. */
#include "initiator/cmd/cmd.h"
#include "proto/words/nearest.h"
#include "proto/words/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- the verbs --------------------------------------------------------------------------------- */

/* * The table of verbs: for main.c, which runs one, and completion.c, which makes the shells' completions of it. */

const struct cmd_verb *const cmd_verbs[] = {
	&cmd_verb_discover, &cmd_verb_list, &cmd_verb_info, &cmd_verb_copy, &cmd_verb_ping,
	&cmd_verb_attach, &cmd_verb_detach, &cmd_verb_acknowledge, &cmd_verb_top,
	&cmd_verb_reserve, &cmd_verb_key,    &cmd_verb_doctor, &cmd_verb_fault, NULL,
};

/* -- their options ----------------------------------------------------------------------------- */

/*
 * Options by table: parsing and --help from the same entries, so that they cannot disagree.
 * Operands and options may be mixed; "--" ends the options; "-" is an operand (standard input).
 */

static int options_tls(const char *text, enum rblk_tls_use *use, char *reason)
{
	static const char *const words[] = {
		[RBLK_TLS_AUTO] = "auto", [RBLK_TLS_ALWAYS] = "always", [RBLK_TLS_NEVER] = "never"};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(text, words[i])) {
			*use = (enum rblk_tls_use)i;
			return 0;
		}
	snprintf(reason, CMD_REASON_BYTES, "\"%.64s\" is none of auto, always and never", text);
	return -EINVAL;
}

int cmd_option_store(const struct cmd_option *option, void *values, const char *text, char *reason)
{
	static const enum units_kind kinds[] = {
		[CMD_OPTION_NUMBER] = UNITS_COUNT, [CMD_OPTION_SIZE] = UNITS_SIZE, [CMD_OPTION_TIME] = UNITS_TIME_MS};
	void *place = (char *)values + option->offset;

	if (option->kind == CMD_OPTION_FLAG) {
		*(bool *)place = true;
		return 0;
	}
	if (option->kind == CMD_OPTION_TEXT) {
		*(const char **)place = text;
		return 0;
	}
	if (option->kind == CMD_OPTION_TLS)
		return options_tls(text, place, reason);
	return units_read(kinds[option->kind], text, option->least, option->most, place, reason);
}

/* The verb whose options were parsed, and which of them were there: bits by index. */
static const struct cmd_verb *parsed;
static uint64_t given;

static int options_store(const struct cmd_verb *verb, const struct cmd_option *option,
			 const char *text)
{
	char reason[CMD_REASON_BYTES];

	parsed = verb;
	given |= 1ull << (option - verb->options);
	if (!cmd_option_store(option, verb->values, text, reason))
		return 0;
	cmd_error("--%s: %s", option->name, reason);
	return -EINVAL;
}

const struct cmd_option *cmd_option_find(const struct cmd_option *options, const char *name,
					 size_t length)
{
	const struct cmd_option *option;

	for (option = options; option->name; option++)
		if (strlen(option->name) == length && !strncmp(option->name, name, length))
			return option;
	return NULL;
}

static const struct cmd_option *options_find_letter(const struct cmd_option *options, char letter)
{
	const struct cmd_option *option;

	for (option = options; option->name; option++)
		if (option->letter && option->letter == letter)
			return option;
	return NULL;
}

/* length: of a long option's name, which may be misspelled; 0: a letter. */
static void options_unknown(const struct cmd_verb *verb, const char *argument, size_t length)
{
	char name[WORDS_NEAREST_MAX + 1], see[64], hint[WORDS_HINT_BYTES];
	struct words_nearest search;

	snprintf(name, sizeof(name), "%.*s", (int)length, argument + 2);
	search = words_nearest_to(name);
	for (const struct cmd_option *option = verb->options; length && option->name; option++)
		words_nearest_offer(&search, option->name);
	snprintf(see, sizeof(see), "see rblk %s --help", verb->name);
	cmd_error("%s: unknown option %s; %s", verb->name, argument, words_hint(&search, "--", see, hint));
}

/*
 * One argument that begins with '-': "--name", "--name=value", "-n". Its value may be the next
 * argument, then *taken is 1.
 */
static int options_take(const struct cmd_verb *verb, const char *argument, const char *next,
			int *taken, bool *help)
{
	bool is_long = argument[1] == '-';
	const char *name = argument + 2;
	const char *value = is_long ? strchr(name, '=') : NULL;
	size_t length = value ? (size_t)(value - name) : strlen(name);
	const struct cmd_option *option;

	*taken = 0;
	if (is_long)
		option = cmd_option_find(verb->options, name, length);
	else
		option = argument[2] ? NULL : options_find_letter(verb->options, argument[1]);
	if (!option) {
		options_unknown(verb, argument, is_long ? length : 0);
		return -EINVAL;
	}
	if (!strcmp(option->name, "help")) {
		*help = true;
		return 0;
	}
	if (option->kind == CMD_OPTION_FLAG) {
		if (value) {
			cmd_error("--%s: takes no value", option->name);
			return -EINVAL;
		}
		return options_store(verb, option, NULL);
	}
	if (value)
		return options_store(verb, option, value + 1);
	if (!next) {
		cmd_error("--%s: %s is missing", option->name, option->argument);
		return -EINVAL;
	}
	*taken = 1;
	return options_store(verb, option, next);
}

int cmd_options_parse(const struct cmd_verb *verb, char **argv, int argc, char **operands,
		      bool *help)
{
	bool ended = false;
	int count = 0;
	int taken, i;

	*help = false;
	for (i = 0; i < argc; i++) {
		if (!ended && !strcmp(argv[i], "--")) {
			ended = true;
		} else if (ended || argv[i][0] != '-' || !argv[i][1]) {
			operands[count++] = argv[i];
		} else {
			if (options_take(verb, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &taken,
					 help))
				return -1;
			i += taken;
		}
	}
	if (!*help && (count < verb->operands_least || count > verb->operands_most)) {
		cmd_error("usage: rblk %s [OPTION]... %s", verb->name, verb->operands);
		return -1;
	}
	return count;
}

static bool option_given(const char *name)
{
	const struct cmd_option *option = parsed ? cmd_option_find(parsed->options, name, strlen(name)) : NULL;

	return option && given & 1ull << (option - parsed->options);
}

int cmd_options_not(const char *mode, const char *name)
{
	if (!option_given(name))
		return CMD_OK;
	cmd_error("%s: --%s is not taken %s", parsed->name, name, mode);
	return CMD_USAGE;
}

int cmd_options_only(const char *mode, const char *const *taken)
{
	for (const struct cmd_option *option = parsed ? parsed->options : NULL; option && option->name; option++) {
		const char *const *name = taken;

		while (*name && strcmp(*name, option->name))
			name++;
		if (!*name && cmd_options_not(mode, option->name))
			return CMD_USAGE;
	}
	return CMD_OK;
}

void cmd_options_help(const struct cmd_verb *verb)
{
	const struct cmd_option *option;
	char left[64];

	printf("rblk %s [OPTION]... %s\n%s\n\n", verb->name, verb->operands, verb->summary);
	for (option = verb->options; option->name; option++) {
		snprintf(left, sizeof(left), "%c%c%c --%s%s%s", option->letter ? '-' : ' ',
			 option->letter ? option->letter : ' ', option->letter ? ',' : ' ',
			 option->name, option->argument ? " " : "",
			 option->argument ? option->argument : "");
		printf("  %-26s %s\n", left, option->help);
	}
}
