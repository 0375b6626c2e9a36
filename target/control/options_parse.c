/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The command line: taken apart by getopt_long() over the table of options.c, remembered, and
 * applied after the configuration file that it may name, so that it overrides the file at any
 * position.
 */
#include "target/control/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "proto/words/nearest.h"
#include "target/base/error.h"
#include "target/control/config.h"
#include "target/control/document.h"
#include "target/store/store.h"

#define SOURCE TGT_COMMAND_LINE
#define OPTIONS_MAX 64
#define LONG_BASE 256 /* getopt's values of options: beyond all letters */

/* The parsed command line. Lives within tgt_options_parse(); points into argv. */
struct arguments {
	const struct tgt_option *table;
	unsigned int table_count;
	struct given {
		const struct tgt_option *option; /* NULL: an operand */
		const char *value;
	} * given;
	unsigned int count;
	char names[OPTIONS_MAX][32]; /* long names, with '-' */
	struct option longs[OPTIONS_MAX + 1];
	char letters[2 * OPTIONS_MAX + 4];
};

static void arguments_prepare(struct arguments *arguments)
{
	/* '-': operands come in their place, as option 1; ':': a missing value is told apart. */
	size_t letters = (size_t)sprintf(arguments->letters, "-:");
	unsigned int i, used = 0;
	char *next;

	for (i = 0; i < arguments->table_count && used < OPTIONS_MAX; i++) {
		const struct tgt_option *option = &arguments->table[i];
		int argument = option->type == TGT_OPTION_BOOL ? optional_argument
			       : option->value		       ? required_argument
							       : no_argument;

		if (!(option->places & TGT_ON_COMMAND_LINE))
			continue;
		snprintf(arguments->names[used], sizeof(arguments->names[used]), "%s",
			 option->name);
		for (next = arguments->names[used]; *next; next++)
			if (*next == '_')
				*next = '-';
		arguments->longs[used] =
			(struct option){arguments->names[used], argument, NULL, LONG_BASE + (int)i};
		used++;
		if (option->letter)
			letters += (size_t)sprintf(arguments->letters + letters, "%c%s",
						   option->letter, option->value ? ":" : "");
	}
}

static const struct tgt_option *option_of(const struct arguments *arguments, int code)
{
	unsigned int i;

	if (code >= LONG_BASE)
		return &arguments->table[code - LONG_BASE];
	for (i = 0; i < arguments->table_count; i++)
		if (arguments->table[i].letter == code)
			return &arguments->table[i];
	return NULL;
}

static int unknown_option(const struct arguments *arguments, char **argv, char *error)
{
	char name[WORDS_NEAREST_MAX + 3], hint[WORDS_HINT_BYTES];
	struct words_nearest search;

	if (optopt && optopt < LONG_BASE)
		return tgt_error(error, -EINVAL, "unknown option \"-%c\"; see rblkd --help",
				 optopt);
	if (optopt)
		return tgt_error(error, -EINVAL, "%s: takes no value", argv[optind - 1]);
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(argv[optind - 1], "="), argv[optind - 1]);
	search = words_nearest_to(name + strspn(name, "-"));
	for (unsigned int i = 0; arguments->longs[i].name; i++)
		words_nearest_offer(&search, arguments->longs[i].name);
	return tgt_error(error, -EINVAL, "unknown option \"%s\"; %s", name,
			 words_hint(&search, "--", "see rblkd --help", hint));
}

static int arguments_read(struct arguments *arguments, int argc, char **argv, char *error)
{
	int code;

	optind = 0; /* glibc: start anew, this is called again for each reload */
	opterr = 0;
	for (;;) {
		struct given *given = &arguments->given[arguments->count];

		code = getopt_long(argc, argv, arguments->letters, arguments->longs, NULL);
		if (code == -1)
			break;
		if (code == '?')
			return unknown_option(arguments, argv, error);
		if (code == ':')
			return tgt_error(error, -EINVAL, "%s: needs a value", argv[optind - 1]);
		given->option = code == 1 ? NULL : option_of(arguments, code);
		given->value = optarg;
		arguments->count++;
	}
	for (; optind < argc; optind++) /* behind "--" */
		arguments->given[arguments->count++].value = argv[optind];
	return 0;
}

/* -- applying ---------------------------------------------------------------------------------- */

