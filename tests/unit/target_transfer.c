/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the accounting of a queue's send side stays right when a post fails in the middle of a turn that makes several
 * chains, and when there is no room for a probe; a reply waits behind few READs, and priority goes first. Method: a
 * queue made by the test, on a fabric that only counts posts and refuses them when told to.
 */
#include "tests/unit/target_queue_rig.h"
#include <errno.h>
#include <string.h>
#include "target/base/log.h"
#include "target/io/request.h"
#include "target/io/transfer.h"

#define TAGS (3 * TGT_CHAIN_MAX) /* more than two chains of replies */
#define SLOTS (4 * TGT_CHAIN_MAX)

static struct {
	unsigned int calls, posted, closed;
	unsigned int refuse_call; /* 0: none */
	unsigned int reads;
	uint64_t read_last; /* where */
	enum ibv_wr_opcode opcode;
	int segments;
	uint16_t order[SLOTS]; /* the first tag of each SEND */
} seen;

static int fake_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (++seen.calls == seen.refuse_call) {
		*bad = wr;
		return -ENOMEM;
	}
	for (; wr; wr = wr->next) {
		const struct rblk_wire_completion *first = wr->num_sge ? (void *)(uintptr_t)wr->sg_list->addr : NULL;

		if (seen.posted < SLOTS && first)
			seen.order[seen.posted] = rblk_le16(first->tag);
		seen.posted++;
		seen.opcode = wr->opcode;
		seen.reads += wr->opcode == IBV_WR_RDMA_READ;
		if (wr->opcode == IBV_WR_RDMA_READ)
			seen.read_last = wr->wr.rdma.remote_addr;
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
	rig->io_queue.reply_batch = 1; /* each completion is a message of its own */
	rig->io_queue.send_depth = SLOTS;
	rig->io_queue.max_msg_bytes = 1 << 20;
	return rig;
}

/* Every command of the queue is done and waits for its reply to be sent. */
static void all_done(struct tgt_io_queue *io_queue)
{
	for (uint16_t tag = 0; tag < TAGS; tag++) {
		struct tgt_request *request = &io_queue->requests[tag];

		request->opcode = RBLK_OP_PING;
		request->state = TGT_REQUEST_REPLYING;
		TAILQ_INSERT_TAIL(&io_queue->done.plain, request, link);
		io_queue->active++;
	}
}

static void chains_are_posted_one_by_one(void **state)
{
	struct queue_rig *rig = rig_create();

	all_done(&rig->io_queue);
	tgt_transfer_flush(&rig->io_queue);
	assert_int_equal(seen.calls, 3);
	assert_int_equal(seen.posted, TAGS);
	assert_int_equal(rig->io_queue.sent_head - rig->io_queue.sent_tail, TAGS);
	tgt_transfer_completed(&rig->io_queue, TAGS - 1);
	assert_int_equal(rig->io_queue.sent_head - rig->io_queue.sent_tail, 0);
	assert_int_equal(rig->io_queue.reply_head, rig->io_queue.reply_tail);
	queue_rig_free(rig);
}

/* Replies of commands with priority go first, in messages of their own, but eight at most before one of the others. */
static void replies_with_priority_go_first(void **state)
{
	struct queue_rig *rig = rig_create();
	struct tgt_io_queue *io_queue = &rig->io_queue;

	(void)state;
	rig->io_queue.reply_batch = 4;
	for (uint16_t tag = 0; tag < 14; tag++) {
		struct tgt_request *request = &io_queue->requests[tag];

		request->opcode = RBLK_OP_FLUSH;
		request->flags = tag < 4 ? 0 : RBLK_CMD_PRIORITY;
		request->state = TGT_REQUEST_REPLYING;
		TAILQ_INSERT_TAIL(tgt_turns_list(&io_queue->done, request), request, link);
		io_queue->active++;
	}
	tgt_transfer_flush(io_queue);
	/* 4 to 7, 8 to 11, one of the others, 12 and 13, the rest of the others. */
	assert_int_equal(seen.posted, 5);
	assert_int_equal(seen.order[0], 4);
	assert_int_equal(seen.order[1], 8);
	assert_int_equal(seen.order[2], 0);
	assert_int_equal(seen.order[3], 12);
	assert_int_equal(seen.order[4], 1);
	queue_rig_free(rig);
}

