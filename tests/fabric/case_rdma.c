/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: RDMA WRITE and RDMA READ move the right bytes and complete as verbs do, in order with
 * messages; FENCE, READ depth, immediate data and invalidation work as specified. Method: random
 * sizes and offsets, content derived from position and seed, completions compared field by field.
 */
#include <string.h>

#include "fixture.h"

static void rdma_random(enum ibv_wr_opcode opcode)
{
	struct fx fx = {0};
	const size_t window = 1u << 20;

	fx_open_connected(&fx);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t bytes = fx_random() % (i % 10 == 0 ? window : 9000);
		size_t here = fx_random() % window, there = fx_random() % window;
		struct fx_end *from = opcode == IBV_WR_RDMA_READ ? &fx.b : &fx.a;
		struct fx_end *to = opcode == IBV_WR_RDMA_READ ? &fx.a : &fx.b;
		size_t source = from == &fx.a ? here : there;
		size_t sink = from == &fx.a ? there : here;

		fx_fill(from->memory + source, bytes, i);
		memset(to->memory, 0, 2 * window);
		fx_post_rdma(&fx.a, i, opcode, here, bytes, fx_address(&fx.b, there),
			     fx_rkey(&fx.b, NULL), 0);
		fx_wc_ok(&fx, &fx.a, i);
		CHECK_WRITTEN(&fx, fx_filled(to->memory + sink, bytes, i));
		CHECK(sink == 0 || to->memory[sink - 1] == 0);
		CHECK_EQ(to->memory[sink + bytes], 0);
	}
	CHECK_EQ(fx.b.wc_count, 0);
	fx_close(&fx);
}

/* RDMA WRITE of random sizes to random places; no other byte changes, and the peer gets no
 * completion. */
static void write_random(void)
{
	rdma_random(IBV_WR_RDMA_WRITE);
}

/* RDMA READ likewise. */
static void read_random(void)
{
	rdma_random(IBV_WR_RDMA_READ);
}

/* Both ends stream large WRITEs and READs at the same time: neither waits for the other. */
static void both_ways(void)
{
	struct fx fx = {0};
	const uint32_t bytes = 1u << 20;

	fx_open_connected(&fx);
	for (uint32_t i = 0; i < 10; i++) {
		fx_fill(fx.a.memory, bytes, i);
		fx_fill(fx.b.memory, bytes, i + 100);
		fx_post_rdma(&fx.a, 1, IBV_WR_RDMA_WRITE, 0, bytes, fx_address(&fx.b, bytes),
			     fx_rkey(&fx.b, NULL), 0);
		fx_post_rdma(&fx.b, 1, IBV_WR_RDMA_WRITE, 0, bytes, fx_address(&fx.a, bytes),
			     fx_rkey(&fx.a, NULL), 0);
		fx_post_rdma(&fx.a, 2, IBV_WR_RDMA_READ, 2 * bytes, bytes, fx_address(&fx.b, 0),
			     fx_rkey(&fx.b, NULL), 0);
		fx_post_rdma(&fx.b, 2, IBV_WR_RDMA_READ, 2 * bytes, bytes, fx_address(&fx.a, 0),
			     fx_rkey(&fx.a, NULL), 0);
		for (uint64_t id = 1; id <= 2; id++) {
			fx_wc_ok(&fx, &fx.a, id);
			fx_wc_ok(&fx, &fx.b, id);
		}
		CHECK_WRITTEN(&fx, fx_filled(fx.b.memory + bytes, bytes, i));
		CHECK_WRITTEN(&fx, fx_filled(fx.a.memory + bytes, bytes, i + 100));
		CHECK(fx_filled(fx.a.memory + 2 * bytes, bytes, i + 100));
		CHECK(fx_filled(fx.b.memory + 2 * bytes, bytes, i));
	}
	fx_close(&fx);
}

/* WRITE WITH IMMEDIATE: data in memory, a receive consumed, the immediate delivered as it was. */
static void write_immediate(void)
{
	struct fx fx = {0};
	struct ibv_sge sge;
	struct ibv_send_wr write = {
		.wr_id = 4,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 0x12345678,
	};
	struct ibv_wc wc;

	fx_open_connected(&fx);
	sge = fx_sge(&fx.a, 0, 5000);
	write.wr.rdma.remote_addr = fx_address(&fx.b, 8192);
	write.wr.rdma.rkey = fx_rkey(&fx.b, NULL);
	if (!fx_target.limits.immediate) {
		fx_post_unsupported(&fx, &write);
		fx_close(&fx);
		return;
	}
	fx_fill(fx.a.memory, 5000, 3);
	fx_post_recv(&fx.b, 9, 0, 16);
	fx_post(&fx.a, &write);
	wc = fx_wc_ok(&fx, &fx.b, 9);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(wc.imm_data, 0x12345678);
	CHECK_EQ(wc.byte_len, 5000);
	CHECK(fx_filled(fx.b.memory + 8192, 5000, 3));
	CHECK_EQ(fx.b.memory[0], 0);
	CHECK_EQ(fx_wc_ok(&fx, &fx.a, 4).opcode, IBV_WC_RDMA_WRITE);
	fx_close(&fx);
}

/*
 * A fenced SEND of memory that a READ before it fills: the peer gets what was read, not what was
 * there. Many times, with READs long enough to take a while.
 */
