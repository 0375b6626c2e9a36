/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkctl: asks and directs a running rblkd through its control socket. A verb is a table entry (verbs.c),
 * which drives --help and the completions, and is what the manual is checked against. The program knows
 * nothing of the daemon but its answers.
 */
#ifndef RBLK_TARGET_CTL_CTL_H
#define RBLK_TARGET_CTL_CTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/screen/table.h"
#include "proto/words/units.h"

#define CTL_SOCKET "/run/rblkd/control"

/* The program's exit status; in the manual under EXIT STATUS. CTL_PROBLEMS: status has problems, diff differences. */
enum ctl_exit { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_PROBLEMS = 3 };

/* The values of all options. */
struct ctl_values {
	const char *socket;
	bool json, help, force;
	uint64_t interval_ms, count; /* count 0: without end */
	const char *sort, *filter;
	bool follow, all, each;
	const char *level, *volume, *initiator; /* NULL: all */
	uint64_t since_ms;			/* 0: all */
};

enum ctl_option_kind { CTL_OPTION_FLAG, CTL_OPTION_TEXT, CTL_OPTION_NUMBER, CTL_OPTION_TIME };

struct ctl_option {
	const char *name;
	char letter; /* 0: none */
	enum ctl_option_kind kind;
	size_t offset;	      /* in struct ctl_values */
	uint64_t least, most; /* NUMBER; TIME, in milliseconds */
	const char *argument; /* NULL: a flag */
	const char *words;    /* that it may be, NULL: anything */
	const char *help;
};

struct ctl_verb {
	const char *name;
	const char *operands; /* "" or "[LEVEL]" */
	const char *words;    /* that the operand may be, for completions; NULL: anything */
	const char *summary;
	int operands_most;
	const struct ctl_option *const *options; /* NULL ends */
	int (*run)(const struct ctl_values *values, char **operands, int count);
};

extern const struct ctl_verb ctl_verbs[]; /* a name of NULL ends */

/* -- options.c --------------------------------------------------------------------------------- */

/* Says how the verb is used. Returns CTL_USAGE. */
int ctl_usage(const char *verb);
/* Operands go to the front of argv. Returns how many, or -1 after a message. */
int ctl_options_parse(const struct ctl_verb *verb, struct ctl_values *values, char **argv, int argc);
void ctl_options_help(const struct ctl_verb *verb);

/* -- call.c ------------------------------------------------------------------------------------ */

struct ctl_connection;

/* "rblkctl: ..." on standard error; with --json an object of errors, too. Returns CTL_FAILED. */
int ctl_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Errors are kept, and not printed, until it is called with false. Returns where the last one's words are. */
const char *ctl_hold_errors(bool hold);
/* Before calls: their errors begin with the verb, and json is their form, too. */
void ctl_begin(const char *verb, bool json);
/* Prints the result with `print`, or as JSON; takes the reference. */
int ctl_show(const struct ctl_values *values, json_t *result, void (*print)(const json_t *result));
/* Prints the object, with "errors"; takes the reference. */
int ctl_json_print(json_t *object);

/* NULL after a message. */
struct ctl_connection *ctl_connect(const char *path);
/* The result, or NULL after a message. Takes over params, which may be NULL. */
json_t *ctl_call(struct ctl_connection *connection, const char *method, json_t *params);
/* Its answers may take long. */
void ctl_be_patient(struct ctl_connection *connection);
/* Until the daemon has closed the connection. */
void ctl_wait_end(struct ctl_connection *connection);
void ctl_disconnect(struct ctl_connection *connection);
/* One call on a connection of its own. */
json_t *ctl_ask(const struct ctl_values *values, const char *method, json_t *params);

/* -- print.c ----------------------------------------------------------------------------------- */

#define CTL_TEXT_BYTES UNITS_TEXT_BYTES
/* A peer's name never moves the cursor. */
void ctl_print_clean(const char *text);
uint64_t ctl_integer(const json_t *object, const char *key);
const char *ctl_string(const json_t *object, const char *key);
uint64_t ctl_operations(const json_t *object); /* sum of "operations" */
uint64_t ctl_errors_of(const json_t *object);  /* sum of "errors" */

/* -- verbs ------------------------------------------------------------------------------------- */

int ctl_status(const struct ctl_values *values, char **operands, int count);
int ctl_sessions(const struct ctl_values *values, char **operands, int count);
int ctl_volumes(const struct ctl_values *values, char **operands, int count);
int ctl_top(const struct ctl_values *values, char **operands, int count);
int ctl_events(const struct ctl_values *values, char **operands, int count);
int ctl_log_level(const struct ctl_values *values, char **operands, int count);
int ctl_add(const struct ctl_values *values, char **operands, int count);
int ctl_set(const struct ctl_values *values, char **operands, int count);
int ctl_remove(const struct ctl_values *values, char **operands, int count);
int ctl_reload(const struct ctl_values *values, char **operands, int count);
int ctl_save(const struct ctl_values *values, char **operands, int count);
int ctl_settings(const struct ctl_values *values, char **operands, int count);
int ctl_diff(const struct ctl_values *values, char **operands, int count);
int ctl_reservations(const struct ctl_values *values, char **operands, int count);
int ctl_clear(const struct ctl_values *values, char **operands, int count);
int ctl_kick(const struct ctl_values *values, char **operands, int count);
int ctl_move(const struct ctl_values *values, char **operands, int count);
int ctl_drain(const struct ctl_values *values, char **operands, int count);
/* A line, if changes are not in the configuration's files. */
void ctl_unsaved_print(const json_t *result);

/* -- rows.c: what top shows, from two answers to "counts" -------------------------------------- */

struct ctl_row {
	char volume[64], initiator[64];
	double reads, writes, others; /* a second */
	double read_bytes, written_bytes;
	double p50_us, p99_us; /* in the target; 0 if nothing was done */
	uint64_t outstanding;
	double limited, limited_ns;	 /* a second: commands that had to wait for a limit; their waits */
	double bytes_share, store_share; /* of all, 0 to 1 */
};

struct ctl_rows {
	struct ctl_row *rows;
	size_t count;
	struct ctl_row all;
	double busy; /* reactors' part of their time, 0 to 1 */
};

#define CTL_SORTS "iops bytes p99 depth volume initiator"
/*
 * The operations that were done from one answer to a later one. Rows whose volume or initiator has
 * `filter` (NULL: all), sorted. False: no memory.
 */
bool ctl_rows_make(const json_t *before, const json_t *after, const char *filter, const char *sort,
		   struct ctl_rows *rows);
void ctl_rows_free(struct ctl_rows *rows);

#endif
