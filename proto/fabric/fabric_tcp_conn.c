/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection of fabric_tcp from fab_connect() or fab_accept() to fab_conn_destroy(): its states,
 * the handshake, failure, close and drain, and the sockets that linger behind it. Called by the
 * table's calls and by turns; what a connection carries is fabric_tcp_queue.c, _tx.c and _rx.c.
 */
#include "proto/fabric/fabric_tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Silence on an idle connection: probes from 10 s on, dead at 25 s. */
#define TCP_KEEPALIVE_IDLE_S 10
#define TCP_KEEPALIVE_INTERVAL_S 5
#define TCP_KEEPALIVE_PROBES 3
/*
 * Sent data that is not acknowledged for so long ends the connection. The kernel counts a peer
 * that keeps its window shut as such too: nobody leaves a queue without receives for 30 s.
 */
#define TCP_USER_TIMEOUT_MS 30000

/* -- states ------------------------------------------------------------------------------------- */

#define TO(state) (1u << (state))

static const uint8_t conn_transitions[TCP_CONN_STATES] = {
	[TCP_CONN_CONNECTING] = TO(TCP_CONN_GREETING) | TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_GREETING] = TO(TCP_CONN_READY) | TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_ACCEPTED] = TO(TCP_CONN_READY) | TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_READY] = TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_ERROR] = TO(TCP_CONN_CLOSING),
	[TCP_CONN_CLOSING] = TO(TCP_CONN_DRAINED),
	[TCP_CONN_DRAINED] = 0,
};

static void conn_set_state(struct tcp_conn *conn, enum tcp_state state)
{
	assert(conn_transitions[conn->state] & TO(state));
	conn->state = state;
}

/* -- sockets and hellos -------------------------------------------------------------------------- */

socklen_t tcp_address_bytes(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return sizeof(struct sockaddr_in);
	if (addr->sa_family == AF_INET6)
		return sizeof(struct sockaddr_in6);
	return 0;
}

static int socket_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

int tcp_socket_tune(int fd)
{
	int err = socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	if (!err)
		err = socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEPALIVE_IDLE_S);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEPALIVE_INTERVAL_S);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEPALIVE_PROBES);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS);
	return err;
}

void tcp_hello_init(struct fab_tcp_hello *hello, enum fab_tcp_hello_kind kind,
		    const void *private_data, uint8_t bytes)
{
	memset(hello, 0, sizeof(*hello));
	hello->magic = rblk_to_le32(FAB_TCP_MAGIC);
	hello->version = rblk_to_le16(FAB_TCP_VERSION);
	hello->kind = (__u8)kind;
	if (bytes > FAB_TCP_PRIVATE_MAX)
		bytes = FAB_TCP_PRIVATE_MAX;
	hello->private_bytes = bytes;
	if (bytes)
		memcpy(hello->private_data, private_data, bytes);
}

int tcp_hello_check(const struct fab_tcp_hello *hello, unsigned int kinds)
{
	if (rblk_le32(hello->magic) != FAB_TCP_MAGIC)
		return -EPROTO;
	if (rblk_le16(hello->version) != FAB_TCP_VERSION)
		return -EPROTONOSUPPORT;
	if (hello->kind > FAB_TCP_REJECT || !(kinds & (1u << hello->kind)))
		return -EPROTO;
	if (hello->private_bytes > FAB_TCP_PRIVATE_MAX)
		return -EPROTO;
	for (size_t i = 0; i < sizeof(hello->reserved); i++)
		if (hello->reserved[i])
			return -EPROTO;
	return 0;
}

int tcp_hello_receive(int fd, struct fab_tcp_hello *hello, uint32_t *bytes)
{
	while (*bytes < sizeof(*hello)) {
		ssize_t got = recv(fd, (char *)hello + *bytes, sizeof(*hello) - *bytes,
				   MSG_DONTWAIT);

		if (got == 0)
			return -ECONNRESET;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
		*bytes += (uint32_t)got;
	}
	return 1;
}

/* The send buffer of a fresh socket is empty: 256 bytes go at once or never. */
static int hello_send(int fd, const struct fab_tcp_hello *hello)
{
	ssize_t sent = send(fd, hello, sizeof(*hello), MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0)
		return -errno;
	return sent == (ssize_t)sizeof(*hello) ? 0 : -ENOBUFS;
}

/* -- creation, destruction ----------------------------------------------------------------------- */

/* Numbers are the process's, so that a log of several fabs can be read. 0 means "none yet". */
static uint32_t conn_next_qp_num(void)
{
	static _Atomic uint32_t last;
	uint32_t qp_num;

	do
		qp_num = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	while (qp_num == 0);
	return qp_num;
}

