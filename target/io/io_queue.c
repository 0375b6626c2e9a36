/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * I/O queues: what a login allocates for I/O.
 */
#include "target/base/daemon_event.h"
#include "target/io/io_queue.h"

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

size_t tgt_io_queue_ring_bytes(uint16_t credits)
{
	size_t bytes = ring_slots(credits) * sizeof(struct rblk_wire_completion);

	return bytes < TGT_POOL_PAGE ? TGT_POOL_PAGE : bytes;
}

static bool ring_fits(struct tgt_pool *pool, uint16_t credits, unsigned int others)
{
	size_t bytes = tgt_io_queue_ring_bytes(credits);
	void *ring = tgt_pool_alloc(pool, bytes);
	size_t left = tgt_pool_free_bytes(pool);

	if (!ring)
		return false;
	tgt_pool_free(pool, ring, bytes);
	return left >= (size_t)others * TGT_POOL_PAGE;
}

uint16_t tgt_io_queue_ring_credits(struct tgt_pool *pool, uint16_t credits, unsigned int others)
{
	while (credits > RBLK_CREDITS_MIN && !ring_fits(pool, credits, others))
		credits = credits / 2 > RBLK_CREDITS_MIN ? credits / 2 : RBLK_CREDITS_MIN;
	return credits;
}

int tgt_io_queue_init(struct tgt_io_queue *io_queue, uint32_t reply_bytes, void *ring)
{
	io_queue->tags = io_queue->credits + RBLK_RESERVED_TAGS;
	io_queue->reply_batch = (uint16_t)(reply_bytes / sizeof(struct rblk_wire_completion));
	if (io_queue->reply_batch > RBLK_REPLY_BATCH_MAX)
		io_queue->reply_batch = RBLK_REPLY_BATCH_MAX;
	io_queue->send_depth = io_queue->tags * TGT_SENDS_PER_TAG;
	io_queue->sent_mask = ring_slots(io_queue->credits) - 1;
	io_queue->reply_mask = io_queue->sent_mask;
	io_queue->replies = ring;
	tgt_turns_init(&io_queue->fetching);
	tgt_turns_init(&io_queue->done);
	TAILQ_INIT(&io_queue->chained);
	io_queue->requests = calloc(io_queue->tags, sizeof(*io_queue->requests));
	io_queue->sent = calloc(io_queue->sent_mask + 1, sizeof(*io_queue->sent));
	if (!io_queue->requests || !io_queue->sent) {
		tgt_io_queue_fini(io_queue);
		return -ENOMEM;
	}
	for (uint16_t tag = 0; tag < io_queue->tags; tag++) {
		io_queue->requests[tag].io_queue = io_queue;
		io_queue->requests[tag].tag = tag;
	}
	return 0;
}

void tgt_io_queue_fini(struct tgt_io_queue *io_queue)
{
	if (io_queue->is_dirty)
		TAILQ_REMOVE(&io_queue->loop->dirty, io_queue, dirty_link);
	io_queue->is_dirty = false;
	free(io_queue->requests);
	free(io_queue->sent);
	io_queue->requests = NULL;
	io_queue->sent = NULL;
}

void tgt_io_queue_open(struct tgt_io_queue *io_queue)
{
	io_queue->open = true;
	io_queue->heard_ns = io_queue->loop->now_ns;
	TAILQ_INSERT_TAIL(&io_queue->loop->alive, io_queue, alive_link);
}

/* -- serving ----------------------------------------------------------------------------------- */

void tgt_io_queue_violation(struct tgt_io_queue *io_queue, const char *rule)
{
	if (!io_queue->open)
		return;
	tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_VIOLATION,
							  .address = fab_conn_peer(io_queue->conn)},
			 &io_queue->loop->log_limit, TGT_LOG_WARNING,
			 "session %u queue %u [%s]: closed: the peer broke the protocol: %s",
			 io_queue->session_number, io_queue->index, fab_conn_peer(io_queue->conn), rule);
	io_queue->end = TGT_END_VIOLATION;
	io_queue->ops->close(io_queue, NULL);
}
