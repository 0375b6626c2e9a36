/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a host of NVMe over RDMA has written on a connection that it has lost does not land on what it writes when
 * it has connected again (F5), whether the target knows of the loss or not, wherever the old write was then; and also
 * if it comes back over TCP, or had been there before. Method: as nvme_stale_write, with its proxy below fabric_tcp,
 * which stands for RDMA.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_host.h"
#include "tests/e2e/nvme_rdma_host.h"
#include "tests/e2e/proxy.h"

#define BLOCK 4096u
#define SECTORS (BLOCK / 512u)
#define QUEUES 3u
#define DISK NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101"
#define NAME "uuid:00000000-0000-0000-0000-00000000000a"

static struct e2e_daemon server;
static struct proxy *proxy;
static char folder[64], address[64], tcp_address[64];
static uint8_t older[BLOCK], newer[BLOCK];

/* A host's association. */
struct host {
	struct rdma_host admin, queues[QUEUES];
	unsigned int count;
};

static void begin(const char *reactors, const char *fault)
{
	char path[96], line[512];
	FILE *log;

	e2e_folder_create(folder);
	snprintf(path, sizeof(path), "%s/rblkd.conf", folder);
	unit_file_write(path,
			"[volume disk]\nstore = memory\nsize = 1M\nuuid = 01010101-0101-0101-0101-010101010101\n%s%s\n",
			fault ? "fault = " : "", fault ? fault : "");
	e2e_daemon_start(&server, "--listen", "nvme+rdma://127.0.0.1:0", "--listen", "nvme+tcp://127.0.0.1:0",
			 "--config", path, "--reactors", reactors, "--keepalive", "600s", "--session-time", "600s",
			 NULL);
	e2e_daemon_second_host(&server, address);
	log = fopen(server.log, "r");
	while (fgets(line, sizeof(line), log))
		if (strstr(line, "nvme+tcp://"))
			sscanf(strstr(line, "nvme+tcp://") + 11, "%63[0-9.:]", tcp_address);
	fclose(log);
	proxy = proxy_start(address);
	memset(older, 0x0a, sizeof(older));
	memset(newer, 0x0b, sizeof(newer));
}

static void end(void)
{
	proxy_stop(proxy);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	e2e_folder_remove(folder);
}

static void host_connect(struct host *host, const char *to, unsigned int count)
{
	uint16_t status;

	memset(host, 0, sizeof(*host));
	/* The target may be busy with what is to end first: as hosts do, again. */
	while ((status = rdma_host_connect(&host->admin, to, DISK, RDMA_HOST_NQN, 0, 32)) == NVME_CONNECT_BUSY)
		rdma_host_close(&host->admin);
	assert_int_equal(status, NVME_OK);
	rdma_host_enable(&host->admin);
	host->count = count;
	for (unsigned int i = 0; i < count; i++) {
		host->queues[i].controller = host->admin.controller;
		assert_int_equal(rdma_host_connect(&host->queues[i], to, DISK, RDMA_HOST_NQN, (uint16_t)(i + 1), 16),
				 NVME_OK);
	}
}

static void host_close(struct host *host)
{
	for (unsigned int i = 0; i < host->count; i++)
		rdma_host_close(&host->queues[i]);
	rdma_host_close(&host->admin);
}

/* Each queue writes a block of its own. */
static void write_begin(struct rdma_host *queue, unsigned int block, enum rdma_host_way way)
{
	struct nvme_command command = {.opcode = NVME_WRITE,
				       .namespace = rblk_to_le32(1),
				       .word = {rblk_to_le32(block * SECTORS), 0, rblk_to_le32(SECTORS - 1)}};

	rdma_host_begin_command(queue, &command, way, older, BLOCK);
	rdma_host_poll(queue);
}

/* One write of a reactor is delayed. */
static void write_in_store(struct rdma_host *queue)
{
	write_begin(queue, 0, RDMA_HOST_CAPSULE);
	/* The answer of what came behind it: so the store has it. */
	assert_int_equal(rdma_host_io(queue, NVME_READ, RDMA_HOST_KEYED, 64, NULL, 512), NVME_OK);
}

static void write_in_proxy(struct host *host, unsigned int from, enum rdma_host_way way)
{
	proxy_hold(proxy, true);
	for (unsigned int i = from; i < host->count; i++)
		write_begin(&host->queues[i], i, way);
}

static void in_store(struct host *host)
{
	write_in_store(&host->queues[0]);
	write_in_proxy(host, 1, RDMA_HOST_CAPSULE);
}

