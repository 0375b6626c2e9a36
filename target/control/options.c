/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of options.h, and its users: finding, guessing, --help. options_value.c reads values,
 * options_parse.c has the order of argv and file.
 */
#include "target/control/options.h"

#include <string.h>
#include "proto/wire/login.h"
#include "proto/wire/message.h"
#include "proto/words/nearest.h"
#include "target/base/log.h"
#include "target/control/address.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define TARGET(name) offsetof(struct tgt_config, name), sizeof(((struct tgt_config *)0)->name)
#define VOLUME(name) \
	offsetof(struct tgt_volume_config, name), sizeof(((struct tgt_volume_config *)0)->name)
#define INITIATOR(name) \
	offsetof(struct tgt_initiator_config, name), sizeof(((struct tgt_initiator_config *)0)->name)
#define NO_FIELD 0, 0

#define TARGET_PLACES (TGT_IN_TARGET | TGT_ON_COMMAND_LINE)
#define VOLUME_PLACES (TGT_IN_VOLUME | TGT_ON_COMMAND_LINE)

static const struct tgt_option_choice polling_choices[] = {
	{"adaptive", TGT_POLL_ADAPTIVE},
	{"always", TGT_POLL_ALWAYS},
	{"never", TGT_POLL_NEVER},
	{NULL, 0},
};

static const struct tgt_option_choice poll_time_choices[] = {
	{"auto", TGT_POLL_TIME_AUTO},
	{NULL, 0},
};

static const struct tgt_option_choice cache_choices[] = {
	{"auto", TGT_CACHE_AUTO},
	{"direct", TGT_CACHE_DIRECT},
	{"buffered", TGT_CACHE_BUFFERED},
	{NULL, 0},
};

static const struct tgt_option_choice gateways_choices[] = {
	{"one", TGT_GATEWAYS_ONE},
	{"several", TGT_GATEWAYS_SEVERAL},
	{NULL, 0},
};

static const struct tgt_option_choice limit_choices[] = {
	{"none", TGT_DEPTH_FIXED},
	{"auto", TGT_DEPTH_AUTO},
	{NULL, 0},
};

static const struct tgt_option_choice tls_choices[] = {
	{"auto", TGT_TLS_AUTO},
	{"always", TGT_TLS_ALWAYS},
	{"never", TGT_TLS_NEVER},
	{NULL, 0},
};

static const struct tgt_option_choice histogram_choices[] = {
	{"full", TGT_HISTOGRAMS_FULL},
	{"few", TGT_HISTOGRAMS_FEW},
	{"none", TGT_HISTOGRAMS_NONE},
	{NULL, 0},
};

static const struct tgt_option_choice log_choices[] = {
	{"error", TGT_LOG_ERROR},
	{"warning", TGT_LOG_WARNING},
	{"info", TGT_LOG_INFO},
	{"debug", TGT_LOG_DEBUG},
	{NULL, 0},
};

#define K 1024ull
#define M (1024 * K)
#define G (1024 * M)
#define T (1024 * G)

