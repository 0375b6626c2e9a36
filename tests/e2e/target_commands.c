/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the commands that the library seldom sends: data with a digest, ABORT, FENCE of queues
 * without a connection, OPEN of a handle that is open, CLOSE with I/O in flight, or of nothing. Method: the bare fabric, one command at a time,
 * against data that was written before.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/sim/crc32c.h"

#define BLOCK 512u
#define BYTES (8 * BLOCK)

static struct e2e_daemon server;
static struct e2e_file disk;

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 4 << 20);
	e2e_daemon_start(&server, "--cache", "buffered", "--memory", "mem=4M", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

static uint32_t crc32c(const char *data, size_t bytes)
{
	return sim_crc32c(0, (const uint8_t *)data, bytes);
}

/* -- DIGEST ------------------------------------------------------------------------------------ */

/* A WRITE of RAW_DATA (or of the capsule) with this digest; its status. */
static uint16_t write_with_digest(struct raw *raw, uint32_t volume, bool capsule, int pattern,
				  uint32_t digest)
{
	uint32_t told = capsule ? BYTES : 0;
	struct rblk_wire_command *command = raw_command(raw, told, 0);

	memset(raw->memory + (capsule ? RAW_SEND : RAW_DATA), pattern, BYTES);
	raw_fill(raw, command, 0, RBLK_OP_WRITE, 1);
	command->flags = (uint8_t)(RBLK_CMD_DIGEST | (capsule ? RBLK_CMD_CAPSULE : 0));
	command->volume = rblk_to_le32(volume);
	command->blocks = rblk_to_le32(BYTES / BLOCK);
	command->digest = rblk_to_le32(digest);
	command->segment.length = rblk_to_le32(BYTES);
	if (!capsule) {
		command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_DATA);
		command->segment.rkey =
			rblk_to_le32(fab_mr_rkey(raw->mr, fab_conn_device(raw->conn)));
	}
	raw_send(raw, told + 64);
	return raw_wait(raw, 1);
}

/* A READ returns `pattern` with the right digest. */
static void assert_reads(struct raw *raw, uint32_t volume, int pattern)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	memset(raw->memory + RAW_DATA, ~pattern, BYTES);
	raw_fill(raw, command, 0, RBLK_OP_READ, 2);
	command->flags = RBLK_CMD_DIGEST;
	command->volume = rblk_to_le32(volume);
	command->blocks = rblk_to_le32(BYTES / BLOCK);
	raw_segment(raw, command, BYTES);
	raw_send(raw, 64);
	assert_int_equal(raw_wait(raw, 2), RBLK_OK);
	for (unsigned int i = 0; i < BYTES; i++)
		assert_int_equal(raw->memory[RAW_DATA + i], (char)pattern);
	assert_int_equal(raw->last[2].flags, RBLK_CPL_DIGEST);
	assert_int_equal(rblk_le32(raw->last[2].digest), crc32c(raw->memory + RAW_DATA, BYTES));
}

static void data_that_does_not_match_its_digest_is_not_stored(void **state)
{
	static const char *const names[] = {"mem", "disk"};
	char expected[BYTES];
	struct raw raw;

	(void)state;
	raw_init(&raw);
	raw.login.features = rblk_to_le32(RBLK_FEATURE_DIGEST);
	assert_true(raw_connect(&raw, server.host));
	assert_int_equal(rblk_le32(raw.accept.features), RBLK_FEATURE_DIGEST);
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t volume = raw_open(&raw, names[i / 2]);
		bool capsule = i % 2;
		int pattern = (int)('a' + i);
		uint32_t digest;

		memset(expected, pattern, BYTES);
		digest = crc32c(expected, BYTES);
		assert_int_equal(write_with_digest(&raw, volume, capsule, pattern, digest),
				 RBLK_OK);
		assert_reads(&raw, volume, pattern);
		assert_int_equal(write_with_digest(&raw, volume, capsule, 'x', digest),
				 RBLK_E_DIGEST);
		assert_reads(&raw, volume, pattern);
	}
	raw_close(&raw);
}

/* -- ABORT ------------------------------------------------------------------------------------- */

/* ABORT of the command with that sequence number; its status. */
static uint64_t abort_command(struct raw *raw, uint32_t sequence)
{
	assert_int_equal(raw_simple_numbers(raw, RBLK_OP_ABORT, 10, sequence, 0), RBLK_OK);
	return rblk_le64(raw->last[10].result);
}

