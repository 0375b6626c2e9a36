/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a connection can end at any moment, under load, from either side, and leaves nothing
 * behind: each work request comes back exactly once, none after DRAINED, no memory is written after
 * that, and the device has as many objects as before. Another thread's fab than the listener's
 * accepts requests, and refuses some in both ways, with private data each way.
 *   fabric_verbs_cycle verbs|tcp ADDRESS CYCLES
 * Method: three threads (listener, acceptor with an SRQ, client). In each cycle the client sends
 * and the acceptor RDMA READs as fast as they can; after a while one of them closes. At the end,
 * with the fabs still open, the program prints "idle" and waits for a line, so that a script can
 * count objects.
 */
#include "tests/fabric/fabric_verbs_side.h"

#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define DEPTH 16
#define MESSAGE_BYTES 256
#define READ_BYTES 8192
#define SRQ_DEPTH 64
#define EVERY_COMPLETION 40 /* of its own that a side waits for before it closes */
/* SENDs of a connection if a SEND without a receive ends it. */
#define UNACKNOWLEDGED_SENDS (SRQ_DEPTH - DEPTH)

enum cycle_kind { CYCLE_REJECT, CYCLE_REFUSE, CYCLE_CLIENT_CLOSES, CYCLE_ACCEPTOR_CLOSES };

/* Private data each way, and the first SEND: only then is there a device and so a key. */
struct hello {
	uint32_t cycle;
	uint32_t rkey;
	uint64_t addr; /* what the acceptor may READ */
};

static enum fab_kind kind;
static unsigned int cycles;
static struct sockaddr_storage address;

/* One request at a time goes from the listener's thread to the acceptor's. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct fab_request *request;
	struct hello hello;
	bool stop;
} eventfd = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, {0}, false};

static enum cycle_kind kind_of(unsigned int cycle)
{
	switch (cycle % 10) {
	case 3:
		return CYCLE_REJECT;
	case 7:
		return CYCLE_REFUSE;
	default:
		return cycle % 2 ? CYCLE_CLIENT_CLOSES : CYCLE_ACCEPTOR_CLOSES;
	}
}

/*
 * The next completion of an end that closes or is closed. Some devices do not complete late posts,
 * so the closed end may wait for one that never comes: false when the connection has ended.
 */
static bool next_completion(struct side *side, bool closes, struct ibv_wc *wc)
{
	if (!closes && !side_limits(side)->late_flush)
		return side_completion_before(side, FAB_EVENT_DISCONNECTED, wc);
	*wc = side_completion(side);
	return true;
}

/* -- the acceptor ----------------------------------------------------------------------------- */

static struct acceptor {
	struct side side;
	unsigned char messages[SRQ_DEPTH][MESSAGE_BYTES];
	unsigned char data[DEPTH][READ_BYTES];
	struct fab_mr *mr;
	bool srq_filled;
	unsigned int reads_out;
} acceptor;

static void acceptor_post_srq(struct fab_device *device, uint64_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)acceptor.messages[slot],
		.length = MESSAGE_BYTES,
		.lkey = fab_mr_lkey(acceptor.mr, device),
	};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	CHECK(fab_post_srq_recv(device, &wr, &bad) == 0);
}

/* READ slots have wr_ids above the receives'. */
static int acceptor_read(const struct hello *hello, uint64_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)acceptor.data[slot],
		.length = READ_BYTES,
		.lkey = fab_mr_lkey(acceptor.mr, fab_conn_device(acceptor.side.conn)),
	};
	struct ibv_send_wr wr = {
		.wr_id = SRQ_DEPTH + slot,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = hello->addr, .rkey = hello->rkey},
	};
	struct ibv_send_wr *bad;

	return fab_post_send(acceptor.side.conn, &wr, &bad);
}

/* Failed ones count, too: they failed because the connection ended. */
static void acceptor_completion(const struct hello *hello, struct ibv_wc wc, bool again)
{
	struct fab_conn *conn = fab_conn_find(acceptor.side.fab, wc.qp_num);

	CHECK(conn == acceptor.side.conn);
	if (wc.wr_id < SRQ_DEPTH) {
		acceptor_post_srq(fab_conn_device(conn), wc.wr_id);
		return;
	}
	acceptor.reads_out--;
	if (wc.status != IBV_WC_SUCCESS)
		return;
	for (unsigned int i = 0; i < READ_BYTES; i += 997)
		CHECK(acceptor.data[wc.wr_id - SRQ_DEPTH][i] == (unsigned char)hello->cycle);
	if (again) {
		CHECK(acceptor_read(hello, wc.wr_id - SRQ_DEPTH) == 0);
		acceptor.reads_out++;
	}
}

