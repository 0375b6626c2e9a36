/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a host of NVMe over RDMA was asked for when its connection ends does not count as here: the volume keeps
 * what it has. Method: more writes than the host may be asked for at a time; behind a proxy that holds them, the data
 * of the first, which makes room to ask for others, and a command that ends the connection, in one turn. The volume and
 * all writes have the same bytes, so that others are what has never come. The RDMA is fabric_tcp, with completions as
 * quick as RDMA's.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/nvme_rdma_host.h"
#include "tests/e2e/proxy.h"

#define BLOCK 512u
#define BYTES (1u << 20)
#define WRITES 40u
#define READS 16u /* as nvme_rdma_host.c says that it answers at a time */
#define FRAME 32u /* of fabric_tcp */
#define DISK NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101"
#define OTHER_NQN NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000b"

static struct e2e_daemon server;
static struct e2e_file file;
static struct proxy *proxy;
static char address[64], folder[64];
static uint8_t bytes[BYTES];

static void fill(void)
{
	int fd = open(file.path, O_WRONLY | O_CLOEXEC);

	memset(bytes, 0xa5, sizeof(bytes));
	assert_int_equal(write(fd, bytes, BYTES), BYTES);
	close(fd);
}

static void is_unchanged(void)
{
	uint8_t back[BYTES];
	int fd = open(file.path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(read(fd, back, BYTES), BYTES);
	assert_memory_equal(back, bytes, BYTES);
	close(fd);
}

static void begin(void)
{
	char path[96];
	FILE *config;

	e2e_folder_create(folder);
	snprintf(path, sizeof(path), "%s/rblkd.conf", folder);
	config = fopen(path, "w");
	assert_non_null(config);
	e2e_file_create(&file, "disk", BYTES);
	fill();
	fprintf(config, "[volume disk]\npath = %s\ncache = buffered\nuuid = 01010101-0101-0101-0101-010101010101\n",
		file.path);
	assert_int_equal(fclose(config), 0);
	e2e_daemon_start(&server, "--reactors", "1", "--keepalive", "600s", "--listen",
			 "nvme+rdma://127.0.0.1:0", "--config", path, NULL);
	e2e_daemon_second_host(&server, address);
	proxy = proxy_start(address);
}

static void end(void)
{
	proxy_stop(proxy);
	assert_int_equal(e2e_daemon_stop(&server), 0);
	is_unchanged();
	e2e_file_remove(&file);
	e2e_folder_remove(folder);
}

/* Its queue is queues[1]. */
static void host_connect(struct rdma_host queues[2], const char *to, const char *nqn)
{
	for (uint16_t i = 0; i < 2; i++) {
		queues[i].host_id = queues[0].host_id;
		queues[i].controller = queues[0].controller;
		assert_int_equal(rdma_host_connect(&queues[i], to, DISK, nqn, i, i ? 64 : 32), NVME_OK);
		if (!i)
			rdma_host_enable(&queues[i]);
	}
}

static void host_close(struct rdma_host queues[2])
{
	rdma_host_close(&queues[1]);
	rdma_host_close(&queues[0]);
}

/* The target asks for the data of the first. What comes next, it gets in one piece: when the proxy goes on. */
static void writes_begin(struct rdma_host *queue)
{
	uint64_t before = proxy_bytes(proxy);

	for (unsigned int i = 0; i < WRITES; i++) {
		struct nvme_command command = {
			.opcode = NVME_WRITE, .namespace = rblk_to_le32(1), .word = {rblk_to_le32(8 * i)}};

		rdma_host_begin_command(queue, &command, RDMA_HOST_KEYED, bytes, BLOCK);
	}
	rdma_host_poll(queue);
	while (proxy_bytes(proxy) < before + WRITES * (FRAME + sizeof(struct nvme_command)) + READS * FRAME)
		usleep(1000);
	proxy_hold(proxy, true);
	for (unsigned int i = 0; i < 2 * READS; i++)
		rdma_host_poll(queue);
}

static void flush_begin(struct rdma_host *queue)
{
	struct nvme_command command = {.opcode = NVME_FLUSH, .namespace = rblk_to_le32(1)};

	rdma_host_begin_command(queue, &command, RDMA_HOST_NONE, NULL, 0);
	rdma_host_poll(queue);
}

static void the_target_drains(void **state)
{
	struct rdma_host host[2] = {{.host_id = 1}}, other[2] = {{.host_id = 2}}, stranger = {.host_id = 3};
	siginfo_t info;

	(void)state;
	begin();
	host_connect(host, proxy_host(proxy), RDMA_HOST_NQN);
	host_connect(other, address, OTHER_NQN);
	writes_begin(&host[1]);
	flush_begin(&host[1]);
	kill(server.pid, SIGTERM);
	/* The reactor knows it, when it takes no command any more. */
	while (!other[1].gone) {
		unsigned int heard = other[1].heard;

		flush_begin(&other[1]);
		while (other[1].heard == heard && !other[1].gone)
			rdma_host_poll(&other[1]);
	}
	/* Nobody gets a connection that would only be refused behind Connect. */
	rdma_host_begin(&stranger, 0, 32);
	assert_false(rdma_host_dial(&stranger, address));
	rdma_host_close(&stranger);
	proxy_hold(proxy, false);
	rdma_host_await_end(&host[1]);
	host_close(host);
	host_close(other);
	assert_int_equal(waitid(P_PID, (id_t)server.pid, &info, WEXITED | WNOWAIT), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_target_drains),
	};

	setenv("RBLKD", getenv("RBLKD_SOFT"), 1);
	setenv("RBLKD_SOFT_QUICK", "1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
