/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: fab_arm() and fab_fd() lose no wake-up. Method: two threads, a fab each, that sleep in
 * poll() between any two messages, with a time limit that turns a lost wake-up into a failure.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "fixture.h"

#define ROUNDS 5000

/* One thread's end. Failures are stored here, because only its own thread can end a case. */
struct sleeper {
	struct fx_end *end;
	uint32_t rounds;
	bool serves; /* sends in answer; else begins */
	const char *failure;
};

/* Sleep until the fab says there is something. False after FX_WAIT_MS. */
static bool sleeper_wait(struct fab *fab)
{
	struct pollfd fd = {.fd = fab_fd(fab), .events = POLLIN};

	if (fab_arm(fab) != 0)
		return true;
	return poll(&fd, 1, FX_WAIT_MS) == 1;
}

static bool sleeper_receive(struct sleeper *sleeper)
{
	struct fab_event event;
	struct ibv_wc wc;

	for (;;) {
		while (fab_poll_event(sleeper->end->fab, &event) == 1)
			;
		if (fab_poll(sleeper->end->fab, &wc, 1) == 0) {
			if (!sleeper_wait(sleeper->end->fab)) {
				sleeper->failure = "a wake-up was lost";
				return false;
			}
			continue;
		}
		if (wc.status != IBV_WC_SUCCESS) {
			sleeper->failure = ibv_wc_status_str(wc.status);
			return false;
		}
		if (wc.opcode == IBV_WC_RECV)
			return true;
	}
}

static void *sleeper_run(void *argument)
{
	struct sleeper *sleeper = argument;
	struct fx_end *end = sleeper->end;

	for (sleeper->rounds = 0; sleeper->rounds < ROUNDS; sleeper->rounds++) {
		if (!sleeper->serves)
			fx_post_send(end, 1, 0, 64, 0);
		if (!sleeper_receive(sleeper))
			return NULL;
		fx_post_recv(end, 2, 4096, 64);
		if (sleeper->serves)
			fx_post_send(end, 1, 0, 64, 0);
	}
	/* The last answer leaves in this turn or the next. */
	fab_arm(end->fab);
	return NULL;
}

/* Thousands of messages in turns; both ends sleep in between. */
static void ping_pong_asleep(void)
{
	struct fx fx = {.a = {0}};
	struct sleeper pinger = {.end = &fx.a}, ponger = {.end = &fx.b, .serves = true};
	pthread_t thread;

	fx_open_connected(&fx);
	for (int i = 0; i < 4; i++) {
		fx_post_recv(&fx.a, 2, 4096, 64);
		fx_post_recv(&fx.b, 2, 4096, 64);
	}
	CHECK_EQ(pthread_create(&thread, NULL, sleeper_run, &ponger), 0);
	sleeper_run(&pinger);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	if (pinger.failure || ponger.failure)
		fx_fail(__FILE__, __LINE__, "pinger after %u: %s, ponger after %u: %s",
			pinger.rounds, pinger.failure ? pinger.failure : "well", ponger.rounds,
			ponger.failure ? ponger.failure : "well");
	CHECK_EQ(pinger.rounds, ROUNDS);
	CHECK_EQ(ponger.rounds, ROUNDS);
	fx_close(&fx);
}

/* A fab with nothing to do: armed, unreadable, and without a timer. */
static void idle_is_quiet(void)
{
	struct fx fx = {0};
	struct pollfd fd;
	uint64_t deadline;

	fx_open_connected(&fx);
	fd = (struct pollfd){.fd = fab_fd(fx.a.fab), .events = POLLIN};
	/* Events of the handshake may wake it a few times first. */
	deadline = fx_deadline_ns();
	do {
		fx_step(&fx);
		CHECK(!fx_past(deadline));
	} while (fab_arm(fx.a.fab) != 0 || poll(&fd, 1, 100) != 0);
	CHECK_EQ(fab_timeout_ms(fx.a.fab), -1);
	fx_close(&fx);
}

/*
 * Armed, and something other than the fabric wakes the owner: what it posts is sent although it
 * sleeps again without a turn, and a connection that it closes wakes it.
 */
static void post_while_armed(void)
{
	struct fx fx = {0};
	struct pollfd fd;

	fx_open_connected(&fx);
	fd = (struct pollfd){.fd = fab_fd(fx.a.fab), .events = POLLIN};
	fx_post_recv(&fx.b, 1, 0, 64);
	WAIT(&fx, fab_arm(fx.a.fab) == 0);
	fx_fill(fx.a.memory, 64, 2);
	fx_post_send(&fx.a, 3, 0, 64, 0);
	{
		uint64_t deadline = fx_deadline_ns();

		while (fx.b.wc_count == 0) { /* only b is stepped */
			fx_end_step(&fx.b);
			CHECK(!fx_past(deadline));
		}
		fx_end_step(&fx.b); /* the acknowledgement */
	}
	fx_wc_ok(&fx, &fx.b, 1);
	CHECK(fx_filled(fx.b.memory, 64, 2));
	fx_wc_ok(&fx, &fx.a, 3);
	fx_post_recv(&fx.a, 4, 0, 64);
	WAIT(&fx, fab_arm(fx.a.fab) == 0);
	fab_conn_close(fx.a.conn);
	CHECK_EQ(poll(&fd, 1, FX_WAIT_MS), 1);
	fx_wc_status(&fx, &fx.a, 4, IBV_WC_WR_FLUSH_ERR);
	fx_close(&fx);
}

const struct fx_case fx_cases_wake[] = {
	{"ping_pong_asleep", ping_pong_asleep, 0},
	{"idle_is_quiet", idle_is_quiet, 0},
	{"post_while_armed", post_while_armed, 0},
	{0},
};
