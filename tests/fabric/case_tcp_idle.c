/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an idle connection costs only bounded memory, and one whose peer does not answer ends as
 * over a device. Method: a thousand connections, with every system call of the fabric counted by
 * the linker's --wrap; the allocator's own count of what is in use.
 */
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"
#include "proto/fabric/fabric_tcp_conn.h"

#define IDLE 1000
#define IDLE_BYTES (16u << 10) /* of memory that a connection may take, at the depths below */
/* Memory that stays: the table from queue pair numbers to connections, 16 bytes in 4096 slots at
 * most. */
#define STAYING_BYTES (64u << 10)

/* -- system calls that the fabric makes ------------------------------------------------------- */

static unsigned long calls_epoll, calls_socket;

int __real_epoll_wait(int fd, struct epoll_event *events, int count, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int timeout);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

int __wrap_epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
	calls_epoll++;
	return __real_epoll_wait(fd, events, count, timeout);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	calls_socket++;
	return __real_recvmsg(fd, message, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	calls_socket++;
	if (peer_takes)
		return peer_takes(fd, message);
	return __real_sendmsg(fd, message, flags);
}

/* -- cases ------------------------------------------------------------------------------------ */

static size_t bytes_in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void allow_descriptors(rlim_t count)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur >= count)
		return;
	limit.rlim_cur = count;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Step until the fab of this end has nothing left to do. */
static void settle(struct fx *fx, struct fx_end *end)
{
	struct pollfd fd = {.fd = fab_fd(end->fab), .events = POLLIN};
	uint64_t deadline = fx_deadline_ns();

	do {
		fx_step(fx);
		CHECK(!fx_past(deadline));
	} while (fab_arm(end->fab) != 0 || poll(&fd, 1, 0) != 0);
}

static void idle_connections(void)
{
	static struct peer peers[IDLE];
	struct fx fx = {.conn_options = {.send_depth = 64, .recv_depth = 64, .send_sge = 1},
			.options = {.recv_sge = 1}};
	struct fab_event event;
	struct ibv_wc wc;
	size_t before;

	allow_descriptors(2 * IDLE + 100);
	memset(peers, 0, sizeof(peers));
	fx_open_connected(&fx);
	before = bytes_in_use();
	for (int i = 0; i < IDLE; i++)
		peer_attach(&fx, &peers[i], NULL);
	CHECK((bytes_in_use() - before) / IDLE < IDLE_BYTES);

	/* Asleep: nothing wakes it, no timer is due. Polling: one call for all of them. */
	settle(&fx, &fx.b);
	CHECK_EQ(fab_timeout_ms(fx.b.fab), -1);
	calls_epoll = calls_socket = 0;
	for (int i = 0; i < 100; i++)
		CHECK_EQ(fab_poll(fx.b.fab, &wc, 1), 0);
	CHECK_EQ(calls_epoll, 100);
	CHECK_EQ(calls_socket, 0);

	/* A busy one costs only its own calls: as many as if it were alone. */
	fx_post_recv(&fx.b, 1, 0, 64);
	fx_post_send(&fx.a, 2, 0, 64, 0);
	CHECK_EQ(fab_arm(fx.a.fab), 0);
	calls_epoll = calls_socket = 0;
	while (fab_poll(fx.b.fab, &wc, 1) == 0)
		CHECK(calls_epoll < 1000);
	CHECK_EQ(wc.wr_id, 1);
	CHECK(calls_socket <= 2);
	fx_wc_ok(&fx, &fx.a, 2);

	/* They end: all other memory is freed. */
	for (int i = 0; i < IDLE; i++)
		peer_detach(&fx, &peers[i]);
	fx.b.wc_count = 0;
	while (fab_poll_event(fx.b.fab, &event) == 1)
		CHECK(event.type != FAB_EVENT_DRAINED);
	WAIT(&fx, bytes_in_use() <= before + STAYING_BYTES);
	fx_close(&fx);
}

