/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Volumes as this machine's disks: rblk attach, rblk detach, rblk list --attached. The kernel
 * module does the work; it gets lines through its control device, and shows its state in sysfs. Or a server
 * of ublk does (initiator/ublk), which keeps a record.
 *
 *	attach.c              rblk attach
 *	attach_run.c          one attach from beginning to end; the module's addresses
 *	attach_way.c          by which way a disk is attached, and why not by the other
 *	attach_ublk.c         one attach by ublk, its next server, its detach
 *	attach_line.c         the line that the module reads: pure
 *	attach_tab.c          rblktab(5)
 *	attach_control.c      the control device, secrets for the module
 *	attached.c            what is attached, from sysfs; prints it
 *	detach.c              rblk detach: who uses a disk, what they have not written
 *
 * `root` is "" but in tests: the folder that holds /sys and /proc.
 */
#ifndef RBLK_CMD_ATTACH_H
#define RBLK_CMD_ATTACH_H

#include "initiator/cmd/cmd.h"
#include "initiator/uri.h"
#include "kmod/attach_limits.h"
#include "proto/wire/login.h"

#define ATTACH_TAB "/etc/rblk/rblktab"
#define ATTACH_CONTROL "/dev/rblk-control"
#define ATTACH_ANSWER_BYTES 512 /* the module's line is at most half of it */
#define ATTACH_LINE_BYTES (RBLK_ATTACH_LINE_BYTES + 1)
#define ATTACH_REASON_BYTES 640

/* -- attach_line.c ----------------------------------------------------------------------------- */

