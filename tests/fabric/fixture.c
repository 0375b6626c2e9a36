/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fixture of the cases, and main() of every program that is made of them: run all cases of the
 * program's tables, or those named, for one kind of fabric and one local address.
 *
 *   fabric_conformance tcp 127.0.0.1 [case...]
 *   fabric_conformance verbs 10.9.0.1 [case...]
 *   fabric_tcp_peer tcp 127.0.0.1 [case...]
 */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/core/env.h"

struct fx_target fx_target;
static jmp_buf fx_case_end;
static uint32_t fx_random_state;
static const char *fx_at;

/* -- checks ----------------------------------------------------------------------------------- */

void fx_about(const char *what)
{
	fx_at = what;
}

void fx_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: ", file, line);
	if (fx_at)
		fprintf(stderr, "%s: ", fx_at);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	longjmp(fx_case_end, 1);
}

uint64_t fx_deadline_ns(void)
{
	return env_now_ns() + FX_WAIT_MS * 1000000ull;
}

bool fx_past(uint64_t deadline_ns)
{
	return env_now_ns() > deadline_ns;
}

uint32_t fx_random(void)
{
	fx_random_state = fx_random_state * 1664525u + 1013904223u;
	return fx_random_state >> 8;
}

void fx_fill(unsigned char *data, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)((i * 2654435761u + seed * 40503u) >> 13);
}

bool fx_filled(const unsigned char *data, size_t bytes, uint32_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i] != (unsigned char)((i * 2654435761u + seed * 40503u) >> 13))
			return false;
	return true;
}

/* -- ends ------------------------------------------------------------------------------------- */

static bool fx_take_job(struct fab_job *job, void *user)
{
	struct fx_end *end = user;

	if (end->job_count == FX_CONNS_MAX)
		return false;
	end->jobs[end->job_count++] = job;
	return true;
}

static void fx_end_jobs(struct fx_end *end)
{
	int count = end->job_count;
	struct fab_job *jobs[FX_CONNS_MAX];

	memcpy(jobs, end->jobs, sizeof(jobs));
	end->job_count = 0;
	for (int i = 0; i < count; i++) {
		jobs[i]->run(jobs[i]);
		jobs[i]->end(jobs[i]);
	}
}

void fx_end_open(struct fx_end *end, const char *name, const struct fab_options *options)
{
	struct fab_options mine = *options;
	char error[FAB_ERROR_BYTES];

	memset(end, 0, sizeof(*end));
	end->name = name;
	mine.helper = fx_take_job;
	mine.helper_user = end;
	end->fab = fab_open(fx_target.kind, &mine, error);
	if (!end->fab)
		fx_fail(__FILE__, __LINE__, "fab_open: %s", error);
	end->memory = aligned_alloc(4096, FX_MEMORY_BYTES);
	CHECK(end->memory);
	memset(end->memory, 0, FX_MEMORY_BYTES);
	CHECK_EQ(fab_mr_register(end->fab, end->memory, FX_MEMORY_BYTES,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_WRITE,
				 &end->mr),
		 0);
}

void fx_end_close(struct fx_end *end)
{
	fab_mr_deregister(end->mr);
	fab_close(end->fab);
	free(end->memory);
	memset(end, 0, sizeof(*end));
}

void fx_end_step(struct fx_end *end)
{
	struct fab_event event;

	fx_end_jobs(end);
	end->wc_count += fab_poll(end->fab, end->wcs + end->wc_count, FX_WCS_MAX - end->wc_count);
	while (fab_poll_event(end->fab, &event) == 1) {
		end->events[event.type]++;
		end->status = event.status;
		if (event.type == FAB_EVENT_REQUEST) {
			CHECK(!end->request);
			end->request = event.request;
		}
		if (event.type == FAB_EVENT_DRAINED) {
			CHECK(end->drained_count < FX_CONNS_MAX);
			end->drained[end->drained_count++] = event.conn;
		}
		if (event.private_bytes) {
			CHECK(event.private_bytes <= sizeof(end->private_data));
			memcpy(end->private_data, event.private_data, event.private_bytes);
			end->private_bytes = event.private_bytes;
		}
	}
}

