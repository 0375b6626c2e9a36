/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what rblkd reports as a hole reads as zeroes, and it never reports acknowledged data as a
 * hole; memory is all data; lists and the work of one session are bounded. Method: a file with more
 * pieces than fit into one report, read with the library and compared with what was written; and
 * the bare fabric for what the library does not do.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/e2e/session.h"

#define PIECE (64u << 10) /* large enough for a hole on every file system */
#define PIECES 1024u      /* every other one is written */
#define VOLUME_BYTES ((uint64_t)PIECE * PIECES)

static struct e2e_daemon server, slow;
static struct e2e_file disk, slow_disk;

static int start(void **state)
{
	e2e_file_create(&disk, "disk", VOLUME_BYTES);
	e2e_file_create(&slow_disk, "disk", 1 << 20);
	e2e_daemon_start(&server, "--cache", "buffered", "--memory", "mem=4M", disk.volume, NULL);
	/* Each reactor has its own limit per session. */
	e2e_daemon_start(&slow, "--cache", "buffered", "--fault", "delay=extents:500ms",
			 "--reactors", "1", slow_disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	int status = e2e_daemon_stop(&server) | e2e_daemon_stop(&slow);

	e2e_file_remove(&disk);
	e2e_file_remove(&slow_disk);
	return status;
}

/* -- with the library -------------------------------------------------------------------------- */

static struct rblk_volume *open_volume(const char *name)
{
	struct rblk_session *session = e2e_session_open(e2e_daemon_uri(&server, name), NULL);
	struct rblk_volume *volume;

	volume = e2e_volume_open(session, NULL, 0);
	assert_true(rblk_volume_info(volume)->can_extents);
	return volume;
}

/* Walks the volume and sets `hole` for each piece that was reported as one. Returns the number
 * of reports. */
static unsigned int walk(struct rblk_volume *volume, bool hole[PIECES], unsigned int max)
{
	struct rblk_extent *extents = calloc(max, sizeof(*extents));
	unsigned int reports = 0;
	uint64_t offset = 0;

	while (offset < VOLUME_BYTES) {
		int count = rblk_get_extents(volume, VOLUME_BYTES - offset, offset, extents, max);

		if (count < 1)
			fail_msg("%d: %s", count, rblk_session_error(rblk_volume_session(volume)));
		reports++;
		for (int i = 0; i < count; i++) {
			bool is_hole = extents[i].flags & RBLK_EXTENT_IS_ZERO;

			assert_int_equal(extents[i].offset, offset);
			assert_int_equal(extents[i].flags & RBLK_EXTENT_IS_HOLE ? 1 : 0, is_hole);
			for (; extents[i].bytes; extents[i].bytes -= PIECE, offset += PIECE) {
				assert_true(extents[i].bytes >= PIECE);
				hole[offset / PIECE] = is_hole;
			}
		}
	}
	free(extents);
	return reports;
}

static void what_is_written_is_no_hole(void **state)
{
	struct rblk_volume *volume = open_volume("disk");
	struct rblk_session *session = rblk_volume_session(volume);
	char *data = rblk_buffer_alloc(session, PIECE);
	bool hole[PIECES];

	assert_non_null(data);
	assert_int_equal(walk(volume, hole, 256), 1);
	for (unsigned int i = 0; i < PIECES; i++)
		assert_true(hole[i]);
	memset(data, 'x', PIECE);
	for (unsigned int i = 1; i < PIECES; i += 2)
		assert_int_equal(rblk_pwrite(volume, data, PIECE, (uint64_t)i * PIECE, 0), 0);
	/* More pieces than one report has, and then one in each. */
	assert_true(walk(volume, hole, 256) >= PIECES / 256);
	for (unsigned int i = 0; i < PIECES; i++)
		assert_int_equal(hole[i], i % 2 == 0);
	assert_int_equal(walk(volume, hole, 1), PIECES);
	for (unsigned int i = 0; i < PIECES; i++)
		assert_int_equal(hole[i], i % 2 == 0);
	rblk_session_close(session);
}

static void memory_is_all_data(void **state)
{
	struct rblk_volume *volume = open_volume("mem");
	struct rblk_extent extents[4];

	assert_int_equal(rblk_get_extents(volume, 4 << 20, 0, extents, 4), 1);
	assert_int_equal(extents[0].offset, 0);
	assert_int_equal(extents[0].bytes, 4 << 20);
	assert_int_equal(extents[0].flags, 0);
	rblk_session_close(rblk_volume_session(volume));
}

/* -- with the bare fabric ---------------------------------------------------------------------- */

static void put_extents(struct raw *raw, uint32_t handle, unsigned int n, uint16_t tag,
			uint32_t blocks)
{
	struct rblk_wire_command *command = raw_command(raw, 0, n);

	raw_fill(raw, command, n, RBLK_OP_EXTENTS, tag);
	command->volume = rblk_to_le32(handle);
	command->blocks = rblk_to_le32(blocks);
	command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_DATA + tag * 4096u);
	command->segment.rkey = rblk_to_le32(fab_mr_rkey(raw->mr, fab_conn_device(raw->conn)));
	command->segment.length = rblk_to_le32(4096);
}

