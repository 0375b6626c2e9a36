/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a host of NVMe over RDMA that breaks the rules is refused, or loses its connection and nothing more; a
 * well-behaved host beside it notices nothing. Method: a session that writes and reads after each mischief of another:
 * what the connection manager carries, Connect, SGLs, more commands than it may have, silent connections by the
 * hundred.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_rdma_host.h"

#define BLOCK 512u
#define ENTRIES 4u

static struct e2e_daemon server;
static struct e2e_file file;
static char address[64], nqn[NVME_NQN_BYTES];
static struct rdma_host admin, io;

static void connect_both(struct rdma_host *first, struct rdma_host *second, uint16_t entries)
{
	assert_int_equal(rdma_host_connect(first, address, nqn, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_enable(first);
	second->controller = first->controller;
	assert_int_equal(rdma_host_connect(second, address, nqn, RDMA_HOST_NQN, 1, entries), NVME_OK);
}

static int start(void **state)
{
	struct nvme_command log = {.opcode = NVME_GET_LOG_PAGE,
				   .word = {rblk_to_le32(NVME_LOG_DISCOVERY | (2048 / 4 - 1) << 16)}};

	(void)state;
	e2e_file_create(&file, "disk", 1 << 20);
	e2e_daemon_start(&server, "--cache", "buffered", "--reactors", "2", "--keepalive", "600s", "--listen",
			 "nvme+rdma://127.0.0.1:0", file.volume, NULL);
	e2e_daemon_second_host(&server, address);
	assert_int_equal(rdma_host_connect(&admin, address, NVME_DISCOVERY_NQN, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_enable(&admin);
	assert_int_equal(rdma_host_run(&admin, &log, RDMA_HOST_KEYED, NULL, 2048), NVME_OK);
	strcpy(nqn, ((const struct nvme_discovery_entry *)(rdma_host_data(&admin) + 1024))->subsystem);
	rdma_host_close(&admin);
	admin.host_id = io.host_id = 1; /* the others are another host */
	connect_both(&admin, &io, 128);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	rdma_host_close(&io);
	rdma_host_close(&admin);
	return e2e_disk_stop(&server, &file);
}

static void others_are_served(void)
{
	uint8_t data[16 * BLOCK];

	env_random(data, sizeof(data));
	assert_int_equal(rdma_host_io(&io, NVME_WRITE, RDMA_HOST_CAPSULE, 0, data, sizeof(data)), NVME_OK);
	memset(rdma_host_data(&io), 0, sizeof(data));
	assert_int_equal(rdma_host_io(&io, NVME_READ, RDMA_HOST_KEYED, 0, NULL, sizeof(data)), NVME_OK);
	assert_memory_equal(rdma_host_data(&io), data, sizeof(data));
}

/* -- the connection manager's ------------------------------------------------------------------- */

static void wrong_requests_are_rejected(void **state)
{
	static const struct {
		uint16_t format, queue, receives, commands;
		uint8_t bytes, status;
	} all[] = {
		{0, 0, 32, 31, 31, NVME_RDMA_BAD_LENGTH},
		{0, 0, 32, 31, 1, NVME_RDMA_BAD_LENGTH},
		{1, 0, 32, 31, 32, NVME_RDMA_BAD_FORMAT},
		{0, RBLK_QUEUES_MAX, 128, 127, 32, NVME_RDMA_BAD_QUEUE},
		{0, 0xffff, 128, 127, 32, NVME_RDMA_BAD_QUEUE},
		{0, 0, 32, 0, 32, NVME_RDMA_BAD_COMMANDS},
		{0, 0, 33, 32, 32, NVME_RDMA_BAD_COMMANDS},
		{0, 1, 129, 128, 32, NVME_RDMA_BAD_COMMANDS},
		{0, 1, 0xffff, 0xffff, 32, NVME_RDMA_BAD_COMMANDS},
		{0, 1, 126, 127, 32, NVME_RDMA_BAD_RECEIVES},
		{0, 0, 0, 31, 32, NVME_RDMA_BAD_RECEIVES},
	};
	struct rdma_host host = {.host_id = 0};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(all); i++) {
		rdma_host_begin(&host, all[i].queue, 32);
		host.ask.format = rblk_to_le16(all[i].format);
		host.ask.receives = rblk_to_le16(all[i].receives);
		host.ask.commands = rblk_to_le16(all[i].commands);
		host.ask_bytes = all[i].bytes;
		assert_false(rdma_host_dial(&host, address));
		assert_true(host.rejected);
		assert_int_equal(host.reject.format, 0);
		assert_int_equal(rblk_le16(host.reject.status), all[i].status);
		rdma_host_close(&host);
	}
	others_are_served();
}

/* -- Connect ------------------------------------------------------------------------------------- */

struct first {
	uint8_t opcode, type, sgl;
	uint32_t offset, length, bytes; /* of the data */
	uint16_t queue, entries;
	int status; /* -1: the connection ends */
};

static void the_first_message_is_connect(void **state)
{
	static const struct first all[] = {
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1024, 1024, 0, 32, NVME_OK},
		{NVME_IDENTIFY, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1024, 1024, 0, 32, -1},
		{NVME_FABRICS, NVME_PROPERTY_GET, NVME_SGL_CAPSULE, 0, 1024, 1024, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_KEYED, 0, 1024, 1024, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_KEYED, 0, 1023, 0, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_KEYED, 0, 1024, 0, 0, 32, -1}, /* without a key */
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_TRANSPORT, 0, 1024, 0, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 64, 1024, 1024, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1024, 0, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1024, 1025, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1025, 1025, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 8193, 8193, 0, 32, -1},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1024, 1024, 1, 32, NVME_CONNECT_INVALID},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1024, 1024, 0, 33, NVME_CONNECT_INVALID},
		{NVME_FABRICS, NVME_CONNECT, NVME_SGL_CAPSULE, 0, 1024, 1024, 0, 1, NVME_CONNECT_INVALID},
	};
	static uint8_t data[8193];

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(all); i++) {
		const struct first *first = &all[i];
		struct nvme_command command = {
			.opcode = first->opcode,
			.flags = NVME_FLAGS_SGL,
			.namespace = rblk_to_le32(first->type),
			.address = rblk_to_le64(first->offset),
			.length = rblk_to_le32(first->length),
			.sgl = first->sgl,
			.word = {rblk_to_le32((uint32_t)first->queue << 16), rblk_to_le32(first->entries - 1u)}};
		struct rdma_host host = {.host_id = 0};
		uint16_t id;

		rdma_host_begin(&host, 0, 32);
		rdma_host_fill_connect(&host, (void *)data, nqn, RDMA_HOST_NQN);
		assert_true(rdma_host_dial(&host, address));
		assert_int_equal(rblk_le16(host.accept.receives), 32);
		id = rdma_host_send(&host, &command, data, first->bytes);
		if (first->status >= 0)
			assert_int_equal(rdma_host_await(&host, id), first->status);
		if (first->status)
			rdma_host_await_end(&host);
		rdma_host_close(&host);
	}
	others_are_served();
}

