/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The functions of nvme_rdma_host.h. */
#include "tests/e2e/nvme_rdma_host.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "proto/core/env.h"

#define RECEIVES (2 * RDMA_HOST_ENTRIES)
#define CAPSULES 65536u /* where they are in the memory; responses before */
#define CAPSULE_BYTES 16384u
#define DATA (CAPSULES + RDMA_HOST_ENTRIES * CAPSULE_BYTES)
#define MEMORY (DATA + RDMA_HOST_DATA)
#define WAIT_MS 120000

static void die(const char *what, const char *why)
{
	fprintf(stderr, "NVMe host: %s: %s\n", what, why);
	abort();
}

/* False: the connection has ended. */
static bool receive_post(struct rdma_host *host, uint64_t index)
{
	struct ibv_sge sge = {.addr = (uintptr_t)host->memory + index * 64,
			      .length = 64,
			      .lkey = fab_mr_lkey(host->mr, fab_conn_device(host->conn))};
	struct ibv_recv_wr wr = {.wr_id = 1000 + index, .sg_list = &sge, .num_sge = 1}, *bad;

	return !fab_post_recv(host->conn, &wr, &bad);
}

static int prepare(struct fab_conn *conn, void *user)
{
	struct rdma_host *host = user;

	host->conn = conn;
	for (uint64_t i = 0; i < RECEIVES; i++)
		if (!receive_post(host, i))
			die("receive", fab_error(host->fab));
	return 0;
}

static size_t smaller(size_t one, size_t two)
{
	return one < two ? one : two;
}

static void take_event(struct rdma_host *host, const struct fab_event *event)
{
	switch (event->type) {
	case FAB_EVENT_ESTABLISHED:
		host->established = true;
		memcpy(&host->accept, event->private_data, smaller(event->private_bytes, sizeof(host->accept)));
		break;
	case FAB_EVENT_REJECTED:
		host->rejected = true;
		memcpy(&host->reject, event->private_data, smaller(event->private_bytes, sizeof(host->reject)));
		break;
	case FAB_EVENT_FAILED:
		host->failed = true;
		break;
	case FAB_EVENT_DISCONNECTED:
		host->gone = true;
		break;
	case FAB_EVENT_DRAINED:
		host->drained = true;
		break;
	default:
		break;
	}
}

static void take_response(struct rdma_host *host, const struct ibv_wc *wc)
{
	struct nvme_completion completion;
	uint16_t id;

	if (wc->byte_len != sizeof(completion))
		die("response", "it has another length");
	memcpy(&completion, host->memory + (wc->wr_id - 1000) * 64, sizeof(completion));
	id = rblk_le16(completion.id) % (65536 / 64);
	host->last[id] = completion;
	host->here[id] = true;
	host->heard++;
	if (!host->gone)
		receive_post(host, wc->wr_id - 1000); /* that may not have been told yet */
}

static int poll_once(struct rdma_host *host)
{
	struct fab_event event;
	struct ibv_wc wc[16];
	int count = fab_poll(host->fab, wc, 16), events = 0;

	for (int i = 0; i < count; i++)
		if (wc[i].wr_id >= 1000 && wc[i].status == IBV_WC_SUCCESS)
			take_response(host, &wc[i]);
	while (fab_poll_event(host->fab, &event) > 0) {
		take_event(host, &event);
		events++;
	}
	return (count > 0 ? count : 0) + events;
}

void rdma_host_poll(struct rdma_host *host)
{
	poll_once(host);
}

static void step(struct rdma_host *host)
{
	struct pollfd pfd = {.fd = fab_fd(host->fab), .events = POLLIN};

	if (!poll_once(host) && fab_arm(host->fab) == 0)
		poll(&pfd, 1, 10);
}

#define WAIT_FOR(host, condition, what)                                  \
	do {                                                             \
		uint64_t until_ns = env_now_ns() + WAIT_MS * 1000000ull; \
		while (!(condition)) {                                   \
			if (env_now_ns() > until_ns)                     \
				die(what, "it did not happen");          \
			step(host);                                      \
		}                                                        \
	} while (0)

/* -- connecting ---------------------------------------------------------------------------------- */

