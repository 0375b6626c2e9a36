/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: messages move the right bytes, in order, and complete as verbs do; queues are as deep as
 * they were asked for. Method: random sizes and offsets, content derived from position and seed,
 * completions compared field by field. case_rdma.c tests RDMA READ and WRITE.
 */
#include <string.h>

#include "fixture.h"

/* One SEND: the content, the length, the opcodes at both ends. */
static void send_receive(void)
{
	struct fx fx = {0};
	struct ibv_wc wc;

	fx_open_connected(&fx);
	fx_post_recv(&fx.b, 7, 4096, 512);
	fx_fill(fx.a.memory, 300, 1);
	fx_post_send(&fx.a, 3, 0, 300, 0);
	wc = fx_wc_ok(&fx, &fx.b, 7);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK_EQ(wc.byte_len, 300);
	CHECK_EQ(wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV), 0);
	CHECK(fx_filled(fx.b.memory + 4096, 300, 1));
	CHECK_EQ(fx.b.memory[4096 + 300], 0);
	wc = fx_wc_ok(&fx, &fx.a, 3);
	CHECK_EQ(wc.opcode, IBV_WC_SEND);
	fx_close(&fx);
}

/* 500 SENDs of random length arrive in order, through a receive queue refilled as it goes. */
static void send_order(void)
{
	struct fx fx = {.conn_options = {.send_depth = 32, .recv_depth = 16}};
	uint32_t sent = 0, completed = 0, received = 0, lengths[500];
	/* So many SENDs find receives, and twice as many wait for some if the fabric lets them. */
	const uint32_t ahead = fx_target.limits.acknowledged ? 500 : 16;

	fx_open_connected(&fx);
	for (uint32_t i = 0; i < 500; i++)
		lengths[i] = fx_random() % 8000;
	for (uint32_t i = 0; i < 16; i++)
		fx_post_recv(&fx.b, i, (size_t)i * 8192, 8192);
	while (received < 500) {
		for (; sent < 500 && sent - completed < 32 && sent - received < ahead; sent++) {
			unsigned char *data = fx.a.memory + (sent % 32) * 8192;

			fx_fill(data, lengths[sent], sent);
			fx_post_send(&fx.a, sent, (sent % 32) * 8192, lengths[sent], 0);
		}
		WAIT(&fx, fx.a.wc_count + fx.b.wc_count > 0);
		while (fx.b.wc_count > 0) {
			struct ibv_wc wc = fx_wc_ok(&fx, &fx.b, received % 16);

			CHECK_EQ(wc.byte_len, lengths[received]);
			CHECK(fx_filled(fx.b.memory + (received % 16) * 8192, wc.byte_len,
					received));
			fx_post_recv(&fx.b, received % 16, (size_t)(received % 16) * 8192, 8192);
			received++;
		}
		while (fx.a.wc_count > 0)
			fx_wc_ok(&fx, &fx.a, completed++);
	}
	while (completed < 500)
		fx_wc_ok(&fx, &fx.a, completed++);
	fx_close(&fx);
}

/* Three segments gathered, two scattered, boundaries at odd places. */
static void scatter_gather(void)
{
	struct fx fx = {0};
	struct ibv_sge to[2], from[3];
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = to, .num_sge = 2}, *bad_recv;
	struct ibv_send_wr send = {
		.wr_id = 2,
		.sg_list = from,
		.num_sge = 3,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	unsigned char whole[70001];

	fx_open_connected(&fx);
	fx_fill(whole, sizeof(whole), 9);
	memcpy(fx.a.memory + 100, whole, 1);
	memcpy(fx.a.memory + 5000, whole + 1, 4000);
	memcpy(fx.a.memory + 200000, whole + 4001, 66000);
	from[0] = fx_sge(&fx.a, 100, 1);
	from[1] = fx_sge(&fx.a, 5000, 4000);
	from[2] = fx_sge(&fx.a, 200000, 66000);
	to[0] = fx_sge(&fx.b, 77, 33333);
	to[1] = fx_sge(&fx.b, 100000, 40000);
	CHECK_EQ(fab_post_recv(fx.b.conn, &recv, &bad_recv), 0);
	fx_post(&fx.a, &send);
	CHECK_EQ(fx_wc_ok(&fx, &fx.b, 1).byte_len, 70001);
	CHECK(memcmp(fx.b.memory + 77, whole, 33333) == 0);
	CHECK(memcmp(fx.b.memory + 100000, whole + 33333, 70001 - 33333) == 0);
	CHECK_EQ(fx.b.memory[100000 + 70001 - 33333], 0);
	fx_wc_ok(&fx, &fx.a, 2);
	fx_close(&fx);
}