/* Close, poll flushed completions, and check that nothing is written after DRAINED. */
static void acceptor_drop(const struct hello *hello)
{
	struct side *side = &acceptor.side;
	uint32_t qp_num = fab_conn_qp_num(side->conn);

	fab_conn_close(side->conn);
	/* The connection can still be found while its completions are polled. */
	while (!(side->seen & (1u << FAB_EVENT_DRAINED))) {
		struct fab_event event;

		side_end_jobs(side);
		if (side->count == 0) {
			side->first = 0;
			side->count = fab_poll(side->fab, side->wc, SIDE_WCS);
		}
		for (; side->count > 0; side->count--)
			acceptor_completion(hello, side->wc[side->first++], false);
		if (fab_poll_event(side->fab, &event) && event.type == FAB_EVENT_DRAINED)
			side->seen |= 1u << event.type;
	}
	CHECK(acceptor.reads_out == 0 || !side_limits(side)->late_flush);
	acceptor.reads_out = 0;
	memset(acceptor.data, 0xee, sizeof(acceptor.data));
	fab_conn_destroy(side->conn);
	CHECK(fab_conn_find(side->fab, qp_num) == NULL);
	side->conn = NULL;
	side->seen = 0;
}

/* The first message says what to READ. */
static void acceptor_meet(struct hello *hello)
{
	struct ibv_wc wc = side_completion(&acceptor.side);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == sizeof(*hello));
	CHECK(memcmp(acceptor.messages[wc.wr_id], &hello->cycle, sizeof(hello->cycle)) == 0);
	memcpy(hello, acceptor.messages[wc.wr_id], sizeof(*hello));
	acceptor_post_srq(fab_conn_device(acceptor.side.conn), wc.wr_id);
}

static void acceptor_serve(struct hello *hello)
{
	struct side *side = &acceptor.side;
	bool closes = kind_of(hello->cycle) == CYCLE_ACCEPTOR_CLOSES;
	unsigned int done = 0;

	acceptor_meet(hello);
	for (uint64_t slot = 0; slot < DEPTH; slot++, acceptor.reads_out++)
		CHECK(acceptor_read(hello, slot) == 0);
	while (closes ? done < EVERY_COMPLETION : acceptor.reads_out > 0) {
		struct ibv_wc wc;

		if (!next_completion(side, closes, &wc))
			break;
		done++;
		acceptor_completion(hello, wc, true);
	}
	if (!closes)
		side_await(side, FAB_EVENT_DISCONNECTED);
	acceptor_drop(hello);
}

static void acceptor_take(struct fab_request *request, struct hello *hello)
{
	static const struct fab_conn_options options = {
		.send_depth = DEPTH, .send_sge = 1, .read_out = DEPTH};
	struct side *side = &acceptor.side;
	struct fab_device *device = fab_request_device(side->fab, request);

	CHECK(device);
	if (!acceptor.srq_filled)
		for (uint64_t slot = 0; slot < SRQ_DEPTH; slot++)
			acceptor_post_srq(device, slot);
	acceptor.srq_filled = true;
	if (kind_of(hello->cycle) == CYCLE_REJECT) {
		fab_reject(request, hello, sizeof(*hello));
		return;
	}
	CHECK(fab_accept(side->fab, request, &options, &side->conn) == 0);
	if (kind_of(hello->cycle) == CYCLE_REFUSE) {
		fab_conn_refuse(side->conn, hello, sizeof(*hello));
		side_drop(side);
		return;
	}
	CHECK(fab_conn_establish(side->conn, hello, sizeof(*hello)) == 0);
	side_await(side, FAB_EVENT_ESTABLISHED);
	acceptor_serve(hello);
}

static void *acceptor_main(void *unused)
{
	side_open(&acceptor.side, kind, SRQ_DEPTH);
	CHECK(fab_mr_register(acceptor.side.fab, &acceptor, sizeof(acceptor),
			      IBV_ACCESS_LOCAL_WRITE, &acceptor.mr) == 0);
	for (;;) {
		struct fab_request *request;
		struct hello hello;

		pthread_mutex_lock(&eventfd.lock);
		while (!eventfd.request && !eventfd.stop)
			pthread_cond_wait(&eventfd.cond, &eventfd.lock);
		request = eventfd.request;
		hello = eventfd.hello;
		eventfd.request = NULL;
		pthread_mutex_unlock(&eventfd.lock);
		if (!request)
			break;
		acceptor_take(request, &hello);
	}
	fab_mr_deregister(acceptor.mr);
	side_close(&acceptor.side);
	return NULL;
}

/* -- the client ------------------------------------------------------------------------------- */

static struct client {
	struct side side;
	struct hello hello;
	unsigned char exposed[READ_BYTES];
	struct fab_mr *mr, *hello_mr;
} client;