static int conn_check_options(struct fab *fab, const struct fab_conn_options *options)
{
	const struct fab_limits *limits = &tcp_fab_of(fab)->device.limits;

	if (options->send_depth > limits->max_send_wr || options->recv_depth > limits->max_recv_wr)
		return fab_fail(fab, -EINVAL, "connection: %u send and %u receive work requests, at most %u and %u",
				options->send_depth, options->recv_depth, limits->max_send_wr,
				limits->max_recv_wr);
	if (options->send_sge > limits->max_sge)
		return fab_fail(fab, -EINVAL, "connection: %u segments, at most %u",
				options->send_sge, limits->max_sge);
	return 0;
}

static uint8_t reads_min(unsigned int a, unsigned int b)
{
	unsigned int least = a < b ? a : b;

	return (uint8_t)(least < TCP_READS_MAX ? least : TCP_READS_MAX);
}

static int conn_init_queues(struct tcp_conn *conn, const struct fab_conn_options *options)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct fab_conn *head = &conn->head;
	uint32_t responses = tcp_ring_size(conn->read_in ? conn->read_in : 1);
	int err;

	head->inline_bytes = options->inline_bytes < TCP_INLINE_MAX ? options->inline_bytes :
								       TCP_INLINE_MAX;
	err = tcp_sq_init(&conn->sq, options->send_depth, options->send_sge, head->inline_bytes);
	if (err)
		return err;
	conn->tx.responses = calloc(responses, sizeof(*conn->tx.responses));
	if (!conn->tx.responses)
		return -ENOMEM;
	conn->tx.response_mask = responses - 1;
	conn->rx.sequence = 1;
	conn->rq = &fab->srq;
	if (fab->srq.wrs && !options->private_domain)
		return 0;
	conn->rq = &conn->own_rq;
	return tcp_rq_init(&conn->own_rq, options->recv_depth, fab->head.options.recv_sge);
}

static void conn_free(struct tcp_conn *conn)
{
	if (conn->source.fd >= 0)
		close(conn->source.fd);
	tcp_sq_fini(&conn->sq);
	tcp_rq_fini(&conn->own_rq);
	free(conn->tx.responses);
	free(conn->rx.spill);
	free(conn);
}

/* Does not own the descriptor until it has succeeded. */
static int conn_create(struct fab *fab, int fd, const struct sockaddr *peer,
		       const struct fab_conn_options *options, uint8_t read_in,
		       struct tcp_conn **out)
{
	struct tcp_conn *conn = calloc(1, sizeof(*conn));
	int err;

	if (!conn)
		return -ENOMEM;
	tcp_source_init(&conn->source, TCP_SOURCE_CONN, -1);
	conn->head.fab = fab;
	conn->head.device = &tcp_fab_of(fab)->device;
	conn->head.user = options->user;
	conn->read_in = read_in;
	fab_format_address(peer, conn->head.peer, sizeof(conn->head.peer));
	err = conn_init_queues(conn, options);
	if (err)
		goto err_free;
	do {
		conn->head.qp_num = conn_next_qp_num();
		err = fab_conn_table_insert(fab, &conn->head);
	} while (err == -EEXIST);
	if (err)
		goto err_free;
	if (options->private_domain)
		conn->domain = conn->head.qp_num;
	conn->source.fd = fd;
	err = tcp_source_watch(tcp_fab_of(fab), &conn->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
	if (err)
		goto err_remove;
	TAILQ_INSERT_TAIL(&tcp_fab_of(fab)->all, conn, link);
	*out = conn;
	return 0;

err_remove:
	conn->source.fd = -1;
	fab_conn_table_remove(fab, &conn->head);
err_free:
	conn_free(conn);
	return err;
}

void tcp_conn_destroy(struct fab_conn *head)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	struct tcp_fab *fab = tcp_conn_fab(conn);

	assert(conn->state == TCP_CONN_DRAINED);
	/*
	 * Nothing leads here any more: no completion is queued (drained), the socket has left
	 * epoll with the close, and these are the last lists.
	 */
	if (conn->events)
		TAILQ_REMOVE(&fab->events, conn, event_link);
	tcp_source_fini(fab, &conn->source);
	TAILQ_REMOVE(&fab->all, conn, link);
	fab_conn_table_remove(head->fab, head);
	conn_free(conn);
}

/* -- lingering ------------------------------------------------------------------------------------ */

