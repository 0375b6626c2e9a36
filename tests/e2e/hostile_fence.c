/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: F5: FENCE, and without FENCE of a volume a newer incarnation, is answered only when storage I/O of
 * the old one has ended; FENCE of a volume says BUSY until then, and of another volume that it is done. Method: a store
 * whose writes take long. A write is in flight there when the old connection is fenced. A read after the answer must return
 * that write's data.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
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
	while (!e2e_daemon_log_count(&server, "has lost its client"))
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
	raw_open_begin(&new, "disk", 0, 1);
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

/* -- FENCE of a volume ----------------------------------------------------------------------------- */

static struct e2e_file other;
static char config[64];

static void config_write(bool with_other)
{
	FILE *file = fopen(config, "w");

	assert_non_null(file);
	fprintf(file, "[volume disk]\npath = %s\ncache = buffered\nfault = delay=write:1s\n", disk.path);
	if (with_other)
		fprintf(file, "[volume other]\npath = %s\ncache = buffered\n", other.path);
	assert_int_equal(fclose(file), 0);
}

/* "disk", whose writes take long, and "other", whose do not. */
static int start_two(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 1 << 20);
	e2e_file_create(&other, "other", 1 << 20);
	strcpy(config, "/tmp/rblk-fence-XXXXXX");
	close(mkstemp(config));
	config_write(true);
	e2e_daemon_start(&server, "--config", config, "--reactors", "2", NULL);
	return 0;
}

static int stop_two(void **state)
{
	unlink(config);
	e2e_file_remove(&other);
	return stop(state);
}

/* Two queues of one session: each may have a reactor of its own. A third never comes. */
static void connect_two(struct raw queues[2], uint32_t features)
{
	raw_init(&queues[0]);
	queues[0].login.queue_count = rblk_to_le16(3);
	queues[0].login.features = rblk_to_le32(features);
	assert_true(raw_connect(&queues[0], server.host));
	assert_int_equal(rblk_le32(queues[0].accept.features), features);
	raw_init(&queues[1]);
	queues[1].login = queues[0].login;
	queues[1].login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&queues[1], server.host));
}

static void fence_send(struct raw *raw, uint16_t tag, uint16_t queue, uint32_t volume)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	raw->last[tag].sequence = 0;
	raw_fill(raw, command, 0, RBLK_OP_FENCE, tag);
	command->lba = rblk_to_le64(queue);
	command->argument = rblk_to_le64(1);
	command->volume = rblk_to_le32(volume);
	raw_send(raw, 64);
}

static uint16_t fence_volume(struct raw *raw, uint16_t queue, uint32_t volume)
{
	fence_send(raw, 5, queue, volume);
	return raw_wait(raw, 5);
}

/* `asker` of the two queues fences the other one, which has a write in flight. True: it was, when the first answer came. */
static bool fence_a_volume(uint16_t asker)
{
	struct raw queues[2];
	struct raw *asks = &queues[asker], *loses = &queues[!asker];
	uint32_t volume, calm;
	uint16_t first, status;

	connect_two(queues, RBLK_FEATURE_VOLUME_FENCE);
	volume = raw_open(&queues[0], "disk");
	calm = raw_open(&queues[0], "other");
	assert_true(volume && calm);
	write_begin(loses, volume, 64, 'E' + asker);

	/* What names no volume fences nothing. */
	assert_int_equal(fence_volume(asks, !asker, volume + calm), RBLK_E_NO_VOLUME);
	assert_int_equal(raw_simple(loses, RBLK_OP_PING, 2), RBLK_OK);

	first = status = fence_volume(asks, !asker, volume);
	raw_wait_gone(loses);
	assert_int_equal(fence_volume(asks, !asker, calm), RBLK_OK);
	for (; status != RBLK_OK; status = fence_volume(asks, !asker, volume))
		assert_int_equal(status, RBLK_E_BUSY);
	assert_reads(asks, volume, 64, 'E' + asker);
	raw_close(loses);
	raw_close(asks);
	return first == RBLK_E_BUSY;
}

static void fence_of_a_volume_says_busy(void **state)
{
	unsigned int rounds;

	(void)state;
	for (uint16_t asker = 0; asker < 2; asker++) {
		/* A machine that stands still for longer than the write takes sees no BUSY. */
		for (rounds = 0; !fence_a_volume(asker); rounds++)
			assert_true(rounds < 5);
	}
}

/* Who asks may end before the answer: the write goes on, and those who come wait for it. */
static void who_fences_a_volume_may_end(void **state)
{
	struct raw queues[2], new;
	uint32_t volume;

	(void)state;
	for (uint16_t asker = 0; asker < 2; asker++) {
		connect_two(queues, RBLK_FEATURE_VOLUME_FENCE);
		volume = raw_open(&queues[0], "disk");
		write_begin(&queues[!asker], volume, LEFT, 'G' + asker);
		fence_send(&queues[asker], 5, !asker, volume);
		raw_close(&queues[asker]);
		raw_close(&queues[!asker]);

		raw_init(&new);
		assert_true(raw_connect(&new, server.host));
		volume = raw_open(&new, "disk");
		assert_int_not_equal(volume, 0);
		assert_reads(&new, volume, LEFT, 'G' + asker);
		raw_close(&new);
	}
}

static void fence_of_a_volume_that_is_gone(void **state)
{
	struct raw queues[2];
	uint32_t volume;
	uint16_t status;

	(void)state;
	connect_two(queues, RBLK_FEATURE_VOLUME_FENCE);
	volume = raw_open(&queues[0], "other");
	assert_int_not_equal(volume, 0);
	config_write(false);
	kill(server.pid, SIGHUP);
	do
		status = fence_volume(&queues[0], 2, volume);
	while (status == RBLK_OK || status == RBLK_E_BUSY);
	raw_io(&queues[0], RBLK_OP_READ, 3, volume, 0, 1, BLOCK);
	assert_int_equal(raw_wait(&queues[0], 3), RBLK_E_GONE);
	assert_int_equal(fence_volume(&queues[0], 1, volume), RBLK_E_GONE);
	assert_int_equal(raw_simple(&queues[1], RBLK_OP_PING, 2), RBLK_OK);
	raw_close(&queues[1]);
	raw_close(&queues[0]);
}

static void no_volume_without_the_feature(void **state)
{
	struct raw queues[2];

	(void)state;
	connect_two(queues, 0);
	fence_send(&queues[0], 5, 1, raw_open(&queues[0], "disk"));
	raw_wait_gone(&queues[0]);
	assert_int_equal(queues[0].last[5].sequence, 0);
	e2e_daemon_log_wait(&server, "the volume handle is missing, or present where none belongs", 1);
	assert_int_equal(raw_simple(&queues[1], RBLK_OP_PING, 2), RBLK_OK);
	raw_close(&queues[0]);
	raw_close(&queues[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
#define TEST_TWO(name) cmocka_unit_test_setup_teardown(name, start_two, stop_two)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(login_waits_for_storage),
		TEST(fence_waits_for_storage),
		TEST(open_waits_for_what_an_ended_connection_left),
		TEST(an_open_that_waits_may_end),
		TEST_TWO(fence_of_a_volume_says_busy),
		TEST_TWO(who_fences_a_volume_may_end),
		TEST_TWO(fence_of_a_volume_that_is_gone),
		TEST_TWO(no_volume_without_the_feature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