/* The pool holds two. ABORT drops a command that waits for it, but not one that the disk has. */
static void abort_ends_what_has_not_begun(void **state)
{
	struct e2e_daemon slow;
	uint32_t volume, first;
	struct raw raw;

	(void)state;
	e2e_daemon_start(&slow, "--pool-size", "1M", "--fault", "delay=read:1s", "--null",
			 "slow=4M", NULL);
	raw_init(&raw);
	assert_true(raw_connect(&raw, slow.host));
	volume = raw_open(&raw, "slow");
	assert_int_not_equal(volume, 0);
	first = raw.sequence;
	for (uint16_t tag = 1; tag <= 3; tag++)
		raw_io(&raw, RBLK_OP_READ, tag, volume, 0, 1024, 1024 * BLOCK);
	assert_int_equal(abort_command(&raw, first + 2), RBLK_ABORT_DROPPED);
	assert_int_equal(raw_wait(&raw, 3), RBLK_E_ABORTED);
	assert_int_equal(abort_command(&raw, first), RBLK_ABORT_RUNS);
	assert_int_equal(abort_command(&raw, first + 2), RBLK_ABORT_UNKNOWN); /* already answered */
	assert_int_equal(abort_command(&raw, 12345), RBLK_ABORT_UNKNOWN);
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	assert_int_equal(raw_wait(&raw, 2), RBLK_OK);
	raw_close(&raw);
	assert_int_equal(e2e_daemon_stop(&slow), 0);
}

/* -- CLOSE, FENCE ------------------------------------------------------------------------------ */

static void close_is_answered_behind_the_commands_of_the_handle(void **state)
{
	struct e2e_daemon slow;
	uint32_t volume;
	struct raw raw;

	(void)state;
	e2e_daemon_start(&slow, "--fault", "delay=read:300ms", "--null", "slow=4M", NULL);
	raw_init(&raw);
	assert_true(raw_connect(&raw, slow.host));
	volume = raw_open(&raw, "slow");
	raw_io(&raw, RBLK_OP_READ, 1, volume, 0, 8, BYTES);
	raw_close_begin(&raw, 2, volume);
	/* From now on the handle is closed for other commands. */
	raw_io(&raw, RBLK_OP_READ, 3, volume, 0, 8, BYTES);
	assert_int_equal(raw_wait(&raw, 3), RBLK_E_NO_VOLUME);
	assert_int_equal(raw_wait(&raw, 2), RBLK_OK);
	assert_int_not_equal(raw.last[1].sequence, 0); /* the WRITE was answered first */
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	raw_close(&raw);
	assert_int_equal(e2e_daemon_stop(&slow), 0);
}

/* The connection of the first is lost. `clock` has a READ that began before the handle's: it is answered before CLOSE. */
static void close_is_sent_again_while_commands_run(void **state)
{
	struct raw clock, raw, other, again;
	struct e2e_daemon slow;
	uint32_t volume;

	(void)state;
	e2e_daemon_start(&slow, "--fault", "delay=read:1s", "--null", "slow=4M", NULL);
	raw_init(&clock);
	assert_true(raw_connect(&clock, slow.host));
	raw_io(&clock, RBLK_OP_READ, 1, raw_open(&clock, "slow"), 0, 8, BYTES);
	assert_int_equal(raw_simple(&clock, RBLK_OP_PING, 2), RBLK_OK);
	raw_init(&raw);
	raw_init(&other);
	raw.login.queue_count = rblk_to_le16(2);
	other.login = raw.login;
	other.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&raw, slow.host) && raw_connect(&other, slow.host));
	volume = raw_open(&raw, "slow");
	raw_io(&other, RBLK_OP_READ, 1, volume, 0, 8, BYTES);
	assert_int_equal(raw_simple(&other, RBLK_OP_PING, 2), RBLK_OK);
	raw_close_begin(&raw, 2, volume);
	/* While one waits, no other does. */
	assert_int_equal(raw_close_handle(&raw, volume), RBLK_E_BUSY);
	raw_init(&again);
	again.login = raw.login;
	again.login.incarnation = rblk_to_le32(2);
	assert_true(raw_connect(&again, slow.host));
	assert_int_equal(raw_close_handle(&again, volume), RBLK_OK);
	assert_int_equal(raw_simple(&clock, RBLK_OP_PING, 2), RBLK_OK);
	assert_int_not_equal(clock.last[1].sequence, 0);
	raw_close(&again);
	raw_close(&other);
	raw_close(&raw);
	raw_close(&clock);
	assert_int_equal(e2e_daemon_stop(&slow), 0);
}

static uint16_t read_by(struct raw *raw, uint32_t handle)
{
	raw_io(raw, RBLK_OP_READ, 1, handle, 0, 8, BYTES);
	return raw_wait(raw, 1);
}

/* An initiator that has lost the answer sends the same again. */
static void open_and_close_are_done_once(void **state)
{
	const struct rblk_wire_volume *report;
	uint32_t handle = 3 * RBLK_HANDLES_MAX + 5;
	struct raw raw;

	(void)state;
	raw_init(&raw);
	report = (void *)(raw.memory + RAW_DATA);
	assert_true(raw_connect(&raw, server.host));
	assert_int_equal(raw_close_handle(&raw, handle), RBLK_OK);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(raw_open_as(&raw, "mem", handle), RBLK_OK);
		assert_int_equal(rblk_le32(report->handle), handle);
		assert_int_equal(rblk_le64(report->blocks), (4 << 20) / BLOCK);
	}
	/* It stays the volume's, whatever is asked for besides. */
	assert_int_equal(raw_open_as(&raw, "disk", handle), RBLK_E_GONE);
	assert_int_equal(read_by(&raw, handle), RBLK_OK);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(raw_close_handle(&raw, handle), RBLK_OK);
	assert_int_equal(read_by(&raw, handle), RBLK_E_NO_VOLUME);
	assert_int_equal(raw_open_as(&raw, "disk", handle), RBLK_OK);
	assert_int_equal(read_by(&raw, handle), RBLK_OK);
	raw_close(&raw);
}

