/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no byte of a host of NVMe over RDMA makes the target's side misbehave, and whatever it sends, what the reactor
 * gets is right. Method: the listener's, the reactor's and the host's fab on one thread, with fabric_tcp in place of
 * RDMA; the input is what the connection manager carries, or Connect, or capsules, repaired here and there so that they
 * get far. The reactor is a stand-in, which checks each message as rblkd does and answers at once.
 */
#include <netinet/in.h>
#include "proto/fabric/fabric_tcp_conn.h"
#include "target/nvme/fabric.h"
#include "target/nvme/rdma.h"
#include "tests/fuzz/fuzz_nvme_reactor.h"

#include <fcntl.h>

#define DATA_BYTES 16384u
#define ENTRIES REACTOR_CREDITS_MAX
#define HOST_RECEIVES 128u
#define TURNS 400

enum {
	RAW_ASK = 1,
	IO_QUEUE = 2,
	DISCOVERY = 4,
	RAW_FIRST = 8,

	FIX_OPCODE = 1,
	FIX_NAMESPACE = 2,
	FIX_SGL = 4,
	FIX_KEY = 8,
	KEYED = 16,
};

/* One end of a connection: the reactor's stand-in, or the host. */
struct end {
	struct fab_conn *conn;
	struct reactor reactor;
	bool drained, gone, established;
	unsigned int heard; /* responses */
};

static const char subsystem[] = NVME_UUID_PREFIX "01010101-0101-0101-0101-010101010101";
static struct fab *listening, *serving, *dialing;
static struct fab_listener *listener;
static struct sockaddr_storage addr;
static struct fab_mr *host_mr;
static unsigned char host_memory[HOST_RECEIVES * 64 + 2 * DATA_BYTES];
static struct end admin, admin_host; /* the controller whose queues are fuzzed */
static uint16_t controller;

/* -- fabric_tcp ---------------------------------------------------------------------------------- */

static int soft_wake(struct fab *fab)
{
	return fcntl(tcp_fab_of(fab)->loop.wake.fd, F_DUPFD_CLOEXEC, 0);
}

static void soft_local(const struct fab_conn *conn, struct sockaddr_storage *address)
{
	(void)conn;
	*address = addr;
}

static struct fab_device *soft_device(struct fab *fab, const char *name)
{
	(void)name;
	return &tcp_fab_of(fab)->device;
}

static const struct nvme_rdma_below soft = {
	.ops = &fab_tcp_ops, .wake = soft_wake, .local = soft_local, .device = soft_device};

/* -- the reactor --------------------------------------------------------------------------------- */

static void end_hears(const struct fab_event *event)
{
	struct end *end = event->conn ? fab_conn_user(event->conn) : NULL;

	if (!end)
		return;
	end->established |= event->type == FAB_EVENT_ESTABLISHED;
	end->drained |= event->type == FAB_EVENT_DRAINED;
	end->gone |= event->type == FAB_EVENT_DISCONNECTED || event->type == FAB_EVENT_FAILED ||
		     event->type == FAB_EVENT_REJECTED;
}

static void host_receive(struct end *end, uint64_t index)
{
	struct ibv_sge sge = {.addr = (uintptr_t)host_memory + index * 64,
			      .length = 64,
			      .lkey = fab_mr_lkey(host_mr, fab_conn_device(end->conn))};
	struct ibv_recv_wr wr = {.wr_id = 1000 + index, .sg_list = &sge, .num_sge = 1}, *bad;

	fab_post_recv(end->conn, &wr, &bad);
}

static void host_poll(void)
{
	struct fab_event event;
	struct ibv_wc wc[8];
	int count = fab_poll(dialing, wc, 8);

	for (int i = 0; i < count; i++) {
		struct fab_conn *conn = fab_conn_find(dialing, wc[i].qp_num);
		struct nvme_completion completion;

		if (!conn || wc[i].wr_id < 1000 || wc[i].status != IBV_WC_SUCCESS)
			continue;
		FUZZ_ASSERT(wc[i].byte_len == sizeof(completion));
		memcpy(&completion, host_memory + (wc[i].wr_id - 1000) * 64, sizeof(completion));
		if (fab_conn_user(conn) == &admin_host && !admin_host.heard++)
			controller = (uint16_t)rblk_le64(completion.result);
		host_receive(fab_conn_user(conn), wc[i].wr_id - 1000);
	}
	while (fab_poll_event(dialing, &event) == 1)
		end_hears(&event);
}

/* A login becomes `end`; NULL: none is awaited. */
static void login_take(struct fab_event *event, struct end *end)
{
	const struct fab_conn_options options = {.send_depth = 2 * (ENTRIES + RBLK_RESERVED_TAGS), .user = end};
	const struct rblk_wire_accept accept = {.credits = rblk_to_le16(ENTRIES)};
	struct rblk_wire_login login;

	FUZZ_ASSERT(event->private_bytes == sizeof(login));
	memcpy(&login, event->private_data, sizeof(login));
	FUZZ_ASSERT(rblk_check_login(&login, sizeof(login)) == RBLK_WIRE_OK);
	if (!end || end->conn || fab_accept(serving, event->request, &options, &end->conn)) {
		fab_reject(event->request, NULL, 0);
		return;
	}
	end->reactor = (struct reactor){.conn = end->conn, .credits = ENTRIES, .features = RBLK_FEATURE_EVENTS};
	FUZZ_ASSERT(fab_conn_establish(end->conn, &accept, sizeof(accept)) == 0);
}

