/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host that stays connected hears that its volume was removed, and that it is back, under whatever name;
 * then its I/O goes on, by each of its queues and paths, in another size too; one that is another kind of disk now it
 * gets by its next Connect, and one of another UUID never. Method: reloads with the volume, without it, and with the
 * disk behind its path pulled and plugged in again; two reactors.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

#define BLOCK 4096u
#define NOTICE 0x00040002u /* of a namespace; log page 4 */
#define UUID "01010101-0101-0101-0101-010101010101"
#define DISK NVME_UUID_PREFIX UUID
#define QUEUES 3u

static struct e2e_daemon server;
static char folder[64], config[96], disk[96], port[8];
static unsigned int reloads;
static struct path {
	struct nvme_host admin, io[QUEUES];
	struct nvme_host_command event; /* a request that waits */
} paths[2];

/* "": it is not there. */
static void config_write(const char *name, const char *uuid, const char *settings)
{
	FILE *file = fopen(config, "w");

	assert_non_null(file);
	fprintf(file, "[volume another]\nstore = memory\nsize = 1M\n");
	if (name[0])
		fprintf(file, "[volume %s]\nuuid = %s\n%s\n", name, uuid, settings);
	assert_int_equal(fclose(file), 0);
}

static void reload(void)
{
	assert_int_equal(kill(server.pid, SIGHUP), 0);
	e2e_daemon_log_wait(&server, "reload: ", ++reloads);
}

static void remove_it(void)
{
	config_write("", "", "");
	reload();
}

static void serve(const char *name, const char *settings)
{
	config_write(name, UUID, settings);
	reload();
}

static void serve_disk(const char *name)
{
	char settings[200];

	snprintf(settings, sizeof(settings), "path = %s\ncache = buffered", disk);
	serve(name, settings);
}

/* Whatever was there is another file now. */
static void disk_plug(unsigned int mib)
{
	char new[112];
	FILE *file;

	snprintf(new, sizeof(new), "%s.new", disk);
	file = fopen(new, "w");
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), (off_t)mib << 20), 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(rename(new, disk), 0);
}

static int start(void **state)
{
	char listener[64];

	(void)state;
	e2e_folder_create(folder);
	snprintf(config, sizeof(config), "%s/rblkd.conf", folder);
	snprintf(disk, sizeof(disk), "%s/disk", folder);
	config_write("", "", "");
	e2e_daemon_start(&server, "--listen", "nvme+tcp://0.0.0.0:0", "--config", config, "--reactors", "2", NULL);
	e2e_daemon_second_host(&server, listener);
	snprintf(port, sizeof(port), "%s", strrchr(listener, ':') + 1);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_folder_remove(folder);
	return 0;
}

/* -- a path -------------------------------------------------------------------------------------- */

static uint16_t queue_connect(struct path *path, struct nvme_host *host, uint16_t queue)
{
	char address[32];

	snprintf(address, sizeof(address), "127.0.0.%u:%s", (unsigned int)(path - paths + 1), port);
	return nvme_host_connect(host, address, DISK, NVME_HOST_NQN, queue, queue ? 16 : 32);
}

/* Without a request for an event. */
static void path_connect_deaf(struct path *path)
{
	assert_int_equal(queue_connect(path, &path->admin, 0), NVME_OK);
	nvme_host_enable(&path->admin);
	for (uint16_t i = 0; i < QUEUES; i++) {
		path->io[i].controller = path->admin.controller;
		assert_int_equal(queue_connect(path, &path->io[i], i + 1), NVME_OK);
	}
	assert_int_equal(nvme_host_admin(&path->admin, NVME_SET_FEATURES, 0, NVME_FEATURE_EVENTS,
					 NVME_EVENT_NAMESPACE | NVME_EVENT_ANA, NULL, 0),
			 NVME_OK);
}

static void path_connect(struct path *path)
{
	path_connect_deaf(path);
	path->event = nvme_host_ask_event(&path->admin);
}

static void path_close(struct path *path)
{
	for (unsigned int i = 0; i < QUEUES; i++)
		nvme_host_close(&path->io[i]);
	nvme_host_close(&path->admin);
}

/* -- what the host sees -------------------------------------------------------------------------- */

static uint16_t block_write(struct nvme_host *queue, uint64_t lba, void *data)
{
	return nvme_host_io(queue, NVME_WRITE, NVME_HOST_CAPSULE, lba, BLOCK / 512 - 1, data, BLOCK);
}

static uint16_t block_read(struct nvme_host *queue, uint64_t lba, void *data)
{
	return nvme_host_io(queue, NVME_READ, NVME_HOST_IN, lba, BLOCK / 512 - 1, data, BLOCK);
}