/*
 * Closing a socket with unread bytes in it makes TCP reset the connection, which may overtake what
 * was sent last: a NAK, an answer. So our direction is ended, what the peer still sends is thrown
 * away, and the socket is closed at its end of stream or after a moment.
 */
void tcp_linger_start(struct tcp_fab *fab, int fd)
{
	struct tcp_linger *linger;

	if (shutdown(fd, SHUT_WR) < 0) {
		close(fd); /* the peer has gone already */
		return;
	}
	linger = calloc(1, sizeof(*linger));
	if (!linger) {
		close(fd);
		return;
	}
	if (fab->linger_count == TCP_LINGERS_MAX)
		tcp_linger_stop(fab, TAILQ_FIRST(&fab->lingers));
	tcp_source_init(&linger->source, TCP_SOURCE_LINGER, fd);
	TAILQ_INSERT_TAIL(&fab->lingers, linger, link);
	fab->linger_count++;
	if (tcp_source_watch(fab, &linger->source, EPOLLIN | EPOLLRDHUP)) {
		tcp_linger_stop(fab, linger);
		return;
	}
	tcp_source_set_timer(fab, &linger->source, TCP_LINGER_MS);
	tcp_source_mark(fab, &linger->source, TCP_WORK_RX);
}

void tcp_linger_stop(struct tcp_fab *fab, struct tcp_linger *linger)
{
	tcp_source_fini(fab, &linger->source);
	TAILQ_REMOVE(&fab->lingers, linger, link);
	fab->linger_count--;
	close(linger->source.fd);
	free(linger);
}

void tcp_linger_run(struct tcp_fab *fab, struct tcp_linger *linger, uint8_t work)
{
	ssize_t got;

	if (work & TCP_WORK_TIMEOUT) {
		tcp_linger_stop(fab, linger);
		return;
	}
	got = recv(linger->source.fd, fab->scratch, sizeof(fab->scratch), MSG_DONTWAIT);
	if (got > 0)
		tcp_source_mark(fab, &linger->source, TCP_WORK_RX);
	else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		tcp_linger_stop(fab, linger);
}

/* -- the end ---------------------------------------------------------------------------------------- */

/* The queue pair is in ERR: nothing moves any more, what is posted comes back. */
static void conn_end(struct tcp_conn *conn, enum tcp_state state)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);

	conn_set_state(conn, state);
	tcp_source_stop_timer(fab, &conn->source);
	if (conn->rx.starved) {
		conn->rx.starved = false;
		if (conn->rq != &conn->own_rq)
			TAILQ_REMOVE(&fab->starved, conn, rx.starved_link);
	}
	if (conn->source.fd >= 0) {
		epoll_ctl(fab->head.fd, EPOLL_CTL_DEL, conn->source.fd, NULL);
		tcp_linger_start(fab, conn->source.fd);
		conn->source.fd = -1;
	}
	tcp_conn_flush(conn);
}

void tcp_conn_fail(struct tcp_conn *conn, int status)
{
	if (conn->state != TCP_CONN_READY && conn->state != TCP_CONN_ACCEPTED)
		return;
	/* The device's words for a peer that does not acknowledge; all others are flushed. */
	if (status == -ETIMEDOUT && conn->sq.done != conn->sq.send)
		tcp_sq_wr(&conn->sq, conn->sq.done)->status = IBV_WC_RETRY_EXC_ERR;
	conn_end(conn, TCP_CONN_ERROR);
	tcp_conn_raise(conn, FAB_EVENT_DISCONNECTED, status);
}

static void conn_fail_connecting(struct tcp_conn *conn, int error, const char *what)
{
	fab_fail(conn->head.fab, error, "%s: %s: %s", conn->head.peer, what, strerror(-error));
	conn_end(conn, TCP_CONN_ERROR);
	tcp_conn_raise(conn, FAB_EVENT_FAILED, error);
}

void tcp_conn_close(struct fab_conn *head)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	struct tcp_fab *fab = tcp_conn_fab(conn);

	if (conn->state == TCP_CONN_READY)
		tcp_tx_run(conn); /* what was posted just before has a chance */
	if (conn->state == TCP_CONN_CLOSING || conn->state == TCP_CONN_DRAINED)
		return;
	/* Who closes need not hear that it is closed. */
	if (conn->events) {
		conn->events = 0;
		TAILQ_REMOVE(&fab->events, conn, event_link);
	}
	conn_end(conn, TCP_CONN_CLOSING);
	tcp_conn_check_drained(conn);
}

