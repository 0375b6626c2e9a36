/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a store answers becomes the status that says so, and BUSY ("nothing done, send it
 * again") only if the store has refused to begin. Method: a WRITE whose data is here, and a store
 * that answers at once or later with what it is told to.
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

static int fake_submit(struct tgt_port *port, struct tgt_io *io)
{
	return at_once;
}

static const struct tgt_store_ops fake_ops = { .kind = "fake", .submit = fake_submit };

static struct tgt_access *found;

static struct tgt_access *fake_find(struct tgt_lane *lane, uint32_t handle, enum rblk_status *status)
{
	return found;
}

static const struct tgt_lane_ops finding_ops = { .find = fake_find };

/* The status of a WRITE; `later` is what the store says in the end, if not at once. */
static enum rblk_status write_status(int now, int later)
{
	struct tgt_turn turn = {0};
	struct tgt_store store = { .ops = &fake_ops };
	struct tgt_volume volume = { .store = &store, .block_bytes = 512 };
	struct tgt_port port = { .store = &store, .volume = &volume };
	struct tgt_access access = { .port = &port, .users = 1 };
	struct tgt_lane lane = { .turn = &turn, .open = true };
	struct tgt_request request = { .lane = &lane, .access = &access, .blocks = 8 };

	tgt_work_init(&turn);
	TAILQ_INIT(&lane.done);
	request.opcode = RBLK_OP_WRITE;
	request.state = TGT_REQUEST_DATA_IN;
	tgt_window_init(&port.transfers, 1);
	at_once = now;
	tgt_request_data_in(&request);
	if (!now) {
		assert_int_equal(request.state, TGT_REQUEST_STORING);
		request.io.done(&request.io, later);
	}
	assert_int_equal(request.state, TGT_REQUEST_REPLYING);
	assert_ptr_equal(TAILQ_FIRST(&lane.done), &request);
	return request.status;
}

/* The status of a WRITE that the volume lets in after another one, whose end the store then answers with `late`. */
static enum rblk_status write_status_late(int late)
{
	struct tgt_turn turn = {0};
	struct tgt_store store = { .ops = &fake_ops };
	struct tgt_volume volume = { .store = &store, .block_bytes = 512 };
	struct tgt_port port = { .store = &store, .volume = &volume };
	struct tgt_access access = { .port = &port, .users = 2 };
	struct tgt_lane lane = { .turn = &turn, .open = true };
	struct tgt_request requests[2];

	tgt_work_init(&turn);
	TAILQ_INIT(&lane.done);
	tgt_window_init(&port.transfers, 1);
	at_once = 0;
	for (int i = 0; i < 2; i++) {
		requests[i] = (struct tgt_request){ .lane = &lane, .access = &access, .blocks = 8 };
		requests[i].opcode = RBLK_OP_WRITE;
		requests[i].state = TGT_REQUEST_DATA_IN;
		tgt_request_data_in(&requests[i]);
	}
	at_once = late;
	requests[0].io.done(&requests[0].io, 0);
	assert_int_equal(requests[0].status, RBLK_OK);
	assert_int_equal(requests[1].state, TGT_REQUEST_REPLYING);
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

/* It waited for another's end, and then the store had no room: nothing of it was done. */
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

/* A message of 64 READs of a memory volume is not one turn's work. */
static void a_turn_does_so_much_of_direct_reads(void **state)
{
	enum { READS = 64, BYTES = 256 << 10 };
	static struct tgt_request requests[READS];
	struct tgt_turn turn = {0};
	struct tgt_store store = { .ops = &fake_ops, .info.direct = calloc(1, BYTES) };
	struct tgt_volume volume = { .store = &store, .block_bytes = 512, .blocks = BYTES / 512 };
	struct fab_mr mr = {0};
	struct fab_device device = {0};
	struct fab_conn conn = { .device = &device };
	struct tgt_port port = { .store = &store, .volume = &volume, .mr = { &mr } };
	struct tgt_access access = { .port = &port, .users = 1 };
	struct tgt_host_share host = {0};
	struct tgt_share share = { .host = &host };
	struct tgt_lane lane = { .turn = &turn, .share = &share, .conn = &conn, .open = true,
				 .requests = requests, .tags = READS };
	unsigned int turns = 0, done = 0;

	(void)state;
	found = &access;
	lane.ops = &finding_ops;
	tgt_work_init(&turn);
	turn.max_io_bytes = BYTES;
	turn.now_ns = 1;
	TAILQ_INIT(&lane.done);
	for (uint16_t tag = 0; tag < READS; tag++) {
		struct rblk_wire_command command = { .opcode = RBLK_OP_READ,
						     .flags = RBLK_CMD_DIGEST,
						     .blocks = rblk_to_le32(BYTES / 512),
						     .segment.length = rblk_to_le32(BYTES) };

		requests[tag].lane = &lane;
		requests[tag].tag = tag;
		tgt_request_begin(&requests[tag], &command, NULL, 0, 0);
	}
	assert_int_equal(lane.done_count, TGT_DIRECT_BYTES / BYTES);
	while (lane.done_count < READS) {
		assert_true(tgt_work_has_more(&turn));
		done = lane.done_count;
		assert_true(tgt_work_resume(&turn) > 0);
		assert_true(lane.done_count - done <= TGT_DIRECT_BYTES / BYTES);
		turns++;
	}
	assert_int_equal(turns, READS * BYTES / TGT_DIRECT_BYTES - 1);
	for (uint16_t tag = 0; tag < READS; tag++)
		assert_int_equal(requests[tag].state, TGT_REQUEST_DATA_OUT);
	free(store.info.direct);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_for_lack_of_room_is_busy),
		cmocka_unit_test(what_waited_and_found_no_room_is_busy),
		cmocka_unit_test(what_was_begun_is_never_busy),
		cmocka_unit_test(answers_keep_their_meaning),
		cmocka_unit_test(a_turn_does_so_much_of_direct_reads),
	};

	return cmocka_run_group_tests_name("target request and store", tests, NULL, NULL);
}