/* clang-format off */
static const struct tgt_option table[] = {
	{ "config", 'c', TGT_ON_COMMAND_LINE, TGT_OPTION_ACTION, "FILE", NULL,
	  "read this configuration file; the command line overrides it",
	  NO_FIELD, 0, 0, NULL },
	{ "memory", 0, TGT_ON_COMMAND_LINE, TGT_OPTION_ACTION, "NAME=SIZE", NULL,
	  "serve a volume in memory; its data is lost when the daemon stops",
	  NO_FIELD, 0, 0, NULL },
	{ "null", 0, TGT_ON_COMMAND_LINE, TGT_OPTION_ACTION, "NAME=SIZE", NULL,
	  "serve a volume that discards writes and reads as zeroes",
	  NO_FIELD, 0, 0, NULL },
	{ "check", 0, TGT_ON_COMMAND_LINE, TGT_OPTION_ACTION, NULL, NULL,
	  "read the configuration, open nothing, report whether it could be served",
	  NO_FIELD, 0, 0, NULL },
	{ "help", 'h', TGT_ON_COMMAND_LINE, TGT_OPTION_ACTION, NULL, NULL,
	  "show this help", NO_FIELD, 0, 0, NULL },
	{ "version", 'V', TGT_ON_COMMAND_LINE, TGT_OPTION_ACTION, NULL, NULL,
	  "show the version", NO_FIELD, 0, 0, NULL },

	{ "listen", 'l', TARGET_PLACES, TGT_OPTION_LISTEN, "ADDRESS", NULL,
	  TGT_ADDRESS_GRAMMAR "; may be repeated; default rblk://:4430",
	  NO_FIELD, 0, 0, NULL },
	{ "reactors", 0, TARGET_PLACES, TGT_OPTION_COUNT, "COUNT", "0",
	  "serving threads; 0: one per CPU that it may use (cgroups' limits count), at most 8, or one for each of cpus",
	  TARGET(reactors), 0, TGT_REACTORS_MAX, NULL },
	{ "cpus", 0, TARGET_PLACES, TGT_OPTION_CPUS, "LIST", NULL,
	  "the CPUs that the serving threads run on, one each: 0-3,8; default: any",
	  TARGET(cpus), 0, 0, NULL },
	{ "polling", 0, TARGET_PLACES, TGT_OPTION_CHOICE, "MODE", "adaptive",
	  "adaptive: poll while busy, sleep when idle; always; never",
	  TARGET(polling), 0, 0, polling_choices },
	{ "poll_time", 0, TARGET_PLACES, TGT_OPTION_TIME_US, "TIME", "auto",
	  "adaptive polling: longest time to poll before sleeping (now and then five times that, where "
	  "wake-ups are slow); auto: 16 times what a wake-up takes",
	  TARGET(poll_us_max), 0, 1000000, poll_time_choices },
	{ "queues", 0, TARGET_PLACES, TGT_OPTION_COUNT, "COUNT", "16",
	  "maximum number of queues in one session",
	  TARGET(queues_max), 1, RBLK_QUEUES_MAX, NULL },
	{ "credits", 0, TARGET_PLACES, TGT_OPTION_COUNT, "COUNT", "128",
	  "maximum number of commands outstanding on one queue",
	  TARGET(credits), RBLK_CREDITS_MIN, RBLK_CREDITS_MAX, NULL },
	{ "receive_buffers", 0, TARGET_PLACES, TGT_OPTION_COUNT, "COUNT", "10240",
	  "maximum receive buffers per reactor and device: limits the credits of all queues",
	  TARGET(receive_buffers), 64, 65536, NULL },
	{ "pool_size", 0, TARGET_PLACES, TGT_OPTION_SIZE, "SIZE", "64M",
	  "memory for the data buffers of each reactor",
	  TARGET(pool_bytes), M, 64 * G, NULL },
	{ "max_io", 0, TARGET_PLACES, TGT_OPTION_SIZE, "SIZE", "1M",
	  "maximum length of one command's data",
	  TARGET(max_io_bytes), 4 * K, RBLK_IO_BYTES_MAX, NULL },
	{ "sessions", 0, TARGET_PLACES, TGT_OPTION_COUNT, "COUNT", "1152",
	  "maximum number of sessions, that is, initiators",
	  TARGET(sessions_max), 1, 4096, NULL },
	{ "connections", 0, TARGET_PLACES, TGT_OPTION_COUNT, "COUNT", "1152",
	  "maximum number of queues over all sessions",
	  TARGET(queues_total_max), 1, 65536, NULL },
	{ "keepalive", 0, TARGET_PLACES, TGT_OPTION_TIME_MS, "TIME", "5s",
	  "probe an initiator after this silence, end its connection after twice that; 0: only "
	  "while logins fail for lack of resources",
	  TARGET(keepalive_ms), 0, 3600000, NULL },
	{ "session_time", 0, TARGET_PLACES, TGT_OPTION_TIME_MS, "TIME", "1min",
	  "keep a session without connections for so long, if its place is not needed",
	  TARGET(session_ms), 1, 3600000, NULL },
	{ "drain_time", 0, TARGET_PLACES, TGT_OPTION_TIME_MS, "TIME", "30s",
	  "longest wait for commands in flight when the daemon stops",
	  TARGET(drain_ms), 0, 3600000, NULL },
	{ "listen_wait", 0, TARGET_PLACES, TGT_OPTION_TIME_MS, "TIME", "30s",
	  "longest wait at the start until another process has left an address",
	  TARGET(listen_wait_ms), 0, 3600000, NULL },
	{ "require_all", 0, TARGET_PLACES, TGT_OPTION_BOOL, "BOOL", "no",
	  "do not start unless every volume, address and http can be served; otherwise what is missing is tried again",
	  TARGET(require_all), 0, 0, NULL },
	{ "open", 0, TARGET_PLACES | TGT_RELOADED, TGT_OPTION_BOOL, "BOOL", "no",
	  "let everyone use volumes without access rules; otherwise only this machine may",
	  TARGET(open), 0, 0, NULL },
	{ "tls", 0, TARGET_PLACES | TGT_RELOADED, TGT_OPTION_CHOICE, "WHO", "auto",
	  "who has to come by TLS over TCP: auto (other machines' initiators with secrets), always (everyone) "
	  "or never",
	  TARGET(tls), 0, 0, tls_choices },
	{ "memory_lock", 0, TARGET_PLACES, TGT_OPTION_BOOL, "BOOL", "yes",
	  "lock the buffers in memory, in huge pages if there are some",
	  TARGET(memory_lock), 0, 0, NULL },
	{ "state_dir", 0, TARGET_PLACES, TGT_OPTION_TEXT, "PATH", "/run/rblkd",
	  "remembers failed flushes until the machine is started again",
	  TARGET(state_dir), 0, 0, NULL },
	{ "reservations_dir", 0, TARGET_PLACES, TGT_OPTION_TEXT, "PATH", "/var/lib/rblkd",
	  "keeps persistent reservations",
	  TARGET(reservations_dir), 0, 0, NULL },
	{ "control_socket", 0, TARGET_PLACES, TGT_OPTION_TEXT, "PATH", "/run/rblkd/control",
	  "rblkctl asks and directs the daemon at this socket; none: nobody does",
	  TARGET(control_socket), 0, 0, NULL },
	{ "discovery", 0, TARGET_PLACES, TGT_OPTION_INTERFACES, "INTERFACES", "none",
	  "network interfaces on which \"rblk discover\" finds this target: names, or all; none",
	  TARGET(discovery), 0, 0, NULL },
	{ "discovery_port", 0, TARGET_PLACES, TGT_OPTION_COUNT, "PORT", "4430",
	  "UDP port of discovery",
	  TARGET(discovery_port), 1, 65535, NULL },
	{ "name", 0, TARGET_PLACES, TGT_OPTION_NAME, "NAME", NULL,
	  "what discovery calls this target; default: the machine's name",
	  TARGET(name), 0, 0, NULL },
	{ "journal", 0, TARGET_PLACES, TGT_OPTION_TEXT, "PATH", "/run/systemd/journal/socket",
	  "events go to systemd's journal at this socket; none: they do not",
	  TARGET(journal), 0, 0, NULL },
	{ "http", 0, TARGET_PLACES, TGT_OPTION_HTTP, "[HOST:]PORT", NULL,
	  "a page for people, /metrics, /healthz and /readyz there; without HOST for this machine only; "
	  "default: nowhere",
	  TARGET(http), 0, 0, NULL },
	{ "histograms", 0, TARGET_PLACES, TGT_OPTION_CHOICE, "BUCKETS", "full",
	  "buckets of the histograms in /metrics: full (23), few (7), or none, where there are hundreds of volumes",
	  TARGET(histograms), 0, 0, histogram_choices },
	{ "fault_socket", 0, TARGET_PLACES, TGT_OPTION_FAULT_SOCKET, "PATH", NULL,
	  "for tests: accept faults from \"rblk fault\" at this socket; default: none",
	  TARGET(fault_socket), 0, 0, NULL },
	{ "log_level", 0, TARGET_PLACES | TGT_RELOADED, TGT_OPTION_CHOICE, "LEVEL", "info",
	  "error, warning, info or debug",
	  TARGET(log_level), 0, 0, log_choices },

	{ "store", 0, TGT_IN_VOLUME, TGT_OPTION_TEXT, "KIND", "uring",
	  "uring (a file or block device), nvme (a namespace, by passthrough), rbd (an image of Ceph), memory or null",
	  VOLUME(store), 0, 0, NULL },
	{ "path", 0, TGT_IN_VOLUME, TGT_OPTION_TEXT, "PATH", NULL,
	  "the file, block device, NVMe generic device, or POOL/IMAGE[@SNAPSHOT] of Ceph",
	  VOLUME(path), 0, 0, NULL },
	{ "size", 0, TGT_IN_VOLUME, TGT_OPTION_SIZE, "SIZE", NULL,
	  "the size of a memory or null volume",
	  VOLUME(bytes), 512, 1024 * T, NULL },
	{ "uuid", 0, TGT_IN_VOLUME, TGT_OPTION_UUID, "UUID", NULL,
	  "its identity for initiators; by default the one that was kept of it",
	  VOLUME(uuid), 0, 0, NULL },
	{ "fence_domain", 0, TGT_IN_VOLUME, TGT_OPTION_UUID, "UUID", NULL,
	  "the same at targets of which the one that starts is sure that the other has ended; default: this "
	  "machine and store",
	  VOLUME(fence_domain), 0, 0, NULL },
	{ "priority", 0, TGT_IN_VOLUME, TGT_OPTION_BOOL, "BOOL", "no",
	  "an initiator's commands on it go before its commands on other volumes",
	  VOLUME(priority), 0, 0, NULL },
	{ "limit", 0, TGT_IN_VOLUME, TGT_OPTION_CHOICE, "HOW", "none",
	  "auto: the store has no more at once than keeps it busy, by how long operations take",
	  VOLUME(depth), 0, 0, limit_choices },
	{ "limit_iops", 0, TGT_IN_VOLUME, TGT_OPTION_COUNT, "COUNT", "0",
	  "operations a second of all who use it; 0: no limit",
	  VOLUME(limit.iops), 0, 10000000, NULL },
	{ "limit_rate", 0, TGT_IN_VOLUME, TGT_OPTION_SIZE, "SIZE", "0",
	  "bytes a second likewise",
	  VOLUME(limit.rate_bytes), 0, 64 * G, NULL },
	{ "limit_burst", 0, TGT_IN_VOLUME, TGT_OPTION_TIME_MS, "TIME", "100ms",
	  "what its limits left unused for so long may be used at once",
	  VOLUME(limit.burst_ms), 20, 3600000, NULL },
	{ "block_size", 0, VOLUME_PLACES, TGT_OPTION_BLOCK, "SIZE", NULL,
	  "512, 1K, 2K or 4K; default: the disk's own",
	  VOLUME(block_bytes), 512, 4096, NULL },
	{ "read_only", 0, VOLUME_PLACES, TGT_OPTION_BOOL, "BOOL", "no",
	  "refuse writes, open for reading only",
	  VOLUME(read_only), 0, 0, NULL },
	{ "cache", 0, VOLUME_PLACES, TGT_OPTION_CHOICE, "MODE", "auto",
	  "direct: O_DIRECT; buffered: through the page cache; auto: direct where the file system "
	  "can, else buffered with a warning",
	  VOLUME(cache), 0, 0, cache_choices },
	{ "gateways", 0, VOLUME_PLACES, TGT_OPTION_CHOICE, "NUMBER", "one",
	  "of an rbd volume: one at a time serves the image; several: any number at once",
	  VOLUME(gateways), 0, 0, gateways_choices },
	{ "allow_shrink", 0, VOLUME_PLACES, TGT_OPTION_BOOL, "BOOL", "no",
	  "let a reload shrink the volume",
	  VOLUME(allow_shrink), 0, 0, NULL },
	{ "lock_wait", 0, VOLUME_PLACES, TGT_OPTION_TIME_MS, "TIME", "30s",
	  "longest wait until another process, or its last I/O, releases the path",
	  VOLUME(lock_wait_ms), 0, 3600000, NULL },
	{ "fault", 0, VOLUME_PLACES, TGT_OPTION_FAULT, "PLAN", NULL,
	  "for tests: delay, fail, tear or lose operations, or power, as in delay=5ms,fail=write:0.01",
	  VOLUME(fault), 0, 0, NULL },

	{ "address", 0, TGT_IN_INITIATOR, TGT_OPTION_ADDRESS, "ADDRESSES", NULL,
	  "where it may come from", NO_FIELD, 0, 0, NULL },
	{ "secret", 0, TGT_IN_INITIATOR, TGT_OPTION_SECRET, "FILE", NULL,
	  "a file with the secrets that prove its name", NO_FIELD, 0, 0, NULL },
	{ "see", 0, TGT_IN_INITIATOR, TGT_OPTION_GRANT, "VOLUMES", NULL,
	  "volumes that are shown to it in the list", NO_FIELD, TGT_RIGHT_SEE, 0, NULL },
	{ "read", 0, TGT_IN_INITIATOR, TGT_OPTION_GRANT, "VOLUMES", NULL,
	  "volumes that it may read", NO_FIELD, TGT_RIGHT_READ, 0, NULL },
	{ "write", 0, TGT_IN_INITIATOR, TGT_OPTION_GRANT, "VOLUMES", NULL,
	  "volumes that it may read and write", NO_FIELD, TGT_RIGHT_WRITE, 0, NULL },
	{ "weight", 0, TGT_IN_INITIATOR, TGT_OPTION_COUNT, "COUNT", "1",
	  "its part of a store that is full, beside the weights of others",
	  INITIATOR(weight), 1, TGT_WEIGHT_MAX, NULL },
	{ "priority", 0, TGT_IN_INITIATOR, TGT_OPTION_BOOL, "BOOL", "no",
	  "a command that it seldom sends goes before those of others that wait for a store",
	  INITIATOR(priority), 0, 0, NULL },
	{ "limit_iops", 0, TGT_IN_INITIATOR, TGT_OPTION_COUNT, "COUNT", "0",
	  "its operations a second; 0: no limit",
	  INITIATOR(limit.iops), 0, 10000000, NULL },
	{ "limit_rate", 0, TGT_IN_INITIATOR, TGT_OPTION_SIZE, "SIZE", "0",
	  "bytes a second likewise",
	  INITIATOR(limit.rate_bytes), 0, 64 * G, NULL },
	{ "limit_burst", 0, TGT_IN_INITIATOR, TGT_OPTION_TIME_MS, "TIME", "100ms",
	  "what its limits left unused for so long may be used at once",
	  INITIATOR(limit.burst_ms), 20, 3600000, NULL },
};
/* clang-format on */

