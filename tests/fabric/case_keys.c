/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: memory is reachable only under its key, within its bounds, with its rights; a
 * work request that breaks a rule fails with the device's completion and ends
 * the connection. Method: one bad work request between a good one and a victim: the good one
 * succeeds, the bad one has its status, the victim and the peer's receives are flushed; memory does
 * not change.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"

#define OTHER(status) (1u << IBV_WC_##status)

/* After the requester's error: both ends are flushed and told. */
static void expect_end(struct fx *fx)
{
	if (fx_target.kind == FAB_TCP) /* over a device the peer learns of it only by the close */
		WAIT(fx, fx->a.events[FAB_EVENT_DISCONNECTED]);
	fx_drain(fx, &fx->a);
	WAIT(fx, fx->b.events[FAB_EVENT_DISCONNECTED]);
	fx_drain(fx, &fx->b);
}

/* Without acknowledgements, the requester learns of it only by the end of the connection. */
static void expect_ended(struct fx *fx, enum ibv_wr_opcode opcode, uint64_t address, uint32_t rkey,
			 uint32_t bytes)
{
	fx_post_rdma(&fx->a, 1, IBV_WR_RDMA_WRITE, 0, 64, fx_address(&fx->b, 2u << 20),
		     fx_rkey(&fx->b, NULL), 0);
	fx_wc_ok(fx, &fx->a, 1);
	fx_post_rdma(&fx->a, 2, opcode, 0, bytes, address, rkey, 0);
	WAIT(fx, fx->a.events[FAB_EVENT_DISCONNECTED] && fx->b.events[FAB_EVENT_DISCONNECTED]);
	fx_disconnect(fx);
}

