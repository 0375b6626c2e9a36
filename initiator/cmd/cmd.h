/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rblk command: one verb per file. A verb is a table entry (name, operands, options, function),
 * which drives --help and is what the manual is checked against. The process does one verb on one
 * thread and exits, so a verb keeps its options in statics.
 */
#ifndef RBLK_CMD_CMD_H
#define RBLK_CMD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "initiator/rblk.h"
#include "proto/words/units.h"

/* The command's exit status; in the manual under EXIT STATUS. */
enum cmd_exit {
	CMD_OK = 0,
	CMD_FAILED = 1,
	CMD_USAGE = 2,
	CMD_MISMATCH = 3, /* the data is not what it should be */
};

enum cmd_option_kind {
	CMD_OPTION_FLAG,   /* bool */
	CMD_OPTION_TEXT,   /* const char * */
	CMD_OPTION_NUMBER, /* uint64_t, decimal */
	CMD_OPTION_SIZE,   /* uint64_t, bytes */
	CMD_OPTION_TIME,   /* uint64_t, milliseconds; proto/words/units.h has the grammar of these */
	CMD_OPTION_TLS,	   /* enum rblk_tls_use: auto, always, never */
};

/* A number of the preprocessor as text, for `help`. */
#define CMD_QUOTE_AS_IT_IS(number) #number
#define CMD_QUOTE(number) CMD_QUOTE_AS_IT_IS(number)

/* Ends with a name of NULL. The value is in the verb's own struct of values. */
struct cmd_option {
	const char *name;     /* "--name" */
	char letter;          /* "-n", 0: none */
	enum cmd_option_kind kind;
	size_t offset;        /* into the verb's values */
	uint64_t least, most; /* NUMBER, SIZE, TIME (in milliseconds) */
	const char *argument; /* "COUNT"; NULL for a FLAG */
	const char *help;
};

struct cmd_verb {
	const char *name;
	const char *operands; /* as the usage line has them */
	const char *summary;  /* one line */
	const struct cmd_option *options;
	void *values; /* what options are stored in; the defaults are there already */
	int operands_least, operands_most;
	bool connects; /* operands that are discover://NAME become URIs with hosts before it runs */
	int (*run)(char **operands, int count); /* enum cmd_exit */
};

extern const struct cmd_verb cmd_verb_acknowledge, cmd_verb_attach, cmd_verb_copy, cmd_verb_detach, cmd_verb_discover, cmd_verb_doctor,
	cmd_verb_fault, cmd_verb_info, cmd_verb_key, cmd_verb_list, cmd_verb_ping, cmd_verb_reserve, cmd_verb_top;

extern const struct cmd_verb *const cmd_verbs[]; /* ends with NULL */
/* The values of ping's --kind; NULL: there are no more. */
const char *cmd_ping_kind_name(size_t index);
/* The same of reserve's --type. */
const char *cmd_reserve_type_name(size_t index);

/* -- options.c --------------------------------------------------------------------------------- */

/*
 * Take the options out of argv (after the verb), store their values, leave the operands in order.
 * Returns how many operands there are, or -1 after an error message. *help: --help was there.
 */
int cmd_options_parse(const struct cmd_verb *verb, char **argv, int argc, char **operands,
		      bool *help);
/*
 * After that, for a mode in which the verb takes only some options: CMD_OK, or CMD_USAGE after an error message, because
 * one was given that is not among the names of `taken`, which end with NULL. mode: "with --serve".
 */
int cmd_options_only(const char *mode, const char *const *taken);
#define CMD_OPTIONS_ONLY(mode, ...) cmd_options_only(mode, (const char *const[]){ __VA_ARGS__, NULL })
/* The same for one option that the mode does not take. */
int cmd_options_not(const char *mode, const char *name);
/* The verb's --help. */
void cmd_options_help(const struct cmd_verb *verb);

#define CMD_REASON_BYTES UNITS_WHY_BYTES
/* The option of this name (`length` bytes of it), or NULL. */
const struct cmd_option *cmd_option_find(const struct cmd_option *options, const char *name,
					 size_t length);
/*
 * Store one option's value; TEXT keeps pointing to `text`, a FLAG needs none. 0, or -EINVAL with
 * `reason` (CMD_REASON_BYTES), which does not begin with the option's name.
 */
int cmd_option_store(const struct cmd_option *option, void *values, const char *text, char *reason);

/* -- output.c ---------------------------------------------------------------------------------- */

