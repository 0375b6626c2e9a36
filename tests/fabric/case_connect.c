/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: connections are established, refused and fail as fabric.h says, with private data both ways
 * and a text for each failure; nothing leaks. Method: each outcome once or a thousand times.
 */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"

static struct fab_request *take_request(struct fx *fx)
{
	struct fab_request *request;

	WAIT(fx, fx->b.request);
	request = fx->b.request;
	fx->b.request = NULL;
	return request;
}

/* Private data arrives in both directions; depths and user pointers are as agreed. */
static void private_data(void)
{
	struct fx fx = {0};
	unsigned char data[56];
	uint8_t in, out;
	struct fab_request *request;

	fx.conn_options.private_data = data;
	fx.conn_options.private_bytes = sizeof(data);
	fx.conn_options.read_in = 3;
	fx.conn_options.read_out = 5;
	fx_fill(data, sizeof(data), 1);
	fx_open(&fx);
	fx_connect_begin(&fx);
	request = take_request(&fx);
	CHECK(fx.b.private_bytes >= sizeof(data)); /* InfiniBand pads */
	CHECK(fx_filled(fx.b.private_data, sizeof(data), 1));
	fab_request_read_depth(request, &in, &out);
	CHECK_EQ(in, 3);
	CHECK_EQ(out, 5);
	CHECK(fab_request_peer(request)->sa_family == fx.addr.ss_family);
	CHECK(fab_request_device(fx.b.fab, request) != NULL);
	CHECK_EQ(fab_accept(fx.b.fab, request, &fx.conn_options, &fx.b.conn), 0);
	fx_fill(data, sizeof(data), 2);
	CHECK_EQ(fab_conn_establish(fx.b.conn, data, sizeof(data)), 0);
	WAIT(&fx, fx.a.events[FAB_EVENT_ESTABLISHED] && fx.b.events[FAB_EVENT_ESTABLISHED]);
	CHECK(fx.a.private_bytes >= sizeof(data));
	CHECK(fx_filled(fx.a.private_data, sizeof(data), 2));
	CHECK_EQ(fx.a.prepare_calls, 1);
	CHECK_EQ(fab_conn_read_out(fx.a.conn), 3);
	CHECK_EQ(fab_conn_read_out(fx.b.conn), 3);
	CHECK(strlen(fab_conn_peer(fx.a.conn)) > 0);
	fx_close(&fx);
}