static void write_comes(struct queue_rig *rig, uint16_t tag, uint32_t bytes, uint8_t flags)
{
	struct tgt_request *request = &rig->io_queue.requests[tag];

	request->opcode = RBLK_OP_WRITE;
	request->flags = flags;
	request->state = TGT_REQUEST_RECEIVED;
	request->home = TGT_HOME_POOL;
	request->data_bytes = bytes;
	request->address = tag;
	request->moved = request->reads_pending = 0;
	rig->io_queue.active++;
	tgt_request_fetch(request);
}

/* One READ and all before it are done; without the rest of the request, which is the store's. */
static void read_done(struct queue_rig *rig)
{
	struct tgt_sent *sent = &rig->io_queue.sent[rig->io_queue.sent_tail & rig->io_queue.sent_mask];

	sent->reads = NULL;
	tgt_transfer_completed(&rig->io_queue, rig->io_queue.sent_tail);
	tgt_transfer_flush(&rig->io_queue);
}

/* Of many large WRITEs, so many are fetched at a time that the reply of a READ waits for two of them at most; but all
 * of them where there was none for long. */
static void few_reads_are_ahead_of_a_reply(void **state)
{
	struct queue_rig *rig = rig_create();

	(void)state;
	rig->conn.read_out = 128;
	rig->io_queue.read_bytes = 256 << 10;
	for (uint16_t tag = 0; tag < 16; tag++)
		write_comes(rig, tag, 128 << 10, 0);
	rig->loop.now_ns = rig->io_queue.beside_ns = 1;
	for (unsigned int done = 0; done < 14; done++) {
		tgt_transfer_flush(&rig->io_queue);
		assert_int_equal(seen.reads, done + 2);
		read_done(rig);
	}
	assert_int_equal(seen.reads, 16);
	queue_rig_free(rig);
	rig = rig_create();
	rig->conn.read_out = 128;
	rig->io_queue.read_bytes = 256 << 10;
	rig->loop.now_ns = 1000000000;
	for (uint16_t tag = 0; tag < 16; tag++)
		write_comes(rig, tag, 128 << 10, 0);
	tgt_transfer_flush(&rig->io_queue);
	assert_int_equal(seen.reads, 16);
	queue_rig_free(rig);
	/* However large they are, the next one is posted before the last one has come. Small ones are many. */
	rig = rig_create();
	rig->conn.read_out = 128;
	rig->io_queue.read_bytes = 256 << 10;
	for (uint16_t tag = 0; tag < 4; tag++)
		write_comes(rig, tag, 1 << 20, 0);
	tgt_transfer_flush(&rig->io_queue);
	assert_int_equal(seen.reads, 2);
	queue_rig_free(rig);
	rig = rig_create();
	rig->conn.read_out = 20;
	rig->io_queue.read_bytes = 256 << 10;
	for (uint16_t tag = 0; tag < 40; tag++)
		write_comes(rig, tag, 12 << 10, 0);
	tgt_transfer_flush(&rig->io_queue);
	assert_int_equal(seen.reads, 20);
	queue_rig_free(rig);
}

/* What a WRITE with priority has is fetched next, but eight of them at most before another one. */
static void priority_is_fetched_first(void **state)
{
	struct queue_rig *rig = rig_create();
	uint16_t plain = 0, priority = 100;

	(void)state;
	rig->conn.read_out = 1;
	while (plain < 4)
		write_comes(rig, plain++, 4096, 0);
	tgt_transfer_flush(&rig->io_queue);
	assert_int_equal(seen.read_last, 0);
	for (; priority < 100 + 12; priority++)
		write_comes(rig, priority, 4096, RBLK_CMD_PRIORITY);
	for (unsigned int i = 0; i < 8; i++) {
		read_done(rig);
		assert_int_equal(seen.read_last, 100 + i);
	}
	read_done(rig);
	assert_int_equal(seen.read_last, 1);
	read_done(rig);
	assert_int_equal(seen.read_last, 108);
	queue_rig_free(rig);
}