/* Inline bytes are copied when posted: the buffer is overwritten at once, and never registered. */
static void inline_data(void)
{
	struct fx fx = {0};
	unsigned char own[64];
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)own};
	struct ibv_send_wr send = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};

	fx_open_connected(&fx);
	CHECK(fab_conn_inline(fx.a.conn) >= 32);
	sge.length = fab_conn_inline(fx.a.conn) < 64 ? fab_conn_inline(fx.a.conn) : 64;
	fx_fill(own, sizeof(own), 4);
	fx_post_recv(&fx.b, 1, 0, 64);
	fx_post(&fx.a, &send);
	memset(own, 0xff, sizeof(own));
	CHECK_EQ(fx_wc_ok(&fx, &fx.b, 1).byte_len, sge.length);
	CHECK(fx_filled(fx.b.memory, sge.length, 4));
	fx_wc_ok(&fx, &fx.a, 5);
	fx_close(&fx);
}

/* Only the last of a chain is signalled: one completion, and the queue is free again. */
static void unsignalled(void)
{
	struct fx fx = {.conn_options = {.send_depth = 32}};
	struct ibv_send_wr chain[32];
	struct ibv_sge sges[32];

	fx_open_connected(&fx);
	for (uint32_t round = 0; round < 20; round++) {
		fx_fill(fx.a.memory, 32 * 1000, round);
		for (uint32_t i = 0; i < 32; i++) {
			sges[i] = fx_sge(&fx.a, (size_t)i * 1000, 1000);
			chain[i] = (struct ibv_send_wr){
				.wr_id = i,
				.next = i < 31 ? &chain[i + 1] : NULL,
				.sg_list = &sges[i],
				.num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE,
				.send_flags = i < 31 ? 0 : IBV_SEND_SIGNALED,
				.wr.rdma = {.remote_addr = fx_address(&fx.b, (size_t)i * 1000),
					    .rkey = fx_rkey(&fx.b, NULL)},
			};
		}
		fx_post(&fx.a, chain);
		fx_wc_ok(&fx, &fx.a, 31);
		CHECK_EQ(fx.a.wc_count, 0);
		CHECK_WRITTEN(&fx, fx_filled(fx.b.memory, 32 * 1000, round));
	}
	fx_close(&fx);
}