static const char *dashed(const struct arguments *arguments, const struct tgt_option *option)
{
	unsigned int i;

	for (i = 0; arguments->longs[i].name; i++)
		if (arguments->longs[i].val == LONG_BASE + (int)(option - arguments->table))
			return arguments->longs[i].name;
	return option->name;
}

/* "disk" of "/srv/disk.img"; a path without such a name gets an error that asks for one. */
static int path_name(const char *path, char name[RBLK_NAME_BYTES], char *error)
{
	const char *base = strrchr(path, '/');
	const char *dot;
	size_t length;

	base = base ? base + 1 : path;
	dot = strrchr(base, '.');
	length = dot && dot != base ? (size_t)(dot - base) : strlen(base);
	memset(name, 0, RBLK_NAME_BYTES);
	if (length < RBLK_NAME_BYTES)
		memcpy(name, base, length);
	if (rblk_name_valid(name))
		return 0;
	return tgt_error(error, -EINVAL,
			 "%s: \"%.*s\" is not a volume name; give it one, as in NAME=%s", path,
			 (int)length, base, path);
}

static int volume_operand(struct tgt_config *config, const char *operand, char *error)
{
	const struct tgt_option *path = tgt_option_find("path", TGT_IN_VOLUME);
	const char *equals = strchr(operand, '=');
	char name[RBLK_NAME_BYTES] = "", why[TGT_ERROR_BYTES];
	struct tgt_volume_config *volume;
	int status;

	/* A slash before '=': that is a path with such a character in it, not NAME=PATH. */
	if (equals && !memchr(operand, '/', (size_t)(equals - operand))) {
		if (equals - operand >= RBLK_NAME_BYTES || equals == operand)
			return tgt_error(error, -EINVAL, "%s: a name has 1 to %d characters",
					 operand, RBLK_NAME_BYTES - 1);
		memcpy(name, operand, (size_t)(equals - operand));
		operand = equals + 1;
	} else {
		status = path_name(operand, name, error);
		if (status < 0)
			return status;
	}
	status = tgt_config_volume_add(config, name, SOURCE, &volume, error);
	if (status < 0)
		return status;
	status = tgt_option_set(path, volume, operand, why);
	if (status < 0)
		return tgt_error(error, status, "volume %s: path: %s", name, why);
	return 0;
}

/* --memory and --null NAME=SIZE */
static int volume_sized(struct tgt_config *config, const struct given *given, char *error)
{
	const struct tgt_option *size = tgt_option_find("size", TGT_IN_VOLUME);
	const char *equals = strchr(given->value, '=');
	char name[RBLK_NAME_BYTES] = "", why[TGT_ERROR_BYTES];
	struct tgt_volume_config *volume;
	int status;

	if (!equals || equals - given->value >= RBLK_NAME_BYTES)
		return tgt_error(error, -EINVAL, "--%s: \"%s\" is not NAME=SIZE",
				 given->option->name, given->value);
	memcpy(name, given->value, (size_t)(equals - given->value));
	status = tgt_config_volume_add(config, name, SOURCE, &volume, error);
	if (status < 0)
		return status;
	strcpy(volume->store, given->option->name);
	status = tgt_option_set(size, volume, equals + 1, why);
	if (status < 0)
		return tgt_error(error, status, "--%s: %s: %s", given->option->name, name, why);
	return 0;
}

static bool is_action(const struct given *given, const char *name)
{
	return given->option && given->option->type == TGT_OPTION_ACTION &&
	       strcmp(given->option->name, name) == 0;
}

/* --memory and the like: a kind of store that has no path, and is told its size. */
static bool is_sized(const struct given *given)
{
	const struct tgt_store_ops *ops = tgt_store_find(given->option->name);

	return given->option->type == TGT_OPTION_ACTION && ops && !ops->on_path;
}

static int add_volumes(const struct arguments *arguments, struct tgt_config *config, char *error)
{
	unsigned int i;
	int status = 0;

	for (i = 0; i < arguments->count && status == 0; i++) {
		const struct given *given = &arguments->given[i];

		if (!given->option)
			status = volume_operand(config, given->value, error);
		else if (is_sized(given))
			status = volume_sized(config, given, error);
	}
	return status;
}

/* One setting: of the target, or of every volume from `first_volume` on. */
static int apply_setting(const struct arguments *arguments, const struct given *given,
			 struct tgt_config *config, unsigned int first_volume, char *error)
{
	const char *value = given->value ? given->value : "yes"; /* a bare --read-only */
	char why[TGT_ERROR_BYTES];
	unsigned int i;
	int status = 0;

