/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host finds, connects, identifies, reads, writes, flushes and deallocates a volume, in every way in
 * which data can go, and what is not there is refused as the specification says. Method: a host of the test's own on a
 * socket.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

#define BLOCK 512u
#define BYTES (64u << 10)

static struct e2e_daemon server;
static struct e2e_file file;
static char address[64], nqn[NVME_NQN_BYTES];
static struct nvme_host admin, io;
static uint8_t data[BYTES], back[BYTES];

static int start(void **state)
{
	(void)state;
	e2e_disk_start(&server, &file, "nvme+tcp://127.0.0.1:0");
	e2e_daemon_second_host(&server, address);
	nvme_host_discover(address, nqn);
	nvme_host_attach(&admin, &io, address, nqn, NVME_HOST_NQN, 128);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	nvme_host_close(&io);
	nvme_host_close(&admin);
	return e2e_disk_stop(&server, &file);
}

static void pattern(uint8_t seed)
{
	for (uint32_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
	memset(back, 0, sizeof(back));
}

static void admin_command(uint8_t opcode, uint32_t namespace, uint32_t word10, uint32_t word11, uint16_t status)
{
	assert_int_equal(nvme_host_admin(&admin, opcode, namespace, word10, word11, NULL, 0), status);
}

static uint16_t identify(uint32_t cns, uint32_t namespace, void *to)
{
	return nvme_host_admin(&admin, NVME_IDENTIFY, namespace, cns, 0, to, NVME_IDENTIFY_BYTES);
}

static void identifies(void **state)
{
	struct nvme_identify_controller controller;
	struct nvme_identify_namespace namespace;
	uint8_t bytes[NVME_IDENTIFY_BYTES];

	(void)state;
	assert_int_equal(identify(NVME_CNS_CONTROLLER, 0, &controller), NVME_OK);
	assert_int_equal(rblk_le16(controller.id), admin.controller);
	assert_string_equal(controller.subsystem, nqn);
	assert_memory_equal(controller.model, "rblk disk ", 10);
	assert_int_equal(controller.kind, 1);
	assert_int_equal(controller.write_cache, 1);
	assert_int_equal(rblk_le16(controller.optional),
			 NVME_OPTIONAL_COMPARE | NVME_OPTIONAL_DSM | NVME_OPTIONAL_ZEROES | NVME_OPTIONAL_VERIFY |
				 NVME_OPTIONAL_RESERVATIONS);
	assert_int_equal(rblk_le16(controller.fused), 1);
	assert_int_equal((rblk_le16(controller.atomic_compare) + 1) * BLOCK, 4096);
	assert_int_equal(identify(NVME_CNS_NAMESPACE, 1, &namespace), NVME_OK);
	assert_int_equal(rblk_le64(namespace.blocks) << (rblk_le32(namespace.format_0) >> 16), 1 << 20);
	assert_int_equal(identify(NVME_CNS_NAMESPACES, 0, bytes), NVME_OK);
	assert_memory_equal(bytes, "\1\0\0\0\0\0\0\0", 8);
	assert_int_equal(identify(NVME_CNS_DESCRIPTORS, 1, bytes), NVME_OK);
	assert_int_equal(bytes[0], 3);
	assert_memory_equal(bytes + 4, namespace.nguid, sizeof(namespace.nguid));
	assert_int_equal(identify(NVME_CNS_SET_CONTROLLER, 0, bytes), NVME_OK);
	assert_int_equal(identify(NVME_CNS_NAMESPACE, 2, bytes), NVME_BAD_NAMESPACE);
	assert_int_equal(identify(NVME_CNS_DESCRIPTORS, 0, bytes), NVME_BAD_NAMESPACE);
	assert_int_equal(identify(0x1f, 1, bytes), NVME_BAD_FIELD);
}

static void has_features(void **state)
{
	(void)state;
	admin_command(NVME_SET_FEATURES, 0, NVME_FEATURE_QUEUES, 0x00030003, NVME_OK);
	admin_command(NVME_GET_FEATURES, 0, NVME_FEATURE_WRITE_CACHE, 0, NVME_OK);
	admin_command(NVME_SET_FEATURES, 0, NVME_FEATURE_WRITE_CACHE, 0, NVME_NOT_CHANGEABLE);
	admin_command(NVME_SET_FEATURES, 0, NVME_FEATURE_EVENTS, 0x100, NVME_OK);
	admin_command(NVME_GET_FEATURES, 0, 0x7f, 0, NVME_BAD_FIELD);
	admin_command(NVME_KEEP_ALIVE, 0, 0, 0, NVME_OK);
	admin_command(NVME_ABORT, 0, 1, 0, NVME_OK);
	admin_command(0xc0, 0, 0, 0, NVME_BAD_OPCODE);
}

static void reads_what_it_writes(void **state)
{
	const enum nvme_host_way ways[] = {NVME_HOST_CAPSULE, NVME_HOST_R2T};
	const uint32_t sizes[] = {BLOCK, 4096, 8192, BYTES};

	(void)state;
	for (unsigned int w = 0; w < 2; w++) {
		for (unsigned int s = 0; s < 4; s++) {
			if (ways[w] == NVME_HOST_CAPSULE && sizes[s] > 8192)
				continue;
			pattern((uint8_t)(w * 4 + s));
			assert_int_equal(
				nvme_host_io(&io, NVME_WRITE, ways[w], 3, sizes[s] / BLOCK - 1, data, sizes[s]),
				NVME_OK);
			assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 3,
						      NVME_LIMITED_RETRY | (sizes[s] / BLOCK - 1), back, sizes[s]),
					 NVME_OK);
			assert_memory_equal(back, data, sizes[s]);
		}
	}
	assert_true(io.r2ts >= 4);
	assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 0, NVME_FUA, data, BLOCK), NVME_OK);
	assert_int_equal(nvme_host_io(&io, NVME_FLUSH, NVME_HOST_NONE, 0, 0, NULL, 0), NVME_OK);
}