static void connect_raw(struct raw *raw, const char *host)
{
	raw_init(raw);
	raw->login.features = rblk_to_le32(RBLK_FEATURE_EXTENTS);
	assert_true(raw_connect(raw, host));
	assert_int_equal(rblk_le32(raw->accept.features), RBLK_FEATURE_EXTENTS);
}

static void one_session_has_four_at_a_time(void **state)
{
	unsigned int busy = 0;
	struct raw raw;
	uint32_t handle;

	connect_raw(&raw, slow.host);
	handle = raw_open(&raw, "disk");
	assert_int_not_equal(handle, 0);
	for (uint16_t tag = 1; tag <= 6; tag++)
		put_extents(&raw, handle, tag - 1u, tag, 2048);
	raw_send(&raw, 6 * 64);
	for (uint16_t tag = 1; tag <= 6; tag++) {
		uint16_t status = raw_wait(&raw, tag);

		busy += status == RBLK_E_BUSY;
		assert_true(status == RBLK_OK || status == RBLK_E_BUSY);
	}
	assert_int_equal(busy, 2);
	/* After they have ended, four are allowed again. */
	for (uint16_t tag = 1; tag <= 4; tag++)
		put_extents(&raw, handle, tag - 1u, tag, 2048);
	raw_send(&raw, 4 * 64);
	for (uint16_t tag = 1; tag <= 4; tag++)
		assert_int_equal(raw_wait(&raw, tag), RBLK_OK);
	raw_close(&raw);
}

/* Sends EXTENTS with the tags 1 to `count`. */
static void send_extents(struct raw *raw, uint32_t handle, uint16_t count)
{
	for (uint16_t tag = 1; tag <= count; tag++)
		put_extents(raw, handle, tag - 1u, tag, 2048);
	raw_send(raw, count * 64u);
}

static unsigned int count_busy(struct raw *raw, uint16_t count)
{
	unsigned int busy = 0;

	for (uint16_t tag = 1; tag <= count; tag++)
		busy += raw_wait(raw, tag) == RBLK_E_BUSY;
	return busy;
}

/* On a very slow machine the first ones have ended before the others come: then try again. */
static void queues_of_a_session_have_four_together(void **state)
{
	struct raw queue_0, queue_1;
	unsigned int busy = 0;
	uint32_t handle;

	raw_init(&queue_0);
	queue_0.login.features = rblk_to_le32(RBLK_FEATURE_EXTENTS);
	queue_0.login.queue_count = rblk_to_le16(2);
	assert_true(raw_connect(&queue_0, slow.host));
	raw_init(&queue_1);
	queue_1.login = queue_0.login;
	queue_1.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&queue_1, slow.host));
	handle = raw_open(&queue_0, "disk");
	for (int tries = 0; tries < 50 && busy < 4; tries++) {
		send_extents(&queue_0, handle, 4);
		/* All have arrived, and begin in the order of the messages. */
		assert_int_equal(raw_simple(&queue_0, RBLK_OP_PING, 5), RBLK_OK);
		send_extents(&queue_1, handle, 4);
		busy = count_busy(&queue_1, 4);
		assert_int_equal(count_busy(&queue_0, 4), 0);
	}
	assert_int_equal(busy, 4);
	raw_close(&queue_1);
	raw_close(&queue_0);
}

