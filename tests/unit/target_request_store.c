/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a store's answer becomes the status for it, and BUSY ("nothing done, send it again") only
 * if the store did not begin. Method: a WRITE whose data has arrived, and a store that answers at
 * once or later with what it is told to.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/fabric/fabric_impl.h"
#include "target/io/request.h"
#include "target/io/share.h"
#include "target/io/work.h"

static int at_once; /* what submit returns */

static int fake_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	return at_once;
}

static const struct tgt_store_ops fake_ops = { .kind = "fake", .submit = fake_submit };

static struct tgt_counts counts; /* of every command here */
static struct tgt_access *found;

static struct tgt_access *fake_find(struct tgt_io_queue *io_queue, uint32_t handle, enum rblk_status *status)
{
	return found;
}

static const struct tgt_io_queue_ops finding_ops = {.find = fake_find};

static void channel_begin(struct tgt_channel *channel)
{
	tgt_range_locks_init(&channel->volume->range_locks);
	assert_int_equal(tgt_range_locks_attach(&channel->volume->range_locks, &channel->range_locks, NULL, NULL), 0);
}

/* The status of a WRITE; `later` is the store's answer if it does not answer at once. */
static enum rblk_status write_status(int now, int later)
{
	struct tgt_loop loop = {0};
	struct tgt_store store = { .ops = &fake_ops };
	struct tgt_volume volume = { .store = &store, .block_bytes = 512 };
	struct tgt_channel channel = {.store = &store, .volume = &volume};
	struct tgt_access access = {.channel = &channel, .users = 1, .counts = &counts};
	struct tgt_io_queue io_queue = {.loop = &loop, .open = true};
	struct tgt_request request = {.io_queue = &io_queue, .access = &access, .blocks = 8};

	tgt_work_init(&loop);
	tgt_turns_init(&io_queue.done);
	request.opcode = RBLK_OP_WRITE;
	request.state = TGT_REQUEST_DATA_IN;
	tgt_inflight_init(&channel.transfers, 1);
	channel_begin(&channel);
	at_once = now;
	tgt_request_data_in(&request);
	if (!now) {
		assert_int_equal(request.state, TGT_REQUEST_STORING);
		request.io.done(&request.io, later);
	}
	assert_int_equal(request.state, TGT_REQUEST_REPLYING);
	assert_ptr_equal(TAILQ_FIRST(&io_queue.done.plain), &request);
	tgt_range_locks_detach(&channel.range_locks);
	return request.status;
}

/* The status of a WRITE that the volume begins after another one has ended; the store then
 * answers `late`. */
static enum rblk_status write_status_late(int late)
{
	struct tgt_loop loop = {0};
	struct tgt_store store = { .ops = &fake_ops };
	struct tgt_volume volume = { .store = &store, .block_bytes = 512 };
	struct tgt_channel channel = {.store = &store, .volume = &volume};
	struct tgt_access access = {.channel = &channel, .users = 2, .counts = &counts};
	struct tgt_io_queue io_queue = {.loop = &loop, .open = true};
	struct tgt_request requests[2];

	tgt_work_init(&loop);
	tgt_turns_init(&io_queue.done);
	tgt_inflight_init(&channel.transfers, 1);
	channel_begin(&channel);
	at_once = 0;
	for (int i = 0; i < 2; i++) {
		requests[i] = (struct tgt_request){.io_queue = &io_queue, .access = &access, .blocks = 8};
		requests[i].opcode = RBLK_OP_WRITE;
		requests[i].state = TGT_REQUEST_DATA_IN;
		tgt_request_data_in(&requests[i]);
	}
	at_once = late;
	requests[0].io.done(&requests[0].io, 0);
	assert_int_equal(requests[0].status, RBLK_OK);
	assert_int_equal(requests[1].state, TGT_REQUEST_REPLYING);
	tgt_range_locks_detach(&channel.range_locks);
	return requests[1].status;
}

