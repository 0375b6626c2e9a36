/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: F5: a newer incarnation, or FENCE on another queue, is answered only when storage I/O of
 * the old one has ended. Method: a store whose writes take long. A write is in flight there when
 * the old connection is fenced. A read after the answer must return that write's data.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define BLOCK 512u
#define BYTES 4096u
#define LEFT 128u /* where a write is in flight whose connection has ended */

static struct e2e_daemon server;
static struct e2e_file disk;

/* Each test has its own daemon, so its log has no connections of other tests. */
static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 1 << 20);
	e2e_daemon_start(&server, "--fault", "delay=write:400ms", "--cache", "buffered",
			 disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

/* Begins a write of `pattern`, with its data in the capsule. The target answers the PING after
 * it when the store has the write. */
static void write_begin(struct raw *raw, uint32_t volume, uint64_t lba, int pattern)
{
	struct rblk_wire_command *command = raw_command(raw, BYTES, 0);

	memset(raw->memory + RAW_SEND, pattern, BYTES);
	raw_fill(raw, command, 0, RBLK_OP_WRITE, 1);
	command->flags = RBLK_CMD_CAPSULE;
	command->volume = rblk_to_le32(volume);
	command->lba = rblk_to_le64(lba);
	command->blocks = rblk_to_le32(BYTES / BLOCK);
	command->segment.length = rblk_to_le32(BYTES);
	raw_send(raw, BYTES + 64);
	assert_int_equal(raw_simple(raw, RBLK_OP_PING, 2), RBLK_OK);
	assert_int_equal(raw->last[1].sequence, 0); /* still being written */
}

static void assert_reads(struct raw *raw, uint32_t volume, uint64_t lba, int pattern)
{
	memset(raw->memory + RAW_DATA, 0, BYTES);
	raw_io(raw, RBLK_OP_READ, 3, volume, lba, BYTES / BLOCK, BYTES);
	assert_int_equal(raw_wait(raw, 3), RBLK_OK);
	for (unsigned int i = 0; i < BYTES; i++)
		assert_int_equal(raw->memory[RAW_DATA + i], (char)pattern);
}

static void login_waits_for_storage(void **state)
{
	struct raw old, new;
	uint32_t volume;

	(void)state;
	raw_init(&old);
	assert_true(raw_connect(&old, server.host));
	volume = raw_open(&old, "disk");
	write_begin(&old, volume, 0, 'A');
	raw_init(&new);
	new.login = old.login;
	new.login.incarnation = rblk_to_le32(2);
	new.login.fence_incarnation = rblk_to_le32(1);
	raw_connect_begin(&new, server.host);
	while (!new.established && !new.rejected) {
		raw_step(&new);
		raw_step(&old);
	}
	assert_true(new.established);
	assert_true(old.gone);
	assert_reads(&new, volume, 0, 'A');
	raw_close(&old);
	raw_close(&new);
}

/* Connects `new`. Meanwhile another session begins a write at LEFT and loses its connection. */
static void connect_beside_one_that_ends(struct raw *new, int pattern)
{
	struct raw old;

	raw_init(new);
	assert_true(raw_connect(new, server.host));
	raw_init(&old);
	assert_true(raw_connect(&old, server.host));
	write_begin(&old, raw_open(&old, "disk"), LEFT, pattern);
	raw_close(&old);
	while (!e2e_daemon_log_count(&server, "closed: "))
		assert_int_equal(raw_simple(new, RBLK_OP_PING, 0), RBLK_OK);
}

/* An initiator that is started again has a new session. Its OPEN waits for the writes of the
 * connection that ended. */
static void open_waits_for_what_an_ended_connection_left(void **state)
{
	struct raw new;
	uint32_t volume;

	(void)state;
	connect_beside_one_that_ends(&new, 'C');
	volume = raw_open(&new, "disk");
	assert_int_not_equal(volume, 0);
	assert_reads(&new, volume, LEFT, 'C');
	raw_close(&new);
}

/* The session that waits may end, too. */
static void an_open_that_waits_may_end(void **state)
{
	struct raw new;
	uint32_t volume;

	(void)state;
	connect_beside_one_that_ends(&new, 'D');
	raw_open_begin(&new, "disk", 0);
	assert_int_equal(raw_simple(&new, RBLK_OP_PING, 1), RBLK_OK);
	raw_close(&new);

	raw_init(&new);
	assert_true(raw_connect(&new, server.host));
	volume = raw_open(&new, "disk");
	assert_int_not_equal(volume, 0);
	assert_reads(&new, volume, LEFT, 'D');
	raw_close(&new);
}

static void fence_waits_for_storage(void **state)
{
	struct rblk_wire_command *command;
	struct raw first, second;
	uint32_t volume;

	(void)state;
	raw_init(&first);
	first.login.queue_count = rblk_to_le16(2);
	assert_true(raw_connect(&first, server.host));
	volume = raw_open(&first, "disk");
	raw_init(&second);
	second.login = first.login;
	second.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&second, server.host));
	write_begin(&second, volume, 64, 'B');

	command = raw_command(&first, 0, 0);
	raw_fill(&first, command, 0, RBLK_OP_FENCE, 5);
	command->lba = rblk_to_le64(1);
	command->argument = rblk_to_le64(1);
	raw_send(&first, 64);
	while (!first.last[5].sequence) {
		raw_step(&second);
		raw_step(&first);
	}
	assert_int_equal(raw_wait(&first, 5), RBLK_OK);
	assert_true(second.gone);
	assert_reads(&first, volume, 64, 'B');
	raw_close(&second);

	/* A fenced incarnation cannot log in again. */
	raw_init(&second);
	second.login = first.login;
	second.login.queue_index = rblk_to_le16(1);
	assert_false(raw_connect(&second, server.host));
	assert_int_equal(rblk_le16(second.reject.reason), RBLK_REJECT_STALE_INCARNATION);
	raw_close(&second);
	raw_close(&first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(login_waits_for_storage),
		TEST(fence_waits_for_storage),
		TEST(open_waits_for_what_an_ended_connection_left),
		TEST(an_open_that_waits_may_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