/* ABORT of the commands with these tags, the last ones that were sent. Returns how many it ended. */
static unsigned int abort_last(struct raw *raw, unsigned int count)
{
	uint32_t sequence = raw->sequence - count;
	unsigned int aborted = 0;

	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(raw_simple_numbers(raw, RBLK_OP_ABORT, 5, sequence + i, 0),
				 RBLK_OK);
		aborted += rblk_le64(raw->last[5].result) == 1;
	}
	return aborted;
}

/* Of four, two wait for the store. ABORT ends these two, and then two others are allowed. */
static void what_is_aborted_counts_no_more(void **state)
{
	unsigned int aborted = 0;
	struct raw raw;
	uint32_t handle;

	connect_raw(&raw, slow.host);
	handle = raw_open(&raw, "disk");
	for (int tries = 0; tries < 50 && aborted < 4; tries++) {
		send_extents(&raw, handle, 4);
		aborted += abort_last(&raw, 4);
		assert_int_equal(count_busy(&raw, 4), 0);
	}
	assert_true(aborted >= 4);
	send_extents(&raw, handle, 4);
	assert_int_equal(count_busy(&raw, 4), 0);
	raw_close(&raw);
}

/* The store has some of the commands when the connection ends. The daemon waits for them and
 * exits cleanly. */
static void a_peer_that_leaves_costs_nothing(void **state)
{
	for (int i = 0; i < 3; i++) {
		struct raw raw;
		uint32_t handle;

		connect_raw(&raw, slow.host);
		handle = raw_open(&raw, "disk");
		for (uint16_t tag = 1; tag <= 4; tag++)
			put_extents(&raw, handle, tag - 1u, tag, 2048);
		raw_send(&raw, 4 * 64);
		raw_close(&raw);
	}
}

static void ranges_are_checked(void **state)
{
	uint32_t blocks = VOLUME_BYTES / 512;
	struct raw raw;
	uint32_t handle;

	connect_raw(&raw, server.host);
	handle = raw_open(&raw, "disk");
	put_extents(&raw, handle, 0, 1, blocks);
	raw_send(&raw, 64);
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	put_extents(&raw, handle, 0, 2, blocks + 1);
	raw_send(&raw, 64);
	assert_int_equal(raw_wait(&raw, 2), RBLK_E_RANGE);
	put_extents(&raw, handle + 1, 0, 3, 1);
	raw_send(&raw, 64);
	assert_int_equal(raw_wait(&raw, 3), RBLK_E_NO_VOLUME);
	raw_close(&raw);
}

/* The rest of the report, after its extents, contains no other data. */
static void reports_are_zero_behind_their_end(void **state)
{
	struct raw raw;
	uint32_t handle;

	connect_raw(&raw, server.host);
	handle = raw_open(&raw, "mem");
	memset(raw.memory + RAW_DATA + 4096, 0xa5, 4096);
	put_extents(&raw, handle, 0, 1, 100);
	raw_send(&raw, 64);
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	assert_int_equal(rblk_le64(raw.last[1].result), 1);
	for (unsigned int i = sizeof(struct rblk_wire_extent); i < 4096; i++)
		assert_int_equal(raw.memory[RAW_DATA + 4096 + i], 0);
	raw_close(&raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_no_hole),
		cmocka_unit_test(memory_is_all_data),
		cmocka_unit_test(one_session_has_four_at_a_time),
		cmocka_unit_test(queues_of_a_session_have_four_together),
		cmocka_unit_test(what_is_aborted_counts_no_more),
		cmocka_unit_test(a_peer_that_leaves_costs_nothing),
		cmocka_unit_test(ranges_are_checked),
		cmocka_unit_test(reports_are_zero_behind_their_end),
	};

	return cmocka_run_group_tests_name("target extents", tests, start, stop);
}
