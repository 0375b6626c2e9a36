/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tests/e2e/nvme_reserver.h"

#include <string.h>
#include "tests/unit/unit.h"

struct e2e_daemon nvme_server;
struct e2e_file nvme_disk;
char nvme_kept[64];
uint8_t nvme_block[BYTES];
static char address[64], nqn[NVME_NQN_BYTES];

/* -- the daemon, hosts --------------------------------------------------------------------------- */

void nvme_reserver_served(void)
{
	e2e_daemon_second_host(&nvme_server, address);
	nvme_host_discover(address, nqn);
}

int nvme_reserver_start_with(const char *option, const char *value)
{
	e2e_file_create(&nvme_disk, "disk", 1 << 20);
	e2e_folder_create(nvme_kept);
	e2e_daemon_start(&nvme_server, NVME_RESERVER_ARGUMENTS, "--reservations-dir", nvme_kept, option, value,
			 nvme_disk.volume, NULL);
	nvme_reserver_served();
	return 0;
}

int nvme_reserver_start(void **state)
{
	(void)state;
	return nvme_reserver_start_with("--session-time", "60s");
}

int nvme_reserver_stop(void **state)
{
	(void)state;
	e2e_file_remove(&nvme_disk);
	e2e_folder_remove(nvme_kept);
	return e2e_daemon_stop(&nvme_server);
}

void nvme_reserver_connect_with(struct nvme_reserver *host, const char *name, uint8_t id, uint8_t from, uint8_t digests)
{
	*host = (struct nvme_reserver){.admin = {.host_id = id, .from = from, .digests = digests}};
	host->io = host->admin;
	nvme_host_attach(&host->admin, &host->io, address, nqn, name, 32);
}

void nvme_reserver_connect(struct nvme_reserver *host, const char *name, uint8_t id)
{
	nvme_reserver_connect_with(host, name, id, 0, 0);
}

void nvme_reserver_close(struct nvme_reserver *host)
{
	nvme_host_close(&host->io);
	nvme_host_close(&host->admin);
}

/* -- commands ------------------------------------------------------------------------------------ */

struct nvme_host_command nvme_reserver_make(uint8_t opcode, uint32_t word10, struct nvme_reserve *keys)
{
	struct nvme_host_command command = {.way = NVME_HOST_CAPSULE, .data = keys, .bytes = sizeof(*keys)};

	command.command.opcode = opcode;
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32(word10);
	return command;
}

uint16_t nvme_reserve(struct nvme_reserver *host, uint8_t opcode, uint32_t word10, uint64_t key, uint64_t other)
{
	struct nvme_reserve keys = {rblk_to_le64(key), rblk_to_le64(other)};
	struct nvme_host_command command = nvme_reserver_make(opcode, word10, &keys);

	return nvme_host_run(&host->io, &command);
}

uint16_t nvme_register(struct nvme_reserver *host, uint32_t word10, uint64_t key, uint64_t next)
{
	return nvme_reserve(host, NVME_RESERVE_REGISTER, word10, key, next);
}

uint16_t nvme_acquire(struct nvme_reserver *host, uint32_t action, uint64_t key, uint64_t other, uint8_t type)
{
	return nvme_reserve(host, NVME_RESERVE_ACQUIRE, action | TYPE(type), key, other);
}

uint16_t nvme_release(struct nvme_reserver *host, uint32_t action, uint64_t key, uint8_t type)
{
	return nvme_reserve(host, NVME_RESERVE_RELEASE, action | TYPE(type), key, 0);
}

uint16_t nvme_report_bytes(struct nvme_reserver *host, struct nvme_report *report, uint32_t bytes)
{
	struct nvme_host_command command = {.way = NVME_HOST_IN, .data = report, .bytes = bytes};
	uint16_t status;

	memset(report, 0x77, sizeof(*report));
	command.command.opcode = NVME_RESERVE_REPORT;
	command.command.namespace = rblk_to_le32(1);
	command.command.word[0] = rblk_to_le32(bytes / 4 - 1);
	command.command.word[1] = rblk_to_le32(1);
	status = nvme_host_run(&host->io, &command);
	assert_int_equal(command.arrived, status ? 0 : bytes);
	return status;
}

void nvme_report(struct nvme_reserver *host, struct nvme_report *report)
{
	assert_int_equal(nvme_report_bytes(host, report, sizeof(*report)), NVME_OK);
}

uint16_t nvme_reserver_write(struct nvme_reserver *host, int pattern)
{
	memset(nvme_block, pattern, BYTES);
	return nvme_host_io(&host->io, NVME_WRITE, NVME_HOST_CAPSULE, 0, BYTES / BLOCK - 1, nvme_block, BYTES);
}

uint16_t nvme_reserver_read(struct nvme_reserver *host)
{
	return nvme_host_io(&host->io, NVME_READ, NVME_HOST_IN, 0, BYTES / BLOCK - 1, nvme_block, BYTES);
}

void nvme_reserver_may(struct nvme_reserver *host, bool reads, bool writes)
{
	const uint16_t read = reads ? NVME_OK : NVME_RESERVED, write = writes ? NVME_OK : NVME_RESERVED;

	assert_int_equal(nvme_reserver_read(host), read);
	assert_int_equal(
		nvme_host_io(&host->io, NVME_COMPARE, NVME_HOST_CAPSULE, 0, BYTES / BLOCK - 1, nvme_block, BYTES),
		read);
	assert_int_equal(nvme_host_io(&host->io, NVME_VERIFY, NVME_HOST_NONE, 0, 0, NULL, 0), read);
	assert_int_equal(nvme_reserver_write(host, 'm'), write);
	assert_int_equal(nvme_host_io(&host->io, NVME_WRITE_ZEROES, NVME_HOST_NONE, 8, 0, NULL, 0), write);
	assert_int_equal(nvme_host_io(&host->io, NVME_FLUSH, NVME_HOST_NONE, 0, 0, NULL, 0), write);
}