void fx_step(struct fx *fx)
{
	if (fx->a.fab)
		fx_end_step(&fx->a);
	if (fx->b.fab)
		fx_end_step(&fx->b);
}

void fx_open(struct fx *fx)
{
	if (fx->options.cq_depth == 0)
		fx->options.cq_depth = 4096;
	if (fx->options.recv_sge == 0)
		fx->options.recv_sge = 2;
	if (fx->conn_options.send_depth == 0)
		fx->conn_options.send_depth = 64;
	if (fx->conn_options.recv_depth == 0)
		fx->conn_options.recv_depth = 64;
	if (fx->conn_options.send_sge == 0)
		fx->conn_options.send_sge = 4;
	if (fx->conn_options.inline_bytes == 0)
		fx->conn_options.inline_bytes = 64;
	if (fx->conn_options.read_in == 0)
		fx->conn_options.read_in = 4;
	if (fx->conn_options.read_out == 0)
		fx->conn_options.read_out = 4;
	if (fx->conn_options.timeout_ms == 0)
		fx->conn_options.timeout_ms = FX_WAIT_MS;
	fx_end_open(&fx->a, "a", &fx->options);
	fx_end_open(&fx->b, "b", &fx->options);
	CHECK_EQ(fab_listen(fx->b.fab, (const struct sockaddr *)&fx_target.addr, 64, &fx->listener),
		 0);
	CHECK_EQ(fab_listener_address(fx->listener, &fx->addr), 0);
}

void fx_close(struct fx *fx)
{
	if (fx->a.conn || fx->b.conn)
		fx_disconnect(fx);
	fab_listener_destroy(fx->listener);
	fx_end_close(&fx->a);
	fx_end_close(&fx->b);
}

/* -- connecting ------------------------------------------------------------------------------- */

/* Posts the first receives, at offsets recv_bytes apart, wr_id 1000 and up. */
static void fx_first_receives(struct fx_end *end)
{
	for (uint32_t i = 0; i < end->recv_posts; i++)
		fx_post_recv(end, 1000 + i, (size_t)i * end->recv_bytes, end->recv_bytes);
}

static int fx_prepare(struct fab_conn *conn, void *user)
{
	struct fx_end *end = user;

	end->prepare_calls++;
	CHECK(fab_conn_device(conn) != NULL);
	CHECK(fab_conn_qp_num(conn) != 0);
	end->conn = conn;
	if (end->prepare_result)
		return end->prepare_result;
	fx_first_receives(end);
	return 0;
}

void fx_connect_begin(struct fx *fx)
{
	struct fab_conn_options options = fx->conn_options;

	memset(fx->a.events, 0, sizeof(fx->a.events));
	memset(fx->b.events, 0, sizeof(fx->b.events));
	fx->a.prepare_calls = 0;
	options.user = &fx->a;
	CHECK_EQ(fab_connect(fx->a.fab, (const struct sockaddr *)&fx->addr, &options, fx_prepare,
			     &fx->a.conn),
		 0);
	CHECK(fab_conn_user(fx->a.conn) == &fx->a);
}

void fx_connect(struct fx *fx)
{
	struct fab_conn_options options = fx->conn_options;
	struct fab_request *request;

	fx_connect_begin(fx);
	WAIT(fx, fx->b.request);
	request = fx->b.request;
	fx->b.request = NULL;
	options.user = &fx->b;
	CHECK_EQ(fab_accept(fx->b.fab, request, &options, &fx->b.conn), 0);
	fx_first_receives(&fx->b);
	CHECK_EQ(fab_conn_establish(fx->b.conn, NULL, 0), 0);
	WAIT(fx, fx->a.events[FAB_EVENT_ESTABLISHED] && fx->b.events[FAB_EVENT_ESTABLISHED]);
	CHECK(fab_conn_find(fx->a.fab, fab_conn_qp_num(fx->a.conn)) == fx->a.conn);
}

void fx_open_connected(struct fx *fx)
{
	fx_open(fx);
	fx_connect(fx);
}

