/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the queues of a session are on all reactors, and still are one session: handles, FENCE,
 * CLOSE, events, logins and the end of the session apply to all of them. Method: a target of
 * several reactors whose log says where a queue is, and a raw initiator.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/rblk.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define QUEUES 4u
#define BLOCK 512u

static struct e2e_daemon server;
static struct raw queues[QUEUES];

static int stop(void **state)
{
	(void)state;
	return e2e_daemon_stop(&server);
}

static void serve(const char *fault)
{
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "2", "--log-level", "debug",
			 fault ? "--fault" : NULL, fault, NULL);
}

/* Queue `index` of the session that queue 0 has begun. */
static bool join(unsigned int index, uint32_t incarnation)
{
	struct raw *raw = &queues[index];

	raw_init(raw);
	raw->login = queues[0].login;
	raw->login.queue_index = rblk_to_le16((uint16_t)index);
	raw->login.incarnation = rblk_to_le32(incarnation);
	return raw_connect(raw, server.host);
}

static uint32_t open_session(void)
{
	uint32_t handle;

	raw_init(&queues[0]);
	queues[0].login.queue_count = rblk_to_le16(QUEUES);
	assert_true(raw_connect(&queues[0], server.host));
	handle = raw_open(&queues[0], "mem");
	assert_int_not_equal(handle, 0);
	for (unsigned int i = 1; i < QUEUES; i++)
		assert_true(join(i, 1));
	return handle;
}

static void close_session(void)
{
	for (unsigned int i = 0; i < QUEUES; i++)
		raw_close(&queues[i]);
}

/* Waits for the answer on one queue and steps all of them: one queue may have to wait for
 * another at the target. */
static uint16_t wait_all(unsigned int queue, uint16_t tag)
{
	while (!queues[queue].last[tag].sequence && !queues[queue].gone) {
		for (unsigned int i = 0; i < QUEUES; i++)
			if (queues[i].fab && !queues[i].gone)
				raw_poll(&queues[i]);
		raw_step(&queues[queue]);
	}
	return raw_wait(&queues[queue], tag);
}

static void close_handle(uint32_t handle)
{
	raw_close_begin(&queues[0], 1, handle);
	assert_int_equal(wait_all(0, 1), RBLK_OK);
}

/* BUSY: the memory is still being registered with the queue's reactor. */
static uint16_t io(unsigned int queue, uint8_t opcode, uint32_t handle, uint64_t lba)
{
	uint16_t status;

	do {
		raw_io(&queues[queue], opcode, 2, handle, lba, 1, BLOCK);
		status = wait_all(queue, 2);
	} while (status == RBLK_E_BUSY);
	return status;
}

/* Two queues on each: the log has lines "on reactor N". */
static void all_reactors_are_used(void **state)
{
	uint32_t handle;

	(void)state;
	serve(NULL);
	handle = open_session();
	e2e_daemon_log_wait(&server, "on reactor 0", 2);
	e2e_daemon_log_wait(&server, "on reactor 1", 2);
	/* All queues read what one of them writes. */
	for (unsigned int i = 0; i < QUEUES; i++) {
		char *data = queues[i].memory + RAW_DATA;

		memset(data, 'a' + (int)i, BLOCK);
		assert_int_equal(io(i, RBLK_OP_WRITE, handle, i), RBLK_OK);
	}
	for (unsigned int i = 0; i < QUEUES; i++) {
		char *data = queues[i].memory + RAW_DATA;
		unsigned int next = (i + 1) % QUEUES;

		assert_int_equal(io(i, RBLK_OP_READ, handle, next), RBLK_OK);
		assert_int_equal(data[0], 'a' + (int)next);
		assert_int_equal(data[BLOCK - 1], 'a' + (int)next);
	}
	/* With nothing open, the session ends with its last connection. */
	close_handle(handle);
	close_session();
	/* The session's one line counts the commands of all its connections. */
	e2e_daemon_log_wait(&server, " commands, 2 KiB read, 2 KiB written", 1);
}