/* Commands right behind Connect, which is not answered yet. */
static void nothing_comes_before_the_answer(void **state)
{
	struct nvme_command command = {
		.opcode = NVME_FABRICS, .namespace = rblk_to_le32(NVME_CONNECT), .word = {0, rblk_to_le32(31)}};
	struct nvme_command identify = {.opcode = NVME_IDENTIFY, .flags = NVME_FLAGS_SGL};

	(void)state;
	for (unsigned int i = 0; i < 20; i++) {
		struct rdma_host host = {.host_id = 0};
		struct nvme_connect data;

		rdma_host_begin(&host, 0, 32);
		rdma_host_fill_connect(&host, &data, nqn, RDMA_HOST_NQN);
		assert_true(rdma_host_dial(&host, address));
		rdma_host_begin_command(&host, &command, RDMA_HOST_CAPSULE, &data, sizeof(data));
		for (unsigned int j = 0; j < 64; j++)
			rdma_host_send(&host, &identify, NULL, 0);
		rdma_host_await_end(&host);
		rdma_host_close(&host);
	}
	others_are_served();
}

/* -- commands ------------------------------------------------------------------------------------ */

static struct nvme_command command_of(uint8_t opcode, uint64_t at, uint32_t length, uint32_t key, uint8_t sgl)
{
	struct nvme_command command = {.opcode = opcode, .flags = NVME_FLAGS_SGL, .namespace = rblk_to_le32(1)};

	rdma_host_set_sgl(&command, at, length, key, sgl);
	return command;
}

