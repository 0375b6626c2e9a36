/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connecting and being connected to, over TCP: both handshakes. Brings a connection from
 * fab_connect() or fab_accept() to READY, or to its end; fabric_tcp_conn.c has the connection's
 * states and its end, fabric_tcp_listen.c what comes before fab_accept().
 */
#include "proto/fabric/fabric_tcp_cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/fabric/fabric_tcp_hello.h"
#include "proto/fabric/fabric_tcp_listen.h"
#include "proto/fabric/fabric_tcp_stream.h"
#include "proto/wire/login.h"

#define TCP_CONNECT_MS_DEFAULT 5000u

/* -- connecting ------------------------------------------------------------------------------- */

/* The port is chosen by connect(): many connections come from one address. */
static int connect_bind(int fd, const struct sockaddr *source)
{
	const int yes = 1;

	if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes)) ||
	    bind(fd, source, tcp_address_bytes(source)))
		return -errno;
	return 0;
}

static int connect_set_tos(int fd, const struct sockaddr *addr, int tos)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	bool ipv6 = addr->sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);

	if (setsockopt(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, ipv6 ? IPV6_TCLASS : IP_TOS, &tos, sizeof(tos)))
		return -errno;
	return 0;
}

static int connect_socket(const struct sockaddr *addr, const struct fab_conn_options *options)
{
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	err = tcp_socket_tune(fd);
	if (!err && options->tos)
		err = connect_set_tos(fd, addr, options->tos);
	if (!err && options->source)
		err = connect_bind(fd, options->source);
	if (!err && connect(fd, addr, tcp_address_bytes(addr)) < 0 && errno != EINPROGRESS)
		err = -errno;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

static int connect_fail(struct fab *fab, const char *text, const struct fab_conn_options *options, int error)
{
	return fab_fail(fab, error, "%s: connect: %s", text,
			options->source && error == -EADDRNOTAVAIL ? "the source address is not this machine's" :
								     strerror(-error));
}

/* It was created, and is unknown to its caller. */
static int connect_undo(struct tcp_conn *conn, const char *text, int error)
{
	struct fab *fab = conn->head.fab;

	tcp_conn_close(conn);
	tcp_conn_destroy(&conn->head);
	return fab_fail(fab, error, "%s: connect: %s", text, strerror(-error));
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
	if (options->private_bytes > RBLK_PRIVATE_DATA_MAX)
		return fab_fail(fab, -EINVAL, "%s: connect: %u bytes of private data, %u fit", text,
				options->private_bytes, RBLK_PRIVATE_DATA_MAX);
	err = tcp_conn_check_options(fab, options);
	if (err)
		return err;
	fd = connect_socket(addr, options);
	if (fd < 0)
		return connect_fail(fab, text, options, fd);
	err = tcp_conn_create(fab, fd, addr, options,
			      tcp_reads_min(options->read_in, TCP_READS_MAX), TCP_CONN_CONNECTING,
			      &conn);
	if (err) {
		close(fd);
		return fab_fail(fab, err, "%s: connect: %s", text, strerror(-err));
	}
	if (options->tls) {
		conn->head.tls = rblk_tls_create(options->tls, fd);
		if (!conn->head.tls)
			return connect_undo(conn, text, -ENOMEM);
	}
	conn->prepare = prepare;
	conn->head.read_out = tcp_reads_min(options->read_out, TCP_READS_MAX);
	tcp_hello_init(&conn->hello, FAB_TCP_REQUEST, options->private_data,
		       options->private_bytes);
	conn->hello.read_in = conn->read_in;
	conn->hello.read_out = conn->head.read_out;
	tcp_source_set_timer(&tcp_fab_of(fab)->loop, &conn->source, timeout_ms);
	*out = &conn->head;
	return 0;
}

/* Within fab_poll_event(): the peer's TCP has answered, and TLS if it is to be. */
static void conn_greet(struct tcp_conn *conn)
{
	const enum tcp_state before = conn->state;
	int err;

	err = conn->prepare ? conn->prepare(&conn->head, conn->head.user) : 0;
	if (conn->state != before)
		return; /* closed by prepare() itself */
	if (err) {
		tcp_conn_fail_connecting(conn, err, "prepare");
		return;
	}
	err = tcp_first_send(conn->source.fd, conn->head.tls, &conn->hello, sizeof(conn->hello));
	if (err) {
		tcp_conn_fail_connecting(conn, err, "connect");
		return;
	}
	memset(&conn->hello, 0, sizeof(conn->hello));
	if (!tcp_conn_set_state(conn, TCP_CONN_GREETING))
		return;
	/* An end of stream may have arrived before: there is no other edge for it. */
	tcp_conn_mark(conn, TCP_WORK_RX);
}

/* A part of the TLS handshake. */
static void conn_secure(struct tcp_conn *conn)
{
	int ready = rblk_tls_handshake(conn->head.tls);

	if (ready < 0)
		tcp_conn_fail_connecting(conn, ready, "connect");
	else if (ready > 0)
		tcp_conn_mark(conn, TCP_WORK_PREPARE);
}

/* The socket has become writable: connected, or failed. */
static void conn_connected(struct tcp_conn *conn)
{
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (getsockopt(conn->source.fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
		error = errno;
	if (error)
		tcp_conn_fail_connecting(conn, -error, "connect");
	else if (!conn->head.tls)
		tcp_conn_mark(conn, TCP_WORK_PREPARE);
	else if (tcp_conn_set_state(conn, TCP_CONN_SECURING))
		conn_secure(conn);
}

/* The passive side has answered our hello. */
static void conn_answered(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	int ready = tcp_first_receive(conn->source.fd, conn->head.tls, &conn->hello, sizeof(conn->hello),
				      &conn->hello_bytes);

	if (ready == 0)
		return;
	if (ready > 0)
		ready = tcp_hello_check(&conn->hello, 1u << FAB_TCP_ACCEPT | 1u << FAB_TCP_REJECT);
	if (ready < 0) {
		tcp_conn_fail_connecting(conn, ready, "connect");
		return;
	}
	conn->event_private_bytes = conn->hello.private_bytes;
	if (conn->hello.kind == FAB_TCP_REJECT) {
		tcp_conn_end(conn, TCP_CONN_ERROR);
		tcp_conn_raise(conn, FAB_EVENT_REJECTED, 0);
		return;
	}
	conn->head.read_out = tcp_reads_min(conn->head.read_out, conn->hello.read_in);
	tcp_source_stop_timer(&fab->loop, &conn->source);
	if (!tcp_conn_set_state(conn, TCP_CONN_READY))
		return;
	tcp_conn_raise(conn, FAB_EVENT_ESTABLISHED, 0);
	/* Frames may have arrived right after the hello: there is no other edge for them. */
	tcp_conn_mark(conn, TCP_WORK_RX);
}

/* -- accepting -------------------------------------------------------------------------------- */

/* On failure the request is unchanged; the caller rejects it with a reason. */
int tcp_accept(struct fab *fab, struct fab_request *head, const struct fab_conn_options *options,
	       struct fab_conn **out)
{
	struct tcp_request *request = tcp_container(head, struct tcp_request, head);
	const struct sockaddr *peer = fab_request_peer(head);
	struct tcp_conn *conn;
	char text[80];
	int err = tcp_conn_check_options(fab, options);

	if (err)
		return err;
	err = tcp_conn_create(fab, request->source.fd, peer, options,
			      tcp_reads_min(options->read_in, head->read_out), TCP_CONN_ACCEPTED,
			      &conn);
	if (err) {
		fab_format_address(peer, text, sizeof(text));
		return fab_fail(fab, err, "%s: accept: %s", text, strerror(-err));
	}
	conn->head.read_out = tcp_reads_min(options->read_out, head->read_in);
	conn->head.tls = head->tls;
	head->tls = NULL;
	conn->state_of_framing = request->state;
	request->state = NULL;
	request->source.fd = -1; /* both are the connection's now */
	tcp_request_free(request);
	*out = &conn->head;
	return 0;
}

int tcp_conn_establish(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	int err;

	if (conn->state == TCP_CONN_ERROR)
		return 0; /* the peer has closed it meanwhile; DISCONNECTED follows */
	if (conn->state != TCP_CONN_ACCEPTED || bytes > FAB_TCP_PRIVATE_MAX)
		return fab_fail(head->fab, -EINVAL, "%s: establish: not accepted", head->peer);
	err = tcp_conn_framing(conn)->answer(conn, true, private_data, bytes);
	if (err) {
		tcp_conn_fail(conn, err);
		return 0;
	}
	if (!tcp_conn_set_state(conn, TCP_CONN_READY))
		return 0; /* as above */
	tcp_conn_raise(conn, FAB_EVENT_ESTABLISHED, 0);
	tcp_conn_mark(conn, TCP_WORK_RX);
	return 0;
}

void tcp_conn_refuse(struct fab_conn *head, const void *private_data, uint8_t bytes)
{
	struct tcp_conn *conn = tcp_conn_of(head);

	if (conn->state != TCP_CONN_ACCEPTED)
		return;
	/* A peer that has closed the connection meanwhile needs no answer. */
	(void)tcp_conn_framing(conn)->answer(conn, false, private_data, bytes);
	tcp_conn_end(conn, TCP_CONN_ERROR);
}

/* -- turns ------------------------------------------------------------------------------------ */

/* Before it is established: a peer that has closed it, or one that sends too early. */
static void conn_check_accepted(struct tcp_conn *conn)
{
	ssize_t got = tcp_stream_peek(conn->source.fd, conn->head.tls);

	if (got == 0)
		tcp_conn_fail(conn, 0);
	else if (got > 0)
		tcp_conn_fail(conn, -EPROTO);
	else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		tcp_conn_fail(conn, -errno);
}

void tcp_cm_run(struct tcp_conn *conn, uint8_t work)
{
	switch (conn->state) {
	case TCP_CONN_CONNECTING:
		if (work & TCP_WORK_TIMEOUT)
			tcp_conn_fail_connecting(conn, -ETIMEDOUT, "connect");
		else if (work & TCP_WORK_PREPARE)
			conn_greet(conn);
		else if (work & TCP_WORK_TX)
			conn_connected(conn);
		break;
	case TCP_CONN_SECURING:
		if (work & TCP_WORK_TIMEOUT)
			tcp_conn_fail_connecting(conn, -ETIMEDOUT, "no answer to the TLS handshake");
		else if (work & TCP_WORK_PREPARE)
			conn_greet(conn);
		else if (work & TCP_WORK_RX)
			conn_secure(conn);
		break;
	case TCP_CONN_GREETING:
		if (work & TCP_WORK_TIMEOUT)
			tcp_conn_fail_connecting(conn, -ETIMEDOUT, "no answer to the request");
		else if (work & TCP_WORK_RX)
			conn_answered(conn);
		break;
	case TCP_CONN_ACCEPTED:
		if (work & TCP_WORK_RX)
			conn_check_accepted(conn);
		break;
	default: /* the handshake is over */
		break;
	}
}