static void zeroes(void **state)
{
	struct nvme_range ranges[256] = {{.blocks = rblk_to_le32(8), .lba = rblk_to_le64(64)},
					 {.blocks = 0},
					 {.blocks = rblk_to_le32(8), .lba = rblk_to_le64(80)}};
	struct nvme_host_command deallocate = {.data = ranges, .bytes = sizeof(ranges)};
	static const uint8_t none[8 * BLOCK];

	(void)state;
	deallocate.command.opcode = NVME_DATASET_MANAGEMENT;
	deallocate.command.namespace = rblk_to_le32(1);
	deallocate.command.word[0] = rblk_to_le32(2);
	deallocate.command.word[1] = rblk_to_le32(NVME_DSM_DEALLOCATE);
	for (int way = NVME_HOST_CAPSULE; way <= NVME_HOST_R2T; way++) {
		pattern(9);
		assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_R2T, 64, 31, data, 32 * BLOCK), NVME_OK);
		deallocate.way = (enum nvme_host_way)way;
		assert_int_equal(nvme_host_run(&io, &deallocate), NVME_OK);
		assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 64, 31, back, 32 * BLOCK), NVME_OK);
		assert_memory_equal(back, none, 8 * BLOCK);
		assert_memory_equal(back + 8 * BLOCK, data + 8 * BLOCK, 8 * BLOCK);
		assert_memory_equal(back + 16 * BLOCK, none, 8 * BLOCK);
		assert_memory_equal(back + 24 * BLOCK, data + 24 * BLOCK, 8 * BLOCK);
	}
	assert_int_equal(nvme_host_io(&io, NVME_WRITE_ZEROES, NVME_HOST_NONE, 72, 7 | NVME_DEALLOCATE, NULL, 0),
			 NVME_OK);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 72, 7, back, 8 * BLOCK), NVME_OK);
	assert_memory_equal(back, none, 8 * BLOCK);
}