static void wrong_sgls_are_refused(void **state)
{
	static const struct {
		uint8_t opcode, sgl;
		uint64_t at;
		uint32_t length, bytes;
		uint16_t status;
	} all[] = {
		{NVME_WRITE, NVME_SGL_CAPSULE, 1, BLOCK, BLOCK, NVME_BAD_SGL_OFFSET},
		{NVME_WRITE, NVME_SGL_CAPSULE, 8192, BLOCK, BLOCK, NVME_BAD_SGL_OFFSET},
		{NVME_WRITE, NVME_SGL_CAPSULE, UINT64_MAX, BLOCK, BLOCK, NVME_BAD_SGL_OFFSET},
		{NVME_WRITE, NVME_SGL_CAPSULE, 0, BLOCK, BLOCK - 1, NVME_BAD_SGL_LENGTH},
		{NVME_WRITE, NVME_SGL_CAPSULE, 0, BLOCK, 0, NVME_BAD_SGL_LENGTH},
		{NVME_WRITE, NVME_SGL_CAPSULE, 0, 2 * BLOCK, 2 * BLOCK, NVME_BAD_SGL_LENGTH},
		{NVME_WRITE, NVME_SGL_CAPSULE, 0, 0x1000000, BLOCK, NVME_BAD_SGL_LENGTH},
		{NVME_WRITE, NVME_SGL_KEYED, 0, BLOCK, BLOCK, NVME_BAD_SGL_LENGTH},
		{NVME_WRITE, NVME_SGL_KEYED, 0, BLOCK + 1, 0, NVME_BAD_SGL_LENGTH},
		{NVME_WRITE, NVME_SGL_KEYED, 0, 0, 0, NVME_BAD_SGL_LENGTH},
		{NVME_READ, NVME_SGL_KEYED, 0, 0xffffff, 0, NVME_BAD_SGL_LENGTH},
		{NVME_READ, NVME_SGL_CAPSULE, 0, BLOCK, BLOCK, NVME_BAD_SGL_TYPE},
		{NVME_READ, NVME_SGL_TRANSPORT, 0, BLOCK, 0, NVME_BAD_SGL_TYPE},
		{NVME_READ, 0x00, 0, BLOCK, 0, NVME_BAD_SGL_TYPE},
		{NVME_READ, 0x30, 0, BLOCK, 0, NVME_BAD_SGL_TYPE},
		{NVME_COMPARE, NVME_SGL_CAPSULE, 0, BLOCK, 2 * BLOCK, NVME_BAD_SGL_LENGTH},
		{NVME_FLUSH, NVME_SGL_KEYED, 0, 0, BLOCK, NVME_BAD_SGL_LENGTH},
	};
	static uint8_t data[2 * BLOCK];
	struct rdma_host first = {.host_id = 0}, second = {.host_id = 0};

	(void)state;
	connect_both(&first, &second, 16);
	for (unsigned int i = 0; i < UNIT_LENGTH(all); i++) {
		struct nvme_command command =
			command_of(all[i].opcode, all[i].at, all[i].length,
				   all[i].sgl == NVME_SGL_CAPSULE ? 0 : rdma_host_key(&second), all[i].sgl);

		if (all[i].sgl == NVME_SGL_CAPSULE)
			command.length = rblk_to_le32(all[i].length);
		assert_int_equal(rdma_host_await(&second, rdma_host_send(&second, &command, data, all[i].bytes)),
				 all[i].status);
	}
	rdma_host_close(&second);
	rdma_host_close(&first);
	others_are_served();
}

/* Memory that is not the host's, or is not there: its connection ends by that, whoever moves the data. */
static void wrong_keys_end_the_connection(void **state)
{
	static const struct {
		bool admin;
		uint8_t opcode, sgl;
		bool key; /* the right one, but an address beyond */
		uint32_t length;
	} all[] = {
		{false, NVME_READ, NVME_SGL_KEYED, false, BLOCK},
		{false, NVME_READ, NVME_SGL_KEYED, true, BLOCK},
		{false, NVME_WRITE, NVME_SGL_KEYED, false, BLOCK},
		{false, NVME_WRITE, NVME_SGL_KEYED, true, BLOCK},
		{false, NVME_COMPARE, NVME_SGL_KEYED, false, BLOCK},
		{true, NVME_IDENTIFY, NVME_SGL_KEYED, false, 4096},
		{true, NVME_IDENTIFY, NVME_SGL_KEYED, true, 4096},
		{false, NVME_READ, NVME_SGL_KEYED_INVALIDATE, false, BLOCK},
	};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(all); i++) {
		struct rdma_host first = {.host_id = 0}, second = {.host_id = 0}, *host;
		struct nvme_command command;

		connect_both(&first, &second, 16);
		host = all[i].admin ? &first : &second;
		command = command_of(all[i].opcode,
				     all[i].key ? (uintptr_t)rdma_host_data(host) + RDMA_HOST_DATA - 1 : 64,
				     all[i].length, all[i].key ? rdma_host_key(host) : 0, all[i].sgl);
		if (all[i].admin)
			command.word[0] = rblk_to_le32(NVME_CNS_CONTROLLER);
		rdma_host_send(host, &command, NULL, 0);
		rdma_host_await_end(host);
		rdma_host_close(&second);
		rdma_host_close(&first);
		others_are_served();
	}
}