static void what_is_refused_for_lack_of_room_is_busy(void **state)
{
	(void)state;
	assert_int_equal(write_status(-EBUSY, 0), RBLK_E_BUSY);
}

static void what_was_begun_is_never_busy(void **state)
{
	(void)state;
	assert_int_equal(write_status(0, -EBUSY), RBLK_E_IO);
}

static void each_command_is_counted_once(void **state)
{
	(void)state;
	memset(&counts, 0, sizeof(counts));
	assert_int_equal(write_status(1, 0), RBLK_OK);
	assert_int_equal(write_status(0, -EIO), RBLK_E_IO);
	assert_int_equal(write_status(-EBUSY, 0), RBLK_E_BUSY);
	assert_int_equal(counts.operations[RBLK_OP_WRITE], 3);
	assert_int_equal(tgt_counts_of_kind(&counts, TGT_COUNT_WRITE), 3);
	assert_int_equal(tgt_counts_of_kind(&counts, TGT_COUNT_READ), 0);
	assert_int_equal(counts.errors[RBLK_E_IO], 1);
	assert_int_equal(counts.errors[RBLK_E_BUSY], 1);
	assert_int_equal(counts.errors[RBLK_OK], 0);
}

/* It waited for another one to end, and then the store had no room: nothing of it was done. */
static void what_waited_and_found_no_room_is_busy(void **state)
{
	(void)state;
	assert_int_equal(write_status_late(-EBUSY), RBLK_E_BUSY);
	assert_int_equal(write_status_late(-EIO), RBLK_E_IO);
	assert_int_equal(write_status_late(1), RBLK_OK);
}

static void answers_keep_their_meaning(void **state)
{
	static const struct {
		int error;
		enum rblk_status status;
	} answers[] = {
		{ -ENOSPC, RBLK_E_NO_SPACE },	    { -EDQUOT, RBLK_E_NO_SPACE },
		{ -ENODATA, RBLK_E_MEDIUM },	    { -EILSEQ, RBLK_E_MEDIUM },
		{ -EROFS, RBLK_E_READ_ONLY },	    { -EOPNOTSUPP, RBLK_E_UNSUPPORTED },
		{ -ENOMEM, RBLK_E_NO_RESOURCES }, { -EIO, RBLK_E_IO },
		{ -ETIMEDOUT, RBLK_E_IO },
	};

	(void)state;
	assert_int_equal(write_status(1, 0), RBLK_OK);
	assert_int_equal(write_status(0, 0), RBLK_OK);
	for (size_t i = 0; i < UNIT_LENGTH(answers); i++) {
		assert_int_equal(write_status(answers[i].error, 0), answers[i].status);
		assert_int_equal(write_status(0, answers[i].error), answers[i].status);
	}
}

/* -- work in a store's own memory -------------------------------------------------------------- */

enum { COMMANDS = 64, BYTES = 256 << 10 };

static struct tgt_request requests[COMMANDS];
static uint64_t zeroed;

static int zero_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	assert_int_equal(io->kind, TGT_IO_WRITE_ZEROES);
	zeroed += io->bytes;
	return 1;
}

static const struct tgt_store_ops zero_ops = { .kind = "fake", .submit = zero_submit };

/* Counts for all commands so far. */
static uint64_t bytes_done(uint8_t opcode)
{
	uint64_t bytes = zeroed;

	for (uint16_t tag = 0; tag < COMMANDS; tag++) {
		bytes += requests[tag].done_bytes;
		if (opcode == RBLK_OP_READ && requests[tag].state == TGT_REQUEST_DATA_OUT)
			bytes += BYTES;
	}
	return bytes;
}

static unsigned int done_count(const struct tgt_io_queue *io_queue)
{
	const struct tgt_request *request;
	unsigned int count = 0;

	TAILQ_FOREACH(request, &io_queue->done.plain, link)
		count++;
	return count;
}