static void fence(void)
{
	struct fx fx = {0};
	const uint32_t bytes = 256u << 10;

	fx_open_connected(&fx);
	for (uint32_t i = 0; i < 20; i++) {
		memset(fx.a.memory, 0, bytes);
		fx_fill(fx.b.memory, bytes, i);
		fx_post_recv(&fx.b, 1, 1u << 20, bytes);
		fx_post_rdma(&fx.a, 2, IBV_WR_RDMA_READ, 0, bytes, fx_address(&fx.b, 0),
			     fx_rkey(&fx.b, NULL), 0);
		fx_post_send(&fx.a, 3, 0, bytes, IBV_SEND_FENCE);
		CHECK_EQ(fx_wc_ok(&fx, &fx.b, 1).byte_len, bytes);
		CHECK(fx_filled(fx.b.memory + (1u << 20), bytes, i));
		fx_wc_ok(&fx, &fx.a, 2);
		fx_wc_ok(&fx, &fx.a, 3);
	}
	fx_close(&fx);
}

/* More READs than may be outstanding wait their turn; READs and SENDs complete in posting order. */
static void read_depth(void)
{
	struct fx fx = {.conn_options = {.read_in = 2, .read_out = 3}};

	fx_open_connected(&fx);
	CHECK_EQ(fab_conn_read_out(fx.a.conn), 2);
	CHECK_EQ(fab_conn_read_out(fx.b.conn), 2);
	fx_fill(fx.b.memory, 16 * 65536, 7);
	for (uint32_t i = 0; i < 8; i++)
		fx_post_recv(&fx.b, i, 2u << 20, 64);
	for (uint32_t i = 0; i < 16; i++) {
		fx_post_rdma(&fx.a, 2 * i, IBV_WR_RDMA_READ, (size_t)i * 65536, 65536,
			     fx_address(&fx.b, (size_t)i * 65536), fx_rkey(&fx.b, NULL), 0);
		if (i % 2 == 0)
			fx_post_send(&fx.a, 2 * i + 1, 2u << 20, 64, 0);
	}
	for (uint32_t i = 0; i < 16; i++) {
		fx_wc_ok(&fx, &fx.a, 2 * i);
		if (i % 2 == 0)
			fx_wc_ok(&fx, &fx.a, 2 * i + 1);
	}
	CHECK(fx_filled(fx.a.memory, 16 * 65536, 7));
	for (uint32_t i = 0; i < 8; i++)
		fx_wc_ok(&fx, &fx.b, i);
	fx_close(&fx);
}

#define TCP_ONLY (1u << FAB_TCP) /* plain registrations cannot be invalidated by a device */

/* SEND WITH INVALIDATE: the completion names the key, and the key is invalid. */
static void send_invalidate(void)
{
	struct fx fx = {0};
	struct fab_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr send = {
		.wr_id = 4,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;

	fx_open_connected(&fx);
	CHECK_EQ(fab_mr_register(fx.b.fab, fx.b.memory, 4096,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &mr),
		 0);
	sge = fx_sge(&fx.a, 0, 10);
	send.invalidate_rkey = fx_rkey(&fx.b, mr);
	fx_post_rdma(&fx.a, 1, IBV_WR_RDMA_WRITE, 0, 100, fx_address(&fx.b, 0), fx_rkey(&fx.b, mr),
		     0);
	fx_wc_ok(&fx, &fx.a, 1);
	fx_post_recv(&fx.b, 9, 8192, 16);
	fx_post(&fx.a, &send);
	wc = fx_wc_ok(&fx, &fx.b, 9);
	CHECK(wc.wc_flags & IBV_WC_WITH_INV);
	CHECK_EQ(wc.invalidated_rkey, fx_rkey(&fx.b, mr));
	fx_wc_ok(&fx, &fx.a, 4);
	fx_post_rdma(&fx.a, 5, IBV_WR_RDMA_WRITE, 0, 100, fx_address(&fx.b, 0), fx_rkey(&fx.b, mr),
		     0);
	fx_wc_status(&fx, &fx.a, 5, IBV_WC_REM_ACCESS_ERR);
	fab_mr_deregister(mr);
	fx_close(&fx);
}

/* LOCAL_INV completes in order, and the key is invalid for the peer. */
static void local_invalidate(void)
{
	struct fx fx = {0};
	struct fab_mr *mr;
	struct ibv_send_wr inv = {
		.wr_id = 8,
		.opcode = IBV_WR_LOCAL_INV,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;

	fx_open_connected(&fx);
	CHECK_EQ(fab_mr_register(fx.b.fab, fx.b.memory, 4096,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &mr),
		 0);
	fx_post_rdma(&fx.b, 7, IBV_WR_RDMA_READ, 8192, 5000, fx_address(&fx.a, 0),
		     fx_rkey(&fx.a, NULL), 0);
	inv.invalidate_rkey = fx_rkey(&fx.b, mr);
	fx_post(&fx.b, &inv);
	fx_wc_ok(&fx, &fx.b, 7);
	wc = fx_wc_ok(&fx, &fx.b, 8);
	CHECK_EQ(wc.opcode, IBV_WC_LOCAL_INV);
	fx_post_rdma(&fx.a, 5, IBV_WR_RDMA_READ, 0, 100, fx_address(&fx.b, 0), fx_rkey(&fx.b, mr),
		     0);
	fx_wc_status(&fx, &fx.a, 5, IBV_WC_REM_ACCESS_ERR);
	fab_mr_deregister(mr);
	fx_close(&fx);
}

const struct fx_case fx_cases_rdma[] = {
	{"write_random", write_random, 0},
	{"read_random", read_random, 0},
	{"both_ways", both_ways, 0},
	{"write_immediate", write_immediate, 0},
	{"fence", fence, 0},
	{"read_depth", read_depth, 0},
	{"send_invalidate", send_invalidate, TCP_ONLY},
	{"local_invalidate", local_invalidate, TCP_ONLY},
	{0},
};
