/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A target's lane made by the test, open and without any command, with its turn and connection, on
 * a fabric whose operations belong to the test. One thread.
 */
#ifndef RBLK_TESTS_TARGET_QUEUE_RIG_H
#define RBLK_TESTS_TARGET_QUEUE_RIG_H

#include <stdlib.h>
#include "proto/fabric/fabric_impl.h"
#include "target/io/request.h"
#include "target/io/share.h"
#include "target/io/work.h"
#include "tests/unit/unit.h"

struct queue_rig {
	struct fab fab;
	struct fab_conn conn;
	struct tgt_turn turn;
	struct tgt_host_share host;
	struct tgt_share share;
	struct tgt_lane lane;
	struct tgt_port port; /* for operations that the store has */
};

static inline void *queue_rig_array(size_t count, size_t bytes)
{
	void *array = calloc(count, bytes);

	assert_non_null(array);
	return array;
}

static inline void queue_rig_close(struct tgt_lane *lane, const char *reason)
{
	(void)reason;
	tgt_lane_close(lane);
}

static inline void queue_rig_over(struct tgt_lane *lane)
{
	(void)lane;
}

static const struct tgt_lane_ops queue_rig_ops = {
	.close = queue_rig_close,
	.over = queue_rig_over,
};

/* slots: for sent work requests and for replies, a power of two. */
static inline struct queue_rig *queue_rig_create(const struct fab_ops *ops, uint16_t tags,
						 uint32_t slots)
{
	struct queue_rig *rig = queue_rig_array(1, sizeof(*rig));
	struct tgt_lane *lane = &rig->lane;

	rig->fab.ops = ops;
	rig->conn.fab = &rig->fab;
	tgt_work_init(&rig->turn);
	tgt_share_init(&rig->share, &rig->turn, &rig->host);
	lane->share = &rig->share;
	lane->turn = &rig->turn;
	lane->ops = &queue_rig_ops;
	lane->conn = &rig->conn;
	lane->tags = tags;
	lane->sent_mask = lane->reply_mask = slots - 1;
	lane->sent = queue_rig_array(slots, sizeof(*lane->sent));
	lane->replies = queue_rig_array(slots, sizeof(*lane->replies));
	lane->requests = queue_rig_array(tags, sizeof(*lane->requests));
	for (uint16_t tag = 0; tag < tags; tag++) {
		lane->requests[tag].lane = lane;
		lane->requests[tag].tag = tag;
		lane->requests[tag].io.port = &rig->port;
	}
	TAILQ_INIT(&lane->waiting);
	TAILQ_INIT(&lane->fetching);
	TAILQ_INIT(&lane->done);
	TAILQ_INIT(&lane->chained);
	tgt_lane_open(lane);
	return rig;
}

static inline void queue_rig_free(struct queue_rig *rig)
{
	free(rig->lane.sent);
	free(rig->lane.replies);
	free(rig->lane.requests);
	free(rig);
}

#endif