static void capsules_have_a_length(void **state)
{
	static uint8_t data[9000];
	static const uint32_t lengths[] = {8193, 9000};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(lengths); i++) {
		struct nvme_command command = command_of(NVME_WRITE, 0, 0, 0, NVME_SGL_CAPSULE);
		struct rdma_host first = {.host_id = 0}, second = {.host_id = 0};

		connect_both(&first, &second, 16);
		command.length = rblk_to_le32(lengths[i]);
		rdma_host_send(&second, &command, data, lengths[i]);
		rdma_host_await_end(&second);
		rdma_host_close(&second);
		rdma_host_close(&first);
		others_are_served();
	}
}

/* More than it has entries: the queue ends when the commands meet there; the others' receives come back. */
static void floods_end_the_connection(void **state)
{
	struct nvme_command aer = {.opcode = NVME_ASYNC_EVENT, .flags = NVME_FLAGS_SGL};

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		static uint8_t data[NVME_CAPSULE_BYTES];
		struct rdma_host first = {.host_id = 0}, second = {.host_id = 0};

		connect_both(&first, &second, ENTRIES);
		for (unsigned int j = 0; j < 200; j++) {
			struct nvme_command write = {.opcode = NVME_WRITE,
						     .namespace = rblk_to_le32(1),
						     .word = {rblk_to_le32(64), 0, rblk_to_le32(15)}};

			rdma_host_begin_command(&second, &write, RDMA_HOST_CAPSULE, data, sizeof(data));
		}
		rdma_host_await_end(&second);
		for (unsigned int j = 0; j < 64; j++)
			rdma_host_send(&first, &aer, NULL, 0);
		rdma_host_poll(&first);
		others_are_served();
		rdma_host_close(&second);
		rdma_host_close(&first);
	}
	others_are_served();
}

/* -- silence ------------------------------------------------------------------------------------- */

static void silent_connections_are_few_and_end(void **state)
{
	static struct rdma_host silent[NVME_RDMA_LOBBY_EACH + 16];
	struct rdma_host other = {.host_id = 5, .from = 7};
	unsigned int rejected = 0;

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(silent); i++) {
		rdma_host_begin(&silent[i], 0, 32);
		if (rdma_host_dial(&silent[i], address))
			continue;
		rejected++;
		assert_int_equal(rblk_le16(silent[i].reject.status), NVME_RDMA_NO_RESOURCES);
	}
	assert_true(rejected >= 1);
	/* From elsewhere a host gets in. */
	assert_int_equal(rdma_host_connect(&other, address, nqn, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_close(&other);
	others_are_served();
	for (unsigned int i = 0; i < UNIT_LENGTH(silent); i++) {
		if (silent[i].established)
			rdma_host_await_end(&silent[i]);
		rdma_host_close(&silent[i]);
	}
	others_are_served();
	other.from = 0;
	assert_int_equal(rdma_host_connect(&other, address, nqn, RDMA_HOST_NQN, 0, 32), NVME_OK);
	rdma_host_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_requests_are_rejected),	   cmocka_unit_test(the_first_message_is_connect),
		cmocka_unit_test(nothing_comes_before_the_answer), cmocka_unit_test(wrong_sgls_are_refused),
		cmocka_unit_test(wrong_keys_end_the_connection),   cmocka_unit_test(capsules_have_a_length),
		cmocka_unit_test(floods_end_the_connection),	   cmocka_unit_test(silent_connections_are_few_and_end),
	};

	setenv("RBLKD", getenv("RBLKD_SOFT"), 1);
	return cmocka_run_group_tests(tests, start, stop);
}
