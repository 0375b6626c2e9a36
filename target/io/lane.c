/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lanes: what a login allocates for I/O.
 */
#include "target/io/lane.h"
#include "target/base/notice.h"

#include <errno.h>
#include <stdlib.h>

/* -- creating ---------------------------------------------------------------------------------- */

static uint32_t power_of_two_up(uint32_t value)
{
	return value <= 1 ? 1 : 1u << (32 - __builtin_clz(value - 1));
}

/* A completion per tag, and as many again whose SENDs are not known to be complete. */
static uint32_t ring_slots(uint16_t credits)
{
	return power_of_two_up((credits + RBLK_RESERVED_TAGS) * TGT_SENDS_PER_TAG);
}

size_t tgt_lane_ring_bytes(uint16_t credits)
{
	size_t bytes = ring_slots(credits) * sizeof(struct rblk_wire_completion);

	return bytes < TGT_POOL_PAGE ? TGT_POOL_PAGE : bytes;
}

static bool ring_fits(struct tgt_pool *pool, uint16_t credits, unsigned int others)
{
	size_t bytes = tgt_lane_ring_bytes(credits);
	void *ring = tgt_pool_alloc(pool, bytes);
	size_t left = tgt_pool_free_bytes(pool);

	if (!ring)
		return false;
	tgt_pool_free(pool, ring, bytes);
	return left >= (size_t)others * TGT_POOL_PAGE;
}

uint16_t tgt_lane_ring_credits(struct tgt_pool *pool, uint16_t credits, unsigned int others)
{
	while (credits > RBLK_CREDITS_MIN && !ring_fits(pool, credits, others))
		credits = credits / 2 > RBLK_CREDITS_MIN ? credits / 2 : RBLK_CREDITS_MIN;
	return credits;
}

int tgt_lane_init(struct tgt_lane *lane, struct tgt_turn *turn, struct tgt_share *share,
		  const struct tgt_lane_ops *ops, const struct tgt_lane_terms *terms, void *ring)
{
	lane->turn = turn;
	lane->share = share;
	lane->ops = ops;
	lane->index = terms->index;
	lane->features = terms->features;
	lane->credits = terms->credits;
	lane->tags = terms->credits + RBLK_RESERVED_TAGS;
	lane->command_bytes = terms->command_bytes;
	lane->reply_batch = (uint16_t)(terms->reply_bytes / sizeof(struct rblk_wire_completion));
	if (lane->reply_batch > RBLK_REPLY_BATCH_MAX)
		lane->reply_batch = RBLK_REPLY_BATCH_MAX;
	lane->send_depth = lane->tags * TGT_SENDS_PER_TAG;
	lane->sent_mask = ring_slots(terms->credits) - 1;
	lane->reply_mask = lane->sent_mask;
	lane->replies = ring;
	TAILQ_INIT(&lane->waiting);
	TAILQ_INIT(&lane->fetching);
	TAILQ_INIT(&lane->done);
	TAILQ_INIT(&lane->chained);
	lane->requests = calloc(lane->tags, sizeof(*lane->requests));
	lane->sent = calloc(lane->sent_mask + 1, sizeof(*lane->sent));
	if (!lane->requests || !lane->sent) {
		tgt_lane_fini(lane);
		return -ENOMEM;
	}
	for (uint16_t tag = 0; tag < lane->tags; tag++) {
		lane->requests[tag].lane = lane;
		lane->requests[tag].tag = tag;
	}
	return 0;
}

void tgt_lane_fini(struct tgt_lane *lane)
{
	if (lane->is_dirty)
		TAILQ_REMOVE(&lane->turn->dirty, lane, dirty_link);
	lane->is_dirty = false;
	free(lane->requests);
	free(lane->sent);
	lane->requests = NULL;
	lane->sent = NULL;
}

void tgt_lane_open(struct tgt_lane *lane)
{
	lane->open = true;
	lane->heard_ns = lane->turn->now_ns;
	TAILQ_INSERT_TAIL(&lane->turn->alive, lane, alive_link);
}

/* -- serving ----------------------------------------------------------------------------------- */

void tgt_lane_violation(struct tgt_lane *lane, const char *rule)
{
	if (!lane->open)
		return;
	tgt_notice(&(struct tgt_notice_about){.kind = TGT_NOTICE_VIOLATION,
					      .address = fab_conn_peer(lane->conn)},
		   &lane->turn->log_limit, TGT_LOG_WARNING,
		   "session %u queue %u [%s]: closed: the peer broke the protocol: %s",
		   lane->session_number, lane->index, fab_conn_peer(lane->conn), rule);
	lane->end = TGT_END_VIOLATION;
	lane->ops->close(lane, NULL);
}