static void turn(struct end *end)
{
	struct fab_event event;
	struct ibv_wc wc[8];
	int count;

	host_poll();
	fab_poll(listening, wc, 1);
	while (fab_poll_event(listening, &event) == 1)
		if (event.type == FAB_EVENT_REQUEST)
			login_take(&event, end);
	count = fab_poll(serving, wc, 8);
	for (int i = 0; i < count; i++) {
		struct fab_conn *conn = fab_conn_find(serving, wc[i].qp_num);
		struct end *to = conn ? fab_conn_user(conn) : NULL;

		reactor_completed(to ? &to->reactor : NULL, &wc[i]);
	}
	while (fab_poll_event(serving, &event) == 1)
		end_hears(&event);
	fab_arm(serving);
}

/* -- the host ------------------------------------------------------------------------------------ */

static int prepare(struct fab_conn *conn, void *user)
{
	struct end *end = user;

	end->conn = conn;
	for (uint64_t i = 0; i < HOST_RECEIVES; i++)
		host_receive(end, i);
	return 0;
}

static void dial(struct end *host, const void *ask, uint8_t bytes)
{
	const struct fab_conn_options options = {.send_depth = 256,
						 .recv_depth = HOST_RECEIVES,
						 .send_sge = 1,
						 .read_in = 4,
						 .private_data = ask,
						 .private_bytes = bytes,
						 .timeout_ms = 60000,
						 .user = host};

	memset(host, 0, sizeof(*host));
	FUZZ_ASSERT(fab_connect(dialing, (struct sockaddr *)&addr, &options, prepare, &host->conn) == 0);
}

static void capsule_send(const struct end *host, const struct nvme_command *command, const void *data, uint32_t bytes)
{
	unsigned char *capsule = host_memory + HOST_RECEIVES * 64;
	struct ibv_sge sge = {.addr = (uintptr_t)capsule,
			      .length = (uint32_t)sizeof(*command) + bytes,
			      .lkey = fab_mr_lkey(host_mr, fab_conn_device(host->conn))};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	/* All use one buffer: what is on its way may change, as any host's. */
	memcpy(capsule, command, sizeof(*command));
	if (bytes)
		memcpy(capsule + sizeof(*command), data, bytes);
	wr.send_flags = IBV_SEND_SIGNALED;
	fab_post_send(host->conn, &wr, &bad);
}

static void connect_send(const struct end *host, uint16_t queue, const char *nqn)
{
	struct nvme_command command = {.opcode = NVME_FABRICS,
				       .flags = NVME_FLAGS_SGL,
				       .namespace = rblk_to_le32(NVME_CONNECT),
				       .length = rblk_to_le32(sizeof(struct nvme_connect)),
				       .sgl = NVME_SGL_CAPSULE,
				       .word = {rblk_to_le32((uint32_t)queue << 16), rblk_to_le32(ENTRIES - 1)}};
	struct nvme_connect data = {.controller = rblk_to_le16(queue ? controller : NVME_CONTROLLER_ANY)};

	/* Another host than the one whose controller is to stay. */
	data.host_id[0] = host == &admin_host || queue ? 0 : 1;
	strcpy(data.subsystem, nqn);
	strcpy(data.host, NVME_UUID_PREFIX "a");
	capsule_send(host, &command, &data, sizeof(data));
}

static void end_close(struct end *end, struct end *serves)
{
	if (!end->conn)
		return;
	fab_conn_close(end->conn);
	for (int i = 0; i < 100 * TURNS && !end->drained; i++)
		turn(serves);
	FUZZ_ASSERT(end->drained);
	fab_conn_destroy(end->conn);
}

static struct nvme_rdma_ask ask_of(uint16_t queue)
{
	return (struct nvme_rdma_ask){.queue = rblk_to_le16(queue),
				      .receives = rblk_to_le16(ENTRIES),
				      .commands = rblk_to_le16(ENTRIES - 1)};
}