/* Whether DRAINED came for this connection. Removes the entry, because addresses are used again. */
static bool fx_take_drained(struct fx_end *end, const struct fab_conn *conn)
{
	for (int i = 0; i < end->drained_count; i++) {
		if (end->drained[i] != conn)
			continue;
		end->drained[i] = end->drained[--end->drained_count];
		return true;
	}
	return false;
}

void fx_drain(struct fx *fx, struct fx_end *end)
{
	fab_conn_close(end->conn);
	WAIT(fx, fx_take_drained(end, end->conn));
	fab_conn_destroy(end->conn);
	end->conn = NULL;
}

void fx_disconnect(struct fx *fx)
{
	if (fx->a.conn)
		fx_drain(fx, &fx->a);
	if (fx->b.conn)
		fx_drain(fx, &fx->b);
	fx->a.wc_count = 0;
	fx->b.wc_count = 0;
}

/* -- work requests ---------------------------------------------------------------------------- */

struct ibv_sge fx_sge(const struct fx_end *end, size_t offset, uint32_t bytes)
{
	return (struct ibv_sge){
		.addr = (uint64_t)(uintptr_t)(end->memory + offset),
		.length = bytes,
		.lkey = fab_mr_lkey(end->mr, fab_conn_device(end->conn)),
	};
}

uint32_t fx_rkey(const struct fx_end *end, const struct fab_mr *mr)
{
	return fab_mr_rkey(mr ? mr : end->mr, fab_conn_device(end->conn));
}

uint64_t fx_address(const struct fx_end *end, size_t offset)
{
	return (uint64_t)(uintptr_t)(end->memory + offset);
}

int fx_try_recv(struct fx_end *end, uint64_t wr_id, size_t offset, uint32_t bytes)
{
	struct ibv_sge sge = fx_sge(end, offset, bytes);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return fab_post_recv(end->conn, &wr, &bad);
}

void fx_post_recv(struct fx_end *end, uint64_t wr_id, size_t offset, uint32_t bytes)
{
	CHECK_EQ(fx_try_recv(end, wr_id, offset, bytes), 0);
}

void fx_post(struct fx_end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	CHECK_EQ(fab_post_send(end->conn, wr, &bad), 0);
}

void fx_post_unsupported(struct fx *fx, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;

	CHECK(fab_post_send(fx->a.conn, wr, &bad) < 0);
	CHECK(bad == wr);
	fx_fill(fx->a.memory, 10, 77);
	fx_post_recv(&fx->b, 70, 4096, 16);
	fx_post_send(&fx->a, 71, 0, 10, 0);
	CHECK_EQ(fx_wc_ok(fx, &fx->b, 70).byte_len, 10);
	fx_wc_ok(fx, &fx->a, 71);
	CHECK(fx_filled(fx->b.memory + 4096, 10, 77));
}

void fx_post_send(struct fx_end *end, uint64_t wr_id, size_t offset, uint32_t bytes,
		  unsigned int flags)
{
	struct ibv_sge sge = fx_sge(end, offset, bytes);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | flags,
	};

	fx_post(end, &wr);
}

void fx_post_rdma(struct fx_end *end, uint64_t wr_id, enum ibv_wr_opcode opcode, size_t offset,
		  uint32_t bytes, uint64_t remote, uint32_t rkey, unsigned int flags)
{
	struct ibv_sge sge = fx_sge(end, offset, bytes);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED | flags,
		.wr.rdma = {.remote_addr = remote, .rkey = rkey},
	};

	fx_post(end, &wr);
}

struct ibv_wc fx_wc(struct fx *fx, struct fx_end *end)
{
	struct ibv_wc wc;

	WAIT(fx, end->wc_count > 0);
	wc = end->wcs[0];
	memmove(end->wcs, end->wcs + 1, (size_t)--end->wc_count * sizeof(wc));
	return wc;
}

void fx_wc_status(struct fx *fx, struct fx_end *end, uint64_t wr_id, enum ibv_wc_status status)
{
	fx_wc_failed(fx, end, wr_id, status, 0);
}

