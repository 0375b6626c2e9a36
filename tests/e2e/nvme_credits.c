/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host may have more commands under way than its queue has credits, also such as become
 * several commands of rblk's: those keep their places, and go before others that have none yet. Method:
 * five deallocations of sixteen ranges on a queue of four credits. A host that does without the head of its submission
 * queue gets no response to what has succeeded with data: this says so, whatever its size and digests.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

static void few_credits_suffice(void **state)
{
	struct nvme_range ranges[16];
	struct nvme_host_command commands[5];
	struct nvme_host other = {.fd = -1}, queue = {.fd = -1};
	char there[64], subsystem[NVME_NQN_BYTES];
	struct e2e_daemon few;
	struct e2e_file disk;

	(void)state;
	e2e_file_create(&disk, "few", 1 << 20);
	e2e_daemon_start(&few, "--listen", "nvme+tcp://127.0.0.1:0", "--credits", "4", disk.volume, NULL);
	e2e_daemon_second_host(&few, there);
	nvme_host_discover(there, subsystem);
	nvme_host_attach(&other, &queue, there, subsystem, NVME_HOST_NQN, 16);
	for (unsigned int i = 0; i < 16; i++)
		ranges[i] = (struct nvme_range){.blocks = rblk_to_le32(1), .lba = rblk_to_le64(2 * i)};
	for (unsigned int i = 0; i < 5; i++) {
		commands[i] = (struct nvme_host_command){
			.way = NVME_HOST_CAPSULE, .data = ranges, .bytes = sizeof(ranges)};
		commands[i].command.opcode = NVME_DATASET_MANAGEMENT;
		commands[i].command.namespace = rblk_to_le32(1);
		commands[i].command.word[0] = rblk_to_le32(15);
		commands[i].command.word[1] = rblk_to_le32(NVME_DSM_DEALLOCATE);
	}
	for (unsigned int i = 0; i < 5; i++)
		nvme_host_send(&queue, &commands[i]);
	nvme_host_await_all(&queue, commands, 5);
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(commands[i].status, NVME_OK);
	nvme_host_close(&queue);
	nvme_host_close(&other);
	assert_int_equal(e2e_daemon_stop(&few), 0);
	e2e_file_remove(&disk);
}

static void data_says_that_it_succeeds(void **state)
{
	static uint8_t data[65536];
	char there[64], subsystem[NVME_NQN_BYTES];
	struct e2e_daemon daemon;
	struct e2e_file disk;

	(void)state;
	e2e_file_create(&disk, "disk", 1 << 20);
	e2e_daemon_start(&daemon, "--listen", "nvme+tcp://127.0.0.1:0", disk.volume, NULL);
	e2e_daemon_second_host(&daemon, there);
	nvme_host_discover(there, subsystem);
	for (uint8_t digests = 0; digests < 4; digests++) {
		struct nvme_host admin = {.no_head = true}, io = {.no_head = true, .digests = digests};

		nvme_host_attach(&admin, &io, there, subsystem, NVME_HOST_NQN, 16);
		for (uint32_t bytes = 512, count = 1; bytes <= sizeof(data); bytes *= 2, count++) {
			memset(data, 0, sizeof(data));
			assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, bytes / 512 - 1, data, bytes),
					 NVME_OK);
			assert_int_equal(io.successes, count);
		}
		/* Not what fails, or has no data. */
		assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 1 << 20, 0, data, 512), NVME_RANGE);
		assert_int_equal(nvme_host_io(&io, NVME_COMPARE, NVME_HOST_CAPSULE, 0, 0, data, 512), NVME_OK);
		assert_int_equal(io.successes, 8);
		nvme_host_close(&io);
		nvme_host_close(&admin);
	}
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	e2e_file_remove(&disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_credits_suffice),
		cmocka_unit_test(data_says_that_it_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
