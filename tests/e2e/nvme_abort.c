/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: Abort of an NVMe host drops what has not begun, also on a queue of another thread, and says so; a write that
 * the store has runs on, and Abort says that; what is not there is not aborted; each Abort is answered, and so many
 * wait at most. Method: a store that holds writes and reads for seconds, and one or two reactors.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

#define BLOCK 512u
#define QUEUES 4u

static struct e2e_daemon server;
static char address[64], nqn[NVME_NQN_BYTES];
static struct nvme_host admin, queues[QUEUES]; /* by number - 1 */
static uint8_t data[BLOCK], next[BLOCK], back[BLOCK];

static void start(const char *reactors)
{
	e2e_daemon_start(&server, "--listen", "nvme+tcp://127.0.0.1:0", "--reactors", reactors, "--memory", "mem=1M",
			 "--fault", "delay=read+write:2s,after=4" /* each queue's first read */, NULL);
	e2e_daemon_second_host(&server, address);
	nvme_host_discover(address, nqn);
	memset(&admin, 0, sizeof(admin));
	assert_int_equal(nvme_host_connect(&admin, address, nqn, NVME_HOST_NQN, 0, 32), NVME_OK);
	nvme_host_enable(&admin);
	for (uint16_t i = 0; i < QUEUES; i++) {
		queues[i] = (struct nvme_host){.controller = admin.controller};
		assert_int_equal(nvme_host_connect(&queues[i], address, nqn, NVME_HOST_NQN, i + 1, 32), NVME_OK);
	}
}

static int start_one(void **state)
{
	(void)state;
	start("1");
	return 0;
}

static int start_two(void **state)
{
	(void)state;
	start("2");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < QUEUES; i++)
		nvme_host_close(&queues[i]);
	nvme_host_close(&admin);
	return e2e_daemon_stop(&server);
}

static struct nvme_host_command abort_make(uint16_t queue, uint16_t id)
{
	struct nvme_host_command command = {.way = NVME_HOST_NONE};

	command.command.opcode = NVME_ABORT;
	command.command.word[0] = rblk_to_le32((uint32_t)id << 16 | queue);
	return command;
}

/* Has it been dropped? */
static bool aborted(uint16_t queue, uint16_t id)
{
	struct nvme_host_command command = abort_make(queue, id);

	assert_int_equal(nvme_host_run(&admin, &command), NVME_OK);
	assert_true(command.result <= 1);
	return !command.result;
}

static struct nvme_host_command io_make(uint8_t opcode, enum nvme_host_way way, uint32_t lba, void *bytes)
{
	struct nvme_host_command command = {.way = way, .data = bytes, .bytes = bytes ? BLOCK : 0};

	command.command.opcode = opcode;
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32(lba);
	return command;
}

/* -- commands ------------------------------------------------------------------------------------ */

static void what_only_reads_is_dropped(void **state)
{
	(void)state;
	for (uint16_t i = 0; i < QUEUES; i++) {
		struct nvme_host_command verify = io_make(NVME_VERIFY, NVME_HOST_NONE, i, NULL);
		bool dropped;

		/* Again, if Abort came before it or too late. */
		do {
			nvme_host_send(&queues[i], &verify);
			dropped = aborted((uint16_t)(i + 1), queues[i].id);
			assert_int_equal(nvme_host_await(&queues[i], &verify), dropped ? NVME_ABORTED : NVME_OK);
		} while (!dropped);
		assert_false(aborted((uint16_t)(i + 1), queues[i].id));
	}
}

static void a_write_that_the_store_has_runs_on(void **state)
{
	struct nvme_host_command writes[QUEUES], reads[QUEUES];
	uint8_t each[QUEUES][BLOCK];

	(void)state;
	memset(data, 0x5a, sizeof(data));
	for (uint16_t i = 0; i < QUEUES; i++) {
		writes[i] = io_make(NVME_WRITE, i % 2 ? NVME_HOST_CAPSULE : NVME_HOST_R2T, i, data);
		writes[i].leaves = true;
		nvme_host_send(&queues[i], &writes[i]);
		if (i % 2 == 0)
			nvme_host_await(&queues[i], &writes[i]); /* its data has gone */
	}
	for (uint16_t i = 0; i < QUEUES; i++)
		assert_false(aborted((uint16_t)(i + 1), queues[i].id));
	for (uint16_t i = 0; i < QUEUES; i++) {
		assert_int_equal(nvme_host_await(&queues[i], &writes[i]), NVME_OK);
		reads[i] = io_make(NVME_READ, NVME_HOST_IN, i, each[i]);
		nvme_host_send(&queues[i], &reads[i]);
	}
	for (uint16_t i = 0; i < QUEUES; i++) {
		assert_int_equal(nvme_host_await(&queues[i], &reads[i]), NVME_OK);
		assert_memory_equal(each[i], data, BLOCK);
	}
}