static void compares(void **state)
{
	(void)state;
	pattern(33);
	assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 100, 15, data, 16 * BLOCK), NVME_OK);
	for (int way = NVME_HOST_CAPSULE; way <= NVME_HOST_R2T; way++) {
		assert_int_equal(nvme_host_io(&io, NVME_COMPARE, (enum nvme_host_way)way, 100, 15, data, 16 * BLOCK),
				 NVME_OK);
		data[16 * BLOCK - 1] ^= 1;
		assert_int_equal(nvme_host_io(&io, NVME_COMPARE, (enum nvme_host_way)way, 100, 15, data, 16 * BLOCK),
				 NVME_DIFFERS);
		data[16 * BLOCK - 1] ^= 1;
	}
	assert_int_equal(nvme_host_io(&io, NVME_COMPARE, NVME_HOST_R2T, 100, 16, data, 17 * BLOCK), NVME_BAD_FIELD);
	assert_int_equal(nvme_host_io(&io, NVME_COMPARE, NVME_HOST_R2T, 100, 1, data, BLOCK), NVME_BAD_SGL_LENGTH);
	assert_int_equal(nvme_host_io(&io, NVME_COMPARE, NVME_HOST_R2T, (1 << 20) / BLOCK, 0, data, BLOCK), NVME_RANGE);
}

static void verifies(void **state)
{
	const uint32_t blocks = (1 << 20) / BLOCK;

	(void)state;
	assert_int_equal(nvme_host_io(&io, NVME_VERIFY, NVME_HOST_NONE, 0, blocks - 1, NULL, 0), NVME_OK);
	assert_int_equal(nvme_host_io(&io, NVME_VERIFY, NVME_HOST_NONE, 1, blocks - 1, NULL, 0), NVME_RANGE);
	assert_int_equal(nvme_host_io(&io, NVME_VERIFY, NVME_HOST_NONE, 1, 1u << 26, NULL, 0), NVME_BAD_FIELD);
	assert_int_equal(nvme_host_io(&io, NVME_VERIFY, NVME_HOST_CAPSULE, 0, 0, data, BLOCK), NVME_BAD_SGL_LENGTH);
}

/* A pair on blocks from 200 on: `expected` is compared, `next` written, each in its way. */
static void pair_make(struct nvme_host_command pair[2], const int ways[2], uint8_t *expected, uint8_t *next,
		      uint32_t blocks)
{
	memset(pair, 0, 2 * sizeof(*pair));
	for (int i = 0; i < 2; i++) {
		pair[i].way = (enum nvme_host_way)ways[i];
		pair[i].data = i ? next : expected;
		pair[i].bytes = blocks * BLOCK;
		pair[i].command.opcode = i ? NVME_WRITE : NVME_COMPARE;
		pair[i].command.flags = i ? NVME_FUSE_SECOND : NVME_FUSE_FIRST;
		pair[i].command.namespace = rblk_to_le32(1);
		pair[i].command.word[0] = rblk_to_le32(200);
		pair[i].command.word[2] = rblk_to_le32(blocks - 1);
	}
}

static void pair_runs(struct nvme_host *host, struct nvme_host_command pair[2], uint16_t first, uint16_t second)
{
	uint16_t statuses[2];

	nvme_host_run_pair(host, pair, statuses);
	assert_int_equal(statuses[0], first);
	assert_int_equal(statuses[1], second);
}

static void disk_has(struct nvme_host *host, const uint8_t *bytes, uint32_t blocks)
{
	assert_int_equal(nvme_host_io(host, NVME_READ, NVME_HOST_IN, 200, blocks - 1, back, blocks * BLOCK), NVME_OK);
	assert_memory_equal(back, bytes, blocks * BLOCK);
}

/* Data in capsules, fetched, and one of each. */
static const int pair_ways[][2] = {{NVME_HOST_CAPSULE, NVME_HOST_CAPSULE},
				   {NVME_HOST_R2T, NVME_HOST_R2T},
				   {NVME_HOST_CAPSULE, NVME_HOST_R2T},
				   {NVME_HOST_R2T, NVME_HOST_CAPSULE}};

