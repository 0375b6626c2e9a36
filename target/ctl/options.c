/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Options by table: parsing and --help from the same entries. Operands and options may be mixed. */
#include "target/ctl/ctl.h"
#include "proto/words/nearest.h"
#include "proto/words/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ctl_option *option_find(const struct ctl_verb *verb, const char *name,
					    size_t length, char letter)
{
	for (unsigned int i = 0; verb->options[i]; i++) {
		const struct ctl_option *option = verb->options[i];

		if (name ? strlen(option->name) == length && !strncmp(option->name, name, length)
			 : option->letter == letter)
			return option;
	}
	return NULL;
}

static bool has_word(const char *words, const char *word)
{
	size_t length = strlen(word);

	while (*words) {
		size_t next = strcspn(words, " ");

		if (length == next && !strncmp(words, word, length))
			return true;
		words += next + (words[next] == ' ');
	}
	return false;
}

static bool option_store(const struct ctl_option *option, struct ctl_values *values,
			 const char *text)
{
	void *place = (char *)values + option->offset;
	char why[UNITS_WHY_BYTES];

	if (option->kind == CTL_OPTION_FLAG) {
		*(bool *)place = true;
		return true;
	}
	if (option->kind == CTL_OPTION_TEXT) {
		if (option->words && !has_word(option->words, text)) {
			ctl_error("--%s: \"%.64s\" is not one of %s", option->name, text,
				  option->words);
			return false;
		}
		*(const char **)place = text;
		return true;
	}
	if (units_read(option->kind == CTL_OPTION_TIME ? UNITS_TIME_MS : UNITS_COUNT, text, option->least, option->most,
		       place, why) == 0)
		return true;
	ctl_error("--%s: %s", option->name, why);
	return false;
}

/* length: of a long option's name, which may be misspelled; 0: a letter. */
static void option_unknown(const struct ctl_verb *verb, const char *argument, size_t length)
{
	char name[WORDS_NEAREST_MAX + 1], see[64], hint[WORDS_HINT_BYTES];
	struct words_nearest search;

	snprintf(name, sizeof(name), "%.*s", (int)length, argument + 2);
	search = words_nearest_to(name);
	for (unsigned int i = 0; length && verb->options[i]; i++)
		words_nearest_offer(&search, verb->options[i]->name);
	snprintf(see, sizeof(see), "see rblkctl %s --help", verb->name);
	ctl_error("%s: unknown option %s; %s", verb->name, argument, words_hint(&search, "--", see, hint));
}

/* One argument that begins with '-'. *taken: the next one is its value. */
static bool option_take(const struct ctl_verb *verb, struct ctl_values *values,
			const char *argument, const char *next, int *taken)
{
	bool is_long = argument[1] == '-';
	const char *value = is_long ? strchr(argument, '=') : NULL;
	size_t length = value ? (size_t)(value - argument - 2) : strlen(argument + 1) - 1;
	const struct ctl_option *option = NULL;

	*taken = 0;
	if (is_long)
		option = option_find(verb, argument + 2, length, 0);
	else if (!argument[2])
		option = option_find(verb, NULL, 0, argument[1]);
	if (!option) {
		option_unknown(verb, argument, is_long ? length : 0);
		return false;
	}
	if (option->kind == CTL_OPTION_FLAG && value) {
		ctl_error("--%s: takes no value", option->name);
		return false;
	}
	if (option->kind == CTL_OPTION_FLAG || value)
		return option_store(option, values, value ? value + 1 : NULL);
	if (!next) {
		ctl_error("--%s: %s is missing", option->name, option->argument);
		return false;
	}
	*taken = 1;
	return option_store(option, values, next);
}

int ctl_usage(const char *name)
{
	for (const struct ctl_verb *verb = ctl_verbs; verb->name; verb++)
		if (!strcmp(verb->name, name))
			ctl_error("usage: rblkctl %s [OPTION]...%s%s", name,
				  *verb->operands ? " " : "", verb->operands);
	return CTL_USAGE;
}

int ctl_options_parse(const struct ctl_verb *verb, struct ctl_values *values, char **argv, int argc)
{
	bool ended = false;
	int count = 0, taken;

	for (int i = 0; i < argc; i++) {
		if (!ended && !strcmp(argv[i], "--")) {
			ended = true;
		} else if (ended || argv[i][0] != '-') {
			argv[count++] = argv[i];
		} else {
			if (!option_take(verb, values, argv[i], i + 1 < argc ? argv[i + 1] : NULL,
					 &taken))
				return -1;
			i += taken;
		}
	}
	if (values->help || count <= verb->operands_most)
		return count;
	ctl_usage(verb->name);
	return -1;
}

void ctl_options_help(const struct ctl_verb *verb)
{
	char left[64];

	printf("rblkctl %s [OPTION]...%s%s\n%s\n\n", verb->name, *verb->operands ? " " : "",
	       verb->operands, verb->summary);
	for (unsigned int i = 0; verb->options[i]; i++) {
		const struct ctl_option *option = verb->options[i];

		snprintf(left, sizeof(left), "-%c, --%s%s%s", option->letter, option->name,
			 option->argument ? " " : "", option->argument ? option->argument : "");
		printf("  %-22s %s", left, option->help);
		if (option->words)
			printf(": %s", option->words);
		printf("\n");
	}
}