/* fab_reject(): REJECTED with the reason; the connection drains like any. */
static void reject(void)
{
	struct fx fx = {.a = {0}};
	unsigned char reason[16];

	fx_fill(reason, sizeof(reason), 6);
	fx_open(&fx);
	fx.a.recv_posts = 2;
	fx.a.recv_bytes = 64;
	fx_connect_begin(&fx);
	fab_reject(take_request(&fx), reason, sizeof(reason));
	WAIT(&fx, fx.a.events[FAB_EVENT_REJECTED] + fx.a.events[FAB_EVENT_FAILED]);
	if (!fx.a.events[FAB_EVENT_REJECTED])
		fx_fail(__FILE__, __LINE__, "not rejected, but: %s", fab_error(fx.a.fab));
	CHECK(fx_filled(fx.a.private_data, sizeof(reason), 6));
	fx_drain(&fx, &fx.a);
	fx_wc_status(&fx, &fx.a, 1000, IBV_WC_WR_FLUSH_ERR);
	fx_wc_status(&fx, &fx.a, 1001, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(fx.a.events[FAB_EVENT_ESTABLISHED] + fx.a.events[FAB_EVENT_DISCONNECTED], 0);
	fx_close(&fx);
}

/* fab_conn_refuse(): the same for the peer, after the queue pair was made. */
static void refuse(void)
{
	struct fx fx = {0};
	unsigned char reason[16];

	fx_fill(reason, sizeof(reason), 7);
	fx_open(&fx);
	fx_connect_begin(&fx);
	CHECK_EQ(fab_accept(fx.b.fab, take_request(&fx), &fx.conn_options, &fx.b.conn), 0);
	fx_post_recv(&fx.b, 1, 0, 64);
	fab_conn_refuse(fx.b.conn, reason, sizeof(reason));
	WAIT(&fx, fx.a.events[FAB_EVENT_REJECTED]);
	CHECK(fx_filled(fx.a.private_data, sizeof(reason), 7));
	fx_drain(&fx, &fx.b);
	fx_wc_status(&fx, &fx.b, 1, IBV_WC_WR_FLUSH_ERR);
	fx_close(&fx);
}

/* A fab_accept() that fails leaves the request as it was: it can still be refused with a reason. */
static void accept_fails(void)
{
	struct fx fx = {0};
	struct fab_conn_options impossible;
	struct fab_request *request;
	unsigned char reason[16];

	fx_fill(reason, sizeof(reason), 8);
	fx_open(&fx);
	for (int round = 0; round < 2; round++) {
		fx_connect_begin(&fx);
		request = take_request(&fx);
		impossible = fx.conn_options;
		impossible.send_depth = 1u << 24;
		CHECK_EQ(fab_accept(fx.b.fab, request, &impossible, &fx.b.conn), -EINVAL);
		CHECK(!fx.b.conn);
		CHECK(strlen(fab_error(fx.b.fab)) > 0);
		CHECK(fab_request_peer(request)->sa_family == fx.addr.ss_family);
		/* Second round: what failed with these options succeeds with others. */
		if (round == 1)
			break;
		fab_reject(request, reason, sizeof(reason));
		WAIT(&fx, fx.a.events[FAB_EVENT_REJECTED]);
		CHECK(fx_filled(fx.a.private_data, sizeof(reason), 8));
		fx_drain(&fx, &fx.a);
	}
	CHECK_EQ(fab_accept(fx.b.fab, request, &fx.conn_options, &fx.b.conn), 0);
	CHECK_EQ(fab_conn_establish(fx.b.conn, NULL, 0), 0);
	WAIT(&fx, fx.a.events[FAB_EVENT_ESTABLISHED] && fx.b.events[FAB_EVENT_ESTABLISHED]);
	fx_close(&fx);
}

/* Nothing listens: FAILED, with a text that names the address. */
static void nobody_listens(void)
{
	struct fx fx = {0};
	char port[16];

	fx_open(&fx);
	fab_listener_destroy(fx.listener);
	fx.listener = NULL;
	fx_connect_begin(&fx);
	WAIT(&fx, fx.a.events[FAB_EVENT_FAILED]);
	CHECK(fx.a.status < 0);
	snprintf(port, sizeof(port), ":%u", ntohs(((struct sockaddr_in *)&fx.addr)->sin_port));
	CHECK(strstr(fab_error(fx.a.fab), port));
	CHECK(strstr(fab_error(fx.a.fab), ": "));
	fx_drain(&fx, &fx.a);
	fx_close(&fx);
}

/* A port in use is -EADDRINUSE, named. */
static void port_in_use(void)
{
	struct fx fx = {0};
	struct fab_listener *second = NULL;

	fx_open(&fx);
	CHECK_EQ(fab_listen(fx.a.fab, (struct sockaddr *)&fx.addr, 8, &second), -EADDRINUSE);
	CHECK(!second);
	CHECK(strlen(fab_error(fx.a.fab)) > 0);
	fx_close(&fx);
}

/* prepare() says no: FAILED with its errno, and the peer never hears of it. */
static void prepare_fails(void)
{
	struct fx fx = {0};

	fx_open(&fx);
	fx.a.prepare_result = -ENOSPC;
	fx_connect_begin(&fx);
	WAIT(&fx, fx.a.events[FAB_EVENT_FAILED]);
	CHECK_EQ(fx.a.status, -ENOSPC);
	fx_drain(&fx, &fx.a);
	for (int i = 0; i < 20; i++)
		fx_step(&fx);
	CHECK_EQ(fx.b.events[FAB_EVENT_REQUEST], 0);
	fx_close(&fx);
}

/* A request without an answer: FAILED after the time limit. */
static void request_unanswered(void)
{
	struct fx fx = {.conn_options = {.timeout_ms = 300}};

	fx_open(&fx);
	fx_connect_begin(&fx);
	CHECK(fab_timeout_ms(fx.a.fab) >= 0);
	WAIT(&fx, fx.a.events[FAB_EVENT_FAILED]);
	CHECK_EQ(fx.a.status, -ETIMEDOUT);
	fx_drain(&fx, &fx.a);
	fab_reject(take_request(&fx), NULL, 0);
	fx_close(&fx);
}

/* The connecting end gives up before, during and after the answer; the other end goes on
 * working. */
static void close_while_connecting(void)
{
	struct fab_request *request;
	struct fx fx = {0};
	int err;

	fx_open(&fx);
	for (int steps = 0; steps < 8; steps++) {
		fx_connect_begin(&fx);
		for (int i = 0; i < steps; i++)
			fx_step(&fx);
		fx_drain(&fx, &fx.a);
		for (int i = 0; i < 20; i++)
			fx_step(&fx);
		if (!fx.b.request)
			continue;
		request = take_request(&fx);
		err = fab_accept(fx.b.fab, request, &fx.conn_options, &fx.b.conn);
		/* The kernel makes no queue pair for a request that it knows to be withdrawn. */
		if (err && fx_target.kind == FAB_VERBS) {
			CHECK_EQ(err, -EINVAL);
			fab_reject(request, NULL, 0);
			continue;
		}
		CHECK_EQ(err, 0);
		err = fab_conn_establish(fx.b.conn, NULL, 0);
		/* iWARP may know by now that the TCP connection has ended. */
		if (err && !fx_target.limits.acknowledged)
			CHECK_EQ(err, -ECONNRESET);
		else
			CHECK_EQ(err, 0);
		if (!err)
			WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
		fx_drain(&fx, &fx.b);
	}
	fx_connect(&fx);
	fx_close(&fx);
}

struct acceptor {
	struct fab_options options;
	struct fab_conn_options conn_options;
	struct fab_request *request;
	const char *failure;
};

/* A fab of this thread adopts the request, receives one message, answers it and closes. */
static void *acceptor_run(void *argument)
{
	struct acceptor *acceptor = argument;
	char error[FAB_ERROR_BYTES];
	struct fab *fab = fab_open(fx_target.kind, &acceptor->options, error);
	unsigned char memory[128];
	struct fab_event event = {0};
	struct fab_conn *conn;
	struct fab_mr *mr;
	struct ibv_wc wc;
	struct ibv_sge sge = {.addr = (uint64_t)(uintptr_t)memory, .length = 64};
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 2,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad_send;
	uint64_t deadline = fx_deadline_ns();
	int done = 0;

	acceptor->failure = "the accepting thread failed";
	if (!fab || fab_mr_register(fab, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE, &mr) ||
	    fab_accept(fab, acceptor->request, &acceptor->conn_options, &conn))
		return NULL;
	sge.lkey = fab_mr_lkey(mr, fab_conn_device(conn));
	if (fab_post_recv(conn, &recv, &bad_recv) || fab_conn_establish(conn, NULL, 0))
		return NULL;
	while (done < 2 && !fx_past(deadline)) {
		while (fab_poll_event(fab, &event) == 1)
			;
		if (fab_poll(fab, &wc, 1) == 0)
			continue;
		if (wc.status != IBV_WC_SUCCESS ||
		    (done++ == 0 && fab_post_send(conn, &send, &bad_send)))
			return NULL;
	}
	fab_conn_close(conn);
	while (event.type != FAB_EVENT_DRAINED && !fx_past(deadline)) {
		fab_poll(fab, &wc, 1);
		fab_poll_event(fab, &event);
	}
	fab_conn_destroy(conn);
	fab_mr_deregister(mr);
	fab_close(fab);
	acceptor->failure = done == 2 ? NULL : "the accepting thread timed out";
	return NULL;
}

/* One thread owns the listener's fab, another one the accepting fab. */
static void accept_elsewhere(void)
{
	struct fx fx = {0};
	struct acceptor acceptor = {0};
	pthread_t thread;

	fx.a.recv_posts = 0;
	fx_open(&fx);
	fx.a.recv_posts = 1;
	fx.a.recv_bytes = 64;
	fx_connect_begin(&fx);
	acceptor.request = take_request(&fx);
	acceptor.options = fx.options;
	acceptor.conn_options = fx.conn_options;
	CHECK_EQ(pthread_create(&thread, NULL, acceptor_run, &acceptor), 0);
	WAIT(&fx, fx.a.events[FAB_EVENT_ESTABLISHED]);
	fx_fill(fx.a.memory + 4096, 64, 8);
	fx_post_send(&fx.a, 5, 4096, 64, 0);
	WAIT(&fx, fx.a.wc_count >= 2);
	CHECK(fx_filled(fx.a.memory, 64, 8));
	WAIT(&fx, fx.a.events[FAB_EVENT_DISCONNECTED]);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	if (acceptor.failure)
		fx_fail(__FILE__, __LINE__, "%s", acceptor.failure);
	fx_close(&fx);
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* A thousand connections come and go: no descriptor is left behind. */
static void no_leak(void)
{
	struct fx fx = {.conn_options = {.send_depth = 4, .recv_depth = 4}};
	int rounds = fx_target.kind == FAB_TCP ? 1000 : 50; /* a device is slower */
	int before;

	fx_open_connected(&fx);
	fx_disconnect(&fx);
	before = descriptors();
	for (int i = 0; i < rounds; i++) {
		fx_connect(&fx);
		fx_disconnect(&fx);
	}
	WAIT(&fx, descriptors() <= before);
	fx_close(&fx);
}

const struct fx_case fx_cases_connect[] = {
	{"private_data", private_data, 0},
	{"reject", reject, 0},
	{"refuse", refuse, 0},
	{"accept_fails", accept_fails, 0},
	{"nobody_listens", nobody_listens, 0},
	{"port_in_use", port_in_use, 0},
	{"prepare_fails", prepare_fails, 0},
	{"request_unanswered", request_unanswered, 0},
	{"close_while_connecting", close_while_connecting, 0},
	{"accept_elsewhere", accept_elsewhere, 0},
	{"no_leak", no_leak, 0},
	{0},
};