static void compares_and_writes(void **state)
{
	uint8_t *next = data + 4096;
	struct nvme_host_command pair[2];

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		uint32_t blocks = i % 2 ? 8 : 1;

		pattern((uint8_t)(40 + i));
		assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 200, 7, data, 4096), NVME_OK);
		pair_make(pair, pair_ways[i], data, next, blocks);
		pair_runs(&io, pair, NVME_OK, NVME_OK);
		disk_has(&io, next, blocks);
		/* It is another one now. */
		pair_make(pair, pair_ways[i], data, data + 8192, blocks);
		pair_runs(&io, pair, NVME_DIFFERS, NVME_FUSED_FAILED);
		disk_has(&io, next, blocks);
	}
	/* FUA, and beyond the volume. */
	pair_make(pair, pair_ways[0], next, data, 8);
	pair[1].command.word[2] |= rblk_to_le32(NVME_FUA);
	pair_runs(&io, pair, NVME_OK, NVME_OK);
	disk_has(&io, data, 8);
	pair_make(pair, pair_ways[1], data, next, 8);
	pair[0].command.word[0] = pair[1].command.word[0] = rblk_to_le32((1 << 20) / BLOCK);
	pair_runs(&io, pair, NVME_RANGE, NVME_RANGE);
}

static void wrong_pairs_are_refused(void **state)
{
	uint8_t *next = data + 8192;
	struct nvme_host_command pair[2];

	(void)state;
	pattern(50);
	assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 200, 15, data, 8192), NVME_OK);
	for (unsigned int i = 0; i < 4; i++) {
		/* Too long, and of two ranges. */
		pair_make(pair, pair_ways[i], data, next, 9);
		pair[0].way = pair[1].way = NVME_HOST_R2T;
		pair_runs(&io, pair, NVME_BAD_FIELD, NVME_FUSED_FAILED);
		pair_make(pair, pair_ways[i], data, next, 2);
		pair[1].command.word[0] = rblk_to_le32(201);
		pair_runs(&io, pair, NVME_FUSED_FAILED, NVME_BAD_FIELD);
		pair_make(pair, pair_ways[i], data, next, 2);
		pair[1].command.opcode = NVME_FLUSH;
		pair_runs(&io, pair, NVME_FUSED_FAILED, NVME_BAD_FIELD);
		/* The other one is not there. */
		pair_make(pair, pair_ways[i], data, next, 2);
		pair[1].command.flags = 0;
		pair_runs(&io, pair, NVME_FUSED_MISSING, NVME_OK);
		assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 200, 15, data, 8192), NVME_OK);
		pair_make(pair, pair_ways[i], data, next, 2);
		pair[0].command.flags = 0;
		pair_runs(&io, pair, NVME_OK, NVME_FUSED_MISSING);
		pair_make(pair, pair_ways[i], data, next, 2);
		pair[1] = pair[0];
		pair[1].command.opcode = NVME_READ;
		pair_runs(&io, pair, NVME_FUSED_MISSING, NVME_BAD_FIELD);
	}
	pair_make(pair, pair_ways[0], data, next, 2);
	pair[0].command.flags = NVME_FLAGS_FUSE;
	assert_int_equal(nvme_host_run(&io, pair), NVME_BAD_FIELD);
	disk_has(&io, data, 16);
}

static void refuses(void **state)
{
	const uint32_t blocks = (1 << 20) / BLOCK;

	(void)state;
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, blocks, 0, back, BLOCK), NVME_RANGE);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, blocks - 1, 1, back, 2 * BLOCK), NVME_RANGE);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, 1, back, BLOCK), NVME_BAD_SGL_LENGTH);
	assert_int_equal(nvme_host_io(&io, NVME_WRITE, NVME_HOST_CAPSULE, 0, 1, data, BLOCK), NVME_BAD_SGL_LENGTH);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_CAPSULE, 0, 0, data, BLOCK), NVME_BAD_SGL_TYPE);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, 1u << 26, back, BLOCK), NVME_BAD_FIELD);
	assert_int_equal(nvme_host_io(&io, 0x04, NVME_HOST_R2T, 0, 0, data, BLOCK), NVME_BAD_OPCODE);
	assert_int_equal(nvme_host_io(&io, NVME_FLUSH, NVME_HOST_CAPSULE, 0, 0, data, BLOCK), NVME_BAD_SGL_LENGTH);
}