/* The options of an attach; the module has its own default for what is not set. */
struct attach_options {
	uint64_t queues, poll_queues, credits, connect_ms, command_ms; /* 0: not set */
	uint64_t reconnect_ms, tos, ack_timeout;                       /* 0: not set */
	uint64_t fail_fast_ms, give_up_ms;                             /* ATTACH_UNSAID: not set */
	const char *initiator, *key, *source;                          /* NULL: not set */
	const char *disk_name, *uri; /* for sysfs; attach_run() sets them. NULL, or disk_name "": not set */
	bool read_only, accept_volatile, own_session, priority, digest;
	bool module, ublk; /* the way; neither: as this machine has it */
};
#define ATTACH_UNSAID UINT64_MAX
#define ATTACH_OPTIONS_DEFAULTS { .fail_fast_ms = ATTACH_UNSAID, .give_up_ms = ATTACH_UNSAID }
/* With the module's own limits, so that the message names the option. */
#define ATTACH_OPTIONS(type, member)                                                               \
	{ "ublk", 0, CMD_OPTION_FLAG, offsetof(type, member.ublk), 0, 0, NULL,                     \
	  "by ublk, without the kernel module: a disk /dev/ublkbN, over RDMA or TCP" },            \
	{ "module", 0, CMD_OPTION_FLAG, offsetof(type, member.module), 0, 0, NULL,                 \
	  "by the kernel module, and not by ublk where there is none" },                           \
	{ "queues", 0, CMD_OPTION_NUMBER, offsetof(type, member.queues), 1, RBLK_QUEUES_MAX,       \
	  "COUNT", "connections, one per hardware queue (default: one per CPU, at most "           \
		   CMD_QUOTE(RBLK_ATTACH_QUEUES) ")" },                                            \
	{ "poll-queues", 0, CMD_OPTION_NUMBER, offsetof(type, member.poll_queues), 0,              \
	  RBLK_QUEUES_MAX - 1, "COUNT",                                                            \
	  "additional connections, for polled I/O (default: none)" },                              \
	{ "credits", 0, CMD_OPTION_NUMBER, offsetof(type, member.credits), RBLK_CREDITS_MIN,       \
	  RBLK_CREDITS_MAX, "COUNT",                                                               \
	  "commands outstanding per queue (default: " CMD_QUOTE(RBLK_ATTACH_CREDITS) ")" },        \
	{ "name", 0, CMD_OPTION_TEXT, offsetof(type, member.initiator), 0, 0, "NAME",              \
	  "the initiator's name, for the target's log (default: the host's)" },                    \
	{ "key", 0, CMD_OPTION_TEXT, offsetof(type, member.key), 0, 0, "KEY",                      \
	  "prove the name, and the target, with this secret: a whole path, or a name of "          \
	  "rblk key install" },                                                                    \
	{ "source", 0, CMD_OPTION_TEXT, offsetof(type, member.source), 0, 0, "ADDRESS",            \
	  "connect from this address of this machine; several by commas: one for each host" },     \
	{ "tos", 0, CMD_OPTION_NUMBER, offsetof(type, member.tos), 0, RBLK_ATTACH_TOS_MAX,         \
	  "NUMBER", "TOS or traffic class of packets to the target: DSCP * 4 (default: the system's)" }, \
	{ "ack-timeout", 0, CMD_OPTION_NUMBER, offsetof(type, member.ack_timeout), 0,              \
	  RBLK_ATTACH_ACK_TIMEOUT_MAX, "NUMBER",                                                   \
	  "repeat unacknowledged packets after 4.096 us * 2^NUMBER (default: the device's)" },     \
	{ "read-only", 'r', CMD_OPTION_FLAG, offsetof(type, member.read_only), 0, 0, NULL,         \
	  "make a read-only disk" },                                                               \
	{ "volatile", 0, CMD_OPTION_FLAG, offsetof(type, member.accept_volatile), 0, 0, NULL,      \
	  "also a volume in memory, which cannot be flushed and is lost with its target" },            \
	{ "own-session", 0, CMD_OPTION_FLAG, offsetof(type, member.own_session), 0, 0, NULL,       \
	  "share no connections with other volumes of this target" },                              \
	{ "priority", 0, CMD_OPTION_FLAG, offsetof(type, member.priority), 0, 0, NULL,             \
	  "its commands go before others of this machine at the target" },                         \
	{ "digest", 0, CMD_OPTION_FLAG, offsetof(type, member.digest), 0, 0, NULL,                 \
	  "check all data by CRC32C, from this machine to the target's memory and back" },         \
	{ "connect-timeout", 0, CMD_OPTION_TIME, offsetof(type, member.connect_ms),                \
	  RBLK_ATTACH_WAIT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX, "TIME",                                \
	  "how long to try to connect a queue (default: " CMD_QUOTE(RBLK_ATTACH_CONNECT_S) "s)" }, \
	{ "command-timeout", 0, CMD_OPTION_TIME, offsetof(type, member.command_ms),                \
	  RBLK_ATTACH_WAIT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX, "TIME",                                \
	  "a connection with a slower answer is considered lost (default: "                        \
	  CMD_QUOTE(RBLK_ATTACH_COMMAND_S) "s)" },                                                 \
	{ "reconnect", 0, CMD_OPTION_TIME, offsetof(type, member.reconnect_ms),                    \
	  RBLK_ATTACH_RECONNECT_MS_MIN, RBLK_ATTACH_WAIT_MS_MAX, "TIME",                           \
	  "the longest pause between two attempts to connect again (default: "                     \
	  CMD_QUOTE(RBLK_ATTACH_RECONNECT_S) "s)" },                                               \
	{ "fail-fast", 0, CMD_OPTION_TIME, offsetof(type, member.fail_fast_ms), 0,                 \
	  RBLK_ATTACH_GIVE_UP_MS_MAX, "TIME",                                                      \
	  "how long multipath's I/O waits for a lost connection, 0: as all other (default: "       \
	  CMD_QUOTE(RBLK_ATTACH_FAIL_FAST_S) "s)" },                                               \
	{ "give-up", 0, CMD_OPTION_TIME, offsetof(type, member.give_up_ms), 0,                     \
	  RBLK_ATTACH_GIVE_UP_MS_MAX, "TIME",                                                      \
	  "how long I/O waits for a lost connection, then fails (default: "                        \
	  CMD_QUOTE(RBLK_ATTACH_GIVE_UP_S) "s)" }