void tcp_conn_check_drained(struct tcp_conn *conn)
{
	if (conn->state != TCP_CONN_CLOSING || conn->cq_count > 0 || !tcp_conn_flushed(conn))
		return;
	conn_set_state(conn, TCP_CONN_DRAINED);
	tcp_conn_raise(conn, FAB_EVENT_DRAINED, 0);
}

/* -- connecting -------------------------------------------------------------------------------------- */

static int connect_socket(const struct sockaddr *addr)
{
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	err = tcp_socket_tune(fd);
	if (!err && connect(fd, addr, tcp_address_bytes(addr)) < 0 && errno != EINPROGRESS)
		err = -errno;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int tcp_connect(struct fab *fab, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **out)
{
	uint32_t timeout_ms = options->timeout_ms ? options->timeout_ms : TCP_CONNECT_MS_DEFAULT;
	struct tcp_conn *conn;
	char text[80];
	int fd, err;

	fab_format_address(addr, text, sizeof(text));
	if (tcp_address_bytes(addr) == 0)
		return fab_fail(fab, -EAFNOSUPPORT, "%s: neither IPv4 nor IPv6", text);
	err = conn_check_options(fab, options);
	if (err)
		return err;
	fd = connect_socket(addr);
	if (fd < 0)
		return fab_fail(fab, fd, "%s: connect: %s", text, strerror(-fd));
	err = conn_create(fab, fd, addr, options, reads_min(options->read_in, TCP_READS_MAX),
			  &conn);
	if (err) {
		close(fd);
		return fab_fail(fab, err, "%s: connect: %s", text, strerror(-err));
	}
	conn->state = TCP_CONN_CONNECTING;
	conn->prepare = prepare;
	conn->head.read_out = reads_min(options->read_out, TCP_READS_MAX);
	tcp_hello_init(&conn->hello, FAB_TCP_REQUEST, options->private_data,
		       options->private_bytes);
	conn->hello.read_in = conn->read_in;
	conn->hello.read_out = conn->head.read_out;
	tcp_source_set_timer(tcp_fab_of(fab), &conn->source, timeout_ms);
	*out = &conn->head;
	return 0;
}

/* Within fab_poll_event(): the peer's TCP has answered. */
static void conn_greet(struct tcp_conn *conn)
{
	int err;

	if (conn->state != TCP_CONN_CONNECTING)
		return;
	err = conn->prepare ? conn->prepare(&conn->head, conn->head.user) : 0;
	if (conn->state != TCP_CONN_CONNECTING)
		return; /* closed by prepare() itself */
	if (err) {
		conn_fail_connecting(conn, err, "prepare");
		return;
	}
	err = hello_send(conn->source.fd, &conn->hello);
	if (err) {
		conn_fail_connecting(conn, err, "connect");
		return;
	}
	memset(&conn->hello, 0, sizeof(conn->hello));
	conn_set_state(conn, TCP_CONN_GREETING);
	/* An end of stream may have come before: there is no other edge for it. */
	tcp_source_mark(tcp_conn_fab(conn), &conn->source, TCP_WORK_RX);
}

/* The socket has become writable: connected, or not to be. */
static void conn_connected(struct tcp_conn *conn)
{
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (getsockopt(conn->source.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		error = errno;
	if (error)
		conn_fail_connecting(conn, -error, "connect");
	else
		tcp_source_mark(tcp_conn_fab(conn), &conn->source, TCP_WORK_PREPARE);
}

/* The passive side has answered our hello. */
static void conn_answered(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	int ready = tcp_hello_receive(conn->source.fd, &conn->hello, &conn->hello_bytes);

	if (ready == 0)
		return;
	if (ready > 0)
		ready = tcp_hello_check(&conn->hello, 1u << FAB_TCP_ACCEPT | 1u << FAB_TCP_REJECT);
	if (ready < 0) {
		conn_fail_connecting(conn, ready, "connect");
		return;
	}
	conn->event_private_bytes = conn->hello.private_bytes;
	if (conn->hello.kind == FAB_TCP_REJECT) {
		conn_end(conn, TCP_CONN_ERROR);
		tcp_conn_raise(conn, FAB_EVENT_REJECTED, 0);
		return;
	}
	conn->head.read_out = reads_min(conn->head.read_out, conn->hello.read_in);
	tcp_source_stop_timer(fab, &conn->source);
	conn_set_state(conn, TCP_CONN_READY);
	tcp_conn_raise(conn, FAB_EVENT_ESTABLISHED, 0);
	/* Frames may have come right behind the hello: there is no other edge for them. */
	tcp_source_mark(fab, &conn->source, TCP_WORK_RX);
}

/* -- accepting --------------------------------------------------------------------------------------- */

int tcp_accept(struct fab *fab, struct fab_request *head, const struct fab_conn_options *options,
	       struct fab_conn **out)
{
	struct tcp_request *request = tcp_container(head, struct tcp_request, head);
	uint8_t read_out = reads_min(options->read_out, head->read_in);
	struct tcp_conn *conn;
	int err = conn_check_options(fab, options);

	if (err) {
		tcp_request_free(request);
		return err;
	}
	err = conn_create(fab, request->source.fd, (const struct sockaddr *)&head->peer, options,
			  reads_min(options->read_in, head->read_out), &conn);
	if (err) {
		fab_format_address((const struct sockaddr *)&head->peer, fab->error,
				   sizeof(fab->error));
		tcp_request_free(request);
		return fab_fail(fab, err, "%s: accept: %s", fab->error, strerror(-err));
	}
	request->source.fd = -1; /* the connection's now */
	tcp_request_free(request);
	conn->state = TCP_CONN_ACCEPTED;
	conn->head.read_out = read_out;
	*out = &conn->head;
	return 0;
}

int tcp_conn_establish(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	struct fab_tcp_hello hello;
	int err;

	if (conn->state == TCP_CONN_ERROR)
		return 0; /* the peer has gone meanwhile; DISCONNECTED says so */
	if (conn->state != TCP_CONN_ACCEPTED || bytes > FAB_TCP_PRIVATE_MAX)
		return fab_fail(head->fab, -EINVAL, "%s: establish: not accepted", head->peer);
	tcp_hello_init(&hello, FAB_TCP_ACCEPT, private_data, bytes);
	hello.read_in = conn->read_in;
	hello.read_out = head->read_out;
	err = hello_send(conn->source.fd, &hello);
	if (err) {
		tcp_conn_fail(conn, err);
		return 0;
	}
	conn_set_state(conn, TCP_CONN_READY);
	tcp_conn_raise(conn, FAB_EVENT_ESTABLISHED, 0);
	tcp_source_mark(tcp_conn_fab(conn), &conn->source, TCP_WORK_RX);
	return 0;
}

void tcp_conn_refuse(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	struct fab_tcp_hello hello;

	if (conn->state != TCP_CONN_ACCEPTED)
		return;
	tcp_hello_init(&hello, FAB_TCP_REJECT, private_data, bytes);
	/* A peer that has gone meanwhile has nothing to be told. */
	(void)hello_send(conn->source.fd, &hello);
	conn_end(conn, TCP_CONN_ERROR);
}

/* -- turns ------------------------------------------------------------------------------------------- */

/* Before it is established: a peer that has gone, or one that talks before it may. */
static void conn_check_accepted(struct tcp_conn *conn)
{
	char byte;
	ssize_t got = recv(conn->source.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (got == 0)
		tcp_conn_fail(conn, 0);
	else if (got > 0)
		tcp_conn_fail(conn, -EPROTO);
	else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		tcp_conn_fail(conn, -errno);
}

void tcp_conn_run(struct tcp_conn *conn, uint8_t work)
{
	switch (conn->state) {
	case TCP_CONN_CONNECTING:
		if (work & TCP_WORK_TIMEOUT)
			conn_fail_connecting(conn, -ETIMEDOUT, "connect");
		else if (work & TCP_WORK_PREPARE)
			conn_greet(conn);
		else if (work & TCP_WORK_TX)
			conn_connected(conn);
		break;
	case TCP_CONN_GREETING:
		if (work & TCP_WORK_TIMEOUT)
			conn_fail_connecting(conn, -ETIMEDOUT, "no answer to the request");
		else if (work & TCP_WORK_RX)
			conn_answered(conn);
		break;
	case TCP_CONN_ACCEPTED:
		if (work & TCP_WORK_RX)
			conn_check_accepted(conn);
		break;
	case TCP_CONN_READY:
		if (work & TCP_WORK_COMPLETE)
			tcp_sq_complete(conn);
		if (conn->state == TCP_CONN_READY && (work & TCP_WORK_RX))
			tcp_rx_run(conn);
		if (conn->state == TCP_CONN_READY && (work & TCP_WORK_TX))
			tcp_tx_run(conn);
		break;
	case TCP_CONN_ERROR:
	case TCP_CONN_CLOSING:
		tcp_conn_flush(conn);
		tcp_conn_check_drained(conn);
		break;
	case TCP_CONN_DRAINED:
	case TCP_CONN_STATES:
		break;
	}
}
