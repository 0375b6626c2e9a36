/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ends that break the protocol of `rblk ping --serve` and `--peer`, on the bare fabric; cmd_ping.sh runs the command at the other end.
 *   ping_peer break HOST:PORT     offences: after each, the end that serves still answers another peer
 *   ping_peer silent HOST:PORT    says nothing until its connection is ended
 *   ping_peer welcome             prints its port, and answers one request with private data that is no welcome
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "initiator/cmd/ping.h"
#include "tests/e2e/raw.h"

#define PEERS 8 /* that are served at a time */

static const char *host;

/* True: accepted, and *welcome filled. The private data is `bytes` of a right one that is changed by `magic` and `kind`. */
static bool meet(struct raw *raw, uint32_t magic, uint32_t kind, uint8_t bytes, struct ping_welcome *welcome)
{
	const struct ping_hello hello = { .magic = rblk_to_le32(PING_MAGIC ^ magic), .kind = rblk_to_le32(kind) };
	bool accepted;

	raw_init(raw);
	memcpy(&raw->login, &hello, sizeof(hello));
	raw->login_bytes = bytes;
	raw->receives = 0;
	accepted = raw_connect(raw, host);
	if (accepted)
		memcpy(welcome, &raw->accept, sizeof(*welcome));
	return accepted;
}

static void meet_well(struct raw *raw, struct ping_welcome *welcome)
{
	assert_true(meet(raw, 0, PING_RDMA_SIGNALLED, sizeof(struct ping_hello), welcome));
	assert_int_equal(rblk_le32(welcome->magic), PING_MAGIC);
}

static void post(struct raw *raw, enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->memory,
		.length = bytes,
		.lkey = fab_mr_lkey(raw->mr, fab_conn_device(raw->conn)),
	};
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .wr.rdma = { .remote_addr = to, .rkey = rkey } };

	raw_post(raw, &wr);
}

/* A peer that keeps the rules reads its page. */
static void still_serves(void)
{
	struct ping_welcome welcome;
	struct raw raw;

	meet_well(&raw, &welcome);
	memset(raw.memory, 0x55, PING_BYTES_MAX);
	post(&raw, IBV_WR_RDMA_READ, PING_BYTES_MAX, rblk_le64(welcome.address), rblk_le32(welcome.rkey));
	assert_int_equal(raw.memory[PING_BYTES_MAX - 1], 0);
	raw_close(&raw);
}

static void requests_of_others_are_refused(void **state)
{
	const struct {
		uint32_t magic, kind;
		uint8_t bytes;
	} wrong[] = { { 0, 0, 0 }, { 0, 0, 7 }, { 1, 0, 8 }, { 0, PING_KINDS, 8 }, { 0, UINT32_MAX, 8 } };
	struct ping_welcome welcome;
	struct raw raw;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(meet(&raw, wrong[i].magic, wrong[i].kind, wrong[i].bytes, &welcome));
		assert_int_not_equal(rblk_le32(raw.reject.magic), PING_MAGIC);
		raw_close(&raw);
	}
	still_serves();
}

static void what_is_no_message_ends_the_connection(void **state)
{
	const struct {
		enum ibv_wr_opcode opcode;
		uint64_t offset;
		uint32_t bytes, rkey;
	} wrong[] = {
		{ IBV_WR_SEND, 0, 0, 0 },
		{ IBV_WR_SEND, 0, sizeof(struct ping_message) - 1, 0 },
		{ IBV_WR_SEND, 0, sizeof(struct ping_message) + 1, 0 },
		{ IBV_WR_RDMA_WRITE, 0, PING_BYTES_MAX + 1, 0 },
		{ IBV_WR_RDMA_WRITE, 1, PING_BYTES_MAX, 0 },
		{ IBV_WR_RDMA_READ, PING_BYTES_MAX - 1, 2, 0 },
		{ IBV_WR_RDMA_READ, UINT64_MAX, 2, 0 },
		{ IBV_WR_RDMA_READ, 0, 64, 1 },
		{ IBV_WR_RDMA_WRITE, 0, 64, 1 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 0, 64, 0 },
	};
	struct ping_welcome welcome;
	struct raw raw;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		meet_well(&raw, &welcome);
		post(&raw, wrong[i].opcode, wrong[i].bytes, rblk_le64(welcome.address) + wrong[i].offset,
		     rblk_le32(welcome.rkey) ^ wrong[i].rkey);
		raw_wait_gone(&raw);
		raw_close(&raw);
	}
	still_serves();
}