/* Nothing is posted after a refused post; all slots are returned when the queue has drained. */
static void a_refused_post_ends_the_queue(void **state)
{
	struct queue_rig *rig = rig_create();
	struct tgt_io_queue *io_queue = &rig->io_queue;

	seen.refuse_call = 1;
	all_done(io_queue);
	tgt_transfer_flush(io_queue);
	assert_int_equal(seen.calls, 1);
	assert_int_equal(seen.posted, 0);
	assert_int_equal(seen.closed, 1);
	assert_false(io_queue->open);
	assert_true(rig->loop.chain.count <= TGT_CHAIN_MAX);
	assert_int_equal(io_queue->active, 0);
	tgt_io_queue_drained(io_queue);
	assert_int_equal(io_queue->sent_head, io_queue->sent_tail);
	assert_int_equal(io_queue->reply_head, io_queue->reply_tail);
	queue_rig_free(rig);
}

/* The completion of a probe shows that the peer is alive. */
static void a_probe_needs_room(void **state)
{
	struct queue_rig *rig = rig_create();
	struct tgt_io_queue *io_queue = &rig->io_queue;

	io_queue->sent_head = io_queue->send_depth;
	tgt_transfer_probe(io_queue);
	assert_int_equal(seen.calls, 0);
	io_queue->sent_tail = io_queue->sent_head;
	tgt_transfer_probe(io_queue);
	assert_int_equal(seen.posted, 1);
	assert_int_equal(seen.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(seen.segments, 0);
	io_queue->suspect_ns = 1;
	tgt_transfer_completed(io_queue, io_queue->sent_head - 1);
	assert_int_equal(io_queue->suspect_ns, 0);
	queue_rig_free(rig);
}

/* When it is to be checked again. */
static uint64_t check_taken(struct tgt_loop *loop)
{
	loop->timer_ns = UINT64_MAX;
	tgt_work_check_taken(loop);
	return loop->timer_ns;
}

/* C8: outstanding sends make progress, or the connection ends; without any, nothing can be late. */
static void a_peer_that_takes_nothing_is_let_go(void **state)
{
	struct queue_rig *rig = rig_create();
	struct tgt_io_queue *io_queue = &rig->io_queue;

	rig->loop.now_ns = 1000 * TGT_TAKE_NS;
	assert_int_equal(check_taken(&rig->loop), UINT64_MAX);
	all_done(io_queue);
	tgt_transfer_flush(io_queue);
	assert_int_equal(check_taken(&rig->loop), rig->loop.now_ns + TGT_TAKE_NS);
	rig->loop.now_ns += TGT_TAKE_NS - 1;
	tgt_transfer_completed(io_queue, 0);
	rig->loop.now_ns += TGT_TAKE_NS - 1;
	assert_int_equal(check_taken(&rig->loop), rig->loop.now_ns + 1);
	assert_true(io_queue->open);
	/* This end may not have run for a while: it checks once more, a little later. */
	rig->loop.now_ns++;
	assert_int_equal(check_taken(&rig->loop), rig->loop.now_ns + TGT_LATE_NS);
	assert_true(io_queue->open);
	rig->loop.now_ns += TGT_LATE_NS;
	assert_int_equal(check_taken(&rig->loop), UINT64_MAX);
	assert_false(io_queue->open);
	assert_int_equal(seen.closed, 1);
	tgt_io_queue_drained(io_queue);
	queue_rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains_are_posted_one_by_one),	       cmocka_unit_test(replies_with_priority_go_first),
		cmocka_unit_test(few_reads_are_ahead_of_a_reply),      cmocka_unit_test(priority_is_fetched_first),
		cmocka_unit_test(a_refused_post_ends_the_queue),       cmocka_unit_test(a_probe_needs_room),
		cmocka_unit_test(a_peer_that_takes_nothing_is_let_go),
	};

	return cmocka_run_group_tests_name("target transfer", tests, NULL, NULL);
}
