/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The options of fio's engine "rblk", as a job file has them. rblk-fio(1) describes them, and a test
 * compares the two.
 */
#include "fio.h"
#include "optgroup.h"

#include "initiator/fio/engine.h"
#include "proto/words/units.h"

#define ENGINE_TIME_MS_MAX 3600000u /* the longest that librblk accepts */

static int engine_time(const char *name, const char *text, unsigned int *ms)
{
	char why[UNITS_WHY_BYTES];
	uint64_t value;

	if (units_read(UNITS_TIME_MS, text, 0, ENGINE_TIME_MS_MAX, &value, why) < 0) {
		log_err("rblk: %s: %s\n", name, why);
		return 1;
	}
	*ms = (unsigned int)value;
	return 0;
}

static int engine_give_up(void *data, const char *text)
{
	return engine_time("rblk_give_up", text, &((struct engine_options *)data)->give_up_ms);
}

static int engine_fail_fast(void *data, const char *text)
{
	return engine_time("rblk_fail_fast", text, &((struct engine_options *)data)->fail_fast_ms);
}

/* rblk_engine.c declares it: no header can, without fio's. */
extern struct fio_option engine_option_table[];
struct fio_option engine_option_table[] = {
	{
		.name = "rblk_uri",
		.lname = "rblk volume",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, uri),
		.help = "rblk://host[:port][,host...]/volume or rblk+tcp://...",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_stats",
		.lname = "rblk statistics file",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, stats_path),
		.help = "At the end, add the counters (messages, stage times) to this JSON file",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_name",
		.lname = "rblk initiator's name",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, name),
		.help = "The initiator's name, for the target's log and access rules",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_key",
		.lname = "rblk key file",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, key_file),
		.help = "File with the secret that proves the name, and the target",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_tls",
		.lname = "rblk TLS",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, tls),
		.def = "auto",
		.help = "When to encrypt TCP with the key",
		.posval =
			{
				{.ival = "auto", .oval = RBLK_TLS_AUTO, .help = "To other machines"},
				{.ival = "always", .oval = RBLK_TLS_ALWAYS, .help = "Always"},
				{.ival = "never", .oval = RBLK_TLS_NEVER, .help = "Never"},
			},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_digest",
		.lname = "rblk digest",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, digest),
		.def = "0",
		.help = "Check all data by CRC32C, from this end to the target's memory and back",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_priority",
		.lname = "rblk priority",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, priority),
		.def = "0",
		.help = "Commands go before others of this session at the target",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_device",
		.lname = "rblk RDMA device",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, device),
		.help = "RDMA device to use",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_source",
		.lname = "rblk source address",
		.type = FIO_OPT_STR_STORE,
		.off1 = offsetof(struct engine_options, source),
		.help = "Address of this machine to connect from",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_tos",
		.lname = "rblk TOS",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, tos),
		.maxval = 255,
		.def = "0",
		.help = "TOS or traffic class of packets to the target: DSCP * 4",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_ack_timeout",
		.lname = "rblk RDMA acknowledgement time-out",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, ack_timeout),
		.maxval = 31,
		.def = "0",
		.help = "RDMA: repeat unacknowledged packets after 4.096 us * 2^this",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_queues",
		.lname = "rblk queues",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, queues),
		.minval = 1,
		.maxval = 16,
		.def = "1",
		.help = "Connections of each job's session",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_credits",
		.lname = "rblk credits",
		.type = FIO_OPT_INT,
		.off1 = offsetof(struct engine_options, credits),
		.maxval = ENGINE_CREDITS_MAX,
		.def = "0",
		.help = "Commands outstanding per queue to ask for (0: the job's iodepth)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_polling",
		.lname = "rblk polling",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, polling),
		.def = "adaptive",
		.help = "How to wait for completions",
		.posval =
			{
				{.ival = "adaptive",
				 .oval = RBLK_POLL_ADAPTIVE,
				 .help = "Poll while they come quickly, then sleep"},
				{.ival = "always", .oval = RBLK_POLL_ALWAYS, .help = "Never sleep"},
				{.ival = "never", .oval = RBLK_POLL_NEVER, .help = "Sleep at once"},
			},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_fua",
		.lname = "rblk forced unit access",
		.type = FIO_OPT_BOOL,
		.off1 = offsetof(struct engine_options, fua),
		.def = "0",
		.help = "Writes are durable when they complete",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_policy",
		.lname = "rblk policy",
		.type = FIO_OPT_STR,
		.off1 = offsetof(struct engine_options, policy),
		.def = "round-robin",
		.help = "Which connection takes the next commands",
		.posval =
			{
				{.ival = "round-robin",
				 .oval = RBLK_POLICY_ROUND_ROBIN,
				 .help = "Each in turn"},
				{.ival = "least",
				 .oval = RBLK_POLICY_LEAST_IN_FLIGHT,
				 .help = "The one with the fewest commands in flight"},
			},
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_give_up",
		.lname = "rblk give-up time",
		.type = FIO_OPT_STR_STORE,
		.cb = engine_give_up,
		.def = "1min",
		.help = "Time without a connection after which the job fails (0: at once)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{
		.name = "rblk_fail_fast",
		.lname = "rblk fail-fast time",
		.type = FIO_OPT_STR_STORE,
		.cb = engine_fail_fast,
		.def = "0",
		.help = "Time without a connection after which commands fail (0: they wait)",
		.category = FIO_OPT_C_ENGINE,
		.group = FIO_OPT_G_INVALID,
	},
	{.name = NULL},
};
