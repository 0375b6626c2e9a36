/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host hears that a volume has grown, once until it has read so, and finds the new size without
 * connecting again. Method: the file is made longer while the host waits for an event, does not, has not read the last
 * one, and while a write of another host that has gone keeps rblkd from looking at the volume.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

#define BLOCK 512u
#define NOTICE 0x00040002u /* of a namespace; log page 4 */

static struct e2e_daemon server;
static struct e2e_file file;
static char address[64], nqn[NVME_NQN_BYTES], config[64];
static struct nvme_host admin, io;

static int start(void **state)
{
	FILE *text;

	(void)state;
	e2e_file_create(&file, "disk", 1 << 20);
	strcpy(config, "/var/tmp/rblk-e2e-config-XXXXXX");
	text = fdopen(mkstemp(config), "w");
	assert_non_null(text);
	fprintf(text, "[volume disk]\npath = %s\ncache = buffered\nfault = delay=write:7s,after=1,count=1\n", file.path);
	assert_int_equal(fclose(text), 0);
	e2e_daemon_start(&server, "--listen", "nvme+tcp://127.0.0.1:0", "--config", config, "--reactors", "1", NULL);
	e2e_daemon_second_host(&server, address);
	nvme_host_discover(address, nqn);
	nvme_host_attach(&admin, &io, address, nqn, NVME_HOST_NQN, 16);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	nvme_host_close(&io);
	nvme_host_close(&admin);
	unlink(config);
	return e2e_disk_stop(&server, &file);
}

static void grow(unsigned int mib)
{
	assert_int_equal(truncate(file.path, (off_t)mib << 20), 0);
	assert_int_equal(kill(server.pid, SIGHUP), 0);
}

static unsigned int size_mib(void)
{
	struct nvme_identify_namespace namespace;

	assert_int_equal(
		nvme_host_admin(&admin, NVME_IDENTIFY, 1, NVME_CNS_NAMESPACE, 0, &namespace, NVME_IDENTIFY_BYTES),
		NVME_OK);
	return (unsigned int)(rblk_le64(namespace.blocks) * BLOCK >> 20);
}

/* The first that the list of changed namespaces has. */
static uint32_t changed(uint32_t flags)
{
	__le32 list[NVME_IDENTIFY_BYTES / 4];

	assert_int_equal(nvme_host_admin(&admin, NVME_GET_LOG_PAGE, 0xffffffff, NVME_LOG_CHANGED | flags | 1023u << 16,
					 0, list, NVME_IDENTIFY_BYTES),
			 NVME_OK);
	assert_int_equal(list[1], 0);
	return rblk_le32(list[0]);
}

static void event_comes(struct nvme_host_command *event)
{
	assert_int_equal(nvme_host_await(&admin, event), NVME_OK);
	assert_int_equal(event->result, NOTICE);
}

static void tells_of_the_size(void **state)
{
	struct nvme_identify_controller controller;
	struct nvme_host_command event;
	uint8_t data[BLOCK] = {0};

	(void)state;
	assert_int_equal(
		nvme_host_admin(&admin, NVME_IDENTIFY, 0, NVME_CNS_CONTROLLER, 0, &controller, NVME_IDENTIFY_BYTES),
		NVME_OK);
	assert_int_equal(rblk_le32(controller.events), NVME_EVENT_NAMESPACE | NVME_EVENT_ANA);
	assert_int_equal(
		nvme_host_admin(&admin, NVME_SET_FEATURES, 0, NVME_FEATURE_EVENTS, NVME_EVENT_NAMESPACE, NULL, 0),
		NVME_OK);
	event = nvme_host_ask_event(&admin);
	grow(2);
	event_comes(&event);
	assert_int_equal(size_mib(), 2);
	assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, (2 << 20) / BLOCK - 1, 0, data, BLOCK), NVME_OK);
	/* Read, but kept; read; gone. */
	assert_int_equal(changed(NVME_LOG_KEEPS), 1);
	assert_int_equal(changed(0), 1);
	assert_int_equal(changed(0), 0);
}

static void tells_once_until_it_is_read(void **state)
{
	struct nvme_host_command event;

	(void)state;
	grow(3);
	while (size_mib() != 3)
		usleep(1000);
	event = nvme_host_ask_event(&admin);
	event_comes(&event);
	event = nvme_host_ask_event(&admin);
	grow(4);
	/* Another answer than that of the command would end the test. */
	while (size_mib() != 4)
		usleep(1000);
	assert_int_equal(changed(0), 1);
	grow(5);
	event_comes(&event);
	assert_int_equal(size_mib(), 5);
	assert_int_equal(changed(0), 1);
}

/* Whoever does not want to be told finds it in the list. */
static void tells_who_listens(void **state)
{
	struct nvme_host_command event;

	(void)state;
	assert_int_equal(nvme_host_admin(&admin, NVME_SET_FEATURES, 0, NVME_FEATURE_EVENTS, 0, NULL, 0), NVME_OK);
	event = nvme_host_ask_event(&admin);
	grow(6);
	while (size_mib() != 6)
		usleep(1000);
	assert_int_equal(
		nvme_host_admin(&admin, NVME_SET_FEATURES, 0, NVME_FEATURE_EVENTS, NVME_EVENT_NAMESPACE, NULL, 0),
		NVME_OK);
	event_comes(&event);
	assert_int_equal(changed(0), 1);
}

static void looks_again(void **state)
{
	struct nvme_host other = {.host_id = 1}, queue = {.host_id = 1};
	struct nvme_host_command write = {.way = NVME_HOST_CAPSULE, .bytes = BLOCK}, event;
	uint8_t data[BLOCK] = {0};

	(void)state;
	nvme_host_attach(&other, &queue, address, nqn, NVME_HOST_NQN, 16);
	write.data = data;
	write.command.opcode = NVME_WRITE;
	write.command.namespace = rblk_to_le32(1);
	nvme_host_send(&queue, &write);
	/* Its answer comes before that of the write. */
	assert_int_equal(nvme_host_io(&queue, NVME_READ, NVME_HOST_IN, 8, 0, data, BLOCK), NVME_OK);
	nvme_host_close(&queue);
	nvme_host_close(&other);
	e2e_daemon_log_wait(&server, "has lost its client", 1);
	grow(7);
	/* Properties can be set meanwhile. */
	do
		nvme_host_enable(&admin);
	while (size_mib() != 7);
	event = nvme_host_ask_event(&admin);
	event_comes(&event);
	assert_int_equal(changed(0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_of_the_size),
		cmocka_unit_test(tells_once_until_it_is_read),
		cmocka_unit_test(tells_who_listens),
		cmocka_unit_test(looks_again),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
