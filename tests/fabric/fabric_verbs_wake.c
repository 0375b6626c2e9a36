/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no wakeup is lost; and measure what sleeping costs. Two threads with a fab each exchange
 * SENDs one at a time, each end polling or asleep in poll(2) on its fab's descriptor. No short
 * timeout can hide a lost event: after 30 s the test fails.
 *   fabric_verbs_wake verbs|tcp ADDRESS ROUNDS
 * Prints the round trip for polled-polled, slept-polled and slept-slept.
 */
#include "tests/fabric/fabric_verbs_side.h"
#include "proto/core/env.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>

#define MESSAGE_BYTES 64
#define RECEIVES 8

struct end {
	struct side side;
	enum fab_kind kind;
	struct sockaddr_storage addr; /* where to connect to */
	unsigned int rounds;
	unsigned char buffer[RECEIVES + 1][MESSAGE_BYTES];
	struct fab_mr *mr;
};

static const struct fab_conn_options conn_options = {
	.send_depth = 8,
	.recv_depth = RECEIVES,
	.send_sge = 1,
	.inline_bytes = MESSAGE_BYTES,
	.timeout_ms = 10000,
};

static void end_post_receives(struct end *end)
{
	for (unsigned int i = 0; i < RECEIVES; i++)
		CHECK(side_recv(&end->side, i, end->mr, end->buffer[i], MESSAGE_BYTES) == 0);
}

static void end_register(struct end *end)
{
	CHECK(fab_mr_register(end->side.fab, end->buffer, sizeof(end->buffer),
			      IBV_ACCESS_LOCAL_WRITE, &end->mr) == 0);
}

/* Wait for message `number`, then post its buffer again. Completions of sends may come first. */
static void end_take(struct end *end, uint32_t number)
{
	for (;;) {
		struct ibv_wc wc = side_completion(&end->side);
		uint32_t got;

		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_SEND)
			continue;
		memcpy(&got, end->buffer[wc.wr_id], sizeof(got));
		CHECK(got == number && wc.byte_len == MESSAGE_BYTES);
		CHECK(side_recv(&end->side, wc.wr_id, end->mr, end->buffer[wc.wr_id],
				MESSAGE_BYTES) == 0);
		return;
	}
}

/* Every fourth is signalled: completions that nobody waits for must not be in the way. */
static void end_send(struct end *end, uint32_t number)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->buffer[RECEIVES],
		.length = MESSAGE_BYTES,
		.lkey = fab_mr_lkey(end->mr, fab_conn_device(end->side.conn)),
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = number % 4 == 0 ? IBV_SEND_SIGNALED : 0,
	};
	struct ibv_send_wr *bad;

	if (fab_conn_inline(end->side.conn) >= MESSAGE_BYTES)
		wr.send_flags |= IBV_SEND_INLINE;
	memcpy(end->buffer[RECEIVES], &number, sizeof(number));
	CHECK(fab_post_send(end->side.conn, &wr, &bad) == 0);
}

static int end_prepare(struct fab_conn *conn, void *user)
{
	struct end *end = user;

	end->side.conn = conn;
	end_post_receives(end);
	return 0;
}

static void *client(void *argument)
{
	struct end *end = argument;
	struct fab_conn_options options = conn_options;
	struct fab_conn *conn;
	uint64_t begun_ns, ns;

	options.user = end;
	side_open(&end->side, end->kind, 0);
	end_register(end);
	CHECK(fab_connect(end->side.fab, (struct sockaddr *)&end->addr, &options, end_prepare,
			  &conn) == 0);
	side_await(&end->side, FAB_EVENT_ESTABLISHED);
	begun_ns = env_now_ns();
	for (uint32_t i = 0; i < end->rounds; i++) {
		end_send(end, i);
		end_take(end, i);
	}
	ns = env_now_ns() - begun_ns;
	side_drop(&end->side);
	fab_mr_deregister(end->mr);
	printf("round trip %.1f us, client slept %llu times in %u rounds\n",
	       (double)ns / 1000 / end->rounds, (unsigned long long)end->side.sleeps, end->rounds);
	side_close(&end->side);
	return NULL;
}

static void server(struct end *end)
{
	side_await(&end->side, FAB_EVENT_REQUEST);
	CHECK(fab_accept(end->side.fab, end->side.request, &conn_options, &end->side.conn) == 0);
	end_post_receives(end);
	CHECK(fab_conn_establish(end->side.conn, NULL, 0) == 0);
	for (uint32_t i = 0; i < end->rounds; i++) {
		end_take(end, i);
		end_send(end, i);
	}
	side_await(&end->side, FAB_EVENT_DISCONNECTED);
	side_drop(&end->side);
}

static void run(enum fab_kind kind, const char *address, unsigned int rounds, bool client_sleeps,
		bool server_sleeps)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	static struct end ends[2];
	struct fab_listener *listener;
	pthread_t thread;

	memset(ends, 0, sizeof(ends));
	CHECK(inet_pton(AF_INET, address, &addr.sin_addr) == 1);
	ends[0].kind = ends[1].kind = kind;
	ends[0].rounds = ends[1].rounds = rounds;
	ends[0].side.sleep = server_sleeps;
	ends[1].side.sleep = client_sleeps;
	side_open(&ends[0].side, kind, 0);
	end_register(&ends[0]);
	if (fab_listen(ends[0].side.fab, (struct sockaddr *)&addr, 4, &listener))
		fprintf(stderr, "%s\n", fab_error(ends[0].side.fab));
	else
		CHECK(fab_listener_address(listener, &ends[1].addr) == 0);
	CHECK(ends[1].addr.ss_family == AF_INET);
	printf("client %s, server %s: ", client_sleeps ? "sleeps" : "polls",
	       server_sleeps ? "sleeps" : "polls");
	fflush(stdout);
	CHECK(pthread_create(&thread, NULL, client, &ends[1]) == 0);
	server(&ends[0]);
	pthread_join(thread, NULL);
	fab_listener_destroy(listener);
	fab_mr_deregister(ends[0].mr);
	CHECK(!server_sleeps || ends[0].side.sleeps > 0);
	side_close(&ends[0].side);
}

int main(int argc, char **argv)
{
	enum fab_kind kind = argc > 1 && strcmp(argv[1], "tcp") == 0 ? FAB_TCP : FAB_VERBS;
	unsigned int rounds;

	CHECK(argc == 4);
	rounds = (unsigned int)strtoul(argv[3], NULL, 10);
	CHECK(rounds > 0);
	run(kind, argv[2], rounds, false, false);
	run(kind, argv[2], rounds, true, false);
	run(kind, argv[2], rounds, true, true);
	return 0;
}