static void a_key_ends_with_its_connection(void **state)
{
	struct ping_welcome former, welcome;
	struct raw raw;

	meet_well(&raw, &former);
	raw_close(&raw);
	meet_well(&raw, &welcome);
	post(&raw, IBV_WR_RDMA_READ, 64, rblk_le64(former.address), rblk_le32(former.rkey));
	raw_wait_gone(&raw);
	raw_close(&raw);
}

/* It takes no answer, so that its messages wait for each other; then it leaves in the middle. */
static void who_takes_no_answers_holds_nobody_up(void **state)
{
	struct ping_welcome welcome;
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	struct raw raw;

	meet_well(&raw, &welcome);
	sge = (struct ibv_sge){ (uintptr_t)raw.memory, sizeof(struct ping_message), fab_mr_lkey(raw.mr, fab_conn_device(raw.conn)) };
	for (int i = 0; i < 100; i++) {
		struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

		assert_int_equal(fab_post_send(raw.conn, &wr, &bad), 0);
	}
	raw_step(&raw);
	still_serves();
	assert_false(raw.gone);
	raw_close(&raw);
	still_serves();
}

static void no_more_than_eight_are_served(void **state)
{
	struct ping_welcome welcome;
	struct raw raws[PEERS], another;

	/* Those of the tests before have their places until their ends are seen. */
	for (int i = 0; i < PEERS; i++)
		while (!meet(&raws[i], 0, PING_SEND_EVENTS, sizeof(struct ping_hello), &welcome))
			raw_close(&raws[i]);
	assert_false(meet(&another, 0, PING_SEND_EVENTS, sizeof(struct ping_hello), &welcome));
	assert_int_equal(rblk_le32(another.reject.magic), PING_MAGIC);
	raw_close(&another);
	for (int i = 0; i < PEERS; i++)
		raw_close(&raws[i]);
	while (!meet(&another, 0, PING_SEND_EVENTS, sizeof(struct ping_hello), &welcome))
		raw_close(&another);
	raw_close(&another);
}

static int be_silent(void)
{
	struct ping_welcome welcome;
	struct raw raw;

	meet_well(&raw, &welcome);
	raw_wait_gone(&raw);
	raw_close(&raw);
	return 0;
}

/* Of a command that measures: accepts one request, with a welcome of another magic. */
static int welcome_wrongly(void)
{
	const struct ping_welcome wrong = { .magic = rblk_to_le32(PING_MAGIC ^ 1) };
	const struct fab_conn_options options = { .send_depth = 1, .recv_depth = 1, .send_sge = 1 };
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct fab_listener *listener;
	struct sockaddr_storage bound;
	struct fab_event event = { 0 };
	struct raw raw;

	raw_init(&raw);
	assert_int_equal(fab_listen(raw.fab, (struct sockaddr *)&any, 1, &listener), 0);
	fab_listener_address(listener, &bound);
	printf("%u\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
	fflush(stdout);
	while (fab_poll_event(raw.fab, &event) != 1 || event.type != FAB_EVENT_REQUEST) {
		struct pollfd pollfd = { .fd = fab_fd(raw.fab), .events = POLLIN };
		struct ibv_wc wc;

		fab_poll(raw.fab, &wc, 1);
		if (!fab_arm(raw.fab))
			poll(&pollfd, 1, 10);
	}
	assert_int_equal(fab_accept(raw.fab, event.request, &options, &raw.conn), 0);
	assert_int_equal(fab_conn_establish(raw.conn, &wrong, sizeof(wrong)), 0);
	raw_wait_gone(&raw);
	fab_listener_destroy(listener);
	raw_close(&raw);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_of_others_are_refused),
		cmocka_unit_test(what_is_no_message_ends_the_connection),
		cmocka_unit_test(a_key_ends_with_its_connection),
		cmocka_unit_test(who_takes_no_answers_holds_nobody_up),
		cmocka_unit_test(no_more_than_eight_are_served),
	};

	host = argc > 2 ? argv[2] : NULL;
	if (argc == 2)
		return welcome_wrongly();
	return !strcmp(argv[1], "silent") ? be_silent() : cmocka_run_group_tests(tests, NULL, NULL);
}