/* Any queue can fence any other; after the answer, that one has ended. */
static void each_fences_each(void **state)
{
	uint32_t incarnation[QUEUES] = {1, 1, 1, 1};
	uint32_t handle;

	(void)state;
	serve(NULL);
	handle = open_session();
	for (unsigned int i = 0; i < QUEUES; i++) {
		for (unsigned int j = 1; j < QUEUES; j++) {
			if (i == j)
				continue;
			assert_int_equal(raw_simple_numbers(&queues[i], RBLK_OP_FENCE, 1, j,
							    incarnation[j]),
					 RBLK_OK);
			raw_wait_gone(&queues[j]);
			raw_close(&queues[j]);
			assert_false(join(j, incarnation[j]));
			assert_int_equal(rblk_le16(queues[j].reject.reason),
					 RBLK_REJECT_STALE_INCARNATION);
			raw_close(&queues[j]);
			assert_true(join(j, ++incarnation[j]));
			assert_int_equal(io(j, RBLK_OP_READ, handle, 0), RBLK_OK);
		}
		/* FENCE of an ended incarnation or of one that never was succeeds; of its own
		 * queue it fails. */
		assert_int_equal(raw_simple_numbers(&queues[i], RBLK_OP_FENCE, 1, 1, 1), RBLK_OK);
		assert_int_equal(raw_simple_numbers(&queues[i], RBLK_OP_FENCE, 1, 9, 7), RBLK_OK);
		assert_int_equal(raw_simple_numbers(&queues[i], RBLK_OP_FENCE, 1, i,
						    incarnation[i]),
				 RBLK_E_INVALID);
	}
	close_session();
}

/* Sends FENCE with each tag of queue 1, which is on another reactor than queue 2. */
static void flood_fences(void)
{
	uint16_t tags = rblk_le16(queues[1].accept.credits) + RBLK_RESERVED_TAGS;

	for (uint16_t tag = 0; tag < tags; tag++) {
		struct rblk_wire_command *command = raw_command(&queues[1], 0, 0);

		raw_fill(&queues[1], command, 0, RBLK_OP_FENCE, tag);
		command->lba = rblk_to_le64(2);
		command->argument = rblk_to_le64(1);
		raw_send(&queues[1], 64);
	}
}

/* FENCEs that wait for a stuck store are few; one more is answered BUSY. */
static void fences_that_wait_are_bounded(void **state)
{
	unsigned int busy = 0, well = 0;
	uint16_t tags;
	uint32_t handle;

	(void)state;
	serve("delay=write:8s");
	handle = open_session();
	tags = rblk_le16(queues[1].accept.credits) + RBLK_RESERVED_TAGS;
	assert_int_equal(io(2, RBLK_OP_READ, handle, 0), RBLK_OK);
	raw_io(&queues[2], RBLK_OP_WRITE, 2, handle, 0, 1, BLOCK);
	assert_int_equal(raw_simple(&queues[2], RBLK_OP_PING, 1), RBLK_OK);
	flood_fences();
	raw_wait_gone(&queues[2]);
	for (uint16_t tag = 0; tag < tags; tag++) {
		uint16_t status = raw_wait(&queues[1], tag);

		busy += status == RBLK_E_BUSY;
		well += status == RBLK_OK;
	}
	assert_int_equal(busy + well, tags);
	assert_true(busy && well);
	close_session();
}

/* A newer incarnation waits for the older one, on whatever reactors the two are. */
static void a_newer_login_replaces_the_older(void **state)
{
	uint32_t handle;

	(void)state;
	serve(NULL);
	handle = open_session();
	for (unsigned int i = 1; i < QUEUES; i++) {
		struct raw older = queues[i];

		assert_true(join(i, 2));
		assert_int_equal(io(i, RBLK_OP_READ, handle, 0), RBLK_OK);
		raw_wait_gone(&older);
		raw_close(&older);
	}
	close_session();
}