/* A name, or the whole path of a file. */
bool attach_key_valid(const char *name);
/* A URI of a volume. 0, or -EINVAL with `reason` (ATTACH_REASON_BYTES), URI first. */
int attach_uri_read(const char *text, struct ini_uri *uri, char *reason);
/* The same, of one that the module can attach. */
int attach_uri_parse(const char *text, struct ini_uri *uri, char *reason);
/*
 * The line, without its line feed. address is numeric; for a URI with several hosts, one of each,
 * separated by commas. 0, or -EINVAL with `reason`.
 */
int attach_line_compose(const struct ini_uri *uri, const char *address,
			const struct attach_options *options, char *line, char *reason);

/* -- attach_tab.c ------------------------------------------------------------------------------ */

#define ATTACH_NAME_BYTES 64

/* One volume of the tab; or a line that is wrong. Everything points into `text`, which it owns. */
struct attach_entry {
	unsigned int line;
	char *text;
	const char *name; /* may be set even if the line is wrong; NULL: no name */
	const char *uri;
	struct attach_options options;
	bool noauto, initramfs;
	char error[ATTACH_REASON_BYTES]; /* empty: the line is right */
};

struct attach_tab {
	struct attach_entry *entries;
	size_t count;
};

/* 0 or -errno of reading it; a wrong line is an entry. */
int attach_tab_read(const char *path, struct attach_tab *tab);
void attach_tab_free(struct attach_tab *tab);
/* NULL: no line has this name. */
const struct attach_entry *attach_tab_find(const struct attach_tab *tab, const char *name);
/* Letters, digits and . _ : - ; the first a letter or a digit; no device's name ("rblk0", "ublkb0"). */
bool attach_name_valid(const char *name);

/* -- attached.c -------------------------------------------------------------------------------- */

#define ATTACHED_COUNTERS_MAX 32

/* One attached volume, as sysfs or its server tells it. Texts are empty where there is none. */
struct attached {
	char device[16]; /* "rblk0", "ublkb0" */
	unsigned int index;
	uint64_t server; /* process of the server of ublk; 0: the module has it */
	bool left;       /* that server has ended without a detach */
	char name[ATTACH_NAME_BYTES];
	char uri[RBLK_URI_BYTES];
	char target[80], volume[RBLK_NAME_BYTES];
	char state[16], reason[256];
	char attachment[40]; /* unique to this attach until the next reboot; not a secret */
	char wwid[48], serial[40];
	char key[RBLK_KEY_NAME_BYTES]; /* the name of the one that proves this machine's; "": none */
	uint64_t bytes;
	uint64_t block_bytes, queues, credits, losses, retries;
	uint64_t session; /* its number: attached volumes may share one */
	uint64_t connect_ms, command_ms, reconnect_ms, fail_fast_ms, give_up_ms, keepalive_ms;
	bool read_only;
	bool digest;      /* all data has one */
	bool writes_lost; /* acknowledged and not flushed: FLUSH fails (F7) */
	struct {
		char name[32];
		uint64_t value;
	} counters[ATTACHED_COUNTERS_MAX];
	unsigned int counter_count;
	struct cmd_paths paths; /* the module has one reason for all of them */
};

/* 0, or -ENODEV: not there, or not ours. */
int attached_read(const char *root, const char *device, struct attached *attached);
/* All that is attached, in the order of devices. A count with *list to be freed, or -errno. */
int attached_list(const char *root, struct attached **list);
/*
 * Tell the module, or the server, that the user knows that writes may be lost. 1: a loss was acknowledged; 0: there
 * was none. -ENOENT: the volume is no longer attached, or its module does not support this.
 */
int attached_acknowledge(const char *root, const struct attached *attached);
uint64_t attached_counter(const struct attached *attached, const char *name);

/* Has one of them this name? False with "", and "" in device: none has. */
bool attached_named(const char *root, const char *name, char device[16]);
/* The one of the list that the operand means; NULL after an error message. */
const struct attached *attached_find(const char *operand, const struct attached *list, int count);
/* All that is attached; or the one that the operand means (NULL: all). As attached_list(), but it says errors. */
int attached_choose(const char *operand, struct attached **list);