static void refuses_to_connect(void **state)
{
	struct nvme_host other = {.controller = admin.controller};

	(void)state;
	assert_int_equal(nvme_host_connect(&other, address, nqn, NVME_HOST_NQN, 1, 128), NVME_BAD_SEQUENCE);
	assert_int_equal(nvme_host_connect(&other, address, nqn, NVME_HOST_NQN, 99, 128), NVME_CONNECT_INVALID);
	assert_int_equal(nvme_host_connect(&other, address, nqn, NVME_HOST_NQN, 2, 129), NVME_CONNECT_INVALID);
	assert_int_equal(nvme_host_connect(&other, address, nqn, NVME_UUID_PREFIX "x", 2, 128), NVME_CONNECT_INVALID);
	other.controller++;
	assert_int_equal(nvme_host_connect(&other, address, nqn, NVME_HOST_NQN, 2, 128), NVME_CONNECT_INVALID);
	assert_int_equal(
		nvme_host_connect(&other, address, "nqn.2014-08.org.nvmexpress:uuid:none", NVME_HOST_NQN, 0, 32),
		NVME_CONNECT_INVALID);
	assert_int_equal(nvme_host_connect(&other, address, nqn, "a host", 0, 32), NVME_CONNECT_HOST);
}

/* Whatever a controller's admin queue leaves ends with it; that of another host stays. */
static void ends_alone(void **state)
{
	struct nvme_host other = {.fd = -1, .host_id = 1}, queue = {.fd = -1, .host_id = 1};

	(void)state;
	nvme_host_attach(&other, &queue, address, nqn, NVME_HOST_NQN, 16);
	pattern(77);
	assert_int_equal(nvme_host_io(&queue, NVME_WRITE, NVME_HOST_R2T, 0, 15, data, 16 * BLOCK), NVME_OK);
	nvme_host_close(&other);
	assert_int_equal(nvme_host_ended(queue.fd), -1);
	assert_int_equal(nvme_host_io(&io, NVME_READ, NVME_HOST_IN, 0, 15, back, 16 * BLOCK), NVME_OK);
	assert_memory_equal(back, data, 16 * BLOCK);
}

/* -- digests ------------------------------------------------------------------------------------- */

static void connect_with(const char *where, const char *subsystem, uint8_t digests, struct nvme_host *first,
			 struct nvme_host *second)
{
	first->digests = second->digests = digests;
	assert_int_equal(nvme_host_connect(first, where, subsystem, NVME_HOST_NQN, 0, 32), NVME_OK);
	nvme_host_enable(first);
	second->controller = first->controller;
	assert_int_equal(nvme_host_connect(second, where, subsystem, NVME_HOST_NQN, 1, 16), NVME_OK);
}

/* Of a write or of ranges whose digest is wrong nothing is done, and it is not acknowledged; sent again it is. */
static void damaged_data_changes_nothing(struct nvme_host *host, bool ranges_too)
{
	struct nvme_range range = {.blocks = rblk_to_le32(16)};
	struct nvme_host_command deallocate = {.data = &range, .bytes = sizeof(range)};
	uint8_t old[16 * BLOCK];

	deallocate.command.opcode = NVME_DATASET_MANAGEMENT;
	deallocate.command.namespace = rblk_to_le32(1);
	deallocate.command.word[1] = rblk_to_le32(NVME_DSM_DEALLOCATE);
	for (int way = NVME_HOST_CAPSULE; way <= NVME_HOST_R2T; way++) {
		pattern((uint8_t)(100 + way));
		memcpy(old, data, sizeof(old));
		assert_int_equal(nvme_host_io(host, NVME_WRITE, (enum nvme_host_way)way, 0, 15, data, sizeof(old)),
				 NVME_OK);
		pattern((uint8_t)(200 + way));
		host->damage = NVME_DIGEST_DATA;
		assert_int_equal(nvme_host_io(host, NVME_WRITE, (enum nvme_host_way)way, 0, 15, data, sizeof(old)),
				 NVME_TRANSPORT);
		host->damage = NVME_DIGEST_DATA;
		deallocate.way = (enum nvme_host_way)way;
		if (ranges_too)
			assert_int_equal(nvme_host_run(host, &deallocate), NVME_TRANSPORT);
		host->damage = 0;
		assert_int_equal(nvme_host_io(host, NVME_READ, NVME_HOST_IN, 0, 15, back, sizeof(old)), NVME_OK);
		assert_memory_equal(back, old, sizeof(old));
		assert_int_equal(nvme_host_io(host, NVME_WRITE, (enum nvme_host_way)way, 0, 15, data, sizeof(old)),
				 NVME_OK);
		assert_int_equal(nvme_host_io(host, NVME_READ, NVME_HOST_IN, 0, 15, back, sizeof(old)), NVME_OK);
		assert_memory_equal(back, data, sizeof(old));
		if (ranges_too)
			assert_int_equal(nvme_host_run(host, &deallocate), NVME_OK);
	}
}