void rdma_host_begin(struct rdma_host *host, uint16_t queue, uint16_t entries)
{
	const struct fab_options options = {.cq_depth = 4 * RECEIVES, .recv_sge = 1};
	uint8_t id = host->host_id, from = host->from;
	uint16_t controller = host->controller;
	char error[FAB_ERROR_BYTES];

	memset(host, 0, sizeof(*host));
	host->host_id = id;
	host->from = from;
	host->controller = controller;
	host->ask.queue = rblk_to_le16(queue);
	host->ask.receives = rblk_to_le16(entries);
	host->ask.commands = rblk_to_le16((uint16_t)(entries - 1));
	host->ask_bytes = sizeof(host->ask);
	host->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	host->fab = fab_open(FAB_TCP, &options, error);
	if (host->memory == MAP_FAILED || !host->fab)
		die("open", error);
	if (fab_mr_register(host->fab, host->memory, MEMORY,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, &host->mr))
		die("memory", fab_error(host->fab));
}

bool rdma_host_dial(struct rdma_host *host, const char *address)
{
	struct sockaddr_in addr = {.sin_family = AF_INET}, source = {.sin_family = AF_INET};
	struct fab_conn_options options = {
		.send_depth = 2 * RDMA_HOST_ENTRIES,
		.recv_depth = RECEIVES,
		.send_sge = 1,
		.read_in = 16,
		.private_data = &host->ask,
		.private_bytes = host->ask_bytes,
		.timeout_ms = WAIT_MS,
		.user = host,
	};
	const char *colon = strrchr(address, ':');
	char ip[64];

	snprintf(ip, sizeof(ip), "%.*s", (int)(colon - address), address);
	inet_pton(AF_INET, ip, &addr.sin_addr);
	addr.sin_port = htons((uint16_t)atoi(colon + 1));
	source.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host->from);
	if (host->from)
		options.source = (struct sockaddr *)&source;
	if (fab_connect(host->fab, (struct sockaddr *)&addr, &options, prepare, &host->conn))
		die("connect", fab_error(host->fab));
	WAIT_FOR(host, host->established || host->rejected || host->failed || host->gone, "connect");
	return host->established;
}

void rdma_host_fill_connect(struct rdma_host *host, struct nvme_connect *data, const char *subsystem, const char *nqn)
{
	memset(data, 0, sizeof(*data));
	data->host_id[15] = host->host_id;
	data->controller = rblk_to_le16(rblk_le16(host->ask.queue) ? host->controller : NVME_CONTROLLER_ANY);
	snprintf(data->subsystem, sizeof(data->subsystem), "%s", subsystem);
	snprintf(data->host, sizeof(data->host), "%s", nqn);
}

uint16_t rdma_host_connect(struct rdma_host *host, const char *address, const char *subsystem, const char *nqn,
			   uint16_t queue, uint16_t entries)
{
	struct nvme_command command = {.opcode = NVME_FABRICS,
				       .flags = NVME_FLAGS_SGL,
				       .namespace = rblk_to_le32(NVME_CONNECT),
				       .word = {rblk_to_le32((uint32_t)queue << 16), rblk_to_le32(entries - 1u),
						rblk_to_le32(60000)}};
	struct nvme_connect data;
	uint16_t status;

	rdma_host_begin(host, queue, entries);
	if (!rdma_host_dial(host, address))
		die("connect", "it is rejected");
	rdma_host_fill_connect(host, &data, subsystem, nqn);
	/* As Linux does it. */
	status = rdma_host_run(host, &command, queue ? RDMA_HOST_CAPSULE : RDMA_HOST_KEYED, &data, sizeof(data));
	if (!status && !queue)
		host->controller = (uint16_t)rblk_le64(host->last[host->id % (65536 / 64)].result);
	return status;
}

void rdma_host_enable(struct rdma_host *host)
{
	struct nvme_command command = {.opcode = NVME_FABRICS,
				       .flags = NVME_FLAGS_SGL,
				       .namespace = rblk_to_le32(NVME_PROPERTY_SET),
				       .word = {0, rblk_to_le32(NVME_CC), rblk_to_le32(NVME_CC_ENABLE)}};

	if (rdma_host_run(host, &command, RDMA_HOST_NONE, NULL, 0))
		die("enable", "it fails");
}

/* -- commands ------------------------------------------------------------------------------------ */

