/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: of the paths that an NVMe host has to a volume one serves, and the others refuse I/O so that the host tries
 * another one; when it ends, the one that has waited longest serves, and its host is told; who connects again at the
 * same portal keeps the place; there are only so many, and each host has its own. Method: one daemon that listens at
 * all addresses of 127.0.0.0/8, each of which is a portal. That no older write lands then is nvme_stale_write's.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

#define BLOCK 512u
#define PATHS_MAX 8u
#define OPTIMIZED 1
#define INACCESSIBLE 3
#define NOTICE 0x000c0302u /* ANA's change; log page 0Ch */
#define DISK NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101"

static struct e2e_daemon server;
static char folder[64], config[96], port[8];

struct path {
	struct nvme_host admin, io;
	struct nvme_host_command event; /* a request that waits */
};

static int start(void **state)
{
	char listener[64];

	(void)state;
	e2e_folder_create(folder);
	snprintf(config, sizeof(config), "%s/rblkd.conf", folder);
	unit_file_write(config,
			"[volume disk]\nstore = memory\nsize = 1M\nuuid = 01010101-0101-0101-0101-010101010101\n");
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

static void events_want(struct path *path, uint32_t events)
{
	assert_int_equal(nvme_host_admin(&path->admin, NVME_SET_FEATURES, 0, NVME_FEATURE_EVENTS, events, NULL, 0),
			 NVME_OK);
}

static uint16_t admin_connect(struct path *path, unsigned int portal)
{
	char address[32];

	snprintf(address, sizeof(address), "127.0.0.%u:%s", portal, port);
	return nvme_host_connect(&path->admin, address, DISK, NVME_HOST_NQN, 0, 32);
}

static void path_connect(struct path *path, unsigned int portal)
{
	char address[32];

	assert_int_equal(admin_connect(path, portal), NVME_OK);
	nvme_host_enable(&path->admin);
	snprintf(address, sizeof(address), "127.0.0.%u:%s", portal, port);
	path->io.controller = path->admin.controller;
	path->io.host_id = path->admin.host_id;
	assert_int_equal(nvme_host_connect(&path->io, address, DISK, NVME_HOST_NQN, 1, 16), NVME_OK);
	events_want(path, NVME_EVENT_ANA);
	path->event = nvme_host_ask_event(&path->admin);
}

static void path_close(struct path *path)
{
	nvme_host_close(&path->io);
	nvme_host_close(&path->admin);
}

/* Its state, as the log page has it. */
static unsigned int page_read(struct path *path, uint32_t flags, struct nvme_ana *page)
{
	assert_int_equal(nvme_host_admin(&path->admin, NVME_GET_LOG_PAGE, 0xffffffff,
					 NVME_LOG_ANA | flags | (sizeof(*page) / 4 - 1) << 16, 0, page, sizeof(*page)),
			 NVME_OK);
	assert_int_equal(rblk_le16(page->groups), 1);
	assert_int_equal(rblk_le32(page->group), 1);
	return page->state;
}

static unsigned int page_state(struct path *path)
{
	struct nvme_ana page;

	return page_read(path, 0, &page);
}

static uint16_t run_io(struct path *path, uint8_t opcode, enum nvme_host_way way)
{
	uint8_t data[BLOCK] = {0};

	return nvme_host_io(&path->io, opcode, way, 0, 0, data, way ? BLOCK : 0);
}

static void serves(struct path *path)
{
	assert_int_equal(run_io(path, NVME_WRITE, NVME_HOST_CAPSULE), NVME_OK);
	assert_int_equal(run_io(path, NVME_READ, NVME_HOST_IN), NVME_OK);
	assert_int_equal(page_state(path), OPTIMIZED);
}

static void waits(struct path *path)
{
	assert_int_equal(run_io(path, NVME_WRITE, NVME_HOST_CAPSULE), NVME_INACCESSIBLE);
	assert_int_equal(page_state(path), INACCESSIBLE);
}

static void takes_over(struct path *path)
{
	assert_int_equal(nvme_host_await(&path->admin, &path->event), NVME_OK);
	assert_int_equal(path->event.result, NOTICE);
	serves(path);
}

/* -- tests --------------------------------------------------------------------------------------- */

static void controllers_tell_of_it(void **state)
{
	struct nvme_identify_controller controller;
	struct nvme_identify_namespace namespace;
	struct path path = {.admin.fd = -1};
	struct nvme_ana page, part = {.state = 0};

	(void)state;
	path_connect(&path, 1);
	assert_int_equal(
		nvme_host_admin(&path.admin, NVME_IDENTIFY, 0, NVME_CNS_CONTROLLER, 0, &controller, sizeof(controller)),
		NVME_OK);
	assert_int_equal(controller.paths, 0xb);
	assert_int_equal(rblk_le32(controller.events), NVME_EVENT_NAMESPACE | NVME_EVENT_ANA);
	assert_int_equal(controller.ana & 0x5, 0x5);
	assert_true(controller.ana_s);
	assert_int_equal(rblk_le32(controller.ana_group_most), 1);
	assert_int_equal(rblk_le32(controller.ana_groups), 1);
	assert_int_equal(rblk_le32(controller.namespaces_most), 1);
	assert_int_equal(
		nvme_host_admin(&path.admin, NVME_IDENTIFY, 1, NVME_CNS_NAMESPACE, 0, &namespace, sizeof(namespace)),
		NVME_OK);
	assert_int_equal(namespace.paths, 1);
	assert_int_equal(rblk_le32(namespace.group), 1);
	assert_int_equal(page_read(&path, 0, &page), OPTIMIZED);
	assert_int_equal(rblk_le32(page.namespaces), 1);
	assert_int_equal(rblk_le32(page.namespace), 1);
	assert_int_equal(rblk_le64(page.changes), 0);
	assert_int_equal(rblk_le64(page.group_changes), 1);
	/* The beginning of it; without namespaces. */
	assert_int_equal(
		nvme_host_admin(&path.admin, NVME_GET_LOG_PAGE, 0xffffffff, NVME_LOG_ANA | 12u << 16, 0, &part, 52),
		NVME_OK);
	assert_memory_equal(&part, &page, 52);
	assert_int_equal(page_read(&path, NVME_LOG_GROUPS, &page), OPTIMIZED);
	assert_int_equal(rblk_le32(page.namespaces), 0);
	path_close(&path);
}

static void one_that_waits_refuses_io(void **state)
{
	static const struct {
		uint8_t opcode;
		enum nvme_host_way way;
	} all[] = {{NVME_READ, NVME_HOST_IN},	   {NVME_WRITE, NVME_HOST_CAPSULE},
		   {NVME_WRITE, NVME_HOST_R2T},	   {NVME_FLUSH, NVME_HOST_NONE},
		   {NVME_COMPARE, NVME_HOST_R2T},  {NVME_WRITE_ZEROES, NVME_HOST_NONE},
		   {NVME_VERIFY, NVME_HOST_NONE},  {NVME_RESERVE_REPORT, NVME_HOST_IN}};
	struct path first = {.admin.fd = -1}, second = {.admin.fd = -1};
	struct nvme_identify_namespace namespace;

	(void)state;
	path_connect(&first, 1);
	path_connect(&second, 2);
	for (size_t i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_host_command command = {.way = all[i].way, .bytes = all[i].way ? BLOCK : 0};
		uint8_t data[BLOCK];

		command.data = data;
		command.command.opcode = all[i].opcode;
		command.command.namespace = rblk_to_le32(1);
		assert_int_equal(nvme_host_run(&second.io, &command), NVME_INACCESSIBLE);
		assert_false(command.final);
	}
	/* It can be looked at. */
	assert_int_equal(
		nvme_host_admin(&second.admin, NVME_IDENTIFY, 1, NVME_CNS_NAMESPACE, 0, &namespace, sizeof(namespace)),
		NVME_OK);
	assert_int_equal(rblk_le64(namespace.blocks), (1 << 20) / BLOCK);
	waits(&second);
	serves(&first);
	path_close(&second);
	serves(&first);
	path_close(&first);
}

static void the_next_one_serves(void **state)
{
	struct path paths[3] = {{.admin.fd = -1}};
	struct nvme_ana page;

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		path_connect(&paths[i], i + 1);
	serves(&paths[0]);
	/* Each in turn; who comes again is the last. */
	for (unsigned int i = 0; i < 6; i++) {
		struct path *old = &paths[i % 3], *next = &paths[(i + 1) % 3], *last = &paths[(i + 2) % 3];

		waits(next);
		path_close(old);
		takes_over(next);
		waits(last);
		path_connect(old, i % 3 + 1);
		waits(old);
	}
	assert_int_equal(page_read(&paths[0], 0, &page), OPTIMIZED);
	assert_int_equal(rblk_le64(page.changes), 1);
	assert_int_equal(rblk_le64(page.group_changes), 2);
	/* One that only waited is missed by nobody. */
	path_close(&paths[1]);
	waits(&paths[2]);
	path_close(&paths[0]);
	takes_over(&paths[2]);
	path_close(&paths[2]);
}

static void who_comes_again_keeps_its_place(void **state)
{
	struct path paths[3] = {{.admin.fd = -1}}, again = {.admin.fd = -1};

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		path_connect(&paths[i], i + 1);
	/* The one that serves; it does so at once. */
	path_connect(&again, 1);
	nvme_host_ended(paths[0].io.fd);
	nvme_host_ended(paths[0].admin.fd);
	paths[0] = again;
	serves(&paths[0]);
	waits(&paths[1]);
	/* The second. */
	path_connect(&again, 2);
	nvme_host_ended(paths[1].io.fd);
	nvme_host_ended(paths[1].admin.fd);
	paths[1] = again;
	waits(&paths[1]);
	path_close(&paths[0]);
	takes_over(&paths[1]);
	waits(&paths[2]);
	path_close(&paths[1]);
	takes_over(&paths[2]);
	path_close(&paths[2]);
}

static void a_silent_one_is_lost(void **state)
{
	struct path silent = {.admin.fd = -1}, other = {.admin.fd = -1};

	(void)state;
	path_connect(&silent, 1);
	path_connect(&other, 2);
	assert_int_equal(nvme_host_admin(&silent.admin, NVME_SET_FEATURES, 0, NVME_FEATURE_KEEP_ALIVE, 500, NULL, 0),
			 NVME_OK);
	takes_over(&other);
	nvme_host_ended(silent.io.fd);
	nvme_host_ended(silent.admin.fd);
	path_close(&other);
}

/* Who does not listen is told later, and once until it has read the page. */
static void tells_who_listens(void **state)
{
	struct path first = {.admin.fd = -1}, second = {.admin.fd = -1};
	struct nvme_ana page;

	(void)state;
	path_connect(&first, 1);
	path_connect(&second, 2);
	events_want(&second, NVME_EVENT_NAMESPACE);
	path_close(&first);
	while (page_read(&second, NVME_LOG_KEEPS, &page) != OPTIMIZED)
		;
	events_want(&second, NVME_EVENT_ANA);
	takes_over(&second);
	second.event = nvme_host_ask_event(&second.admin);
	/* Another answer than that of the command would end the test. */
	serves(&second);
	path_close(&second);
}

static void only_so_many(void **state)
{
	struct path paths[PATHS_MAX] = {{.admin.fd = -1}}, more = {.admin.fd = -1}, other = {.admin.host_id = 1};

	(void)state;
	for (unsigned int i = 0; i < PATHS_MAX; i++)
		path_connect(&paths[i], i + 1);
	assert_int_equal(admin_connect(&more, PATHS_MAX + 1), NVME_CONNECT_BUSY);
	/* Another host is not concerned, and has the same volume. */
	path_connect(&other, 2);
	serves(&other);
	serves(&paths[0]);
	path_close(&other);
	path_close(&paths[0]);
	takes_over(&paths[1]);
	path_connect(&more, PATHS_MAX + 1);
	path_close(&more);
	for (unsigned int i = 1; i < PATHS_MAX; i++)
		path_close(&paths[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(controllers_tell_of_it),
		cmocka_unit_test(one_that_waits_refuses_io),
		cmocka_unit_test(the_next_one_serves),
		cmocka_unit_test(who_comes_again_keeps_its_place),
		cmocka_unit_test(a_silent_one_is_lost),
		cmocka_unit_test(tells_who_listens),
		cmocka_unit_test(only_so_many),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