/* Until the connection ends: each SEND that completes is followed by another. */
static void client_load(bool closes)
{
	struct side *side = &client.side;
	unsigned int out = 0, done = 0, sent, most;

	client.hello.rkey = fab_mr_rkey(client.mr, fab_conn_device(side->conn));
	CHECK(client.hello.rkey);
	CHECK(side_send(side, 0, client.hello_mr, &client.hello, sizeof(client.hello)) == 0);
	for (out = 1; out < DEPTH; out++)
		CHECK(side_send(side, out, NULL, NULL, 0) == 0);
	sent = out;
	most = side_limits(side)->acknowledged ? UINT_MAX : UNACKNOWLEDGED_SENDS;
	while (closes ? done < EVERY_COMPLETION : out > 0) {
		struct ibv_wc wc;

		if (!next_completion(side, closes, &wc))
			break;
		done++;
		out--;
		if (wc.status == IBV_WC_SUCCESS && sent < most) {
			CHECK(side_send(side, wc.wr_id, NULL, NULL, 0) == 0);
			sent++;
			out++;
		}
	}
	if (!closes)
		side_await(side, FAB_EVENT_DISCONNECTED);
	side->seen = 0;
	/* Outstanding requests are flushed, or complete before the drain. */
	CHECK(side_drop(side) <= out);
}

static void client_cycle(unsigned int cycle)
{
	enum cycle_kind what = kind_of(cycle);
	struct side *side = &client.side;
	struct fab_conn_options options = {
		.send_depth = DEPTH,
		.send_sge = 1,
		.read_in = DEPTH,
		.private_data = &client.hello,
		.private_bytes = sizeof(client.hello),
		.timeout_ms = 10000,
	};
	bool refused = what == CYCLE_REJECT || what == CYCLE_REFUSE;

	client.hello = (struct hello){.cycle = cycle, .addr = (uintptr_t)client.exposed};
	memset(client.exposed, (int)cycle, sizeof(client.exposed));
	CHECK(fab_mr_register(side->fab, client.exposed, sizeof(client.exposed),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &client.mr) == 0);
	CHECK(fab_mr_register(side->fab, &client.hello, sizeof(client.hello), 0,
			      &client.hello_mr) == 0);
	CHECK(fab_connect(side->fab, (struct sockaddr *)&address, &options, NULL, &side->conn) ==
	      0);
	side->private_bytes = 0;
	side_await(side, refused ? FAB_EVENT_REJECTED : FAB_EVENT_ESTABLISHED);
	CHECK(side->private_bytes >= sizeof(client.hello));
	CHECK(memcmp(side->private_data, &client.hello, sizeof(client.hello)) == 0);
	if (refused)
		side_drop(side);
	else
		client_load(what == CYCLE_CLIENT_CLOSES);
	fab_mr_deregister(client.hello_mr);
	fab_mr_deregister(client.mr);
}

static void *client_main(void *idle)
{
	char line[16];

	side_open(&client.side, kind, 0);
	for (unsigned int cycle = 0; cycle < cycles; cycle++)
		client_cycle(cycle);
	printf("idle\n");
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin));
	side_close(&client.side);
	*(bool *)idle = true;
	return NULL;
}

/* -- the listener ----------------------------------------------------------------------------- */

static void listener_hand_over(struct side *side)
{
	pthread_mutex_lock(&eventfd.lock);
	CHECK(!eventfd.request && side->private_bytes >= sizeof(eventfd.hello));
	eventfd.request = side->request;
	memcpy(&eventfd.hello, side->private_data, sizeof(eventfd.hello));
	pthread_cond_signal(&eventfd.cond);
	pthread_mutex_unlock(&eventfd.lock);
}

static void listener_stop(pthread_t acceptor_thread)
{
	pthread_mutex_lock(&eventfd.lock);
	eventfd.stop = true;
	pthread_cond_signal(&eventfd.cond);
	pthread_mutex_unlock(&eventfd.lock);
	pthread_join(acceptor_thread, NULL);
}

int main(int argc, char **argv)
{
	struct sockaddr_in bind = {.sin_family = AF_INET};
	struct side side = {.sleep = true};
	struct fab_listener *listener;
	pthread_t threads[2];
	bool idle = false;

	CHECK(argc == 4);
	/* Soft-iWARP raises it in a thread that posts to a connection that the peer has just ended. */
	signal(SIGPIPE, SIG_IGN);
	kind = strcmp(argv[1], "tcp") == 0 ? FAB_TCP : FAB_VERBS;
	CHECK(inet_pton(AF_INET, argv[2], &bind.sin_addr) == 1);
	cycles = (unsigned int)strtoul(argv[3], NULL, 10);
	side_open(&side, kind, 0);
	CHECK(fab_listen(side.fab, (struct sockaddr *)&bind, 4, &listener) == 0);
	CHECK(fab_listener_address(listener, &address) == 0);
	CHECK(pthread_create(&threads[0], NULL, acceptor_main, NULL) == 0);
	CHECK(pthread_create(&threads[1], NULL, client_main, &idle) == 0);
	for (unsigned int cycle = 0; cycle < cycles; cycle++) {
		side_await(&side, FAB_EVENT_REQUEST);
		listener_hand_over(&side);
	}
	pthread_join(threads[1], NULL);
	CHECK(idle);
	listener_stop(threads[0]);
	fab_listener_destroy(listener);
	side_close(&side);
	printf("done\n");
	return 0;
}
