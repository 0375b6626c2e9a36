/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the log pages that say what an NVMe host finds here are true: each page and each command that they tell of is
 * there, and no other. Method: a host of the test's own asks for all pages, and sends all commands.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"

static struct e2e_daemon server;
static struct e2e_file file;
static char address[64], nqn[NVME_NQN_BYTES];
static struct nvme_host admin, io;

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

static uint16_t log_page(uint8_t page, void *to, uint32_t bytes)
{
	return nvme_host_admin(&admin, NVME_GET_LOG_PAGE, 0xffffffff, page | (bytes / 4 - 1) << 16, 0, to, bytes);
}

/* Each page that is told of is there, and no other. */
static void log_pages_are_those_it_tells_of(void **state)
{
	uint8_t bytes[4096], part[4096];
	__le32 all[256];
	unsigned int count = 0;

	(void)state;
	assert_int_equal(log_page(NVME_LOG_PAGES, all, sizeof(all)), NVME_OK);
	for (unsigned int page = 0; page < 256; page++) {
		assert_int_equal(log_page((uint8_t)page, bytes, 512),
				 rblk_le32(all[page]) & 1 ? NVME_OK : NVME_BAD_LOG_PAGE);
		count += rblk_le32(all[page]) & 1;
	}
	assert_int_equal(count, 8);
	for (uint32_t size = 4; size <= 1024; size += 4) {
		assert_int_equal(log_page(NVME_LOG_PAGES, part, size), NVME_OK);
		assert_memory_equal(part, all, size);
	}
}

/* Of the commands that the page of effects tells of none is refused as one that is not there, and all others are. */
static void commands_are_those_it_tells_of(void **state)
{
	__le32 effects[1024];

	(void)state;
	assert_int_equal(log_page(NVME_LOG_EFFECTS, effects, sizeof(effects)), NVME_OK);
	for (unsigned int opcode = 0; opcode < 256; opcode++) {
		bool writes = opcode == NVME_WRITE || opcode == NVME_WRITE_ZEROES || opcode == NVME_DATASET_MANAGEMENT;
		uint32_t told = rblk_le32(effects[256 + opcode]);
		/* Beyond the volume, without data: nothing is done. */
		uint16_t status = nvme_host_io(&io, (uint8_t)opcode, NVME_HOST_NONE, 1u << 30, 0, NULL, 0);

		assert_int_equal(status == NVME_BAD_OPCODE, !told);
		assert_int_equal(told, !told ? 0 : writes ? 3 : 1);
	}
	assert_int_equal(rblk_le32(effects[NVME_IDENTIFY]), 1);
	assert_int_equal(rblk_le32(effects[NVME_ABORT]), 1);
	assert_int_equal(rblk_le32(effects[0x80]), 0);
}

/* The newest first, those of all queues; the page of health counts them. */
static void errors_are_kept(void **state)
{
	struct nvme_error errors[2];
	uint8_t health[512];
	uint64_t before;
	uint16_t status;

	(void)state;
	assert_int_equal(log_page(NVME_LOG_ERRORS, errors, sizeof(errors)), NVME_OK);
	before = rblk_le64(errors[0].number);
	status = nvme_host_io(&io, NVME_READ, NVME_HOST_NONE, 1u << 30, 7, NULL, 0);
	assert_true(status);
	assert_int_equal(log_page(0xee, health, sizeof(health)), NVME_BAD_LOG_PAGE);
	assert_int_equal(log_page(NVME_LOG_ERRORS, errors, sizeof(errors)), NVME_OK);
	assert_int_equal(rblk_le64(errors[0].number), before + 2);
	assert_int_equal(rblk_le16(errors[0].queue), 0);
	assert_int_equal(rblk_le16(errors[0].status) >> 1 & 0x7ff, NVME_BAD_LOG_PAGE);
	assert_int_equal(rblk_le64(errors[1].number), before + 1);
	assert_int_equal(rblk_le16(errors[1].queue), 1);
	assert_int_equal(rblk_le16(errors[1].status) >> 1 & 0x7ff, status);
	assert_int_equal(rblk_le64(errors[1].block), 1u << 30);
	assert_int_equal(rblk_le32(errors[1].namespace), 1);
	assert_int_equal(errors[1].transport, 3);
	/* Such a command's words 10 and 11 are no block. */
	assert_true(nvme_host_io(&io, 0x7c, NVME_HOST_NONE, 1u << 30, 7, NULL, 0));
	assert_int_equal(log_page(NVME_LOG_ERRORS, errors, sizeof(errors)), NVME_OK);
	assert_int_equal(rblk_le64(errors[0].number), before + 3);
	assert_int_equal(rblk_le32(errors[0].namespace), 1);
	assert_int_equal(rblk_le64(errors[0].block), 0);
	/* Nor is the type of a fabrics command a namespace. */
	assert_true(nvme_host_io(&io, NVME_FABRICS, NVME_HOST_NONE, 0, 0, NULL, 0));
	assert_int_equal(log_page(NVME_LOG_ERRORS, errors, sizeof(errors)), NVME_OK);
	assert_int_equal(rblk_le32(errors[0].namespace), 0);
	assert_int_equal(log_page(NVME_LOG_HEALTH, health, sizeof(health)), NVME_OK);
	assert_int_equal(health[176] | health[177] << 8, before + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_pages_are_those_it_tells_of),
		cmocka_unit_test(commands_are_those_it_tells_of),
		cmocka_unit_test(errors_are_kept),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