static void in_store_known(struct host *host)
{
	write_in_store(&host->queues[0]);
	proxy_cut(proxy);
}

static void in_proxy(struct host *host)
{
	write_in_proxy(host, 0, RDMA_HOST_CAPSULE);
}

/* The target has the commands, and its READs are not answered: the host is not polled. */
static void data_at_host(struct host *host)
{
	for (unsigned int i = 0; i < host->count; i++)
		write_begin(&host->queues[i], i, RDMA_HOST_KEYED);
	proxy_hold(proxy, true);
	for (unsigned int i = 0; i < host->count; i++)
		rdma_host_poll(&host->queues[i]);
}

static void others_have_ended(struct host *old)
{
	for (unsigned int i = 0; i < old->count; i++)
		rdma_host_await_end(&old->queues[i]);
	/* When nothing is in flight any more. */
	e2e_daemon_log_wait(&server, NAME ": ended", 1);
}

static void stays_newer(const char *reactors, bool delays, void (*lose)(struct host *))
{
	struct host old, new;

	begin(reactors, delays ? "delay=write:3s,count=1" : NULL);
	host_connect(&old, proxy_host(proxy), QUEUES);
	lose(&old);
	host_connect(&new, address, 1);
	for (unsigned int i = 0; i < QUEUES; i++)
		assert_int_equal(rdma_host_io(&new.queues[0], NVME_WRITE, RDMA_HOST_CAPSULE, i * SECTORS, newer, BLOCK),
				 NVME_OK);
	proxy_mend(proxy);
	others_have_ended(&old);
	for (unsigned int i = 0; i < QUEUES; i++) {
		assert_int_equal(rdma_host_io(&new.queues[0], NVME_READ, RDMA_HOST_KEYED, i * SECTORS, NULL, BLOCK),
				 NVME_OK);
		assert_memory_equal(rdma_host_data(&new.queues[0]), newer, BLOCK);
	}
	host_close(&old);
	host_close(&new);
	end();
}

static void an_older_write_does_not_land(void **state)
{
	(void)state;
	for (unsigned int two = 0; two < 2; two++) {
		const char *reactors = two ? "2" : "1";

		stays_newer(reactors, true, in_store);
		stays_newer(reactors, true, in_store_known);
		stays_newer(reactors, false, in_proxy);
		stays_newer(reactors, false, data_at_host);
	}
}

/* It is one host by either transport, whose paths stand in one line. */
static void transports_know_of_each_other(void **state)
{
	struct nvme_host admin = {.fd = -1}, queue = {.fd = -1};
	uint8_t back[BLOCK];
	struct host old;
	uint16_t status;

	(void)state;
	begin("2", "delay=write:3s,count=1");
	host_connect(&old, proxy_host(proxy), QUEUES);
	nvme_host_attach(&admin, &queue, tcp_address, DISK, NVME_HOST_NQN, 16);
	assert_int_equal(nvme_host_io(&queue, NVME_WRITE, NVME_HOST_CAPSULE, 0, SECTORS - 1, newer, BLOCK),
			 NVME_INACCESSIBLE);
	in_store_known(&old);
	do
		status = nvme_host_io(&queue, NVME_WRITE, NVME_HOST_CAPSULE, 0, SECTORS - 1, newer, BLOCK);
	while (status == NVME_INACCESSIBLE);
	assert_int_equal(status, NVME_OK);
	proxy_mend(proxy);
	others_have_ended(&old);
	assert_int_equal(nvme_host_io(&queue, NVME_READ, NVME_HOST_IN, 0, SECTORS - 1, back, BLOCK), NVME_OK);
	assert_memory_equal(back, newer, BLOCK);
	/* The other way round. */
	host_close(&old);
	host_connect(&old, address, 1);
	assert_int_equal(rdma_host_io(&old.queues[0], NVME_WRITE, RDMA_HOST_CAPSULE, 0, older, BLOCK),
			 NVME_INACCESSIBLE);
	nvme_host_close(&queue);
	nvme_host_close(&admin);
	do
		status = rdma_host_io(&old.queues[0], NVME_WRITE, RDMA_HOST_CAPSULE, 0, older, BLOCK);
	while (status == NVME_INACCESSIBLE);
	assert_int_equal(status, NVME_OK);
	host_close(&old);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_older_write_does_not_land),
		cmocka_unit_test(transports_know_of_each_other),
	};

	setenv("RBLKD", getenv("RBLKD_SOFT"), 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
