/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: handles that the initiator names are the same on all reactors; CLOSE, again too, is answered when the last command has
 * ended; a session that has closed what it had open leaves nothing, whatever its connections do then. Method: raw sessions with
 * queues on several reactors, a store whose writes take long, and the daemon's log and list of sessions.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define QUEUES 4

static struct e2e_daemon server;
static struct e2e_file disk;
static char control[64];

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 1 << 20);
	snprintf(control, sizeof(control), "/tmp/rblk-close-%d", (int)getpid());
	e2e_daemon_start(&server, "--fault", "delay=write:1s", "--cache", "buffered", "--reactors", "4", "--session-time", "600s",
			 "--control-socket", control, disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

/* The queues of one session: each may have a reactor of its own. */
static void connect_all(struct raw queues[QUEUES])
{
	for (unsigned int i = 0; i < QUEUES; i++) {
		raw_init(&queues[i]);
		if (i)
			queues[i].login = queues[0].login;
		queues[i].login.queue_count = rblk_to_le16(QUEUES);
		queues[i].login.queue_index = rblk_to_le16((uint16_t)i);
		assert_true(raw_connect(&queues[i], server.host));
	}
}

static void close_connections(struct raw queues[QUEUES])
{
	for (unsigned int i = QUEUES; i-- > 0;)
		raw_close(&queues[i]);
}

static uint16_t io(struct raw *raw, uint8_t opcode)
{
	uint16_t status;

	do {
		raw_io(raw, opcode, 3, 1, 0, 1, 512);
		status = raw_wait(raw, 3);
	} while (status == RBLK_E_BUSY);
	return status;
}

/* "sessions" of rblkctl has so many lines besides its title. */
static unsigned int sessions(void)
{
	char command[256], line[512];
	unsigned int count = 0;
	FILE *out;

	snprintf(command, sizeof(command), "%s sessions --socket %s", getenv("RBLKCTL"), control);
	out = popen(command, "r");
	assert_non_null(out);
	while (fgets(line, sizeof(line), out))
		count++;
	assert_int_equal(pclose(out), 0);
	return count - 1;
}

static void opened_again_it_is_the_same_on_all_queues(void **state)
{
	struct raw queues[QUEUES];
	const struct rblk_wire_volume *report = NULL;
	bool read_only;

	(void)state;
	connect_all(queues);
	raw_open_begin(&queues[0], "disk", RBLK_OPEN_READ_ONLY, 1);
	assert_int_equal(raw_wait(&queues[0], 0), RBLK_OK);
	for (unsigned int i = 0; i < QUEUES; i++)
		assert_int_equal(io(&queues[i], RBLK_OP_READ), RBLK_OK);
	assert_int_equal(raw_open_as(&queues[0], "disk", 1), RBLK_OK);
	report = (const void *)(queues[0].memory + RAW_DATA);
	read_only = rblk_le32(report->flags) & RBLK_VOLUME_READ_ONLY;
	for (unsigned int i = 0; i < QUEUES; i++)
		assert_int_equal(io(&queues[i], RBLK_OP_WRITE), read_only ? RBLK_E_READ_ONLY : RBLK_OK);
	close_connections(queues);
}

/* The first CLOSE's connection is lost; the write of another queue goes on. */
static void close_again_waits_too(void **state)
{
	struct raw queues[QUEUES], again;

	(void)state;
	connect_all(queues);
	assert_int_equal(raw_open_as(&queues[0], "disk", 1), RBLK_OK);
	assert_int_equal(io(&queues[1], RBLK_OP_READ), RBLK_OK);
	raw_io(&queues[1], RBLK_OP_WRITE, 3, 1, 0, 1, 512);
	assert_int_equal(raw_simple(&queues[1], RBLK_OP_PING, 2), RBLK_OK);
	raw_close_begin(&queues[0], 5, 1);
	assert_int_equal(raw_simple(&queues[0], RBLK_OP_PING, 2), RBLK_OK);
	assert_int_equal(queues[0].last[5].sequence, 0);
	raw_init(&again);
	again.login = queues[0].login;
	again.login.incarnation = rblk_to_le32(2);
	again.login.fence_incarnation = rblk_to_le32(1);
	assert_true(raw_connect(&again, server.host));
	assert_int_equal(raw_close_handle(&again, 1), RBLK_OK);
	/* Answered before, or it is on its way. */
	assert_int_equal(raw_simple(&queues[1], RBLK_OP_PING, 2), RBLK_OK);
	assert_int_not_equal(queues[1].last[3].sequence, 0);
	raw_close(&again);
	close_connections(queues);
}

/* It has closed what it had: nobody waits for it, though its last write takes long. */
static void who_has_closed_is_not_missed(void **state)
{
	struct raw queues[QUEUES];

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		connect_all(queues);
		assert_int_equal(raw_open_as(&queues[0], "disk", 1), RBLK_OK);
		assert_int_equal(io(&queues[i], RBLK_OP_READ), RBLK_OK);
		raw_io(&queues[i], RBLK_OP_WRITE, 3, 1, 0, 1, 512);
		assert_int_equal(raw_simple(&queues[i], RBLK_OP_PING, 2), RBLK_OK);
		raw_close_begin(&queues[0], 5, 1);
		close_connections(queues);
	}
	e2e_daemon_log_wait(&server, ": logged out", 2);
	assert_int_equal(e2e_daemon_log_count(&server, "has lost its client"), 0);
}

/* CLOSE and the ends of the connections cross on the way between reactors. */
static void who_has_closed_leaves_no_session(void **state)
{
	struct raw queues[QUEUES];
	unsigned int left;

	(void)state;
	for (unsigned int round = 0; round < 300; round++) {
		connect_all(queues);
		assert_int_equal(raw_open_as(&queues[0], "disk", 1), RBLK_OK);
		for (unsigned int i = 0; i < QUEUES; i++)
			assert_int_equal(io(&queues[i], RBLK_OP_READ), RBLK_OK);
		for (unsigned int i = 1; i < QUEUES && round % 2; i++)
			fab_conn_close(queues[i].conn);
		raw_close_begin(&queues[0], 5, 1);
		fab_conn_close(queues[0].conn);
		for (unsigned int i = 0; i < QUEUES; i++)
			raw_close(&queues[i]);
	}
	for (unsigned int i = 0; i < 100 && (left = sessions()); i++)
		usleep(100000);
	assert_int_equal(left, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(opened_again_it_is_the_same_on_all_queues),
		TEST(close_again_waits_too),
		TEST(who_has_closed_is_not_missed),
		TEST(who_has_closed_leaves_no_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