static void io_goes_on(struct path *path)
{
	for (unsigned int i = 0; i < QUEUES; i++) {
		uint8_t data[BLOCK], back[BLOCK];
		uint16_t status;

		memset(data, (int)(reloads + i), sizeof(data));
		/* A reactor may have to make itself ready first. */
		do
			status = block_write(&path->io[i], i * 8, data);
		while (status == NVME_INTERRUPTED);
		assert_int_equal(status, NVME_OK);
		assert_int_equal(block_read(&path->io[i], i * 8, back), NVME_OK);
		assert_memory_equal(data, back, BLOCK);
	}
}

static uint16_t io_status(struct path *path, unsigned int queue)
{
	uint8_t data[BLOCK];

	return block_read(&path->io[queue], 0, data);
}

static uint64_t namespace_mib(struct path *path)
{
	struct nvme_identify_namespace namespace;

	assert_int_equal(
		nvme_host_admin(&path->admin, NVME_IDENTIFY, 1, NVME_CNS_NAMESPACE, 0, &namespace, NVME_IDENTIFY_BYTES),
		NVME_OK);
	return rblk_le64(namespace.blocks) << (rblk_le32(namespace.format_0) >> 16 & 0xff) >> 20;
}

static bool is_listed(struct path *path)
{
	__le32 list[NVME_IDENTIFY_BYTES / 4];

	assert_int_equal(
		nvme_host_admin(&path->admin, NVME_IDENTIFY, 0, NVME_CNS_NAMESPACES, 0, list, NVME_IDENTIFY_BYTES),
		NVME_OK);
	return rblk_le32(list[0]) == 1;
}

/* 0: there is no namespace, whichever way the host looks. */
static uint64_t namespace_size(struct path *path)
{
	uint64_t mib = namespace_mib(path);
	uint8_t data[NVME_IDENTIFY_BYTES];
	struct nvme_ana *ana = (void *)data;

	assert_int_equal(is_listed(path), mib != 0);
	assert_int_equal(
		nvme_host_admin(&path->admin, NVME_IDENTIFY, 1, NVME_CNS_DESCRIPTORS, 0, data, NVME_IDENTIFY_BYTES),
		mib ? NVME_OK : NVME_BAD_NAMESPACE);
	assert_int_equal(nvme_host_admin(&path->admin, NVME_GET_LOG_PAGE, 0xffffffff, NVME_LOG_ANA | 1023u << 16, 0,
					 data, NVME_IDENTIFY_BYTES),
			 NVME_OK);
	assert_int_equal(rblk_le32(ana->namespaces), mib ? 1 : 0);
	return mib;
}

/* Without an event. */
static void size_comes(struct path *path, unsigned int mib)
{
	while (namespace_mib(path) != mib)
		usleep(1000);
	assert_int_equal(namespace_size(path), mib);
}

/* The host is told that its namespace is another one, once, and asks for the next event. */
static void event_comes(struct path *path)
{
	const uint32_t page = NVME_LOG_CHANGED | 1023u << 16;
	__le32 list[NVME_IDENTIFY_BYTES / 4];

	assert_int_equal(nvme_host_await(&path->admin, &path->event), NVME_OK);
	assert_int_equal(path->event.result, NOTICE);
	assert_int_equal(
		nvme_host_admin(&path->admin, NVME_GET_LOG_PAGE, 0xffffffff, page, 0, list, NVME_IDENTIFY_BYTES),
		NVME_OK);
	assert_int_equal(rblk_le32(list[0]), 1);
	path->event = nvme_host_ask_event(&path->admin);
}

static void it_goes(struct path *path)
{
	event_comes(path);
	assert_int_equal(namespace_size(path), 0);
	for (unsigned int i = 0; i < QUEUES; i++)
		assert_int_equal(io_status(path, i), NVME_BAD_NAMESPACE);
}

static void it_comes(struct path *path, unsigned int mib)
{
	event_comes(path);
	assert_int_equal(namespace_size(path), mib);
	io_goes_on(path);
}

/* -- tests --------------------------------------------------------------------------------------- */

static void removed_and_back(void **state)
{
	struct path *path = &paths[0];

	(void)state;
	assert_int_equal(queue_connect(path, &path->admin, 0), NVME_CONNECT_INVALID);
	disk_plug(2);
	serve_disk("disk");
	path_connect(path);
	io_goes_on(path);
	for (unsigned int i = 0; i < 3; i++) {
		remove_it();
		it_goes(path);
		/* Other volumes come and go. */
		config_write("third", "03030303-0303-0303-0303-030303030303", "store = memory\nsize = 1M");
		reload();
		assert_int_equal(namespace_size(path), 0);
		if (i == 1)
			disk_plug(3);
		serve_disk("disk");
		it_comes(path, i ? 3 : 2);
	}
	path_close(path);
}