const struct tgt_option *tgt_options_table(unsigned int *count)
{
	*count = ARRAY_SIZE(table);
	return table;
}

static bool same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (*a != *b && !(*a == '_' && *b == '-') && !(*a == '-' && *b == '_'))
			return false;
	return *a == *b;
}

const struct tgt_option *tgt_option_find(const char *name, unsigned int places)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].places & places && same_name(table[i].name, name))
			return &table[i];
	return NULL;
}

const char *tgt_option_suggest(const char *name, unsigned int places)
{
	struct words_nearest search = words_nearest_to(name);

	for (unsigned int i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].places & places)
			words_nearest_offer(&search, table[i].name);
	return search.nearest;
}

bool tgt_option_longer(const char *name, unsigned int places, char names[TGT_OPTION_NAMES_BYTES])
{
	size_t length = strlen(name), bytes = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(table) && bytes < TGT_OPTION_NAMES_BYTES; i++)
		if (table[i].places & places && strncmp(table[i].name, name, length) == 0 && table[i].name[length] == '_')
			bytes += (size_t)snprintf(names + bytes, TGT_OPTION_NAMES_BYTES - bytes, "%s\"%s\"",
						  bytes ? ", " : "", table[i].name);
	return bytes;
}

/* -- help ----------------------------------------------------------------------------------- */