/* The only connection of a fab: its socket is asked, and epoll only where it tells more. */
static void sole_connection(void)
{
	struct fx fx = {0};
	struct pollfd fd;
	uint64_t deadline;
	struct ibv_wc wc;

	fx_open_connected(&fx);
	settle(&fx, &fx.a);
	calls_epoll = calls_socket = 0;
	for (int i = 0; i < 100; i++)
		CHECK_EQ(fab_poll(fx.a.fab, &wc, 1), 0);
	CHECK_EQ(calls_epoll, 0);
	CHECK_EQ(calls_socket, 100);

	/* A message wakes it, and when that has been read, it can sleep again. */
	fd = (struct pollfd){.fd = fab_fd(fx.a.fab), .events = POLLIN};
	for (uint64_t i = 0; i < 3; i++) {
		fx_post_recv(&fx.a, i, 0, 64);
		CHECK_EQ(fab_arm(fx.a.fab), 0);
		CHECK_EQ(poll(&fd, 1, 0), 0);
		fx_post_send(&fx.b, i, 0, 64, 0);
		CHECK_EQ(fab_arm(fx.b.fab), 0);
		CHECK_EQ(poll(&fd, 1, FX_WAIT_MS), 1);
		calls_epoll = calls_socket = 0;
		CHECK_EQ(fab_poll(fx.a.fab, &wc, 1), 1);
		CHECK_EQ(calls_epoll + calls_socket, 1);
		fx_wc_ok(&fx, &fx.b, i);
	}

	/* It fills its socket, sleeps, and is woken when there is room. */
	fx_post_recv(&fx.b, 10, 0, FX_MEMORY_BYTES);
	fx_post_send(&fx.a, 11, 0, FX_MEMORY_BYTES, 0);
	deadline = fx_deadline_ns();
	while (fab_arm(fx.a.fab) != 0) {
		CHECK_EQ(fab_poll(fx.a.fab, &wc, 1), 0);
		CHECK(!fx_past(deadline));
	}
	CHECK(tcp_conn_of(fx.a.conn)->tx.blocked);
	while (poll(&fd, 1, 0) == 0) {
		CHECK_EQ(fab_poll(fx.b.fab, &wc, 1), 0);
		CHECK(!fx_past(deadline));
	}
	fx_wc_ok(&fx, &fx.b, 10);
	fx_wc_ok(&fx, &fx.a, 11);
	fx_close(&fx);
}

/*
 * The peer's machine no longer accepts data: the oldest SEND fails as a device reports it, the rest
 * is flushed. The test shortens the kernel's limit of 30 s.
 */
static void peer_takes_nothing(void)
{
	const unsigned int limit_ms = 100;
	struct fx fx = {.conn_options = {.send_depth = 32}};
	struct peer peer = {0};
	struct fab_conn *own;
	int before;

	fx_open_connected(&fx);
	peer_attach(&fx, &peer, NULL);
	own = fx.b.conn;
	before = fx.b.events[FAB_EVENT_DISCONNECTED];
	CHECK_EQ(setsockopt(tcp_conn_of(peer.victim)->source.fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
			    &limit_ms, sizeof(limit_ms)),
		 0);
	fx.b.conn = peer.victim;
	/* More than both sockets' buffers hold. */
	for (uint32_t i = 0; i < 32; i++)
		fx_post_send(&fx.b, i, 0, FX_MEMORY_BYTES, 0);
	fx.b.conn = own;
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED] > before);
	CHECK_EQ(fx.b.status, -ETIMEDOUT);
	CHECK(strstr(fab_error(fx.b.fab), fab_conn_peer(peer.victim)));
	fx_wc_status(&fx, &fx.b, 0, IBV_WC_RETRY_EXC_ERR);
	for (uint32_t i = 1; i < 32; i++)
		fx_wc_status(&fx, &fx.b, i, IBV_WC_WR_FLUSH_ERR);
	peer_detach(&fx, &peer);
	fx.b.wc_count = 0;
	fx_post_recv(&fx.b, 1, 0, 64);
	fx_post_send(&fx.a, 2, 0, 64, 0);
	fx_wc_ok(&fx, &fx.b, 1);
	fx_close(&fx);
}

const struct fx_case fx_cases_tcp_idle[] = {
	{"idle_connections", idle_connections, 0},
	{"sole_connection", sole_connection, 0},
	{"peer_takes_nothing", peer_takes_nothing, 0},
	{0},
};