static void setup(void)
{
	const struct fab_options options = {.cq_depth = 1024, .recv_sge = 1};
	const struct fab_options with_srq = {.cq_depth = 1024, .recv_sge = 1, .srq_depth = REACTOR_BUFFERS};
	const struct nvme_command enable = {.opcode = NVME_FABRICS,
					    .flags = NVME_FLAGS_SGL,
					    .word = {0, rblk_to_le32(NVME_CC), rblk_to_le32(1)}};
	struct nvme_rdma_ask ask = ask_of(0);
	struct sockaddr_in in = {.sin_family = AF_INET};
	char error[FAB_ERROR_BYTES];

	if (listening)
		return;
	nvme_rdma_below = &soft;
	tgt_nvme_init(8);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listening = fab_open(FAB_NVME_RDMA, &options, error);
	serving = fab_open(FAB_NVME_RDMA, &with_srq, error);
	dialing = fab_open(FAB_TCP, &options, error);
	FUZZ_ASSERT(listening && serving && dialing);
	FUZZ_ASSERT(fab_listen(listening, (struct sockaddr *)&in, 8, &listener) == 0);
	FUZZ_ASSERT(fab_listener_address(listener, &addr) == 0);
	FUZZ_ASSERT(fab_mr_register(dialing, host_memory, sizeof(host_memory),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
				    &host_mr) == 0);
	reactor_begin(serving, soft_device(serving, NULL));
	dial(&admin_host, &ask, sizeof(ask));
	while (!admin_host.established)
		turn(&admin);
	connect_send(&admin_host, 0, subsystem);
	while (admin_host.heard < 1)
		turn(&admin);
	capsule_send(&admin_host, &enable, NULL, 0);
	while (admin_host.heard < 2)
		turn(&admin);
}

/* -- the input ----------------------------------------------------------------------------------- */

static void fix(struct nvme_command *command, uint8_t control, uint32_t payload, uint32_t number)
{
	static const uint8_t opcodes[] = {NVME_FLUSH, NVME_WRITE, NVME_READ, NVME_COMPARE, NVME_WRITE_ZEROES,
					  NVME_DATASET_MANAGEMENT, NVME_VERIFY, NVME_IDENTIFY, NVME_GET_LOG_PAGE,
					  NVME_GET_FEATURES, NVME_FABRICS, NVME_ASYNC_EVENT, NVME_RESERVE_REGISTER,
					  NVME_RESERVE_REPORT, NVME_ABORT};
	uint32_t length = 512 * (1 + (rblk_le32(command->word[2]) & 3)), key;

	if (control & FIX_OPCODE) {
		command->opcode = opcodes[command->opcode % sizeof(opcodes)];
		command->flags = NVME_FLAGS_SGL | (command->flags & NVME_FLAGS_FUSE);
		command->word[2] = rblk_to_le32(rblk_le32(command->word[2]) & 3);
	}
	if (control & FIX_NAMESPACE)
		command->namespace = rblk_to_le32(1);
	if (command->opcode == NVME_IDENTIFY)
		length = NVME_IDENTIFY_BYTES;
	if (control & FIX_SGL && !(control & KEYED)) {
		command->sgl = NVME_SGL_CAPSULE;
		command->address = 0;
		command->length = rblk_to_le32(payload);
	} else if (control & FIX_SGL) {
		key = control & FIX_KEY ? fab_mr_rkey(host_mr, soft_device(dialing, NULL)) : rblk_le32(command->length);
		command->sgl = NVME_SGL_KEYED;
		command->address = rblk_to_le64((uintptr_t)host_memory + HOST_RECEIVES * 64 + DATA_BYTES);
		command->length = rblk_to_le32(length | key << 24);
		command->key[0] = (__u8)(key >> 8);
		command->key[1] = (__u8)(key >> 16);
		command->key[2] = (__u8)(key >> 24);
	}
	command->id = rblk_to_le16((uint16_t)number);
}

static void capsules_send(struct end *end, struct end *host, const uint8_t *data, size_t bytes)
{
	uint8_t payload[NVME_CAPSULE_BYTES + 512] = {0};
	uint32_t number = 0;

	while (bytes > 66) {
		struct nvme_command command;
		uint8_t control = data[0];
		uint32_t length = control & FIX_SGL && control & KEYED ? 0 : data[65] * 64u;

		if (length > sizeof(payload))
			length = sizeof(payload);
		memcpy(&command, data + 1, sizeof(command));
		data += 66;
		bytes -= 66;
		memcpy(payload, data, bytes < sizeof(payload) ? bytes : sizeof(payload));
		fix(&command, control, length, number++);
		capsule_send(host, &command, payload, length);
		turn(end);
		turn(end);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t first = bytes ? data[0] : 0;
	struct nvme_rdma_ask ask = ask_of(first & IO_QUEUE ? 1 : 0);
	struct end end = {0}, host;

	setup();
	if (!bytes)
		return 0;
	data++;
	bytes--;
	if (first & RAW_ASK)
		dial(&host, data, bytes < 56 ? (uint8_t)bytes : 56);
	else
		dial(&host, &ask, sizeof(ask));
	for (int i = 0; i < 100 * TURNS && !host.established && !host.gone; i++)
		turn(&end);
	if (host.established && !(first & (RAW_ASK | RAW_FIRST))) {
		connect_send(&host, first & IO_QUEUE ? 1 : 0, first & DISCOVERY ? NVME_DISCOVERY_NQN : subsystem);
		for (int i = 0; i < TURNS; i++)
			turn(&end);
	}
	if (host.established && !(first & RAW_ASK))
		capsules_send(&end, &host, data, bytes);
	for (int i = 0; i < TURNS / 4; i++)
		turn(&end);
	end_close(&host, &end);
	for (int i = 0; i < TURNS; i++)
		turn(&end);
	end_close(&end, NULL);
	return 0;
}