char *rdma_host_data(const struct rdma_host *host)
{
	return host->memory + DATA;
}

uint32_t rdma_host_key(const struct rdma_host *host)
{
	return fab_mr_rkey(host->mr, fab_conn_device(host->conn));
}

void rdma_host_set_sgl(struct nvme_command *command, uint64_t address, uint32_t bytes, uint32_t key, uint8_t sgl)
{
	command->address = rblk_to_le64(address);
	command->length = rblk_to_le32((bytes & 0xffffff) | key << 24);
	command->key[0] = (__u8)(key >> 8);
	command->key[1] = (__u8)(key >> 16);
	command->key[2] = (__u8)(key >> 24);
	command->sgl = sgl;
}

uint16_t rdma_host_send(struct rdma_host *host, const struct nvme_command *command, const void *data, uint32_t bytes)
{
	char *capsule = host->memory + CAPSULES + host->sent++ % RDMA_HOST_ENTRIES * CAPSULE_BYTES;
	struct nvme_command own = *command;
	struct ibv_sge sge = {.addr = (uintptr_t)capsule,
			      .length = (uint32_t)sizeof(own) + bytes,
			      .lkey = fab_mr_lkey(host->mr, fab_conn_device(host->conn))};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	own.id = rblk_to_le16(++host->id);
	host->here[host->id % (65536 / 64)] = false;
	memcpy(capsule, &own, sizeof(own));
	if (bytes)
		memcpy(capsule + sizeof(own), data, bytes);
	if (!host->gone && fab_post_send(host->conn, &wr, &bad))
		host->gone = true;
	return host->id;
}

uint16_t rdma_host_begin_command(struct rdma_host *host, struct nvme_command *command, enum rdma_host_way way,
				 const void *data, uint32_t bytes)
{
	command->flags |= NVME_FLAGS_SGL;
	if (way == RDMA_HOST_CAPSULE) {
		command->address = 0;
		command->length = rblk_to_le32(bytes);
		command->sgl = NVME_SGL_CAPSULE;
		return rdma_host_send(host, command, data, bytes);
	}
	if (way == RDMA_HOST_KEYED && data)
		memcpy(rdma_host_data(host), data, bytes);
	rdma_host_set_sgl(command, way == RDMA_HOST_KEYED ? (uintptr_t)rdma_host_data(host) : 0,
			  way == RDMA_HOST_KEYED ? bytes : 0, way == RDMA_HOST_KEYED ? rdma_host_key(host) : 0,
			  NVME_SGL_KEYED);
	return rdma_host_send(host, command, NULL, 0);
}

uint16_t rdma_host_await(struct rdma_host *host, uint16_t id)
{
	const struct nvme_completion *completion = &host->last[id % (65536 / 64)];

	WAIT_FOR(host, host->here[id % (65536 / 64)] || host->gone, "response");
	if (!host->here[id % (65536 / 64)])
		die("response", "the connection has ended");
	return (rblk_le16(completion->status) >> 1) & ~NVME_NO_RETRY;
}

uint16_t rdma_host_run(struct rdma_host *host, struct nvme_command *command, enum rdma_host_way way, const void *data,
		       uint32_t bytes)
{
	return rdma_host_await(host, rdma_host_begin_command(host, command, way, data, bytes));
}

uint16_t rdma_host_io(struct rdma_host *host, uint8_t opcode, enum rdma_host_way way, uint64_t lba, const void *data,
		      uint32_t bytes)
{
	struct nvme_command command = {.opcode = opcode,
				       .namespace = rblk_to_le32(1),
				       .word = {rblk_to_le32((uint32_t)lba), 0,
						rblk_to_le32(bytes ? bytes / 512 - 1 : 0)}};

	return rdma_host_run(host, &command, way, data, bytes);
}

/* -- the end ------------------------------------------------------------------------------------- */

void rdma_host_await_end(struct rdma_host *host)
{
	WAIT_FOR(host, host->gone, "the end");
}

void rdma_host_close(struct rdma_host *host)
{
	if (host->conn) {
		fab_conn_close(host->conn);
		WAIT_FOR(host, host->drained, "drain");
		fab_conn_destroy(host->conn);
	}
	fab_mr_deregister(host->mr);
	fab_close(host->fab);
	munmap(host->memory, MEMORY);
	host->conn = NULL;
}