#define HELP_COLUMN 30
#define HELP_WIDTH 96

/* The help text from HELP_COLUMN on, broken between words. */
static void help_text(FILE *out, const char *text, int column)
{
	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column + 1 + length > HELP_WIDTH) {
			fprintf(out, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		}
		column += fprintf(out, "%s%.*s", column > HELP_COLUMN ? " " : "", length, text);
		text += length;
		text += strspn(text, " ");
	}
}

static void help_option(FILE *out, const struct tgt_option *option)
{
	char name[64], text[512];
	char *next;
	int column;

	snprintf(name, sizeof(name), "%s", option->name);
	for (next = name; *next; next++)
		if (*next == '_')
			*next = '-';
	if (option->letter)
		column = fprintf(out, "  -%c, --%s", option->letter, name);
	else
		column = fprintf(out, "      --%s", name);
	if (option->type == TGT_OPTION_BOOL)
		column += fprintf(out, "[=%s]", option->value);
	else if (option->value)
		column += fprintf(out, " %s", option->value);
	if (column >= HELP_COLUMN - 1)
		column = fprintf(out, "\n") - 1;
	fprintf(out, "%*s", HELP_COLUMN - column, "");
	if (option->otherwise)
		snprintf(text, sizeof(text), "%s (default: %s)", option->help, option->otherwise);
	else
		snprintf(text, sizeof(text), "%s", option->help);
	help_text(out, text, HELP_COLUMN);
	fprintf(out, "\n");
}

static void help_group(FILE *out, const char *title, unsigned int places)
{
	const unsigned int all = TGT_ON_COMMAND_LINE | TGT_IN_TARGET | TGT_IN_VOLUME;
	unsigned int i;

	fprintf(out, "\n%s\n", title);
	for (i = 0; i < ARRAY_SIZE(table); i++)
		if ((table[i].places & all) == places)
			help_option(out, &table[i]);
}

void tgt_options_help(FILE *out)
{
	fprintf(out, "Usage: rblkd [OPTION]... [NAME=]PATH...\n"
		     "       rblkd [OPTION]... --config FILE\n"
		     "Serve files, block devices and memory as volumes over RDMA.\n");
	help_group(out, "What to do:", TGT_ON_COMMAND_LINE);
	help_group(out, "The target; in the configuration file keys of [target]:", TARGET_PLACES);
	help_group(out, "All volumes named on the command line; in the file keys of [volume NAME]:",
		   VOLUME_PLACES);
	fprintf(out,
		"\nSizes take K, M, G, T (of 1024); times us, ms, s, m, h, without one they are seconds. In the file '-' is '_' in names.\n"
		"See rblkd(8) and rblkd.conf(5).\n");
}