/* CLOSE closes a handle on all reactors, also on one where no command has named it. */
static void a_closed_handle_is_closed_everywhere(void **state)
{
	uint32_t handle, other;

	(void)state;
	serve(NULL);
	handle = open_session();
	other = raw_open(&queues[0], "mem");
	for (unsigned int i = 1; i < QUEUES; i++)
		assert_int_equal(io(i, RBLK_OP_READ, handle, 0), RBLK_OK);
	for (unsigned int round = 0; round < 2; round++) {
		close_handle(round ? other : handle);
		for (unsigned int i = 0; i < QUEUES; i++)
			assert_int_equal(io(i, RBLK_OP_READ, round ? other : handle, 0),
					 RBLK_E_NO_VOLUME);
	}
	/* Another handle has its place now. */
	handle = raw_open(&queues[0], "mem");
	for (unsigned int i = 0; i < QUEUES; i++)
		assert_int_equal(io(i, RBLK_OP_READ, handle, 0), RBLK_OK);
	close_session();
}

/* CLOSE is answered when the last command that uses the handle has ended, on whatever reactor. */
static void close_waits_for_commands_elsewhere(void **state)
{
	uint32_t handle;

	(void)state;
	serve("delay=read:200ms");
	handle = open_session();
	for (unsigned int i = 1; i < QUEUES; i++)
		assert_int_equal(io(i, RBLK_OP_WRITE, handle, 0), RBLK_OK);
	for (unsigned int i = 1; i < QUEUES; i++)
		raw_io(&queues[i], RBLK_OP_READ, 2, handle, 0, 1, BLOCK);
	/* They have arrived: the commands sent after them are answered. */
	for (unsigned int i = 1; i < QUEUES; i++)
		assert_int_equal(raw_simple(&queues[i], RBLK_OP_PING, 1), RBLK_OK);
	raw_close_begin(&queues[0], 1, handle);
	assert_int_equal(wait_all(0, 1), RBLK_OK);
	/* The target sent their answers before, so they are in this end's sockets already. */
	for (unsigned int i = 1; i < QUEUES; i++) {
		for (int polls = 0; polls < 10; polls++)
			raw_poll(&queues[i]);
		assert_int_not_equal(queues[i].last[2].sequence, 0);
		assert_int_equal(raw_wait(&queues[i], 2), RBLK_OK);
	}
	close_session();
}

/* The session outlives its queue 0, and a new epoch ends it on all reactors. */
static void a_new_epoch_ends_all_queues(void **state)
{
	struct raw newer;
	uint32_t handle;

	(void)state;
	serve(NULL);
	handle = open_session();
	raw_init(&newer);
	newer.login = queues[0].login;
	newer.login.session_epoch = rblk_to_le64(2);
	assert_true(raw_connect(&newer, server.host));
	for (unsigned int i = 0; i < QUEUES; i++)
		raw_wait_gone(&queues[i]);
	raw_io(&newer, RBLK_OP_READ, 2, handle, 0, 1, BLOCK);
	assert_int_equal(raw_wait(&newer, 2), RBLK_E_NO_VOLUME);
	raw_close(&newer);
	close_session();
}

/* No reactor ends while another one still has a message for it. */
static void sigterm_ends_it_with_queues_everywhere(void **state)
{
	(void)state;
	serve(NULL);
	open_session();
	assert_int_equal(e2e_daemon_stop(&server), 0);
	for (unsigned int i = 0; i < QUEUES; i++)
		raw_wait_gone(&queues[i]);
	close_session();
}

#define TEST(name) cmocka_unit_test_teardown(name, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_reactors_are_used),
		TEST(each_fences_each),
		TEST(fences_that_wait_are_bounded),
		TEST(a_newer_login_replaces_the_older),
		TEST(a_closed_handle_is_closed_everywhere),
		TEST(close_waits_for_commands_elsewhere),
		TEST(a_new_epoch_ends_all_queues),
		cmocka_unit_test(sigterm_ends_it_with_queues_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
