/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host may have more commands under way than its queue has credits, also such as become
 * several commands of rblk's: those keep their places, and go before others that have none yet. Method:
 * five deallocations of sixteen ranges on a queue of four credits.
 */
#include "tests/unit/unit.h"

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
	assert_int_equal(nvme_host_connect(&other, there, subsystem, NVME_HOST_NQN, 0, 32), NVME_OK);
	nvme_host_enable(&other);
	queue.controller = other.controller;
	assert_int_equal(nvme_host_connect(&queue, there, subsystem, NVME_HOST_NQN, 1, 16), NVME_OK);
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(few_credits_suffice)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