/* Both: enum cmd_exit. */
int attached_print(const struct attached *list, int count);
int attached_print_json(const struct attached *list, int count);

/* -- detach.c ---------------------------------------------------------------------------------- */

/* "mounted at /mnt", "used by dm-0", ...: a user that does not end by itself. False: none. */
bool attached_users(const char *root, const char *device, char *text, size_t bytes);

/* -- attach_control.c -------------------------------------------------------------------------- */

/* The control device, open; the module is loaded if need be. -1 after an error message. */
int attach_control_open(void);
/* One line. 0 or -errno; answer (ATTACH_ANSWER_BYTES): the module's line, or errno's text. */
int attach_control_send(int control, const char *line, char *answer);
/* Run a program that prints nothing of its own; its exit status, or -errno. */
int attach_program_run(const char *const argv[]);

/* The file's first secret becomes the key of this name. These: enum cmd_exit, after an error message. */
int attach_key_install(int control, const char *path, const char *name);
int attach_key_remove(int control, const char *name);
/* Before an attach with it: a file is installed, by its path. NULL: nothing. */
int attach_key_prepare(int control, const char *name);

/* -- attach_way.c ------------------------------------------------------------------------------ */

enum attach_way { ATTACH_BY_MODULE, ATTACH_BY_UBLK };
/*
 * Pure. rdma: all hosts are reached over RDMA; missing: why the module is not here, or NULL; ublk: this machine has it. why: to
 * be said; "": nothing is to be explained, or the module has to say what is wrong.
 */
enum attach_way attach_way_choose(bool rdma, const char *missing, bool ublk, char why[ATTACH_REASON_BYTES]);
/* The same for this machine: loads what is missing, if it can be. */
enum attach_way attach_way_here(const struct ini_uri *uri, char why[ATTACH_REASON_BYTES]);
/* Are all hosts reached over RDMA? */
bool attach_way_rdma(const struct ini_uri *uri);
/* NULL: the node is there, if need be after its module was loaded. Else why not, as "is not here". */
const char *attach_way_missing(const char *node, const char *module);
/* The same of what modprobe has told. Pure. */
const char *attach_way_words(const char *told);

/* -- attach_run.c ------------------------------------------------------------------------------ */

/*
 * Has the module attach to an address of each host, or to their next ones if it reaches the target at none of them. 0
 * and the device's name; or -errno, which was said, with the disk's name first. Blocks for the resolver and the module.
 */
int attach_hosts(const char *name, const struct ini_uri *uri, int control, const struct attach_options *options,
		 char *device, size_t bytes);

/* name "": without. 0 with *attached, or an error after a message. */
int attach_run(enum attach_way way, const char *name, const char *uri, const struct attach_options *options,
	       struct attached *attached);

/* -- attach_ublk.c ----------------------------------------------------------------------------- */

struct ublk_disk_options;
/* Pure. 0, or -EINVAL with `reason`: ublk has no such option. */
int attach_ublk_options(const char *uri, const struct attach_options *options, struct ublk_disk_options *own, char *reason);
/*
 * Waits until no other command attaches a disk of this name (or of one with the same sum). The lock goes with the
 * descriptor; -1: there is none, and whoever may not have it attaches nothing.
 */
int attach_ublk_lock(const char *name);
/* name "": without. 0 with the device's name, or -1 after an error message. */
int attach_ublk_start(const char *name, const char *uri, const struct attach_options *options, char device[16]);
/* As attached_acknowledge(); -ETIMEDOUT: the server does not do it. */
int attach_ublk_acknowledge(const struct attached *attached);
struct ublk_record;
/* How the disk of this record was attached; points into it. Pure. */
void attach_ublk_again(const struct ublk_record *record, struct ublk_disk_options *own);
/* This program's server takes over, under I/O. 0 with what it is now, or -1 after an error message. */
int attach_ublk_take_over(struct attached *attached);
/* As attach_control_send() of a line that detaches. -EBUSY: somebody uses it; force: it ends under them. */
int attach_ublk_detach(const struct attached *attached, bool force, char *answer);

#endif