/* A message of `count` commands; then turns until all are done. Returns how many turns. */
static unsigned int turns_of_a_message(uint8_t opcode, uint8_t flags)
{
	struct tgt_loop loop = {0};
	struct tgt_store store = { .ops = &zero_ops, .info.direct = calloc(1, BYTES),
				   .info.can_write_zeroes = true, .info.max_discard_bytes = BYTES };
	struct tgt_volume volume = { .store = &store, .block_bytes = 512, .blocks = BYTES / 512 };
	struct fab_mr mr = {0};
	struct fab_device device = {0};
	struct fab_conn conn = { .device = &device };
	struct tgt_channel channel = {.store = &store, .volume = &volume, .mr = {&mr}};
	struct tgt_access access = {.channel = &channel, .users = 1, .counts = &counts};
	struct tgt_host_share host = {0};
	struct tgt_share share = {.host = &host, .loop = &loop};
	struct tgt_io_queue io_queue = {.loop = &loop,
					.share = &share,
					.conn = &conn,
					.open = true,
					.requests = requests,
					.tags = COMMANDS,
					.ops = &finding_ops};
	unsigned int turns = 1;

	memset(requests, 0, sizeof(requests));
	zeroed = 0;
	found = &access;
	tgt_work_init(&loop);
	tgt_inflight_init(&channel.ranges, 1);
	channel_begin(&channel);
	loop.max_io_bytes = BYTES;
	loop.now_ns = 1;
	tgt_turns_init(&io_queue.done);
	for (uint16_t tag = 0; tag < COMMANDS; tag++) {
		struct rblk_wire_command command = { .opcode = opcode, .flags = flags,
						     .blocks = rblk_to_le32(BYTES / 512) };

		if (opcode == RBLK_OP_READ)
			command.segment.length = rblk_to_le32(BYTES);
		requests[tag].io_queue = &io_queue;
		requests[tag].tag = tag;
		tgt_request_begin(&requests[tag], &command, NULL, 0, 0);
	}
	assert_int_equal(bytes_done(opcode), TGT_DIRECT_BYTES);
	for (; done_count(&io_queue) < COMMANDS; turns++) {
		uint64_t before = bytes_done(opcode);

		assert_true(turns < 100 * COMMANDS);
		assert_true(tgt_work_has_more(&loop));
		loop.now_ns++;
		assert_true(tgt_work_resume(&loop) > 0);
		assert_true(bytes_done(opcode) - before <= TGT_DIRECT_BYTES);
	}
	assert_int_equal(bytes_done(opcode), COMMANDS * BYTES);
	for (uint16_t tag = 0; tag < COMMANDS; tag++)
		assert_int_equal(requests[tag].status, RBLK_OK);
	tgt_range_locks_detach(&channel.range_locks);
	free(store.info.direct);
	return turns;
}

/* 64 commands that work in memory take more than one turn. */
static void a_turn_does_so_much_in_memory(void **state)
{
	const unsigned int least = COMMANDS * BYTES / TGT_DIRECT_BYTES;

	(void)state;
	assert_int_equal(turns_of_a_message(RBLK_OP_READ, 0), least);
	assert_int_equal(turns_of_a_message(RBLK_OP_WRITE_ZEROES, 0), least);
	/* A checksum takes one more turn after its last piece. */
	assert_true(turns_of_a_message(RBLK_OP_CHECKSUM, 0) >= least);
}

/* Of very many sessions of one host only some get a command in a turn; another host gets its
 * command in the same turn. */
static void sessions_beyond_the_budget_are_few(void **state)
{
	struct tgt_loop loop = {.now_ns = 1};
	struct tgt_host_share hosts[2] = {0};
	struct tgt_share shares[64] = {0}, other = {0};
	unsigned int let = 0;

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(shares); i++) {
		tgt_share_init(&shares[i], &loop, &hosts[0]);
		let += !tgt_share_over_budget(&shares[i], TGT_DIRECT_BYTES / 2);
	}
	assert_int_equal(let, 2 + TGT_DIRECT_EXTRA);
	tgt_share_init(&other, &loop, &hosts[1]);
	assert_false(tgt_share_over_budget(&other, 1));
	assert_true(tgt_share_over_budget(&other, 1));
	loop.now_ns++;
	assert_false(tgt_share_over_budget(&shares[1], 1));
}