/* Another disk, without a reload in which there is none: the host sees that the old one is gone all the same. */
static void pulled_and_plugged_in(void **state)
{
	struct path *path = &paths[0];

	(void)state;
	path_connect(path);
	assert_int_equal(unlink(disk), 0);
	reload();
	io_goes_on(path);
	disk_plug(3);
	reload();
	event_comes(path);
	assert_false(is_listed(path));
	it_comes(path, 3);
	path_close(path);
}

/* The same disk with another setting: the host may hear that it was gone, and need not have looked. */
static void the_same_comes_back_by_itself(void **state)
{
	struct path *path = &paths[0];
	uint8_t data[BLOCK], back[BLOCK];
	char settings[200];

	(void)state;
	path_connect(path);
	memset(data, 7, sizeof(data));
	assert_int_equal(block_write(&path->io[0], 0, data), NVME_OK);
	snprintf(settings, sizeof(settings), "path = %s\ncache = buffered\nfault = delay=write:1ms,after=1000", disk);
	serve("disk", settings);
	while (io_status(path, 0) != NVME_OK)
		usleep(1000);
	assert_int_equal(block_read(&path->io[0], 0, back), NVME_OK);
	assert_memory_equal(data, back, BLOCK);
	path_close(path);
}

static void memory_forgets(void **state)
{
	struct path *path = &paths[0];

	(void)state;
	remove_it();
	serve("disk", "store = memory\nsize = 2M");
	path_connect(path);
	remove_it();
	it_goes(path);
	serve("disk", "store = memory\nsize = 1M");
	it_comes(path, 1);
	path_close(path);
}

/* What commands on other threads go by is another one; the name is in the model. */
static void another_kind_is_for_the_next_connect(void **state)
{
	static const char *const settings[] = {"store = memory\nsize = 2M\nblock_size = 4096",
					       "store = memory\nsize = 2M\nread_only = yes"};
	struct path *path = &paths[0];

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		serve("disk", "store = memory\nsize = 2M");
		path_connect(path);
		remove_it();
		it_goes(path);
		serve(i == 2 ? "name" : "disk", settings[i % 2]);
		nvme_host_ended(path->admin.fd);
		for (unsigned int j = 0; j < QUEUES; j++)
			nvme_host_ended(path->io[j].fd);
		path_connect(path);
		assert_int_not_equal(namespace_size(path), 0);
		path_close(path);
	}
}

/* Its name is none of the subsystem's. */
static void another_volume_is_none_of_it(void **state)
{
	struct path *path = &paths[0];

	(void)state;
	serve("disk", "store = memory\nsize = 2M");
	path_connect(path);
	config_write("disk", "03030303-0303-0303-0303-030303030303", "store = memory\nsize = 2M");
	reload();
	it_goes(path);
	serve("disk", "store = memory\nsize = 2M");
	it_comes(path, 2);
	path_close(path);
}

/* That which waits finds it, too, and is in charge when the other one ends, whether it is back then or not. */
static void by_another_path(void **state)
{
	struct path *first = &paths[0], *second = &paths[1];

	(void)state;
	for (unsigned int back = 0; back < 2; back++) {
		path_connect_deaf(first);
		path_connect_deaf(second);
		assert_int_equal(io_status(second, 0), NVME_INACCESSIBLE);
		remove_it();
		size_comes(first, 0);
		size_comes(second, 0);
		if (!back)
			path_close(first);
		serve("disk", "store = memory\nsize = 2M");
		size_comes(second, 2);
		if (back) {
			size_comes(first, 2);
			io_goes_on(first);
			assert_int_equal(io_status(second, 0), NVME_INACCESSIBLE);
			path_close(first);
		}
		while (io_status(second, 0) != NVME_OK)
			usleep(1000);
		io_goes_on(second);
		assert_int_equal(namespace_size(second), 2);
		second->event = nvme_host_ask_event(&second->admin);
		event_comes(second);
		path_close(second);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(removed_and_back),
		cmocka_unit_test(pulled_and_plugged_in),
		cmocka_unit_test(the_same_comes_back_by_itself),
		cmocka_unit_test(memory_forgets),
		cmocka_unit_test(another_kind_is_for_the_next_connect),
		cmocka_unit_test(another_volume_is_none_of_it),
		cmocka_unit_test(by_another_path),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
