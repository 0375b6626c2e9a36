/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the accounts of a queue's send side hold when a post is refused in the middle of a turn that
 * makes several chains, and when there is no room for a probe. Method: a queue by hand on a fabric
 * that only counts what is posted and refuses it when told to.
 */
#include "tests/unit/target_queue_rig.h"
#include <errno.h>
#include <string.h>
#include "target/base/log.h"
#include "target/io/transfer.h"

#define TAGS (3 * TGT_CHAIN_MAX) /* more than two chains of replies */
#define SLOTS (4 * TGT_CHAIN_MAX)

static struct {
	unsigned int calls, posted, closed;
	unsigned int refuse_call; /* 0: none */
	enum ibv_wr_opcode opcode;
	int segments;
} seen;

static int fake_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (++seen.calls == seen.refuse_call) {
		*bad = wr;
		return -ENOMEM;
	}
	for (; wr; wr = wr->next) {
		seen.posted++;
		seen.opcode = wr->opcode;
		seen.segments = wr->num_sge;
	}
	return 0;
}

static void fake_conn_close(struct fab_conn *conn)
{
	seen.closed++;
}

static const struct fab_ops fake_ops = {
	.post_send = fake_post_send,
	.conn_close = fake_conn_close,
};

static struct queue_rig *rig_create(void)
{
	struct queue_rig *rig = queue_rig_create(&fake_ops, TAGS, SLOTS);

	tgt_log_set_level(TGT_LOG_ERROR);
	memset(&seen, 0, sizeof(seen));
	rig->queue.reply_batch = 1; /* each completion is a message of its own */
	rig->queue.send_depth = SLOTS;
	rig->queue.max_msg_bytes = 1 << 20;
	return rig;
}

/* Every command of the queue is done and waits for its reply. */
static void all_done(struct tgt_queue *queue)
{
	for (uint16_t tag = 0; tag < TAGS; tag++) {
		struct tgt_request *request = &queue->requests[tag];

		request->opcode = RBLK_OP_PING;
		request->state = TGT_REQUEST_REPLYING;
		TAILQ_INSERT_TAIL(&queue->done, request, link);
		queue->done_count++;
		queue->active++;
	}
}

static void chains_are_posted_one_by_one(void **state)
{
	struct queue_rig *rig = rig_create();

	all_done(&rig->queue);
	tgt_transfer_flush(&rig->queue);
	assert_int_equal(seen.calls, 3);
	assert_int_equal(seen.posted, TAGS);
	assert_int_equal(rig->queue.sent_head - rig->queue.sent_tail, TAGS);
	tgt_transfer_completed(&rig->queue, TAGS - 1);
	assert_int_equal(rig->queue.sent_head - rig->queue.sent_tail, 0);
	assert_int_equal(rig->queue.reply_head, rig->queue.reply_tail);
	queue_rig_free(rig);
}

/* Nothing is posted behind what was refused; everything is given back when it has drained. */
static void a_refused_post_ends_the_queue(void **state)
{
	struct queue_rig *rig = rig_create();
	struct tgt_queue *queue = &rig->queue;

	seen.refuse_call = 1;
	all_done(queue);
	tgt_transfer_flush(queue);
	assert_int_equal(seen.calls, 1);
	assert_int_equal(seen.posted, 0);
	assert_int_equal(seen.closed, 1);
	assert_int_equal(queue->state, TGT_QUEUE_CLOSING);
	assert_true(rig->reactor->chain.count <= TGT_CHAIN_MAX);
	assert_int_equal(queue->active, 0);
	assert_false(queue->is_ended);
	tgt_queue_drained(queue);
	assert_int_equal(queue->sent_head, queue->sent_tail);
	assert_int_equal(queue->reply_head, queue->reply_tail);
	assert_true(queue->is_ended);
	queue_rig_free(rig);
}

/* Its completion is a sign of life. */
static void a_probe_needs_room(void **state)
{
	struct queue_rig *rig = rig_create();
	struct tgt_queue *queue = &rig->queue;

	queue->sent_head = queue->send_depth;
	tgt_transfer_probe(queue);
	assert_int_equal(seen.calls, 0);
	queue->sent_tail = queue->sent_head;
	tgt_transfer_probe(queue);
	assert_int_equal(seen.posted, 1);
	assert_int_equal(seen.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(seen.segments, 0);
	queue->suspect_ns = 1;
	tgt_transfer_completed(queue, queue->sent_head - 1);
	assert_int_equal(queue->suspect_ns, 0);
	queue_rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains_are_posted_one_by_one),
		cmocka_unit_test(a_refused_post_ends_the_queue),
		cmocka_unit_test(a_probe_needs_room),
	};

	return cmocka_run_group_tests_name("target transfer", tests, NULL, NULL);
}