/* ABORT ends a command that was put off, because it has not begun. */
static void what_is_put_off_can_be_aborted(void **state)
{
	struct tgt_loop loop = {.now_ns = 1};
	struct tgt_io_queue io_queue = {.loop = &loop, .open = true};
	struct tgt_request request = {
		.io_queue = &io_queue, .opcode = RBLK_OP_WRITE_ZEROES, .state = TGT_REQUEST_RECEIVED};

	(void)state;
	tgt_work_init(&loop);
	tgt_turns_init(&io_queue.done);
	tgt_request_put_off(&request);
	assert_true(tgt_request_end_early(&request, RBLK_E_ABORTED));
	assert_int_equal(tgt_work_resume(&loop), 0);
	assert_int_equal(request.state, TGT_REQUEST_REPLYING);
	assert_int_equal(request.status, RBLK_E_ABORTED);
}

static void no_close(struct tgt_io_queue *io_queue, const char *reason)
{
	fail_msg("the connection was closed: %s", reason);
}

/* A READ with a digest needs memory, also of a volume in memory; when its turn comes, there may be none. */
static void what_is_put_off_may_wait_for_memory(void **state)
{
	static const struct tgt_io_queue_ops ops = {.close = no_close};
	struct tgt_loop loop = {.now_ns = 1, .short_of_memory = true};
	char memory[4096];
	struct tgt_store store = { .ops = &fake_ops, .info.direct = memory };
	struct tgt_volume volume = { .store = &store, .block_bytes = 512, .blocks = 8 };
	struct tgt_channel channel = {.store = &store, .volume = &volume};
	struct tgt_portion portion;
	struct tgt_access access = {.channel = &channel, .portion = &portion, .users = 1, .counts = &counts};
	struct tgt_host_share host = {0};
	struct tgt_share share = {0};
	struct tgt_io_queue io_queue = {.loop = &loop, .share = &share, .open = true, .ops = &ops};
	struct tgt_request request = {.io_queue = &io_queue,
				      .access = &access,
				      .opcode = RBLK_OP_READ,
				      .flags = RBLK_CMD_DIGEST,
				      .blocks = 8,
				      .length = sizeof(memory),
				      .state = TGT_REQUEST_RECEIVED};

	(void)state;
	tgt_work_init(&loop);
	tgt_share_init(&share, &loop, &host);
	tgt_portion_init(&portion, &share);
	loop.pool = tgt_pool_create(memory, sizeof(memory), sizeof(memory));
	tgt_turns_init(&io_queue.done);
	tgt_request_put_off(&request);
	assert_int_equal(tgt_work_resume(&loop), 1);
	assert_int_equal(request.state, TGT_REQUEST_WAITING);
	assert_ptr_equal(TAILQ_FIRST(&portion.waiting), &request);
	assert_true(tgt_request_end_early(&request, RBLK_E_ABORTED));
	assert_int_equal(request.state, TGT_REQUEST_REPLYING);
	tgt_pool_destroy(loop.pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_for_lack_of_room_is_busy),
		cmocka_unit_test(what_waited_and_found_no_room_is_busy),
		cmocka_unit_test(what_was_begun_is_never_busy),
		cmocka_unit_test(each_command_is_counted_once),
		cmocka_unit_test(answers_keep_their_meaning),
		cmocka_unit_test(a_turn_does_so_much_in_memory),
		cmocka_unit_test(sessions_beyond_the_budget_are_few),
		cmocka_unit_test(what_is_put_off_can_be_aborted),
		cmocka_unit_test(what_is_put_off_may_wait_for_memory),
	};

	return cmocka_run_group_tests_name("target request and store", tests, NULL, NULL);
}