/* a does it to b; b has one receive posted, which is flushed. */
static void expect_refused(struct fx *fx, enum ibv_wr_opcode opcode, uint64_t address,
			   uint32_t rkey, uint32_t bytes, enum ibv_wc_status status)
{
	if (!fx_target.limits.acknowledged) {
		expect_ended(fx, opcode, address, rkey, bytes);
		return;
	}
	fx_post_recv(&fx->b, 77, 3u << 20, 64);
	fx_post_rdma(&fx->a, 1, IBV_WR_RDMA_WRITE, 0, 64, fx_address(&fx->b, 2u << 20),
		     fx_rkey(&fx->b, NULL), 0);
	fx_post_rdma(&fx->a, 2, opcode, 0, bytes, address, rkey, 0);
	fx_post_rdma(&fx->a, 3, IBV_WR_RDMA_WRITE, 0, 64, fx_address(&fx->b, 2u << 20),
		     fx_rkey(&fx->b, NULL), 0);
	fx_wc_ok(fx, &fx->a, 1);
	fx_wc_status(fx, &fx->a, 2, status);
	fx_wc_status(fx, &fx->a, 3, IBV_WC_WR_FLUSH_ERR);
	expect_end(fx);
	fx_wc_status(fx, &fx->b, 77, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(fx->a.wc_count + fx->b.wc_count, 0);
}

/* A key that was never assigned. */
static void bad_rkey(void)
{
	struct fx fx = {0};

	fx_open_connected(&fx);
	expect_refused(&fx, IBV_WR_RDMA_WRITE, fx_address(&fx.b, 0),
		       fx_rkey(&fx.b, NULL) ^ 0x5a5a5a00, 64, IBV_WC_REM_ACCESS_ERR);
	fx_connect(&fx);
	expect_refused(&fx, IBV_WR_RDMA_READ, fx_address(&fx.b, 0),
		       fx_rkey(&fx.b, NULL) ^ 0x5a5a5a00, 64, IBV_WC_REM_ACCESS_ERR);
	fx_close(&fx);
}

/* One byte beyond either end, and addresses that wrap. */
static void out_of_bounds(void)
{
	struct fx fx = {0};
	struct fab_mr *mr;

	fx_open_connected(&fx);
	CHECK_EQ(fab_mr_register(fx.b.fab, fx.b.memory + 4096, 4096,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_WRITE,
				 &mr),
		 0);
	expect_refused(&fx, IBV_WR_RDMA_WRITE, fx_address(&fx.b, 4096 + 4090), fx_rkey(&fx.b, mr),
		       7, IBV_WC_REM_ACCESS_ERR);
	fx_connect(&fx);
	expect_refused(&fx, IBV_WR_RDMA_WRITE, fx_address(&fx.b, 4095), fx_rkey(&fx.b, mr), 16,
		       IBV_WC_REM_ACCESS_ERR);
	fx_connect(&fx);
	expect_refused(&fx, IBV_WR_RDMA_READ, fx_address(&fx.b, 4096), fx_rkey(&fx.b, mr), 4097,
		       IBV_WC_REM_ACCESS_ERR);
	fx_connect(&fx);
	expect_refused(&fx, IBV_WR_RDMA_READ, UINT64_MAX - 15, fx_rkey(&fx.b, mr), 32,
		       IBV_WC_REM_ACCESS_ERR);
	for (size_t i = 0; i < 16384; i++)
		CHECK_EQ(fx.b.memory[i], 0);
	fab_mr_deregister(mr);
	fx_close(&fx);
}

/* Soft-iWARP does not check the right to READ. Returns false, and connects again, if the device
 * does. */
static bool read_without_right(struct fx *fx, const struct fab_mr *writable)
{
	fx_post_rdma(&fx->a, 5, IBV_WR_RDMA_READ, 64, 64, fx_address(&fx->b, 0),
		     fx_rkey(&fx->b, writable), 0);
	WAIT(fx, fx->a.wc_count > 0 || fx->a.events[FAB_EVENT_DISCONNECTED]);
	if (fx->a.wc_count > 0 && fx->a.wcs[0].status == IBV_WC_SUCCESS) {
		printf("# %s lets a peer READ what it may only WRITE\n",
		       fab_device_name(fab_conn_device(fx->a.conn)));
		fx_wc_ok(fx, &fx->a, 5);
		fx_disconnect(fx);
		return true;
	}
	fx->a.wc_count = 0;
	fx_disconnect(fx);
	fx_connect(fx);
	return false;
}

/* READ of memory that may only be written, WRITE of memory that may only be read. */
static void wrong_rights(void)
{
	struct fx fx = {0};
	struct fab_mr *readable, *writable;

	fx_open_connected(&fx);
	CHECK_EQ(fab_mr_register(fx.b.fab, fx.b.memory, 4096,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &readable),
		 0);
	CHECK_EQ(fab_mr_register(fx.b.fab, fx.b.memory, 4096,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &writable),
		 0);
	memset(fx.a.memory, 0x77, 64);
	expect_refused(&fx, IBV_WR_RDMA_WRITE, fx_address(&fx.b, 0), fx_rkey(&fx.b, readable), 64,
		       IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(fx.b.memory[0], 0);
	fx_connect(&fx);
	if (fx_target.limits.acknowledged || !read_without_right(&fx, writable)) {
		expect_refused(&fx, IBV_WR_RDMA_READ, fx_address(&fx.b, 0),
			       fx_rkey(&fx.b, writable), 64, IBV_WC_REM_ACCESS_ERR);
		CHECK_EQ(fx.a.memory[0], 0x77);
	}
	fab_mr_deregister(readable);
	fab_mr_deregister(writable);
	fx_close(&fx);
}

/* The key is invalid after deregistration. */
static void after_deregister(void)
{
	struct fx fx = {0};
	struct fab_mr *mr;
	uint32_t rkey;

	fx_open_connected(&fx);
	CHECK_EQ(fab_mr_register(fx.b.fab, fx.b.memory, 4096,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &mr),
		 0);
	rkey = fx_rkey(&fx.b, mr);
	memset(fx.a.memory, 0x41, 64);
	fx_post_rdma(&fx.a, 9, IBV_WR_RDMA_WRITE, 0, 64, fx_address(&fx.b, 0), rkey, 0);
	fx_wc_ok(&fx, &fx.a, 9);
	CHECK_WRITTEN(&fx, fx.b.memory[63] == 0x41);
	fab_mr_deregister(mr);
	expect_refused(&fx, IBV_WR_RDMA_WRITE, fx_address(&fx.b, 0), rkey, 64,
		       IBV_WC_REM_ACCESS_ERR);
	fx_close(&fx);
}

/* A key of another fab of the same process, for the same memory, is invalid here. */
static void other_fab(void)
{
	struct fx fx = {0};
	struct fx_end c;
	uint32_t rkey;

	fx_open_connected(&fx);
	fx_end_open(&c, "c", &fx.options);
	rkey = fab_mr_rkey(c.mr, fab_conn_device(fx.b.conn));
	/* A device numbers all its keys; the address differs anyway. */
	if (fx_target.kind == FAB_TCP)
		CHECK(rkey != fx_rkey(&fx.b, NULL));
	expect_refused(&fx, IBV_WR_RDMA_WRITE, fx_address(&c, 0), rkey, 64, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(c.memory[0], 0);
	fx_end_close(&c);
	fx_close(&fx);
}

/*
 * A SEND longer than the receive: LOC_LEN_ERR there, REM_INV_REQ_ERR here, both flushed. Soft-RoCE
 * reports an operation error at both ends: it has one for all failures of a receive. Without
 * acknowledgements the SENDs succeed here.
 */
static void send_too_long(void)
{
	struct fx fx = {0};

	fx_open_connected(&fx);
	fx_post_recv(&fx.b, 5, 0, 100);
	fx_post_recv(&fx.b, 6, 0, 100);
	fx_post_send(&fx.a, 1, 0, 101, 0);
	if (fx_target.limits.acknowledged) {
		fx_post_send(&fx.a, 2, 0, 10, 0);
		fx_wc_failed(&fx, &fx.a, 1, IBV_WC_REM_INV_REQ_ERR, OTHER(REM_OP_ERR));
		fx_wc_status(&fx, &fx.a, 2, IBV_WC_WR_FLUSH_ERR);
	}
	fx_wc_failed(&fx, &fx.b, 5, IBV_WC_LOC_LEN_ERR, OTHER(LOC_QP_OP_ERR));
	expect_end(&fx);
	fx_wc_status(&fx, &fx.b, 6, IBV_WC_WR_FLUSH_ERR);
	fx_close(&fx);
}

/*
 * An invalid local key: earlier requests complete, then LOC_PROT_ERR, then the flush. Soft-RoCE
 * reports LOC_QP_OP_ERR for whatever it cannot send. Since Linux 6.4 it flushes the failed one, and
 * also earlier ones that are not acknowledged.
 */
static void bad_lkey(void)
{
	struct fx fx = {0};
	struct ibv_sge sge;
	struct ibv_send_wr send = {
		.wr_id = 2,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	fx_open_connected(&fx);
	for (uint32_t i = 0; i < 3; i++)
		fx_post_recv(&fx.b, i, 0, 100);
	fx_post_send(&fx.a, 1, 0, 10, 0);
	if (fx_target.kind == FAB_VERBS)
		fx_wc_ok(&fx, &fx.a, 1);
	sge = fx_sge(&fx.a, 0, 10);
	sge.lkey ^= 0x33333300;
	fx_post(&fx.a, &send);
	fx_post_send(&fx.a, 3, 0, 10, 0);
	if (fx_target.kind != FAB_VERBS)
		fx_wc_ok(&fx, &fx.a, 1);
	fx_wc_failed(&fx, &fx.a, 2, IBV_WC_LOC_PROT_ERR,
		     OTHER(LOC_QP_OP_ERR) | OTHER(WR_FLUSH_ERR));
	fx_wc_status(&fx, &fx.a, 3, IBV_WC_WR_FLUSH_ERR);
	fx_wc_ok(&fx, &fx.b, 0);
	expect_end(&fx);
	fx_wc_status(&fx, &fx.b, 1, IBV_WC_WR_FLUSH_ERR);
	fx_wc_status(&fx, &fx.b, 2, IBV_WC_WR_FLUSH_ERR);
	fx_close(&fx);
}

const struct fx_case fx_cases_keys[] = {
	{"bad_rkey", bad_rkey, 0},
	{"out_of_bounds", out_of_bounds, 0},
	{"wrong_rights", wrong_rights, 0},
	{"after_deregister", after_deregister, 0},
	{"other_fab", other_fab, 0},
	{"send_too_long", send_too_long, 0},
	{"bad_lkey", bad_lkey, 0},
	{0},
};