void fx_wc_failed(struct fx *fx, struct fx_end *end, uint64_t wr_id, enum ibv_wc_status status,
		  unsigned int others)
{
	struct ibv_wc wc = fx_wc(fx, end);
	bool expected =
		wc.status == status || (fx_target.kind == FAB_VERBS && others & (1u << wc.status));

	if (wc.wr_id != wr_id || !expected)
		fx_fail(__FILE__, __LINE__, "end %s: completion of %llu: %s; expected %llu: %s",
			end->name, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
			(unsigned long long)wr_id, ibv_wc_status_str(status));
}

struct ibv_wc fx_wc_ok(struct fx *fx, struct fx_end *end, uint64_t wr_id)
{
	struct ibv_wc wc = fx_wc(fx, end);

	if (wc.wr_id != wr_id || wc.status != IBV_WC_SUCCESS)
		fx_fail(__FILE__, __LINE__, "end %s: completion of %llu: %s; expected %llu",
			end->name, (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
			(unsigned long long)wr_id);
	CHECK_EQ(wc.qp_num, fab_conn_qp_num(end->conn));
	return wc;
}

/* -- the program ------------------------------------------------------------------------------ */

static bool fx_wanted(const char *name, int argc, char **argv)
{
	if (argc <= 3)
		return true;
	for (int i = 3; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return false;
}

static bool fx_applies(const struct fx_case *test)
{
	return !test->kinds || test->kinds & (1u << fx_target.kind);
}

/* What the device can do decides what the cases expect; only a connection can tell. */
static bool fx_ask_device(void)
{
	static struct fx fx;
	const struct fab_limits *limits = &fx_target.limits;

	if (setjmp(fx_case_end))
		return false;
	fx_open_connected(&fx);
	fx_target.limits = *fab_device_limits(fab_conn_device(fx.a.conn));
	printf("%s: immediates: %s, acknowledgements: %s, flush of what is posted in ERR: %s\n",
	       fab_device_name(fab_conn_device(fx.a.conn)), limits->immediate ? "yes" : "no",
	       limits->acknowledged ? "yes" : "no", limits->late_flush ? "yes" : "no");
	fflush(stdout);
	fx_close(&fx);
	return true;
}

static bool fx_run(const struct fx_case *test)
{
	fx_random_state = 1;
	fx_at = NULL;
	if (setjmp(fx_case_end)) {
		printf("not ok %s\n", test->name);
		return false;
	}
	test->run();
	printf("ok %s\n", test->name);
	fflush(stdout);
	return true;
}

static bool fx_parse_target(int argc, char **argv)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&fx_target.addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&fx_target.addr;

	if (argc < 3)
		return false;
	if (strcmp(argv[1], "tcp") == 0)
		fx_target.kind = FAB_TCP;
	else if (strcmp(argv[1], "verbs") == 0)
		fx_target.kind = FAB_VERBS;
	else
		return false;
	snprintf(fx_target.text, sizeof(fx_target.text), "%s", argv[2]);
	if (inet_pton(AF_INET, argv[2], &in->sin_addr) == 1)
		in->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, argv[2], &in6->sin6_addr) == 1)
		in6->sin6_family = AF_INET6;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	int run = 0, failed = 0, skipped = 0;

	if (!fx_parse_target(argc, argv)) {
		fprintf(stderr, "usage: %s tcp|verbs ADDRESS [case...]\n", argv[0]);
		return 2;
	}
	if (!fx_ask_device())
		return 1;
	for (size_t t = 0; fx_tables[t]; t++) {
		for (const struct fx_case *test = fx_tables[t]; test->name; test++) {
			if (!fx_wanted(test->name, argc, argv))
				continue;
			if (!fx_applies(test)) {
				printf("skipped %s: not for %s\n", test->name, argv[1]);
				skipped++;
				continue;
			}
			run++;
			failed += !fx_run(test);
		}
	}
	printf("%d cases on %s %s: %d failed, %d skipped\n", run, argv[1], argv[2], failed,
	       skipped);
	return failed || run == 0;
}
