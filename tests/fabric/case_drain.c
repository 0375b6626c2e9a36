/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: however a connection ends, each posted work request comes back exactly once, then DRAINED,
 * then nothing. Method: connections are closed, or lose their peer, with everything in flight.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define MANY 48

static void post_receives(struct fx_end *end)
{
	for (uint32_t i = 0; i < MANY; i++)
		fx_post_recv(end, 500 + i, (size_t)i * 4096, 4096);
}

static void post_sends(struct fx_end *end, struct fx_end *peer)
{
	for (uint32_t i = 0; i < MANY; i++) {
		switch (i % 3) {
		case 0:
			fx_post_send(end, i, 0, 4096, 0);
			break;
		case 1:
			fx_post_rdma(end, i, IBV_WR_RDMA_READ, 0, 65536, fx_address(peer, 0),
				     fx_rkey(peer, NULL), 0);
			break;
		default:
			fx_post_rdma(end, i, IBV_WR_RDMA_WRITE, 0, 65536,
				     fx_address(peer, 2u << 20), fx_rkey(peer, NULL), 0);
		}
	}
}

/* Sends succeed up to some point and are flushed after that; receives likewise; each once. */
static void check_all_back(struct fx_end *end)
{
	bool send_flushed = false, recv_flushed = false;
	uint32_t sends = 0, recvs = 0;

	for (int i = 0; i < end->wc_count; i++) {
		const struct ibv_wc *wc = &end->wcs[i];
		bool *flushed = wc->wr_id >= 500 ? &recv_flushed : &send_flushed;
		uint32_t *next = wc->wr_id >= 500 ? &recvs : &sends;

		CHECK_EQ(wc->wr_id % 500, *next);
		(*next)++;
		if (wc->status == IBV_WC_SUCCESS)
			CHECK(!*flushed);
		else
			*flushed = true;
	}
	CHECK_EQ(sends, MANY);
	CHECK_EQ(recvs, MANY);
	end->wc_count = 0;
}

/* Both ends have much in flight when one closes, after some progress that differs by round. */
static void close_busy(void)
{
	struct fx fx = {0};

	fx_open(&fx);
	for (int round = 0; round < 40; round++) {
		fx_connect(&fx);
		post_receives(&fx.a);
		if (!fx_target.limits.acknowledged) /* no message of a's waits for b's receives */
			post_receives(&fx.b);
		post_sends(&fx.a, &fx.b);
		if (fx_target.limits.acknowledged)
			post_receives(&fx.b);
		post_sends(&fx.b, &fx.a);
		for (int i = 0; i < round / 2; i++)
			fx_step(&fx);
		fx_drain(&fx, &fx.a);
		check_all_back(&fx.a);
		WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
		fx_drain(&fx, &fx.b);
		check_all_back(&fx.b);
		for (int i = 0; i < 5; i++)
			fx_step(&fx);
		CHECK_EQ(fx.a.wc_count + fx.b.wc_count, 0);
		CHECK_EQ(fx.a.events[FAB_EVENT_DRAINED], 1);
		CHECK_EQ(fx.b.events[FAB_EVENT_DRAINED], 1);
	}
	fx_close(&fx);
}

/* Closing twice has no more effect than once. Posting to a closed connection fails. */
static void close_twice(void)
{
	struct fx fx = {0};
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad = NULL;

	fx_open_connected(&fx);
	fx_post_recv(&fx.a, 1, 0, 64);
	fab_conn_close(fx.a.conn);
	fab_conn_close(fx.a.conn);
	CHECK_EQ(fx_try_recv(&fx.a, 2, 0, 64), -ENOTCONN);
	CHECK_EQ(fab_post_send(fx.a.conn, &send, &bad), -ENOTCONN);
	CHECK(bad == &send);
	WAIT(&fx, fx.a.events[FAB_EVENT_DRAINED]);
	fx_wc_status(&fx, &fx.a, 1, IBV_WC_WR_FLUSH_ERR);
	for (int i = 0; i < 5; i++)
		fx_step(&fx);
	CHECK_EQ(fx_try_recv(&fx.a, 2, 0, 64), -ENOTCONN);
	CHECK_EQ(fx.a.wc_count, 0);
	CHECK_EQ(fx.a.events[FAB_EVENT_DRAINED], 1);
	CHECK_EQ(fx.a.events[FAB_EVENT_DISCONNECTED], 0);
	fx_close(&fx);
}