static void damaged_pairs_change_nothing(struct nvme_host *host)
{
	struct nvme_host_command pair[2];

	for (unsigned int i = 0; i < 4; i++) {
		pattern((uint8_t)(60 + i));
		assert_int_equal(nvme_host_io(host, NVME_WRITE, NVME_HOST_R2T, 200, 15, data, 8192), NVME_OK);
		pair_make(pair, pair_ways[i], data, data + 8192, 8);
		host->damage = NVME_DIGEST_DATA;
		/* What comes first is damaged: what is in a capsule, or the Compare's. */
		if (i == 3)
			pair_runs(host, pair, NVME_FUSED_FAILED, NVME_TRANSPORT);
		else
			pair_runs(host, pair, NVME_TRANSPORT, NVME_FUSED_FAILED);
		disk_has(host, data, 16);
		pair_runs(host, pair, NVME_OK, NVME_OK);
		disk_has(host, data + 8192, 8);
	}
}

static void has_digests(void **state)
{
	(void)state;
	for (uint8_t digests = 1; digests <= 3; digests++) {
		struct nvme_host first = {.host_id = 1}, second = {.host_id = 1};

		connect_with(address, nqn, digests, &first, &second);
		pattern(digests);
		assert_int_equal(nvme_host_io(&second, NVME_WRITE, NVME_HOST_R2T, 7, BYTES / BLOCK - 1, data, BYTES),
				 NVME_OK);
		assert_int_equal(nvme_host_io(&second, NVME_READ, NVME_HOST_IN, 7, BYTES / BLOCK - 1, back, BYTES),
				 NVME_OK);
		assert_memory_equal(back, data, BYTES);
		if (digests & NVME_DIGEST_DATA)
			damaged_data_changes_nothing(&second, true);
		if (digests & NVME_DIGEST_DATA)
			damaged_pairs_change_nothing(&second);
		nvme_host_close(&second);
		nvme_host_close(&first);
	}
}

/* The control socket says this. */
static void control_says(const char *control, const char *method, const char *words)
{
	struct sockaddr_un there = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), bytes;
	char text[32768];
	size_t used = 0;

	assert_true(snprintf(there.sun_path, sizeof(there.sun_path), "%s", control) < (int)sizeof(there.sun_path));
	assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof(there)), 0);
	bytes = snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}\n", method);
	nvme_host_write(fd, text, (size_t)bytes);
	do {
		ssize_t got = recv(fd, text + used, sizeof(text) - 1 - used, 0);

		assert_true(got > 0);
		used += (size_t)got;
		text[used] = '\0';
	} while (!strchr(text, '\n'));
	close(fd);
	if (!strstr(text, words))
		fail_msg("%s: no %s in %s", method, words, text);
}

/* In memory too, where data without a digest goes straight into the volume. */
static void memory_has_digests(void **state)
{
	struct nvme_host first = {.fd = -1}, second = {.fd = -1};
	char folder[64], control[80], there[64], subsystem[NVME_NQN_BYTES];
	struct e2e_daemon memory;

	(void)state;
	e2e_folder_create(folder);
	snprintf(control, sizeof(control), "%s/control", folder);
	e2e_daemon_start(&memory, "--listen", "nvme+tcp://127.0.0.1:0", "--control-socket", control, "--memory",
			 "disk=1M", NULL);
	e2e_daemon_second_host(&memory, there);
	nvme_host_discover(there, subsystem);
	connect_with(there, subsystem, 3, &first, &second);
	damaged_data_changes_nothing(&second, false);
	damaged_pairs_change_nothing(&second);
	control_says(control, "volumes", "\"digest\":2");
	control_says(control, "sessions", "\"digest_connections\":2");
	nvme_host_close(&second);
	nvme_host_close(&first);
	assert_int_equal(e2e_daemon_stop(&memory), 0);
	e2e_folder_remove(folder);
}

