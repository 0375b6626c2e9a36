/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A target's I/O queue made by the test, open and without any command, with its turn and connection, on
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
	struct tgt_loop loop;
	struct tgt_host_share host;
	struct tgt_share share;
	struct tgt_io_queue io_queue;
	struct tgt_channel channel; /* for operations that the store has */
};

static inline void *queue_rig_array(size_t count, size_t bytes)
{
	void *array = calloc(count, bytes);

	assert_non_null(array);
	return array;
}

static inline void queue_rig_close(struct tgt_io_queue *io_queue, const char *reason)
{
	(void)reason;
	tgt_io_queue_close(io_queue);
}

static inline void queue_rig_over(struct tgt_io_queue *io_queue)
{
	(void)io_queue;
}

static const struct tgt_io_queue_ops queue_rig_ops = {
	.close = queue_rig_close,
	.over = queue_rig_over,
};

/* slots: for sent work requests and for replies, a power of two. */
static inline struct queue_rig *queue_rig_create(const struct fab_ops *ops, uint16_t tags,
						 uint32_t slots)
{
	struct queue_rig *rig = queue_rig_array(1, sizeof(*rig));
	struct tgt_io_queue *io_queue = &rig->io_queue;

	rig->fab.ops = ops;
	rig->conn.fab = &rig->fab;
	tgt_work_init(&rig->loop);
	tgt_share_init(&rig->share, &rig->loop, &rig->host);
	io_queue->share = &rig->share;
	io_queue->loop = &rig->loop;
	io_queue->ops = &queue_rig_ops;
	io_queue->conn = &rig->conn;
	io_queue->tags = tags;
	io_queue->sent_mask = io_queue->reply_mask = slots - 1;
	io_queue->sent = queue_rig_array(slots, sizeof(*io_queue->sent));
	io_queue->replies = queue_rig_array(slots, sizeof(*io_queue->replies));
	io_queue->requests = queue_rig_array(tags, sizeof(*io_queue->requests));
	for (uint16_t tag = 0; tag < tags; tag++) {
		io_queue->requests[tag].io_queue = io_queue;
		io_queue->requests[tag].tag = tag;
		io_queue->requests[tag].io.channel = &rig->channel;
	}
	tgt_turns_init(&io_queue->fetching);
	tgt_turns_init(&io_queue->done);
	TAILQ_INIT(&io_queue->chained);
	tgt_io_queue_open(io_queue);
	return rig;
}

static inline void queue_rig_free(struct queue_rig *rig)
{
	free(rig->io_queue.sent);
	free(rig->io_queue.replies);
	free(rig->io_queue.requests);
	free(rig);
}

#endif