/* Posting to a disconnected connection works; if the device supports it, the request is flushed. */
static void post_after_disconnect(void)
{
	struct fx fx = {0};

	fx_open_connected(&fx);
	fx_drain(&fx, &fx.a);
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
	fx_post_recv(&fx.b, 1, 0, 64);
	if (fx_target.limits.late_flush)
		fx_wc_status(&fx, &fx.b, 1, IBV_WC_WR_FLUSH_ERR);
	fx_post_send(&fx.b, 2, 0, 64, 0);
	if (fx_target.limits.late_flush)
		fx_wc_status(&fx, &fx.b, 2, IBV_WC_WR_FLUSH_ERR);
	fx_drain(&fx, &fx.b);
	CHECK_EQ(fx.b.wc_count, 0);
	fx_close(&fx);
}

/* The client of peer_vanishes: connects, posts receives, and goes on until it is killed. */
static void vanishing_child(int port_pipe)
{
	struct fx fx = {0};

	fx.conn_options = (struct fab_conn_options){.send_depth = 8,
						    .recv_depth = 8,
						    .send_sge = 1,
						    .read_in = 4,
						    .read_out = 4,
						    .timeout_ms = FX_WAIT_MS};
	fx.options = (struct fab_options){.cq_depth = 64, .recv_sge = 1};
	if (read(port_pipe, &fx.addr, sizeof(fx.addr)) != sizeof(fx.addr))
		_exit(1);
	fx_end_open(&fx.a, "child", &fx.options);
	fx_connect_begin(&fx);
	for (;;)
		fx_end_step(&fx.a);
}

/* The peer's process is killed; if SENDs wait for receives, some are in flight then. */
static void peer_vanishes(void)
{
	struct fx fx = {0};
	struct fab_conn_options options;
	const uint32_t sends = fx_target.limits.acknowledged ? 8 : 0;
	int pipes[2];
	pid_t child;

	CHECK_EQ(pipe(pipes), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		vanishing_child(pipes[0]);
	fx_open(&fx);
	CHECK_EQ(write(pipes[1], &fx.addr, sizeof(fx.addr)), sizeof(fx.addr));
	WAIT(&fx, fx.b.request);
	options = fx.conn_options;
	CHECK_EQ(fab_accept(fx.b.fab, fx.b.request, &options, &fx.b.conn), 0);
	fx.b.request = NULL;
	CHECK_EQ(fab_conn_establish(fx.b.conn, NULL, 0), 0);
	WAIT(&fx, fx.b.events[FAB_EVENT_ESTABLISHED]);
	for (uint32_t i = 0; i < sends; i++)
		fx_post_send(&fx.b, i, 0, 100000, 0);
	for (int i = 0; i < 10; i++)
		fx_step(&fx);
	CHECK_EQ(kill(child, SIGKILL), 0);
	CHECK_EQ(waitpid(child, NULL, 0), child);
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
	for (uint32_t i = 0; i < sends; i++) {
		struct ibv_wc wc = fx_wc(&fx, &fx.b);

		CHECK_EQ(wc.wr_id, i);
		CHECK(wc.status != IBV_WC_SUCCESS);
	}
	fx_drain(&fx, &fx.b);
	close(pipes[0]);
	close(pipes[1]);
	fx_close(&fx);
}

/* Completions that the caller has not polled yet are polled before DRAINED comes. */
static void drained_is_last(void)
{
	struct fx fx = {0};
	struct fab_event event;
	struct ibv_wc wc;

	fx_open_connected(&fx);
	for (uint32_t i = 0; i < 10; i++)
		fx_post_recv(&fx.a, i, 0, 64);
	fab_conn_close(fx.a.conn);
	for (uint32_t i = 0; i < 10; i++) {
		uint64_t deadline = fx_deadline_ns();

		while (fab_poll(fx.a.fab, &wc, 1) == 0) {
			while (fab_poll_event(fx.a.fab, &event) == 1)
				CHECK(event.type != FAB_EVENT_DRAINED);
			CHECK(!fx_past(deadline));
		}
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	WAIT(&fx, fx.a.events[FAB_EVENT_DRAINED]);
	CHECK_EQ(fx.a.wc_count, 0);
	fx_close(&fx);
}

/* A reply posted just before the close arrives, when the peer had a receive for it. */
static void last_words(void)
{
	struct fx fx = {0};

	fx_open_connected(&fx);
	fx_post_recv(&fx.b, 1, 0, 64);
	fx_fill(fx.a.memory, 64, 5);
	fx_post_send(&fx.a, 2, 0, 64, 0);
	fab_conn_close(fx.a.conn);
	fx_wc_ok(&fx, &fx.b, 1);
	CHECK(fx_filled(fx.b.memory, 64, 5));
	fx_close(&fx);
}

const struct fx_case fx_cases_drain[] = {
	{"close_busy", close_busy, 0},
	{"close_twice", close_twice, 0},
	{"post_after_disconnect", post_after_disconnect, 0},
	{"peer_vanishes", peer_vanishes, 0},
	{"drained_is_last", drained_is_last, 0},
	{"last_words", last_words, 1u << FAB_TCP},
	{0},
};