/* A full send queue refuses one more, and reports which one. */
static void send_queue_full(void)
{
	struct fx fx = {.conn_options = {.send_depth = 8, .recv_depth = 8}};
	struct ibv_send_wr *bad = NULL;
	struct ibv_sge sge;
	struct ibv_send_wr send[2] = {
		{.wr_id = 100, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
	};
	uint32_t posted = 0;

	fx_open_connected(&fx);
	sge = fx_sge(&fx.a, 0, 8);
	send[0].send_flags = IBV_SEND_SIGNALED;
	/* Devices may round the depth up, within reason. Nothing is received, so none ends. */
	while (posted < 4096 && fab_post_send(fx.a.conn, send, &bad) == 0)
		posted++;
	CHECK(posted >= 8 && posted < 4096);
	CHECK(bad == send);
	fx_close(&fx);
}

/* SEND WITH IMMEDIATE. */
static void send_immediate(void)
{
	struct fx fx = {0};
	struct ibv_sge sge;
	struct ibv_send_wr send = {
		.wr_id = 4,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 0xfedcba98,
	};
	struct ibv_wc wc;

	fx_open_connected(&fx);
	sge = fx_sge(&fx.a, 0, 10);
	if (!fx_target.limits.immediate) {
		fx_post_unsupported(&fx, &send);
		fx_close(&fx);
		return;
	}
	fx_fill(fx.a.memory, 10, 3);
	fx_post_recv(&fx.b, 9, 0, 16);
	fx_post(&fx.a, &send);
	wc = fx_wc_ok(&fx, &fx.b, 9);
	CHECK_EQ(wc.opcode, IBV_WC_RECV);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(wc.imm_data, 0xfedcba98);
	CHECK(fx_filled(fx.b.memory, 10, 3));
	fx_wc_ok(&fx, &fx.a, 4);
	fx_close(&fx);
}

/* An empty message arrives, too: with a segment of length 0, and without segments. */
static void zero_length(void)
{
	struct fx fx = {0};
	struct ibv_recv_wr recv = {.wr_id = 5}, *bad_recv;
	struct ibv_send_wr send = {
		.wr_id = 6, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	int err;

	fx_open_connected(&fx);
	fx_post_recv(&fx.b, 1, 0, 16);
	fx_post_send(&fx.a, 2, 0, 0, 0);
	CHECK_EQ(fx_wc_ok(&fx, &fx.b, 1).byte_len, 0);
	fx_wc_ok(&fx, &fx.a, 2);
	fx_post_rdma(&fx.a, 3, IBV_WR_RDMA_WRITE, 0, 0, fx_address(&fx.b, 0), fx_rkey(&fx.b, NULL),
		     0);
	fx_wc_ok(&fx, &fx.a, 3);
	fx_post_rdma(&fx.a, 4, IBV_WR_RDMA_READ, 0, 0, fx_address(&fx.b, 0), fx_rkey(&fx.b, NULL),
		     0);
	fx_wc_ok(&fx, &fx.a, 4);
	err = fab_post_recv(fx.b.conn, &recv, &bad_recv);
	/* Soft-iWARP refuses messages without segments. */
	if (err && !fx_target.limits.acknowledged) {
		CHECK_EQ(err, -EINVAL);
		CHECK(bad_recv == &recv);
		fx_post_recv(&fx.b, 5, 0, 16);
	} else {
		CHECK_EQ(err, 0);
	}
	fx_post(&fx.a, &send);
	CHECK_EQ(fx_wc_ok(&fx, &fx.b, 5).byte_len, 0);
	fx_wc_ok(&fx, &fx.a, 6);
	fx_close(&fx);
}

/* A message that finds no receive ends its connection, and no other. */
static void receive_missing(struct fx *fx, struct fab_conn *a2, struct fab_conn *b2)
{
	fx_post_send(&fx->a, 1, 0, 1000, 0);
	WAIT(fx, fx->a.events[FAB_EVENT_DISCONNECTED] && fx->b.events[FAB_EVENT_DISCONNECTED]);
	fx_disconnect(fx);
	fx->a.conn = a2;
	fx->b.conn = b2;
	fx_post_recv(&fx->b, 50, 0, 64);
	fx_post_send(&fx->a, 60, 0, 64, 0);
	fx_wc_ok(fx, &fx->b, 50);
	fx_wc_ok(fx, &fx->a, 60);
	fx_close(fx);
}

/*
 * Receiver not ready: messages wait for a receive, in order, while another connection of the same
 * two fabs goes on.
 */
static void receiver_not_ready(void)
{
	struct fx fx = {0};
	struct fab_conn *a1, *b1, *a2, *b2;

	fx_open_connected(&fx);
	a1 = fx.a.conn;
	b1 = fx.b.conn;
	fx.a.conn = fx.b.conn = NULL;
	fx_connect(&fx);
	a2 = fx.a.conn;
	b2 = fx.b.conn;

	fx.a.conn = a1;
	if (!fx_target.limits.acknowledged) {
		fx.b.conn = b1;
		receive_missing(&fx, a2, b2);
		return;
	}
	fx_fill(fx.a.memory, 3 * 10000, 1);
	for (uint32_t i = 0; i < 3; i++)
		fx_post_send(&fx.a, i, i * 10000, 10000, 0);
	fx.a.conn = a2;
	fx.b.conn = b2;
	for (uint32_t i = 0; i < 100; i++) {
		fx_post_recv(&fx.b, 50, 1u << 20, 64);
		fx_post_send(&fx.a, 60, 1u << 20, 64, 0);
		fx_wc_ok(&fx, &fx.b, 50);
		fx_wc_ok(&fx, &fx.a, 60);
	}
	fx.a.conn = a1;
	fx.b.conn = b1;
	CHECK_EQ(fx.a.wc_count + fx.b.wc_count, 0);
	for (uint32_t i = 0; i < 3; i++) {
		fx_post_recv(&fx.b, i, i * 10000, 10000);
		fx_wc_ok(&fx, &fx.b, i);
		fx_wc_ok(&fx, &fx.a, i);
	}
	CHECK(fx_filled(fx.b.memory, 3 * 10000, 1));
	fx_disconnect(&fx);
	fx.a.conn = a2;
	fx.b.conn = b2;
	fx_close(&fx);
}

static void post_shared(struct fx_end *end, uint64_t wr_id, size_t offset)
{
	struct ibv_sge sge = fx_sge(end, offset, 4096);
	struct ibv_recv_wr recv = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK_EQ(fab_post_srq_recv(fab_conn_device(end->conn), &recv, &bad), 0);
}

/* One shared receive queue serves several connections, in order of arrival, and survives them. */
static void shared_receives(void)
{
	struct fx fx = {.options = {.srq_depth = 64}};
	struct fab_conn *a[4], *b[4];
	bool waits = fx_target.limits.acknowledged;

	fx_open(&fx);
	for (int i = 0; i < 4; i++) {
		fx.a.conn = fx.b.conn = NULL;
		fx_connect(&fx);
		a[i] = fx.a.conn;
		b[i] = fx.b.conn;
	}
	for (uint32_t i = 0; !waits && i < 8; i++)
		post_shared(&fx.b, i, (size_t)i * 4096);
	for (uint32_t i = 0; i < 8; i++) {
		fx.a.conn = a[i % 4];
		fx_fill(fx.a.memory + i * 4096, 3000, i);
		fx_post_send(&fx.a, i, i * 4096, 3000, 0);
	}
	for (uint32_t i = 0; i < 8; i++) {
		struct ibv_wc wc;
		uint32_t from = 0;

		if (waits)
			post_shared(&fx.b, i, (size_t)i * 4096);
		wc = fx_wc(&fx, &fx.b);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		for (; from < 4 && fab_conn_find(fx.b.fab, wc.qp_num) != b[from]; from++)
			;
		CHECK(from < 4);
		CHECK(fx_filled(fx.b.memory + i * 4096, 3000, from) ||
		      fx_filled(fx.b.memory + i * 4096, 3000, from + 4));
		fx_wc(&fx, &fx.a);
	}
	/* A receive of the shared queue that was not used is not flushed with a connection. */
	post_shared(&fx.b, 99, 0);
	for (int i = 0; i < 3; i++) {
		fx.a.conn = a[i];
		fx.b.conn = b[i];
		fx_drain(&fx, &fx.a);
		fx_drain(&fx, &fx.b);
	}
	CHECK_EQ(fx.b.wc_count, 0);
	fx.a.conn = a[3];
	fx.b.conn = b[3];
	fx_post_send(&fx.a, 1, 0, 10, 0);
	fx_wc_ok(&fx, &fx.b, 99);
	fx_close(&fx);
}

/* fab_conn_counters() counts what was posted, by kind, and the doorbells. */
static void counters(void)
{
	struct fx fx = {0};
	struct fab_counters c;
	struct ibv_sge sge;
	struct ibv_send_wr wrs[2] = {
		{.next = &wrs[1], .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE},
		{.wr_id = 1,
		 .sg_list = &sge,
		 .num_sge = 1,
		 .opcode = IBV_WR_SEND,
		 .send_flags = IBV_SEND_SIGNALED},
	};

	fx_open_connected(&fx);
	fx_post_recv(&fx.b, 1, 0, 64);
	sge = fx_sge(&fx.a, 0, 8);
	wrs[0].wr.rdma.remote_addr = fx_address(&fx.b, 64);
	wrs[0].wr.rdma.rkey = fx_rkey(&fx.b, NULL);
	fx_post(&fx.a, wrs);
	fx_wc_ok(&fx, &fx.a, 1);
	fx_post_rdma(&fx.a, 2, IBV_WR_RDMA_READ, 0, 8, fx_address(&fx.b, 0), fx_rkey(&fx.b, NULL),
		     0);
	fx_wc_ok(&fx, &fx.a, 2);
	fab_conn_counters(fx.a.conn, &c);
	CHECK_EQ(c.sends, 1);
	CHECK_EQ(c.writes, 1);
	CHECK_EQ(c.reads, 1);
	CHECK_EQ(c.write_imms + c.others, 0);
	CHECK_EQ(c.doorbells, 2);
	fx_close(&fx);
}

/* The completion queue is a bound: a caller that polls late loses nothing. */
static void small_completion_queue(void)
{
	struct fx fx = {.options = {.cq_depth = 8}};

	fx_open_connected(&fx);
	for (uint32_t i = 0; i < 60; i++)
		fx_post_recv(&fx.b, i, (size_t)i * 4096, 4096);
	for (uint32_t i = 0; i < 60; i++) {
		fx_fill(fx.a.memory + (size_t)i * 4096, 100, i);
		fx_post_send(&fx.a, i, (size_t)i * 4096, 100, 0);
	}
	for (uint32_t i = 0; i < 60; i++) {
		fx_wc_ok(&fx, &fx.b, i);
		CHECK(fx_filled(fx.b.memory + (size_t)i * 4096, 100, i));
		fx_wc_ok(&fx, &fx.a, i);
	}
	fx_close(&fx);
}

const struct fx_case fx_cases_data[] = {
	{"send_receive", send_receive, 0},
	{"send_order", send_order, 0},
	{"scatter_gather", scatter_gather, 0},
	{"inline_data", inline_data, 0},
	{"unsignalled", unsignalled, 0},
	{"send_queue_full", send_queue_full, 0},
	{"send_immediate", send_immediate, 0},
	{"zero_length", zero_length, 0},
	{"receiver_not_ready", receiver_not_ready, 0},
	{"shared_receives", shared_receives, 0},
	{"counters", counters, 0},
	{"small_completion_queue", small_completion_queue, 1u << FAB_TCP},
	{0},
};
