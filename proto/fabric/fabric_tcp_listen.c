/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listening sockets of fabric_tcp, and connection requests from the socket's accept4() to the event
 * that gives them out. This bounds what peers can take before they are accepted: how many
 * hellos may be incomplete, for how long, and what happens when descriptors run out.
 * fabric_tcp_cm.c accepts a request, which makes it a connection.
 */
#include "proto/fabric/fabric_tcp_listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/fabric/fabric_tcp_hello.h"
#include "proto/fabric/fabric_tcp_stream.h"

#define TCP_ACCEPTS_PER_TURN 32
#define TCP_ACCEPT_PAUSE_MS 100 /* out of descriptors: until one is closed */
#define TCP_BACKLOG_DEFAULT 128

/* An event that tells of it. One is due at a time: a stranger who is refused is the least. */
static void accept_fail(struct tcp_fab *fab, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void accept_fail(struct tcp_fab *fab, int error, const char *format, ...)
{
	va_list args;

	if (fab->accept_error && error == -EKEYREJECTED)
		return;
	va_start(args, format);
	vsnprintf(fab->accept_words, sizeof(fab->accept_words), format, args);
	va_end(args);
	fab->accept_error = error;
	tcp_loop_wake(&fab->loop);
}

/* -- requests --------------------------------------------------------------------------------- */

void tcp_request_free(struct tcp_request *request)
{
	if (request->state)
		request->framing->forget_hello(request->state);
	tcp_stream_end(request->head.tls);
	rblk_tls_destroy(request->head.tls);
	if (request->source.fd >= 0)
		close(request->source.fd);
	free(request);
}

/* Removes it from its listener and from the fab: it is no source any more. */
static void request_detach(struct tcp_fab *fab, struct tcp_request *request)
{
	tcp_source_unwatch(&fab->loop, &request->source);
	tcp_source_fini(&fab->loop, &request->source);
	TAILQ_REMOVE(&request->listener->pending, request, link);
	request->listener->pending_count--;
	request->listener = NULL;
}

static void request_drop(struct tcp_fab *fab, struct tcp_request *request)
{
	request_detach(fab, request);
	tcp_request_free(request);
}

/*
 * For one more of this peer. The oldest has had the most time to send its hello. A real client needs one
 * round trip only, two with TLS, so a flood of silent connections hardly ever displaces it; one from
 * another address does never.
 */
static void requests_make_room(struct tcp_fab *fab, struct tcp_listener *listener,
			       const struct sockaddr_storage *peer)
{
	struct tcp_request *request, *oldest = NULL;
	uint32_t count = 0;

	/* Only under a flood are there so many that somebody may have too many. */
	if (listener->pending_count < TCP_HANDSHAKES_HOST_MAX)
		return;
	TAILQ_FOREACH(request, &listener->pending, link) {
		if (!fab_same_address(&request->head.peer, peer))
			continue;
		count++;
		if (!oldest)
			oldest = request;
	}
	if (count >= TCP_HANDSHAKES_HOST_MAX)
		request_drop(fab, oldest);
	else if (listener->pending_count == TCP_HANDSHAKES_MAX)
		request_drop(fab, TAILQ_FIRST(&listener->pending));
}

/* Takes the descriptor. */
static void request_create(struct tcp_fab *fab, struct tcp_listener *listener, int fd,
			   const struct sockaddr_storage *peer)
{
	struct tcp_request *request = calloc(1, sizeof(*request));

	if (!request) {
		close(fd);
		return;
	}
	requests_make_room(fab, listener, peer);
	tcp_source_init(&request->source, TCP_SOURCE_REQUEST, fd);
	request->head.ops = fab->head.ops;
	request->framing = fab->framing;
	request->head.peer = *peer;
	if (tcp_socket_tune(fd) ||
	    tcp_source_watch(&fab->loop, &request->source, EPOLLIN | EPOLLRDHUP)) {
		tcp_request_free(request);
		return;
	}
	request->listener = listener;
	TAILQ_INSERT_TAIL(&listener->pending, request, link);
	listener->pending_count++;
	tcp_source_set_timer(&fab->loop, &request->source, TCP_HANDSHAKE_MS);
}

/* Does the peer begin with TLS? 1: that is known, 0: not yet, negative errno. */
static int request_begin(struct tcp_fab *fab, struct tcp_request *request)
{
	unsigned char first;
	ssize_t got;

	if (request->begun || !fab->head.options.tls)
		return 1;
	got = recv(request->source.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
	request->begun = true;
	if (got == 0 || first != RBLK_TLS_FIRST_BYTE)
		return 1;
	request->head.tls = rblk_tls_create(fab->head.options.tls, request->source.fd);
	request->securing = true;
	return request->head.tls ? 1 : -ENOMEM;
}

/* A part of the handshake. Its failure is told. */
static int request_secure(struct tcp_fab *fab, struct tcp_request *request)
{
	int ready = rblk_tls_handshake(request->head.tls);
	char peer[80];

	if (ready > 0)
		request->securing = false;
	if (ready >= 0)
		return ready;
	fab_format_address((const struct sockaddr *)&request->head.peer, peer, sizeof(peer));
	accept_fail(fab, -EKEYREJECTED, "connection from %s: refused: %s", peer,
		    rblk_tls_words(request->head.tls));
	return ready;
}

void tcp_request_run(struct tcp_fab *fab, struct tcp_request *request, uint8_t work)
{
	int ready;

	if (work & TCP_WORK_TIMEOUT) {
		request_drop(fab, request);
		return;
	}
	ready = request_begin(fab, request);
	if (ready > 0 && request->securing)
		ready = request_secure(fab, request);
	if (ready > 0)
		ready = fab->framing->greet(request);
	if (ready == 0)
		return;
	if (ready < 0) {
		request_drop(fab, request);
		return;
	}
	request->head.read_in = request->hello.read_in;
	request->head.read_out = request->hello.read_out;
	request_detach(fab, request);
	TAILQ_INSERT_TAIL(&fab->requests, request, link);
	tcp_loop_wake(&fab->loop);
}

/*
 * On any thread. The socket's buffers are empty in both directions, because the hello has been
 * read: the refusal fits, and closing does not truncate it.
 */
void tcp_reject(struct fab_request *head, const void *private_data, uint8_t bytes)
{
	struct tcp_request *request = tcp_container(head, struct tcp_request, head);

	request->framing->reject(request, private_data, bytes);
	tcp_stream_end(head->tls);
	/* A peer that has closed the connection meanwhile needs no answer. */
	shutdown(request->source.fd, SHUT_WR);
	tcp_request_free(request);
}

struct fab_device *tcp_request_device(struct fab *fab, struct fab_request *request)
{
	(void)request; /* there is only one */
	return &tcp_fab_of(fab)->device;
}

/* -- listeners -------------------------------------------------------------------------------- */

/* Waiting connections stay in the backlog: there will be no new edge for them. */
static void listener_pause(struct tcp_fab *fab, struct tcp_listener *listener, int error)
{
	if (!listener->exhausted)
		accept_fail(fab, error, "cannot accept: %s", strerror(-error));
	listener->exhausted = true;
	tcp_source_set_timer(&fab->loop, &listener->source, TCP_ACCEPT_PAUSE_MS);
}

void tcp_listener_run(struct tcp_fab *fab, struct tcp_listener *listener)
{
	for (int i = 0; i < TCP_ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage peer = {0};
		socklen_t bytes = sizeof(peer);
		int fd = accept4(listener->source.fd, (struct sockaddr *)&peer, &bytes,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			listener->exhausted = false;
			request_create(fab, listener, fd, &peer);
			continue;
		}
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return;
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			listener_pause(fab, listener, -errno);
			return;
		}
		/* EINTR, ECONNABORTED and other errors of one connection: try the next. */
	}
	tcp_source_mark(&fab->loop, &listener->source, TCP_WORK_RX);
}

static bool tcp_address_is_any6(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static int listener_open(struct tcp_listener *listener, const struct sockaddr *addr, int backlog)
{
	int one = 1, zero = 0;
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	listener->source.fd = fd;
	/* [::] takes IPv4, too, whatever the machine's net.ipv6.bindv6only says. */
	if (tcp_address_is_any6(addr) &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) < 0)
		return -errno;
	/* Old connections of the port in TIME_WAIT do not matter; another listener does. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, addr, tcp_address_bytes(addr)) < 0 ||
	    listen(fd, backlog > 0 ? backlog : TCP_BACKLOG_DEFAULT) < 0)
		return -errno;
	return 0;
}

int tcp_listen(struct fab *head, const struct sockaddr *addr, int backlog,
	       struct fab_listener **out)
{
	struct tcp_fab *fab = tcp_fab_of(head);
	struct tcp_listener *listener;
	char text[80];
	int err;

	fab_format_address(addr, text, sizeof(text));
	if (tcp_address_bytes(addr) == 0)
		return fab_fail(head, -EAFNOSUPPORT, "listen %s: neither IPv4 nor IPv6", text);
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		return fab_fail(head, -ENOMEM, "listen %s: out of memory", text);
	tcp_source_init(&listener->source, TCP_SOURCE_LISTENER, -1);
	listener->head.fab = head;
	TAILQ_INIT(&listener->pending);
	err = listener_open(listener, addr, backlog);
	if (!err)
		err = tcp_source_watch(&fab->loop, &listener->source, EPOLLIN);
	if (err) {
		if (listener->source.fd >= 0)
			close(listener->source.fd);
		free(listener);
		return fab_fail(head, err, "listen %s: %s", text, strerror(-err));
	}
	TAILQ_INSERT_TAIL(&fab->listeners, listener, link);
	*out = &listener->head;
	return 0;
}

void tcp_listener_destroy(struct fab_listener *head)
{
	struct tcp_listener *listener = tcp_container(head, struct tcp_listener, head);
	struct tcp_fab *fab = tcp_fab_of(head->fab);

	while (!TAILQ_EMPTY(&listener->pending))
		request_drop(fab, TAILQ_FIRST(&listener->pending));
	tcp_source_fini(&fab->loop, &listener->source);
	tcp_source_close(&fab->loop, &listener->source);
	TAILQ_REMOVE(&fab->listeners, listener, link);
	free(listener);
}

int tcp_listener_address(const struct fab_listener *head, struct sockaddr_storage *addr)
{
	const struct tcp_listener *listener = tcp_container(head, const struct tcp_listener, head);
	socklen_t bytes = sizeof(*addr);

	memset(addr, 0, sizeof(*addr));
	if (getsockname(listener->source.fd, (struct sockaddr *)addr, &bytes) < 0)
		return -errno;
	return 0;
}
