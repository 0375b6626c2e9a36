/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every setting of rblkd, once: name, value, default, limits, help. The command line, the
 * configuration file and --help follow the one table in options.c; a test compares the manuals with
 * it. Control thread.
 */
#ifndef RBLK_TARGET_OPTIONS_H
#define RBLK_TARGET_OPTIONS_H

#include <stdio.h>
#include "target/base/settings.h"

enum tgt_option_place {
	TGT_IN_TARGET = 1u << 0,       /* [target] section */
	TGT_IN_VOLUME = 1u << 1,       /* [volume NAME] section */
	TGT_ON_COMMAND_LINE = 1u << 2, /* with TGT_IN_VOLUME: for all volumes named there */
	TGT_IN_INITIATOR = 1u << 3,    /* [initiator NAME] section */
	TGT_RELOADED = 1u << 4,	       /* with TGT_IN_TARGET: a reload puts it in force, others need a restart */
};

/* tgt_volume_config.source of what is given there. */
#define TGT_COMMAND_LINE "command line"

enum tgt_option_type {
	TGT_OPTION_ACTION,  /* command line only: options_parse.c acts on it */
	TGT_OPTION_COUNT,   /* unsigned int */
	TGT_OPTION_SIZE,    /* uint32_t or uint64_t, bytes */
	TGT_OPTION_TIME_MS, /* uint32_t */
	TGT_OPTION_TIME_US, /* uint32_t; or one of its choices, words such as auto */
	TGT_OPTION_BOOL,
	TGT_OPTION_CHOICE,  /* an enum */
	TGT_OPTION_BLOCK,   /* uint32_t: a block size */
	TGT_OPTION_TEXT,    /* char[field_bytes] */
	TGT_OPTION_NAME,    /* char[RBLK_NAME_BYTES] */
	TGT_OPTION_INTERFACES, /* char[field_bytes]: names of network interfaces, "all" or "none" */
	TGT_OPTION_HTTP,    /* char[field_bytes]: [HOST:]PORT */
	TGT_OPTION_LISTEN,  /* adds to tgt_config.listen */
	TGT_OPTION_CPUS,    /* struct tgt_cpus */
	TGT_OPTION_UUID,
	TGT_OPTION_FAULT,   /* char[field_bytes]: a fault plan */
	TGT_OPTION_FAULT_SOCKET, /* char[field_bytes]: where such plans are accepted */
	TGT_OPTION_SECRET,  /* a file; adds to tgt_initiator_config.secrets */
	TGT_OPTION_ADDRESS, /* adds to tgt_initiator_config.networks */
	TGT_OPTION_GRANT,   /* adds to tgt_initiator_config.grants; least: the enum tgt_right */
};

struct tgt_option_choice {
	const char *name; /* NULL ends the list */
	unsigned int value;
};

struct tgt_option {
	const char *name;      /* the key "block_size"; on the command line "--block-size" */
	char letter;           /* 'c' for -c, or 0 */
	unsigned int places;   /* enum tgt_option_place, or-ed */
	enum tgt_option_type type;
	const char *value;     /* what --help calls it; NULL: takes none */
	const char *otherwise; /* default as text, NULL: none */
	const char *help;
	size_t offset;         /* of the field in the struct of its section */
	size_t field_bytes;
	uint64_t least, most;  /* in the unit of the field */
	const struct tgt_option_choice *choices;
};

/* -- options.c ------------------------------------------------------------------------------ */

const struct tgt_option *tgt_options_table(unsigned int *count);
/* By key or long name ('-' and '_' are the same), in one of `places`; NULL: there is none. */
const struct tgt_option *tgt_option_find(const char *name, unsigned int places);
/* The most similar name, spelt as a key; NULL: none is similar. */
const char *tgt_option_suggest(const char *name, unsigned int places);
#define TGT_OPTION_NAMES_BYTES 256
/* Those whose first word it is: of "limit", limit_iops and limit_rate. False: there are none. */
bool tgt_option_longer(const char *name, unsigned int places, char names[TGT_OPTION_NAMES_BYTES]);
void tgt_options_help(FILE *out);

/* -- options_value.c ------------------------------------------------------------------------ */

/*
 * Sets the option's field of `object`, a struct tgt_config, tgt_volume_config or tgt_initiator_config
 * as its place says.
 * -EINVAL: `why` (TGT_ERROR_BYTES) has the error.
 */
int tgt_option_set(const struct tgt_option *option, void *object, const char *text, char *why);
/* May be given several times, each time adding to what was given. */
bool tgt_option_adds(const struct tgt_option *option);
/* Sets every option with one of `places` that has a default. */
void tgt_options_default(void *object, unsigned int places);

/* -- options_format.c ----------------------------------------------------------------------- */

/* Writes the option's field as a file would have it (of a secret its file); nothing if it has no value. */
void tgt_option_format(const struct tgt_option *option, const void *object, FILE *out);

/* -- options_parse.c ------------------------------------------------------------------------ */

struct tgt_document;
/* Exit status: the command line or the configuration file is wrong; in the manual. */
#define TGT_EXIT_USAGE 2
enum tgt_run_mode { TGT_RUN_SERVE, TGT_RUN_CHECK, TGT_RUN_HELP, TGT_RUN_VERSION };

/*
 * The command line and the file that it names, into *config (initialised by this; the caller finis
 * it after success). Can be called again and again: a reload is one more call.
 */
int tgt_options_parse(int argc, char **argv, struct tgt_config *config, enum tgt_run_mode *mode,
		      char *error);
/*
 * The same with the configuration's text: read into an empty document, else taken from there. The
 * caller finis the document in any case.
 */
int tgt_options_parse_document(int argc, char **argv, struct tgt_document *document,
			       struct tgt_config *config, enum tgt_run_mode *mode, char *error);

#endif
