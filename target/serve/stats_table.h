/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The stats of a reactor: the structs. stats.h says what they are, and fills them. */
#ifndef RBLK_TARGET_STATS_TABLE_H
#define RBLK_TARGET_STATS_TABLE_H

#include <stdalign.h>
#include <stdbool.h>
#include <sys/queue.h>
#include "proto/wire/payload.h"
#include "target/base/quota.h"
#include "target/io/counts.h"

/*
 * Handles with stats of their own: of a reactor, so that a snapshot stays short; and of one session, so that the stats
 * of a reactor are there for sixteen sessions at least.
 */
static const struct tgt_quota tgt_stats_quota = {.most = 1024, .each = 64};

/*
 * Initiators that are told apart after their sessions have ended: in all, each with stats in every reactor; by one
 * address, without a proof; and by all addresses, so that a quarter is left for names which are proven. names.h gives
 * them numbers.
 */
#define TGT_NAMES_MAX 256u
static const struct tgt_quota tgt_names_quota = {.most = 192, .each = 16};
/* The number of all others. */
#define TGT_NAMES_OTHER TGT_NAMES_MAX

struct tgt_handle;

struct tgt_stats {
	TAILQ_ENTRY(tgt_stats) link;				 /* a handle's: reactor->stats_table.handles */
	const struct tgt_handle *handle; /* whose it is; NULL: a volume's */
	char volume[RBLK_NAME_BYTES];
	unsigned int initiator; /* a handle's: the number of who has opened it */
	/* No other thread's writes are in its cache lines. */
	alignas(64) struct tgt_counts counts;
};

/* The counts that an initiator's handles have left when they were closed. */
struct tgt_initiator_stats {
	unsigned int number;
	char name[RBLK_NAME_BYTES]; /* "": of the others */
	bool proven;
	struct tgt_counts counts;
};

TAILQ_HEAD(tgt_stats_list, tgt_stats);

struct tgt_stats_table {
	struct tgt_stats_list handles;
	unsigned int count;			     /* in it */
	struct tgt_stats *volumes[RBLK_VOLUMES_MAX]; /* by volume->slot; NULL: never opened here */
	struct tgt_initiator_stats *initiators[TGT_NAMES_MAX + 1]; /* by number; NULL: likewise */
	struct tgt_counts lost;					   /* for want of memory: in no snapshot */
};

#endif
