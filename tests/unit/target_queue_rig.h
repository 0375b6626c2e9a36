/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A target's queue by hand, open and without any command: session, reactor and connection around
 * it, on a fabric whose operations are the test's own. One thread.
 */
#ifndef RBLK_TESTS_TARGET_QUEUE_RIG_H
#define RBLK_TESTS_TARGET_QUEUE_RIG_H

#include <stdlib.h>
#include "proto/fabric/fabric_impl.h"
#include "target/serve/queue.h"
#include "target/serve/reactor_impl.h"
#include "tests/unit/unit.h"

struct queue_rig {
	struct fab fab;
	struct fab_conn conn;
	struct tgt_session session;
	struct tgt_reactor *reactor;
	struct tgt_queue queue;
};

static inline void *queue_rig_array(size_t count, size_t bytes)
{
	void *array = calloc(count, bytes);

	assert_non_null(array);
	return array;
}

/* slots: of the sent work requests and of the replies, a power of two. */
static inline struct queue_rig *queue_rig_create(const struct fab_ops *ops, uint16_t tags,
						 uint32_t slots)
{
	struct queue_rig *rig = queue_rig_array(1, sizeof(*rig));
	struct tgt_queue *queue = &rig->queue;

	rig->reactor = queue_rig_array(1, sizeof(*rig->reactor));
	rig->fab.ops = ops;
	rig->conn.fab = &rig->fab;
	TAILQ_INIT(&rig->reactor->alive);
	TAILQ_INIT(&rig->reactor->dirty);
	TAILQ_INIT(&rig->reactor->ended);
	queue->reactor = rig->reactor;
	queue->session = &rig->session;
	queue->conn = &rig->conn;
	queue->tags = tags;
	queue->sent_mask = queue->reply_mask = slots - 1;
	queue->sent = queue_rig_array(slots, sizeof(*queue->sent));
	queue->replies = queue_rig_array(slots, sizeof(*queue->replies));
	queue->requests = queue_rig_array(tags, sizeof(*queue->requests));
	for (uint16_t tag = 0; tag < tags; tag++) {
		queue->requests[tag].queue = queue;
		queue->requests[tag].tag = tag;
	}
	TAILQ_INIT(&queue->waiting);
	TAILQ_INIT(&queue->fetching);
	TAILQ_INIT(&queue->done);
	TAILQ_INIT(&queue->chained);
	TAILQ_INSERT_TAIL(&rig->reactor->alive, queue, alive_link);
	return rig;
}

static inline void queue_rig_free(struct queue_rig *rig)
{
	free(rig->queue.sent);
	free(rig->queue.replies);
	free(rig->queue.requests);
	free(rig->reactor);
	free(rig);
}

#endif
