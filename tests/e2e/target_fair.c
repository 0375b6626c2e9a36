/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: one initiator cannot take what all share, and many sessions of one host take no more than
 * one session. Method: initiators that ask for more than the target has and move none of the data,
 * next to one that reads a little and checks each answer. Another host is another address of the
 * loopback device (source_address.h).
 */
#include "tests/unit/unit.h"

#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"
#include "tests/e2e/source_address.h"

#define IO_BLOCKS 1024u /* 512 KiB */
#define GREEDY 64u /* 32 MiB in one message: twice the pool, and more than sockets hold */
#define CHECKSUMS 128u
#define SMALL_READS 200u
#define SESSIONS 40u /* each holds one block: more than the pool has */
#define WRITES 4u
#define DISK_BYTES (8ull << 30) /* sparse: a checksum of it takes long */

static struct e2e_daemon server;
static struct e2e_file disk;

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", DISK_BYTES);
	e2e_daemon_start(&server, "--reactors", "1", "--pool-size", "16M", "--max-io", "512K",
			 "--credits", "256", "--cache", "buffered", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

static uint32_t connect_with(struct raw *raw, uint16_t credits)
{
	uint32_t volume;

	raw_init(raw);
	raw->login.credits = rblk_to_le16(credits);
	assert_true(raw_connect(raw, server.host));
	volume = raw_open(raw, "disk");
	assert_int_not_equal(volume, 0);
	return volume;
}

/* Each one succeeds at the first try: BUSY fails the test. */
static void small_reads_succeed(void)
{
	struct raw raw;
	uint32_t volume = connect_with(&raw, 8);

	for (unsigned int i = 0; i < SMALL_READS; i++) {
		raw_io(&raw, RBLK_OP_READ, (uint16_t)(i % 8), volume, i * 8, 8, 4096);
		assert_int_equal(raw_wait(&raw, (uint16_t)(i % 8)), RBLK_OK);
	}
	raw_close(&raw);
}

/* Sends one message of READs or WRITEs. The connection is not stepped afterwards, so it moves no
 * data. */
static void ask_without_end(struct raw *raw, uint32_t volume, uint8_t opcode, uint16_t count)
{
	for (uint16_t tag = 0; tag < count; tag++) {
		struct rblk_wire_command *command = raw_command(raw, 0, tag);

		raw_fill(raw, command, tag, opcode, tag);
		command->volume = rblk_to_le32(volume);
		command->blocks = rblk_to_le32(IO_BLOCKS);
		raw_segment(raw, command, IO_BLOCKS * 512);
	}
	raw_send(raw, count * sizeof(struct rblk_wire_command));
}

static void reads_that_are_not_taken_leave_memory_for_others(void **state)
{
	struct raw greedy;
	uint32_t volume = connect_with(&greedy, CHECKSUMS);

	(void)state;
	ask_without_end(&greedy, volume, RBLK_OP_READ, GREEDY);
	small_reads_succeed();
	/* The target still serves it: its reads are answered when it continues. */
	for (uint16_t tag = 0; tag < GREEDY; tag++) {
		uint16_t status = raw_wait(&greedy, tag);

		assert_true(status == RBLK_OK || status == RBLK_E_BUSY);
	}
	raw_close(&greedy);
}

static void checksums_of_whole_volumes_leave_memory_for_others(void **state)
{
	struct raw greedy;
	uint32_t volume = connect_with(&greedy, CHECKSUMS);

	(void)state;
	for (uint16_t tag = 0; tag < CHECKSUMS; tag++) {
		struct rblk_wire_command *command = raw_command(&greedy, 0, 0);

		raw_fill(&greedy, command, 0, RBLK_OP_CHECKSUM, tag);
		command->volume = rblk_to_le32(volume);
		command->blocks = rblk_to_le32((uint32_t)(DISK_BYTES / 512));
		raw_send(&greedy, sizeof(*command));
	}
	small_reads_succeed();
	raw_close(&greedy);
}

/* A session whose WRITEs hold memory for data that it does not let the target read. */
static void write_without_end(struct raw *raw)
{
	ask_without_end(raw, connect_with(raw, 2 * WRITES), RBLK_OP_WRITE, WRITES);
}

static void many_sessions_of_one_host_leave_memory_for_others(void **state)
{
	static struct raw greedy[SESSIONS];

	(void)state;
	source_address = "127.0.0.2";
	for (unsigned int i = 0; i < SESSIONS; i++)
		write_without_end(&greedy[i]);
	source_address = NULL;
	small_reads_succeed();
	for (unsigned int i = 0; i < SESSIONS; i++)
		raw_close(&greedy[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_that_are_not_taken_leave_memory_for_others),
		cmocka_unit_test(checksums_of_whole_volumes_leave_memory_for_others),
		cmocka_unit_test(many_sessions_of_one_host_leave_memory_for_others),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