/* -- access rules -------------------------------------------------------------------------------- */

#define READER NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000b"

static void config_write(const char *folder, char path[96])
{
	snprintf(path, 96, "%s/rblkd.conf", folder);
	unit_file_write(path,
			"[volume disk]\nstore = memory\nsize = 1M\nuuid = 01010101-0101-0101-0101-010101010101\n"
			"[initiator uuid:00000000-0000-0000-0000-00000000000b]\naddress = 127.0.0.0/8\nread = disk\n");
}

static void rules_are_for_hosts_too(void **state)
{
	static const char subsystem[] = NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101";
	struct nvme_host other = {.fd = -1}, queue = {.fd = -1};
	struct nvme_identify_namespace namespace;
	char folder[64], config[96], there[64];
	struct e2e_daemon ruled;
	__le32 effects[1024];

	(void)state;
	e2e_folder_create(folder);
	config_write(folder, config);
	e2e_daemon_start(&ruled, "--listen", "nvme+tcp://127.0.0.1:0", "--config", config, NULL);
	e2e_daemon_second_host(&ruled, there);
	/* Whoever is not named does not learn that there is one. */
	assert_int_equal(nvme_host_connect(&other, there, subsystem, NVME_HOST_NQN, 0, 32), NVME_CONNECT_INVALID);
	assert_int_equal(nvme_host_connect(&other, there, subsystem, READER, 0, 32), NVME_OK);
	nvme_host_enable(&other);
	assert_int_equal(
		nvme_host_admin(&other, NVME_IDENTIFY, 1, NVME_CNS_NAMESPACE, 0, &namespace, sizeof(namespace)),
		NVME_OK);
	assert_int_equal(namespace.attributes, 1);
	queue.controller = other.controller;
	assert_int_equal(nvme_host_connect(&queue, there, subsystem, READER, 1, 16), NVME_OK);
	assert_int_equal(nvme_host_io(&queue, NVME_READ, NVME_HOST_IN, 0, 7, back, 8 * BLOCK), NVME_OK);
	assert_int_equal(nvme_host_io(&queue, NVME_WRITE, NVME_HOST_CAPSULE, 0, 7, data, 8 * BLOCK),
			 NVME_WRITE_PROTECTED);
	/* Memory is not durable: a flush does not say that it were, and its host is told that there is none. */
	assert_int_equal(nvme_host_io(&queue, NVME_FLUSH, NVME_HOST_NONE, 0, 0, NULL, 0), NVME_BAD_OPCODE);
	assert_int_equal(nvme_host_admin(&other, NVME_GET_LOG_PAGE, 0xffffffff, NVME_LOG_EFFECTS | 1023u << 16, 0,
					 effects, sizeof(effects)),
			 NVME_OK);
	assert_int_equal(rblk_le32(effects[256 + NVME_FLUSH]), 0);
	assert_int_equal(rblk_le32(effects[256 + NVME_READ]), 1);
	nvme_host_close(&queue);
	nvme_host_close(&other);
	assert_int_equal(e2e_daemon_stop(&ruled), 0);
	e2e_folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identifies),
		cmocka_unit_test(has_features),
		cmocka_unit_test(reads_what_it_writes),
		cmocka_unit_test(zeroes),
		cmocka_unit_test(compares),
		cmocka_unit_test(verifies),
		cmocka_unit_test(compares_and_writes),
		cmocka_unit_test(wrong_pairs_are_refused),
		cmocka_unit_test(refuses),
		cmocka_unit_test(refuses_to_connect),
		cmocka_unit_test(has_digests),
		cmocka_unit_test(memory_has_digests),
		cmocka_unit_test(ends_alone),
		cmocka_unit_test(rules_are_for_hosts_too),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