/* "rblk: " and a line on standard error. Returns CMD_FAILED, so that it can be returned. */
int cmd_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same of what is no error. */
void cmd_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CMD_TEXT_BYTES 64
/* text: CMD_TEXT_BYTES; returns it. "1b4e28ba-2fa1-11d2-883f-0016d3cca427". */
const char *cmd_format_uuid(const uint8_t uuid[16], char *text);

/* proto/screen/table.h with cells as arguments. */
struct cmd_table;
struct cmd_table *cmd_table_create(unsigned int columns);
void cmd_table_row(struct cmd_table *table, ...);
/* empty: the sentence where there is no row; NULL: there always is one. */
void cmd_table_print(const struct cmd_table *table, const char *empty);
void cmd_table_destroy(struct cmd_table *table);

/*
 * A verb prints one object with --json, also when it fails: rblk.schema.json and the manual have
 * its keys, each with one meaning for all verbs. Times are nanoseconds, sizes bytes, both integers.
 */
typedef struct json_t json_t;
/* From here on cmd_error()'s lines are kept, too, for the key "errors". */
void cmd_json_begin(void);
/* If standard output is for data: print the object there instead. */
void cmd_json_output(FILE *out);
/* Print the object; takes the reference. enum cmd_exit */
int cmd_json_print(json_t *root);
/* The verb has ended with this status: if it has printed no object, print one of the errors. */
int cmd_json_end(int status);
void cmd_json_error(const char *words);
json_t *cmd_json_volume(const struct rblk_volume_info *info);
/* A string, in UTF-8 even where `text` is not; null for "" with cmd_json_words(). */
json_t *cmd_json_text(const char *text);
json_t *cmd_json_words(const char *text);
/* "immediate events" as an array. */
json_t *cmd_json_features(const char *features);

/* -- connect.c --------------------------------------------------------------------------------- */

/* Options that every verb with a connection has; the first member of its values. */
struct cmd_connect {
	const char *device, *source;
	uint64_t tos, ack_timeout;
	uint64_t timeout_ms, give_up_ms;
	const char *name, *key;
	enum rblk_tls_use tls;
	bool digest;
};
#define CMD_CONNECT_S 10
#define CMD_GIVE_UP_S 60
#define CMD_CONNECT_DEFAULTS                                                                       \
	{ .timeout_ms = CMD_CONNECT_S * 1000, .give_up_ms = CMD_GIVE_UP_S * 1000 }
#define CMD_CONNECT_OPTIONS(type)                                                                  \
	{ "device", 0, CMD_OPTION_TEXT, offsetof(type, connect.device), 0, 0, "NAME",              \
	  "RDMA device to use (default: the one that the routes lead to)" },                       \
	{ "source", 0, CMD_OPTION_TEXT, offsetof(type, connect.source), 0, 0, "ADDRESS",           \
	  "connect from this address of this machine; several by commas: one for each host" },     \
	{ "tos", 0, CMD_OPTION_NUMBER, offsetof(type, connect.tos), 0, 255, "NUMBER",              \
	  "TOS or traffic class of packets to the target: DSCP * 4 (default: the system's)" },     \
	{ "ack-timeout", 0, CMD_OPTION_NUMBER, offsetof(type, connect.ack_timeout), 0, 31,         \
	  "NUMBER", "RDMA: repeat unacknowledged packets after 4.096 us * 2^NUMBER (default: the device's)" }, \
	{ "timeout", 0, CMD_OPTION_TIME, offsetof(type, connect.timeout_ms), 1, 3600000, "TIME",   \
	  "how long to try to connect (default: " CMD_QUOTE(CMD_CONNECT_S) "s)" },                 \
	{ "give-up", 0, CMD_OPTION_TIME, offsetof(type, connect.give_up_ms), 1, 3600000, "TIME",   \
	  "how long to wait for a lost target (default: " CMD_QUOTE(CMD_GIVE_UP_S) "s)" },         \
	{ "name", 0, CMD_OPTION_TEXT, offsetof(type, connect.name), 0, 0, "NAME",                  \
	  "the initiator's name, for the target's log and access rules (default: the host's)" },   \
	{ "key", 0, CMD_OPTION_TEXT, offsetof(type, connect.key), 0, 0, "FILE",                    \
	  "file with the secret that proves the name, and the target; none (default: RBLK_KEY, or /etc/rblk/key)" },                           \
	{ "tls", 0, CMD_OPTION_TLS, offsetof(type, connect.tls), 0, 0, "WHEN",                     \
	  "encrypt TCP with the key: auto (default: to other machines), always, never" },          \
	{ "digest", 0, CMD_OPTION_FLAG, offsetof(type, connect.digest), 0, 0, NULL,                \
	  "check all data by CRC32C, from this end to the target's memory and back" }