/* A write that waits for a compare and write of the same block has not begun. */
static void what_waits_is_dropped(void **state)
{
	struct nvme_host_command all[3];
	bool dropped;

	(void)state;
	memset(data, 1, sizeof(data));
	memset(next, 2, sizeof(next));
	do {
		assert_int_equal(nvme_host_io(&queues[0], NVME_READ, NVME_HOST_IN, 9, 0, back, BLOCK), NVME_OK);
		all[0] = io_make(NVME_COMPARE, NVME_HOST_CAPSULE, 9, back);
		all[1] = io_make(NVME_WRITE, NVME_HOST_CAPSULE, 9, next);
		all[2] = io_make(NVME_WRITE, NVME_HOST_CAPSULE, 9, data);
		all[0].command.flags = NVME_FUSE_FIRST;
		all[1].command.flags = NVME_FUSE_SECOND;
		for (unsigned int i = 0; i < 3; i++)
			nvme_host_send(&queues[0], &all[i]);
		dropped = aborted(1, queues[0].id);
		nvme_host_await_all(&queues[0], all, 3);
		assert_int_equal(all[0].status, NVME_OK);
		assert_int_equal(all[1].status, NVME_OK);
		assert_int_equal(all[2].status, dropped ? NVME_ABORTED : NVME_OK);
	} while (!dropped);
	assert_int_equal(nvme_host_io(&queues[0], NVME_READ, NVME_HOST_IN, 9, 0, back, BLOCK), NVME_OK);
	assert_memory_equal(back, next, BLOCK);
}

static void what_is_not_there_is_not_aborted(void **state)
{
	(void)state;
	assert_false(aborted(1, 0xffff));
	assert_false(aborted(QUEUES + 1, 1));
	assert_false(aborted(0xffff, 1));
	assert_false(aborted(0, 0xffff));
	/* A queue that has ended. */
	nvme_host_close(&queues[QUEUES - 1]);
	assert_false(aborted(QUEUES, 1));
}

static void event_requests_are_dropped(void **state)
{
	struct nvme_host_command events[2], all[3];

	(void)state;
	for (int i = 0; i < 2; i++)
		events[i] = nvme_host_ask_event(&admin);
	all[0] = events[0];
	all[1] = abort_make(0, rblk_le16(events[0].command.id));
	nvme_host_send(&admin, &all[1]);
	nvme_host_await_all(&admin, all, 2);
	assert_int_equal(all[0].status, NVME_ABORTED);
	assert_int_equal(all[1].status, NVME_OK);
	assert_int_equal(all[1].result, 0);
	assert_false(aborted(0, rblk_le16(events[0].command.id)));
	all[0] = events[1];
	all[1] = abort_make(0, rblk_le16(events[1].command.id));
	nvme_host_send(&admin, &all[1]);
	nvme_host_await_all(&admin, all, 2);
	assert_int_equal(all[1].result, 0);
}

/* More at one time than there is room for. */
static void each_is_answered(void **state)
{
	struct nvme_host_command verify = io_make(NVME_VERIFY, NVME_HOST_NONE, 0, NULL), aborts[20];
	unsigned int done = 0;

	(void)state;
	nvme_host_send(&queues[0], &verify);
	for (unsigned int i = 0; i < UNIT_LENGTH(aborts); i++) {
		aborts[i] = abort_make(1, (uint16_t)(queues[0].id + i % 2));
		nvme_host_send(&admin, &aborts[i]);
	}
	nvme_host_await_all(&admin, aborts, UNIT_LENGTH(aborts));
	for (unsigned int i = 0; i < UNIT_LENGTH(aborts); i++) {
		assert_true(aborts[i].status == NVME_OK || aborts[i].status == NVME_ABORT_LIMIT);
		done += aborts[i].status == NVME_OK;
	}
	assert_true(done >= 4);
	nvme_host_await(&queues[0], &verify);
	assert_false(aborted(1, queues[0].id));
}

#define ONE(function) cmocka_unit_test_setup_teardown(function, start_one, stop)
#define TWO(function) cmocka_unit_test_setup_teardown(function, start_two, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(what_only_reads_is_dropped),
		TWO(what_only_reads_is_dropped),
		TWO(a_write_that_the_store_has_runs_on),
		ONE(what_waits_is_dropped),
		TWO(what_is_not_there_is_not_aborted),
		ONE(event_requests_are_dropped),
		ONE(each_is_answered),
		TWO(each_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