	if (given->option->places & TGT_IN_TARGET)
		status = tgt_option_set(given->option, config, value, why);
	else if (first_volume == config->volume_count)
		status = tgt_error(why, -EINVAL, "no volume on the command line to apply it to");
	for (i = first_volume;
	     given->option->places & TGT_IN_VOLUME && status == 0 && i < config->volume_count; i++)
		status = tgt_option_set(given->option, &config->volumes[i], value, why);
	if (status < 0)
		tgt_error(error, status, "--%s: %s", dashed(arguments, given->option), why);
	return status;
}

/* The configuration's files, or what is in the document. */
static int apply_files(struct tgt_document *document, const char *path, struct tgt_config *config,
		       char *error)
{
	int status = 0;

	if (path && !document->count)
		status = tgt_document_read(document, path, error);
	for (unsigned int i = 0; i < document->count && status == 0; i++)
		status = tgt_config_load_text(config, document->files[i].path,
					      document->files[i].text, document->files[i].changed, error);
	return status;
}

static int apply_all(const struct arguments *arguments, struct tgt_document *document,
		     struct tgt_config *config, char *error)
{
	const char *file = NULL;
	unsigned int first_volume, i;
	bool listens = false;
	int status;

	for (i = 0; i < arguments->count; i++) {
		const struct given *given = &arguments->given[i];

		if (is_action(given, "config")) {
			if (file)
				return tgt_error(error, -EINVAL, "--config: given twice");
			file = given->value;
		}
		listens |= given->option && given->option->type == TGT_OPTION_LISTEN;
	}
	status = apply_files(document, file, config, error);
	if (status < 0)
		return status;
	if (listens)
		config->listen_count = 0; /* instead of the file's, not besides them */
	first_volume = config->volume_count;
	status = add_volumes(arguments, config, error);
	for (i = 0; i < arguments->count && status == 0; i++)
		if (arguments->given[i].option &&
		    arguments->given[i].option->type != TGT_OPTION_ACTION)
			status = apply_setting(arguments, &arguments->given[i], config,
					       first_volume, error);
	if (status < 0)
		return status;
	if (!config->volume_count && file)
		return tgt_error(error, -EINVAL,
				 "nothing to serve: the configuration has no section [volume NAME]");
	if (!config->volume_count)
		return tgt_error(
			error, -EINVAL,
			"nothing to serve: name a file, or --memory NAME=SIZE, or --config FILE");
	return tgt_config_complete(config, error);
}

static enum tgt_run_mode run_mode(const struct arguments *arguments)
{
	enum tgt_run_mode mode = TGT_RUN_SERVE;
	unsigned int i;

	for (i = 0; i < arguments->count; i++) {
		if (is_action(&arguments->given[i], "help"))
			return TGT_RUN_HELP;
		if (is_action(&arguments->given[i], "version"))
			return TGT_RUN_VERSION;
		if (is_action(&arguments->given[i], "check"))
			mode = TGT_RUN_CHECK;
	}
	return mode;
}

int tgt_options_parse_document(int argc, char **argv, struct tgt_document *document,
			       struct tgt_config *config, enum tgt_run_mode *mode, char *error)
{
	struct arguments arguments = {0};
	int status;

	arguments.table = tgt_options_table(&arguments.table_count);
	arguments.given = calloc((size_t)argc + 1, sizeof(*arguments.given));
	if (!arguments.given)
		return tgt_error(error, -ENOMEM, "out of memory");
	arguments_prepare(&arguments);
	tgt_config_init(config);
	status = arguments_read(&arguments, argc, argv, error);
	if (status == 0) {
		*mode = run_mode(&arguments);
		if (*mode == TGT_RUN_SERVE || *mode == TGT_RUN_CHECK)
			status = apply_all(&arguments, document, config, error);
	}
	if (status < 0)
		tgt_config_fini(config);
	free(arguments.given);
	return status;
}

int tgt_options_parse(int argc, char **argv, struct tgt_config *config, enum tgt_run_mode *mode,
		      char *error)
{
	struct tgt_document document = {0};
	int status = tgt_options_parse_document(argc, argv, &document, config, mode, error);

	tgt_document_fini(&document);
	return status;
}
