/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session's share of the reactor's memory for data and for reports. A session that holds nothing
 * may always take a block, if there is one. One that holds some may take more as long as it then
 * holds no more than so many times what stays free (TGT_SHARE_OF_FREE): alone it can have three
 * quarters of a pool, several get equal parts, and there is always something left for the next one
 * that comes. Commands for which there is no memory wait; sessions are served in turn, and in each
 * session its lanes. serve/ embeds one in each session. The reactor's thread only.
 */
#ifndef RBLK_TARGET_SHARE_H
#define RBLK_TARGET_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include "target/io/lane.h"

#define TGT_SHARE_OF_FREE 3u

struct tgt_share {
	struct tgt_turn *turn; /* fixed */
	TAILQ_ENTRY(tgt_share) link;   /* turn->starving, while is_starving */
	struct tgt_lane_list starving; /* its lanes with commands that wait, in turn */
	bool is_starving;
	uint64_t data_bytes;   /* of turn->pool, that its commands and transfers hold */
	uint64_t report_bytes; /* of the pools for reports */
	uint64_t direct_ns;    /* the turn in which it last read of a store's own memory */
	uint32_t credits;      /* receive buffers that are promised to its queues */
};

void tgt_share_init(struct tgt_share *share, struct tgt_turn *turn);

/* A block of turn->pool, or of the lane's pool for reports. NULL: none is free, or the session has
 * its share. */
void *tgt_share_alloc(struct tgt_lane *lane, uint32_t bytes);
void *tgt_share_alloc_report(struct tgt_lane *lane, uint32_t bytes);
void tgt_share_free(struct tgt_lane *lane, void *block, uint32_t bytes, bool report);

/* A lane has a command that waits for memory. */
void tgt_share_wait(struct tgt_lane *lane);
/* The session's first lane has had its turn, and the session too: both go to the ends of their
 * lists. */
void tgt_share_turn(struct tgt_share *share);
/* The lane waits no more. Nothing where it does not wait. */
void tgt_share_leave(struct tgt_lane *lane);

#endif
