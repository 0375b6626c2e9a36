/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a login of NVMe over RDMA that is answered when the fab of its connection is closed, does not touch that; also
 * if the host had gone before. Method: the listener's, the reactor's and the host's fab on one thread, with fabric_tcp
 * in place of RDMA.
 */
#include <netinet/in.h>
#include "proto/fabric/fabric_tcp_conn.h"
#include "target/nvme/fabric.h"
#include "target/nvme/rdma.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <string.h>

#define ENTRIES 32u
#define BUFFER_BYTES 20480u
#define RECEIVES 4u

static struct fab *listening, *serving, *dialing;
static struct fab_listener *listener;
static struct fab_mr *mr, *host_mr;
static struct fab_conn *host;
static struct fab_request *login;
static unsigned char memory[RECEIVES * BUFFER_BYTES], host_memory[4096];
static bool established, drained;

static int soft_wake(struct fab *fab)
{
	return fcntl(tcp_fab_of(fab)->loop.wake.fd, F_DUPFD_CLOEXEC, 0);
}

static const struct nvme_rdma_below soft = {.ops = &fab_tcp_ops, .wake = soft_wake};

static int prepare(struct fab_conn *conn, void *user)
{
	host = conn;
	return 0;
}

static void turn(void)
{
	struct fab_event event;
	struct ibv_wc wc[8];

	fab_poll(listening, wc, 1);
	while (fab_poll_event(listening, &event) == 1)
		if (event.type == FAB_EVENT_REQUEST)
			login = event.request;
	fab_poll(serving, wc, 8);
	assert_int_equal(fab_poll_event(serving, &event), 0);
	fab_poll(dialing, wc, 8);
	while (fab_poll_event(dialing, &event) == 1) {
		established |= event.type == FAB_EVENT_ESTABLISHED;
		drained |= event.type == FAB_EVENT_DRAINED;
	}
}

static int setup(void **state)
{
	const struct fab_options options = {.cq_depth = 1024, .recv_sge = 1};
	const struct fab_options with_srq = {.cq_depth = 1024, .recv_sge = 1, .srq_depth = RECEIVES};
	const struct nvme_rdma_ask ask = {.receives = rblk_to_le16(ENTRIES), .commands = rblk_to_le16(ENTRIES - 1)};
	const struct fab_conn_options to = {.send_depth = 8,
					    .send_sge = 1,
					    .private_data = &ask,
					    .private_bytes = sizeof(ask),
					    .timeout_ms = 60000};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage at;
	char error[FAB_ERROR_BYTES];

	(void)state;
	listening = fab_open(FAB_NVME_RDMA, &options, error);
	serving = fab_open(FAB_NVME_RDMA, &with_srq, error);
	dialing = fab_open(FAB_TCP, &options, error);
	assert_true(listening && serving && dialing);
	assert_int_equal(fab_listen(listening, (struct sockaddr *)&in, 8, &listener), 0);
	assert_int_equal(fab_listener_address(listener, &at), 0);
	assert_int_equal(fab_mr_register(serving, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	assert_int_equal(fab_mr_register(dialing, host_memory, sizeof(host_memory), IBV_ACCESS_LOCAL_WRITE, &host_mr),
			 0);
	login = NULL;
	established = drained = false;
	assert_int_equal(fab_connect(dialing, (struct sockaddr *)&at, &to, prepare, &host), 0);
	while (!established)
		turn();
	return 0;
}

/* The listener has the login then. */
static void connect_send(void)
{
	struct nvme_command command = {.opcode = NVME_FABRICS,
				       .flags = NVME_FLAGS_SGL,
				       .namespace = rblk_to_le32(NVME_CONNECT),
				       .length = rblk_to_le32(sizeof(struct nvme_connect)),
				       .sgl = NVME_SGL_CAPSULE,
				       .word = {0, rblk_to_le32(ENTRIES - 1)}};
	struct nvme_connect data = {.controller = rblk_to_le16(NVME_CONTROLLER_ANY)};
	struct ibv_sge sge = {.addr = (uintptr_t)host_memory,
			      .length = sizeof(command) + sizeof(data),
			      .lkey = fab_mr_lkey(host_mr, fab_conn_device(host))};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	strcpy(data.subsystem, NVME_DISCOVERY_NQN);
	strcpy(data.host, NVME_UUID_PREFIX "00000000-0000-0000-0000-00000000000a");
	memcpy(host_memory, &command, sizeof(command));
	memcpy(host_memory + sizeof(command), &data, sizeof(data));
	assert_int_equal(fab_post_send(host, &wr, &bad), 0);
	while (!login)
		turn();
}

static void host_close(void)
{
	fab_conn_close(host);
	while (!drained)
		turn();
	fab_conn_destroy(host);
	host = NULL;
}

static int teardown(void **state)
{
	(void)state;
	fab_reject(login, NULL, 0);
	fab_mr_deregister(host_mr);
	fab_close(dialing);
	fab_listener_destroy(listener);
	fab_close(listening);
	return 0;
}

static void serving_close(void)
{
	fab_mr_deregister(mr);
	fab_close(serving);
	assert_null(fab_request_fab(login));
}

static void the_host_is_there(void **state)
{
	(void)state;
	connect_send();
	serving_close();
	fab_conn_close(host);
	while (!drained) {
		struct fab_event event;
		struct ibv_wc wc[8];

		fab_poll(dialing, wc, 8);
		while (fab_poll_event(dialing, &event) == 1)
			drained |= event.type == FAB_EVENT_DRAINED;
	}
	fab_conn_destroy(host);
}

static void the_host_had_gone(void **state)
{
	(void)state;
	connect_send();
	host_close();
	while (!TAILQ_EMPTY(&nvme_rdma_fab(serving)->all))
		turn();
	serving_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_host_is_there, setup, teardown),
		cmocka_unit_test_setup_teardown(the_host_had_gone, setup, teardown),
	};

	nvme_rdma_below = &soft;
	tgt_nvme_init(8);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