#define CMD_OPTION_HELP                                                                            \
	{ "help", 'h', CMD_OPTION_FLAG, 0, 0, 0, NULL, "show this help" }
#define CMD_OPTION_JSON(type)                                                                      \
	{ "json", 'j', CMD_OPTION_FLAG, offsetof(type, json), 0, 0, NULL, "print JSON" }
#define CMD_OPTIONS_END                                                                            \
	{ NULL, 0, CMD_OPTION_FLAG, 0, 0, 0, NULL, NULL }

/* Does this operand name a target ("rblk://", "rblk+tcp://")? */
bool cmd_is_uri(const char *text);
/* Is a host of the target reached over RDMA? */
bool cmd_uri_needs_rdma(const char *text);
/* CMD_OK, or CMD_USAGE after an error message about the URI; volume: it must name one. */
int cmd_uri_check(const char *text, bool volume);
/* The text for a failure at a target, from a negative errno of librblk. */
const char *cmd_reason(int error);
/* The file of --key, or the default without it; NULL: none. */
const char *cmd_key_file(const char *given);
#define CMD_HINT_BYTES 512
/* How to find out whose key a target has refused, if `error` says that it has; else NULL. path: of the key, or NULL */
const char *cmd_key_hint(const char *error, const char *path, char text[CMD_HINT_BYTES]);
/* A connected session; NULL after an error message. It says when it waits for a target that has gone, and that it is back. */
struct rblk_session *cmd_session_open(const char *uri, const struct cmd_connect *connect,
				      struct rblk_options *options);
/* The URI's volume, opened in the session; NULL after an error message. */
struct rblk_volume *cmd_volume_open(struct rblk_session *session, uint32_t flags);

/* The paths to a target, for the verbs that print them (info, doctor, ping, list --attached). */
struct cmd_paths {
	struct rblk_path_info list[RBLK_PATHS_MAX];
	unsigned int count;
};

/* How many hosts the URI names; the URI was checked before. */
unsigned int cmd_paths_hosts(const char *uri);
void cmd_paths_read(const struct rblk_session *session, struct cmd_paths *paths);
/* How many have no connection. */
unsigned int cmd_paths_down(const struct cmd_paths *paths);
/* The credits of one of the session's connections. */
unsigned int cmd_paths_credits(const struct rblk_session *session, const struct cmd_paths *paths);
/* "RDMA", "TCP", "TLS", "mixed"; "-": there is no connection. */
const char *cmd_paths_over(const struct cmd_paths *paths);
/* For how long the oldest of its connections has been up, as "1:23"; "-": there is none. CMD_TEXT_BYTES. */
const char *cmd_paths_format_age(const struct cmd_paths *paths, char *text);
/* The same, in nanoseconds; null. */
json_t *cmd_paths_json_age(const struct cmd_paths *paths);
/* A line for each, if there are several: `before`, "path" padded to `width`, and the path's
 * state. */
void cmd_paths_print(const struct cmd_paths *paths, const char *before, int width);
json_t *cmd_paths_json(const struct cmd_paths *paths);

/* -- progress.c -------------------------------------------------------------------------------- */

/* A line on the terminal that shows how far a long operation is, how fast, and when it will end. */
#define PROGRESS_UNKNOWN UINT64_MAX

/* In the caller's hands; one thread. */
struct progress {
	bool shown;
	const char *what;
	uint64_t total; /* bytes, or PROGRESS_UNKNOWN */
	uint64_t start_ns, drawn_ns;
	uint64_t moved, moved_ns; /* how much was done, and since when no more; 0: not known */
};

/* quiet, or standard error is no terminal or a dumb one: nothing is shown. */
void progress_start(struct progress *progress, const char *what, uint64_t total, bool quiet);
/* Cheap: draws at most ten times a second. */
void progress_update(struct progress *progress, uint64_t done);
/* Take the line away. */
void progress_end(struct progress *progress);
/* The same until it is drawn again: something else is printed where it is. Nothing, if none is there. */
void progress_erase(void);

#define PROGRESS_LINE_BYTES 201
/*
 * The line as it is drawn, pure. At least 1 column; what does not fit into all but the last is left
 * out, the bar first, then the time, the rate, the bytes. If nothing has moved for two seconds, it says so instead of a rate.
 */
void progress_line(const struct progress *progress, uint64_t done, uint64_t now_ns,
		   unsigned int columns, char text[PROGRESS_LINE_BYTES]);

/* Monotonic. */
uint64_t progress_now_ns(void);

#endif