/* OPEN waits until the commands of the one before are answered, and they are answered well. CLOSE names the slot. */
static void a_slot_has_one_handle(void **state)
{
	uint32_t handle = RBLK_HANDLES_MAX, next = 2 * RBLK_HANDLES_MAX;
	struct e2e_daemon slow;
	struct raw raw;

	(void)state;
	e2e_daemon_start(&slow, "--fault", "delay=read:300ms", "--null", "slow=4M", NULL);
	raw_init(&raw);
	assert_true(raw_connect(&raw, slow.host));
	assert_int_equal(raw_open_as(&raw, "slow", handle), RBLK_OK);
	raw_io(&raw, RBLK_OP_READ, 1, handle, 0, 8, BYTES);
	raw_open_begin(&raw, "slow", RBLK_OPEN_READ_ONLY, next);
	assert_int_equal(raw_wait(&raw, 0), RBLK_OK);
	assert_int_not_equal(raw.last[1].sequence, 0);
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	assert_int_equal(read_by(&raw, handle), RBLK_E_NO_VOLUME);
	assert_int_equal(read_by(&raw, next), RBLK_OK);
	/* The same number waits for its own CLOSE. */
	raw_io(&raw, RBLK_OP_READ, 1, next, 0, 8, BYTES);
	raw_close_begin(&raw, 2, next);
	raw_open_begin(&raw, "slow", 0, next);
	assert_int_equal(raw_wait(&raw, 0), RBLK_OK);
	assert_int_equal(raw_wait(&raw, 2), RBLK_OK);
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	assert_int_equal(read_by(&raw, next), RBLK_OK);
	/* One that was never open, as that of a volume that was to come in place of another one. */
	assert_int_equal(raw_close_handle(&raw, 3 * RBLK_HANDLES_MAX + 1), RBLK_OK);
	assert_int_equal(read_by(&raw, next), RBLK_OK);
	assert_int_equal(raw_close_handle(&raw, 3 * RBLK_HANDLES_MAX), RBLK_OK);
	assert_int_equal(read_by(&raw, next), RBLK_E_NO_VOLUME);
	raw_close(&raw);
	assert_int_equal(e2e_daemon_stop(&slow), 0);
}

static uint16_t fence(struct raw *raw, uint64_t queue, uint32_t incarnation)
{
	return raw_simple_numbers(raw, RBLK_OP_FENCE, 1, queue, incarnation);
}

static void fence_of_nothing_succeeds(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	raw.login.queue_count = rblk_to_le16(2);
	raw.login.incarnation = rblk_to_le32(3);
	assert_true(raw_connect(&raw, server.host));
	assert_int_equal(fence(&raw, 1, 7), RBLK_OK);	   /* never connected */
	assert_int_equal(fence(&raw, 15, 7), RBLK_OK);	   /* beyond the session's queues */
	assert_int_equal(fence(&raw, 0, 2), RBLK_OK);	   /* an older incarnation */
	assert_int_equal(fence(&raw, 0, 3), RBLK_E_INVALID); /* itself */
	raw_close(&raw);
}

/* Each LIST looks at all volumes: of those in one message one is done, and the others may come again. */
static void one_list_at_a_time(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, server.host));
	for (uint16_t i = 0; i < 4; i++) {
		struct rblk_wire_command *command = raw_command(&raw, 0, i);

		raw_fill(&raw, command, i, RBLK_OP_LIST, i);
		command->segment.address = rblk_to_le64((uintptr_t)raw.memory + RAW_DATA + i * 4096u);
		command->segment.rkey = rblk_to_le32(fab_mr_rkey(raw.mr, fab_conn_device(raw.conn)));
		command->segment.length = rblk_to_le32(2 * sizeof(struct rblk_wire_volume));
	}
	raw_send(&raw, 4 * 64);
	assert_int_equal(raw_wait(&raw, 0), RBLK_OK);
	assert_int_equal(rblk_le64(raw.last[0].result), 2ull << 32 | 2);
	for (uint16_t i = 1; i < 4; i++)
		assert_int_equal(raw_wait(&raw, i), RBLK_E_BUSY);
	raw_close(&raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_that_does_not_match_its_digest_is_not_stored),
		cmocka_unit_test(abort_ends_what_has_not_begun),
		cmocka_unit_test(close_is_answered_behind_the_commands_of_the_handle),
		cmocka_unit_test(close_is_sent_again_while_commands_run),
		cmocka_unit_test(open_and_close_are_done_once),
		cmocka_unit_test(a_slot_has_one_handle),
		cmocka_unit_test(fence_of_nothing_succeeds),
		cmocka_unit_test(one_list_at_a_time),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
