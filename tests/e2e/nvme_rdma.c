/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: NVMe over RDMA serves a volume: discovery, data by keys and in capsules, what is gathered or compared, log
 * pages that need several pieces, several queues on several reactors, more commands than credits. Method: a host of the
 * bare fabric at an rblkd whose RDMA is fabric_tcp; the volume's file is read beside it.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_rdma_host.h"

#define BLOCK 512u
#define QUEUES 4u

static struct e2e_daemon server;
static struct e2e_file file;
static char address[64], folder[64], control[80], nqn[NVME_NQN_BYTES];
static struct rdma_host admin, queues[QUEUES];

static void discover(void)
{
	struct nvme_command log = {.opcode = NVME_GET_LOG_PAGE};
	const struct nvme_discovery_entry *entry;
	struct rdma_host host = {.host_id = 9};

	assert_int_equal(rdma_host_connect(&host, address, NVME_DISCOVERY_NQN, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_enable(&host);
	/* Pieces of several places. */
	log.word[0] = rblk_to_le32(NVME_LOG_DISCOVERY | (NVME_LOG_BYTES / 4 - 1) << 16);
	memset(rdma_host_data(&host), 0xff, NVME_LOG_BYTES + 1);
	assert_int_equal(rdma_host_run(&host, &log, RDMA_HOST_KEYED, NULL, NVME_LOG_BYTES), NVME_OK);
	entry = (const void *)(rdma_host_data(&host) + sizeof(struct nvme_discovery));
	assert_int_equal(rblk_le64(((const struct nvme_discovery *)rdma_host_data(&host))->records), 1);
	assert_int_equal(entry->transport, 1);
	assert_string_equal(entry->address, "127.0.0.1");
	assert_string_equal(entry->service, strrchr(address, ':') + 1);
	assert_int_equal(entry->specific[0], 1);
	assert_int_equal(rdma_host_data(&host)[NVME_LOG_BYTES - 1], 0);
	assert_int_equal((uint8_t)rdma_host_data(&host)[NVME_LOG_BYTES], 0xff);
	strcpy(nqn, entry->subsystem);
	rdma_host_close(&host);
}

static int start(void **state)
{
	(void)state;
	e2e_folder_create(folder);
	snprintf(control, sizeof(control), "%s/control", folder);
	e2e_file_create(&file, "disk", 1 << 20);
	e2e_daemon_start(&server, "--cache", "buffered", "--reactors", "2", "--keepalive", "600s", "--listen",
			 "nvme+rdma://127.0.0.1:0", "--control-socket", control, file.volume, NULL);
	e2e_daemon_second_host(&server, address);
	discover();
	assert_int_equal(rdma_host_connect(&admin, address, nqn, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_enable(&admin);
	for (uint16_t i = 0; i < QUEUES; i++) {
		queues[i].controller = admin.controller;
		assert_int_equal(rdma_host_connect(&queues[i], address, nqn, RDMA_HOST_NQN, (uint16_t)(i + 1), 128),
				 NVME_OK);
	}
	return 0;
}

static int stop(void **state)
{
	int status;

	(void)state;
	for (unsigned int i = 0; i < QUEUES; i++)
		rdma_host_close(&queues[i]);
	rdma_host_close(&admin);
	status = e2e_disk_stop(&server, &file);
	e2e_folder_remove(folder);
	return status;
}

static void is_on_disk(uint64_t lba, const void *data, size_t bytes)
{
	uint8_t back[65536];
	int fd = open(file.path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, back, bytes, (off_t)(lba * BLOCK)), bytes);
	assert_memory_equal(back, data, bytes);
	close(fd);
}

static void data_moves_both_ways(void **state)
{
	static const struct {
		enum rdma_host_way way;
		uint32_t bytes;
	} all[] = {{RDMA_HOST_CAPSULE, BLOCK},
		   {RDMA_HOST_CAPSULE, NVME_CAPSULE_BYTES},
		   {RDMA_HOST_KEYED, BLOCK},
		   {RDMA_HOST_KEYED, 65536}};
	uint8_t data[65536];

	(void)state;
	for (unsigned int q = 0; q < QUEUES; q++)
		for (unsigned int i = 0; i < UNIT_LENGTH(all); i++) {
			env_random(data, sizeof(data));
			assert_int_equal(rdma_host_io(&queues[q], NVME_WRITE, all[i].way, 8 * q, data, all[i].bytes),
					 NVME_OK);
			is_on_disk(8 * q, data, all[i].bytes);
			memset(rdma_host_data(&queues[q]), 0, sizeof(data));
			assert_int_equal(
				rdma_host_io(&queues[q], NVME_READ, RDMA_HOST_KEYED, 8 * q, NULL, all[i].bytes),
				NVME_OK);
			assert_memory_equal(rdma_host_data(&queues[q]), data, all[i].bytes);
		}
	assert_int_equal(rdma_host_io(&queues[0], NVME_FLUSH, RDMA_HOST_NONE, 0, NULL, 0), NVME_OK);
}

static void data_is_compared(void **state)
{
	static const enum rdma_host_way ways[] = {RDMA_HOST_KEYED, RDMA_HOST_CAPSULE};
	uint8_t data[NVME_COMPARE_BYTES];

	(void)state;
	env_random(data, sizeof(data));
	assert_int_equal(rdma_host_io(&queues[1], NVME_WRITE, RDMA_HOST_CAPSULE, 100, data, sizeof(data)), NVME_OK);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(rdma_host_io(&queues[1], NVME_COMPARE, ways[i], 100, data, sizeof(data)), NVME_OK);
		data[sizeof(data) - 1] ^= 1;
		assert_int_equal(rdma_host_io(&queues[1], NVME_COMPARE, ways[i], 100, data, sizeof(data)),
				 NVME_DIFFERS);
		data[sizeof(data) - 1] ^= 1;
	}
}

/* A fused pair is two answers to one of rblk's, and both have data here. */
static void compare_and_write_is_one(void **state)
{
	uint8_t data[3][BLOCK];
	struct nvme_command compare = {.opcode = NVME_COMPARE,
				       .flags = NVME_FUSE_FIRST,
				       .namespace = rblk_to_le32(1),
				       .word = {rblk_to_le32(200)}},
			    write = {.opcode = NVME_WRITE,
				     .flags = NVME_FUSE_SECOND,
				     .namespace = rblk_to_le32(1),
				     .word = {rblk_to_le32(200)}};
	uint16_t first, second;

	(void)state;
	env_random(data, sizeof(data));
	assert_int_equal(rdma_host_io(&queues[2], NVME_WRITE, RDMA_HOST_CAPSULE, 200, data[0], BLOCK), NVME_OK);
	first = rdma_host_begin_command(&queues[2], &compare, RDMA_HOST_CAPSULE, data[0], BLOCK);
	second = rdma_host_begin_command(&queues[2], &write, RDMA_HOST_KEYED, data[1], BLOCK);
	assert_int_equal(rdma_host_await(&queues[2], first), NVME_OK);
	assert_int_equal(rdma_host_await(&queues[2], second), NVME_OK);
	is_on_disk(200, data[1], BLOCK);
	first = rdma_host_begin_command(&queues[2], &compare, RDMA_HOST_CAPSULE, data[0], BLOCK);
	second = rdma_host_begin_command(&queues[2], &write, RDMA_HOST_CAPSULE, data[2], BLOCK);
	assert_int_equal(rdma_host_await(&queues[2], first), NVME_DIFFERS);
	assert_int_equal(rdma_host_await(&queues[2], second), NVME_FUSED_FAILED);
	is_on_disk(200, data[1], BLOCK);
}

static void ranges_are_fetched(void **state)
{
	struct nvme_command command = {.opcode = NVME_DATASET_MANAGEMENT,
				       .namespace = rblk_to_le32(1),
				       .word = {rblk_to_le32(2), rblk_to_le32(NVME_DSM_DEALLOCATE)}};
	struct nvme_range ranges[3] = {{.blocks = rblk_to_le32(8), .lba = rblk_to_le64(800)},
				       {.blocks = rblk_to_le32(8), .lba = rblk_to_le64(816)},
				       {.blocks = rblk_to_le32(8), .lba = rblk_to_le64(832)}};

	(void)state;
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(rdma_host_run(&queues[0], &command, i ? RDMA_HOST_KEYED : RDMA_HOST_CAPSULE, ranges,
					       sizeof(ranges)),
				 NVME_OK);
}

/* All at once, refused ones among them, which need places of this room's own. */
static void many_at_once(void **state)
{
	uint8_t data[NVME_CAPSULE_BYTES];
	uint16_t ids[127];

	(void)state;
	env_random(data, sizeof(data));
	for (unsigned int round = 0; round < 8; round++) {
		for (unsigned int i = 0; i < UNIT_LENGTH(ids); i++) {
			struct nvme_command command = {.opcode = i % 3 == 2 ? NVME_READ : NVME_WRITE,
						       .namespace = rblk_to_le32(i % 5 == 4 ? 2 : 1),
						       .word = {rblk_to_le32(16 * (i % 64)), 0, rblk_to_le32(15)}};

			ids[i] = rdma_host_begin_command(&queues[3], &command,
							 i % 3 ? RDMA_HOST_KEYED : RDMA_HOST_CAPSULE,
							 i % 3 == 0 ? data : NULL, sizeof(data));
		}
		for (unsigned int i = 0; i < UNIT_LENGTH(ids); i++)
			assert_int_equal(rdma_host_await(&queues[3], ids[i]),
					 i % 5 == 4 ? NVME_BAD_NAMESPACE : NVME_OK);
	}
	is_on_disk(0, data, sizeof(data));
}

static bool sessions_have(const char *words)
{
	char command[256], all[65536];
	size_t bytes;
	FILE *out;

	snprintf(command, sizeof(command), "%s sessions --json --socket %s", getenv("RBLKCTL"), control);
	out = popen(command, "r");
	assert_non_null(out);
	bytes = fread(all, 1, sizeof(all) - 1, out);
	all[bytes] = 0;
	assert_int_equal(pclose(out), 0);
	return strstr(all, words);
}

static void pages_are_read(void **state)
{
	struct nvme_command command = {.opcode = NVME_IDENTIFY, .word = {rblk_to_le32(NVME_CNS_CONTROLLER)}};
	const struct nvme_identify_controller *page = (const void *)rdma_host_data(&admin);

	(void)state;
	assert_int_equal(rdma_host_run(&admin, &command, RDMA_HOST_KEYED, NULL, NVME_IDENTIFY_BYTES), NVME_OK);
	assert_int_equal(rblk_le32(page->sgls) & (1 << 2 | 1 << 20), 1 << 2 | 1 << 20);
	assert_int_equal(rblk_le32(page->command_units), (64 + NVME_CAPSULE_BYTES) / 16);
	assert_string_equal(page->subsystem, nqn);
	assert_int_equal(rdma_host_run(&admin, &command, RDMA_HOST_KEYED, NULL, 512), NVME_BAD_SGL_LENGTH);
	/* Who looks at the sessions sees how they come. */
	assert_int_not_equal(e2e_daemon_log_wait(&server, "NVMe host, by RDMA", 1), 0);
	assert_true(sessions_have("\"rdma_connections\":5"));
}

/* Also while a connection is in the lobby. */
static void the_daemon_ends(void **state)
{
	struct e2e_daemon other;
	struct rdma_host one = {.host_id = 3}, silent = {.host_id = 4};
	struct e2e_file disk;
	char there[64];

	(void)state;
	e2e_file_create(&disk, "other", 1 << 20);
	e2e_daemon_start(&other, "--reactors", "2", "--keepalive", "600s", "--listen", "nvme+rdma://127.0.0.1:0",
			 disk.volume, NULL);
	e2e_daemon_second_host(&other, there);
	assert_int_equal(rdma_host_connect(&one, there, NVME_DISCOVERY_NQN, RDMA_HOST_NQN, 0, 32), NVME_OK);
	/* One that never says Connect. */
	rdma_host_begin(&silent, 0, 32);
	assert_true(rdma_host_dial(&silent, there));
	rdma_host_close(&one);
	assert_int_equal(e2e_daemon_stop(&other), 0);
	rdma_host_await_end(&silent);
	rdma_host_close(&silent);
	e2e_file_remove(&disk);
}

/* Also then: it goes on with what it has when that connection is not there any more. */
static void a_device_goes(void **state)
{
	struct nvme_command command = {.opcode = NVME_KEEP_ALIVE};
	struct rdma_host one = {.host_id = 3}, silent = {.host_id = 4};
	struct e2e_daemon other;
	struct e2e_file disk;
	char there[64];

	(void)state;
	e2e_file_create(&disk, "other", 1 << 20);
	e2e_daemon_start(&other, "--reactors", "1", "--keepalive", "600s", "--listen", "nvme+rdma://127.0.0.1:0",
			 disk.volume, NULL);
	e2e_daemon_second_host(&other, there);
	/* So that the reactor has used it. */
	assert_int_equal(rdma_host_connect(&one, there, NVME_DISCOVERY_NQN, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_close(&one);
	rdma_host_begin(&silent, 0, 32);
	assert_true(rdma_host_dial(&silent, there));
	kill(other.pid, SIGUSR2);
	e2e_daemon_log_wait(&other, "the device goes", 1);
	/* Here it would come into the memory of what is not there. */
	rdma_host_begin_command(&silent, &command, RDMA_HOST_NONE, NULL, 0);
	rdma_host_await_end(&silent);
	rdma_host_close(&silent);
	e2e_daemon_log_wait(&other, "was removed: its connections end", 1);
	assert_int_equal(rdma_host_connect(&one, there, NVME_DISCOVERY_NQN, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_close(&one);
	assert_int_equal(e2e_daemon_stop(&other), 0);
	e2e_file_remove(&disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_moves_both_ways),
		cmocka_unit_test(data_is_compared),
		cmocka_unit_test(compare_and_write_is_one),
		cmocka_unit_test(ranges_are_fetched),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(pages_are_read),
		cmocka_unit_test(the_daemon_ends),
		cmocka_unit_test(a_device_goes),
	};

	setenv("RBLKD", getenv("RBLKD_SOFT"), 1);
	return cmocka_run_group_tests(tests, start, stop);
}
