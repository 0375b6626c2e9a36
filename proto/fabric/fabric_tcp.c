/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Software RC over TCP: opening and closing the context (fabric_tcp_fab.h), and the turn that
 * drives all the others. Called through the table at the end. The files in layers, each of which
 * includes only those below it:
 *
 *   fabric_tcp.c         turns, polling, events, the table
 *   fabric_tcp_cm        connecting and accepting: both handshakes
 *   fabric_tcp_listen    listeners, connection requests until they are answered
 *   fabric_tcp_post      posting to a connection
 *   fabric_tcp_rx        bytes become receives, memory writes, READ requests and acks
 *   fabric_tcp_tx        work requests, READ responses and acks become bytes
 *   fabric_tcp_conn      a connection: states, making, completions, failure, close, drain
 *   fabric_tcp_linger    closed connections' sockets that wait for the peer's end
 *   fabric_tcp_fab.h     the context's struct
 *   fabric_tcp_framing.h what the bytes mean, as a table: rx, tx and hello have rblk's own
 *   fabric_tcp_source    epoll, active list, timers
 *   fabric_tcp_queue     the rings of work requests and completions
 *   fabric_tcp_mr        keys
 *   fabric_tcp_hello     sockets and hellos
 *   fabric_tcp_stream.h  bytes of a socket, or of TLS (proto/tls) on it
 *   fabric_tcp_wire.h    the bytes on the wire
 *
 * How a turn works. fab_poll() with an empty completion queue sends what was posted since the last
 * turn, asks epoll (or the only connection's socket), receives, and hands out completions; what the
 * caller posts in answer, and acks, goes out together in the next turn or in fab_arm(), in one system
 * call per connection. An ack with nothing beside it waits one turn longer. While armed, posts go at
 * once. In one turn a connection receives and sends so much at most; what is left keeps the owner awake
 * (fab_arm() is refused).
 */
#include "proto/fabric/fabric_tcp_fab.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "proto/fabric/fabric_tcp_cm.h"
#include "proto/fabric/fabric_tcp_conn.h"
#include "proto/fabric/fabric_tcp_hello.h"
#include "proto/fabric/fabric_tcp_linger.h"
#include "proto/fabric/fabric_tcp_listen.h"
#include "proto/fabric/fabric_tcp_post.h"
#include "proto/fabric/fabric_tcp_rx.h"
#include "proto/fabric/fabric_tcp_tx.h"

#define TCP_EPOLL_BATCH 64

/* -- turns ------------------------------------------------------------------------------------ */

static void conn_run(struct tcp_conn *conn, uint8_t work)
{
	switch (conn->state) {
	case TCP_CONN_CONNECTING:
	case TCP_CONN_SECURING:
	case TCP_CONN_GREETING:
	case TCP_CONN_ACCEPTED:
		tcp_cm_run(conn, work);
		break;
	case TCP_CONN_READY:
		if (work & TCP_WORK_COMPLETE)
			tcp_conn_complete(conn);
		if (conn->state == TCP_CONN_READY && (work & TCP_WORK_RX))
			tcp_rx_run(conn);
		if (conn->state == TCP_CONN_READY && (work & TCP_WORK_TX))
			tcp_conn_framing(conn)->send(conn);
		if (conn->state == TCP_CONN_READY && (work & TCP_WORK_TIMEOUT) &&
		    tcp_conn_framing(conn)->timeout)
			tcp_conn_framing(conn)->timeout(conn);
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

static void source_run(struct tcp_fab *fab, struct tcp_source *source, uint8_t work)
{
	switch ((enum tcp_source_kind)source->kind) {
	case TCP_SOURCE_CONN:
		conn_run(tcp_container(source, struct tcp_conn, source), work);
		break;
	case TCP_SOURCE_LISTENER:
		tcp_listener_run(fab, tcp_container(source, struct tcp_listener, source));
		break;
	case TCP_SOURCE_REQUEST:
		tcp_request_run(fab, tcp_container(source, struct tcp_request, source), work);
		break;
	case TCP_SOURCE_LINGER:
		tcp_linger_run(fab, tcp_container(source, struct tcp_linger, source), work);
		break;
	case TCP_SOURCE_WAKE:
		break;
	}
}

/*
 * Work of these kinds, once for each source that is on the list now. Running one may free it or
 * others: nothing is touched afterwards. A source that comes onto the list meanwhile waits for
 * the next pass, so that this ends.
 */
static void fab_pass(struct tcp_fab *fab, uint8_t kinds)
{
	struct tcp_loop *loop = &fab->loop;
	uint8_t work;

	for (uint32_t n = loop->active_count; n > 0 && loop->active_count > 0; n--) {
		struct tcp_source *source = tcp_loop_take(loop, kinds, &work);

		if (work)
			source_run(fab, source, work);
	}
}

static uint8_t source_work_of(const struct tcp_source *source, uint32_t epoll_events)
{
	uint8_t work = 0;

	if (epoll_events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		work |= TCP_WORK_RX;
	if (source->kind != TCP_SOURCE_CONN)
		return work;
	/*
	 * Edges for reading say "writable" too, almost always. It matters only to a
	 * connection that waits for it.
	 */
	if (epoll_events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
		struct tcp_conn *conn = tcp_container(source, struct tcp_conn, source);

		if (conn->tx.blocked || conn->state == TCP_CONN_CONNECTING) {
			conn->tx.blocked = false;
			work |= TCP_WORK_TX;
		}
	}
	return work;
}

/* Is it the only one whose bytes can come, and does it wait for nothing but them? TLS keeps some back. */
static struct tcp_conn *fab_find_sole(struct tcp_fab *fab)
{
	struct tcp_conn *conn = fab->loop.watched == 2 ? TAILQ_FIRST(&fab->all) : NULL;

	if (fab->sole_rest > 0) {
		fab->sole_rest--;
		return NULL;
	}
	return conn && conn->source.watched && conn->state == TCP_CONN_READY && !conn->tx.blocked && !conn->head.tls ?
		       conn : NULL;
}

static void fab_ask_epoll(struct tcp_fab *fab)
{
	struct epoll_event events[TCP_EPOLL_BATCH];
	int count = epoll_wait(fab->loop.epoll_fd, events, TCP_EPOLL_BATCH, 0);

	fab->loop.woken = false;
	for (int i = 0; i < count; i++) {
		struct tcp_source *source = events[i].data.ptr;
		uint8_t work;

		if (source->kind == TCP_SOURCE_WAKE)
			continue;
		if (source->kind == TCP_SOURCE_CONN &&
		    (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
			tcp_container(source, struct tcp_conn, source)->rx.hangup = true;
		work = source_work_of(source, events[i].events);
		if (work)
			tcp_source_mark(&fab->loop, source, work);
	}
}

/* A sole connection that waits for a receive is not read: epoll tells whether its peer has closed. */
static void fab_ask(struct tcp_fab *fab)
{
	struct tcp_conn *sole = fab_find_sole(fab);

	if (sole != fab->sole)
		tcp_fab_set_sole(fab, sole);
	if (sole && !sole->rx.starved && !fab->loop.woken)
		tcp_conn_mark(sole, TCP_WORK_RX);
	else
		fab_ask_epoll(fab);
}

static void fab_turn(struct tcp_fab *fab)
{
	fab->loop.turn++;
	fab->loop.turning = true;
	fab_pass(fab, TCP_WORK_TX | TCP_WORK_COMPLETE);
	fab_ask(fab);
	tcp_loop_expire(&fab->loop);
	fab_pass(fab, TCP_WORK_RX | TCP_WORK_COMPLETE | TCP_WORK_TIMEOUT);
	/* The caller adds nothing more to what is sent now. */
	if (tcp_cq_empty(&fab->cq))
		fab_pass(fab, TCP_WORK_TX | TCP_WORK_COMPLETE);
	fab->loop.turning = false;
}

/* The caller has something to take. */
static bool fab_has_news(const struct tcp_fab *fab)
{
	return !tcp_cq_empty(&fab->cq) || !TAILQ_EMPTY(&fab->events) || !TAILQ_EMPTY(&fab->requests) ||
	       fab->accept_error;
}

static int tcp_arm(struct fab *head)
{
	struct tcp_fab *fab = tcp_fab_of(head);

	fab->loop.armed = false;
	fab_pass(fab, TCP_WORK_TX | TCP_WORK_COMPLETE);
	if (fab_has_news(fab) || fab->loop.active_count > 0)
		return 1;
	/* Events that came since epoll was asked last keep the descriptor readable: nothing is lost. */
	fab->loop.armed = true;
	return 0;
}

/* Leaves a connection's send to the caller if the fab has nothing else to do. */
static int tcp_arm_to_send(struct fab *head, struct fab_send *send)
{
	struct tcp_fab *fab = tcp_fab_of(head);
	struct tcp_source *source = TAILQ_FIRST(&fab->loop.active);
	uint8_t work;

	if (fab_has_news(fab) || fab->loop.active_count != 1 || source->kind != TCP_SOURCE_CONN ||
	    source->work != TCP_WORK_TX || !tcp_tx_leave(tcp_container(source, struct tcp_conn, source), send))
		return tcp_arm(head);
	tcp_loop_take(&fab->loop, TCP_WORK_TX, &work);
	fab->loop.armed = true;
	return 0;
}

static void tcp_sent(struct fab *head, int sent)
{
	tcp_tx_sent(tcp_fab_of(head), sent);
}

/* -- completions ------------------------------------------------------------------------------ */

static int tcp_poll(struct fab *head, struct ibv_wc *wc, int count)
{
	struct tcp_fab *fab = tcp_fab_of(head);
	struct tcp_cq *cq = &fab->cq;
	int polled;

	fab->loop.armed = false;
	if (tcp_cq_empty(&fab->cq)) {
		fab_turn(fab);
		fab->progressed = true;
	}
	for (polled = 0; polled < count && cq->head != cq->tail; polled++) {
		struct tcp_cqe *cqe = &cq->cqes[cq->head++ & cq->mask];
		struct tcp_conn *conn = cqe->conn;

		wc[polled] = cqe->wc;
		if (--conn->cq_count == 0 && conn->state == TCP_CONN_CLOSING)
			tcp_conn_check_drained(conn);
	}
	return polled;
}

/* -- events ----------------------------------------------------------------------------------- */

static int accept_event(struct tcp_fab *fab, struct fab_event *event)
{
	event->type = FAB_EVENT_FAILED;
	event->status = fab_fail(&fab->head, fab->accept_error, "%s", fab->accept_words);
	fab->accept_error = 0;
	return 1;
}

static int request_event(struct tcp_fab *fab, struct fab_event *event)
{
	struct tcp_request *request = TAILQ_FIRST(&fab->requests);

	TAILQ_REMOVE(&fab->requests, request, link);
	/* Once given out, the request may belong to another thread: its bytes stay here. */
	fab->event_hello = request->hello;
	event->type = FAB_EVENT_REQUEST;
	event->request = &request->head;
	event->private_data = fab->event_hello.private_data;
	event->private_bytes = fab->event_hello.private_bytes;
	return 1;
}

/* The earliest of a connection's events comes first: the enum's order. */
static int conn_event(struct tcp_fab *fab, struct fab_event *event)
{
	struct tcp_conn *conn = TAILQ_FIRST(&fab->events);
	enum fab_event_type type = (enum fab_event_type)__builtin_ctz(conn->events);

	conn->events &= (uint8_t) ~(1u << type);
	if (!conn->events)
		TAILQ_REMOVE(&fab->events, conn, event_link);
	event->type = type;
	event->conn = &conn->head;
	if (type == FAB_EVENT_ESTABLISHED || type == FAB_EVENT_REJECTED) {
		fab->event_hello = conn->hello;
		event->private_data = fab->event_hello.private_data;
		event->private_bytes = conn->event_private_bytes;
	}
	if (type == FAB_EVENT_FAILED || type == FAB_EVENT_DISCONNECTED)
		event->status = fab_fail(&fab->head, conn->event_status, "%s", conn->reason);
	return 1;
}

static int tcp_poll_event(struct fab *head, struct fab_event *event)
{
	struct tcp_fab *fab = tcp_fab_of(head);

	fab->loop.armed = false;
	memset(event, 0, sizeof(*event));
	if (TAILQ_EMPTY(&fab->events) && TAILQ_EMPTY(&fab->requests)) {
		/* A caller that waits for events only makes progress nowhere else. */
		if (!fab->progressed && tcp_cq_empty(&fab->cq))
			fab_turn(fab);
		else
			tcp_loop_expire(&fab->loop);
		fab->progressed = false;
		fab_pass(fab, TCP_WORK_PREPARE | TCP_WORK_TIMEOUT);
	}
	if (!TAILQ_EMPTY(&fab->events))
		return conn_event(fab, event);
	if (!TAILQ_EMPTY(&fab->requests))
		return request_event(fab, event);
	return fab->accept_error ? accept_event(fab, event) : 0;
}

/* -- opening, closing ------------------------------------------------------------------------- */

static void device_init(struct tcp_fab *fab)
{
	struct fab_device *device = &fab->device;

	device->fab = &fab->head;
	snprintf(device->name, sizeof(device->name), "tcp");
	device->limits = (struct fab_limits){
		.max_sge = TCP_SGE_MAX,
		.max_read_sge = TCP_SGE_MAX,
		.max_send_wr = TCP_SEND_WR_MAX,
		.max_recv_wr = TCP_RECV_WR_MAX,
		.max_srq_wr = TCP_SRQ_WR_MAX,
		.max_read_in = TCP_READS_MAX,
		.max_read_out = TCP_READS_MAX,
		.max_msg_bytes = FAB_TCP_MESSAGE_MAX,
		.immediate = true,
		.invalidate = true,
		.invalidate_inline = true,
		.acknowledged = true,
		.late_flush = true,
	};
}

static void fab_init_lists(struct tcp_fab *fab)
{
	TAILQ_INIT(&fab->all);
	TAILQ_INIT(&fab->starved);
	TAILQ_INIT(&fab->events);
	TAILQ_INIT(&fab->requests);
	TAILQ_INIT(&fab->listeners);
	TAILQ_INIT(&fab->lingers);
}

static int fab_init_queues(struct tcp_fab *fab)
{
	struct fab_options *options = &fab->head.options;
	uint32_t depth = options->cq_depth ? options->cq_depth : TCP_CQ_DEPTH_DEFAULT;
	int err;

	if (options->recv_sge == 0)
		options->recv_sge = 1;
	if (options->recv_sge > TCP_SGE_MAX || options->srq_depth > TCP_SRQ_WR_MAX ||
	    depth > TCP_CQ_DEPTH_MAX)
		return -EINVAL;
	err = tcp_cq_init(&fab->cq, depth);
	if (err || options->srq_depth == 0)
		return err;
	return tcp_rq_init(&fab->srq, options->srq_depth, options->recv_sge);
}

struct fab *tcp_fab_open(const struct fab_ops *ops, const struct tcp_framing *framing,
			 const struct fab_options *options, char *error)
{
	struct tcp_fab *fab;
	int err = -ENODEV;

	if (options->device && strcmp(options->device, "tcp") != 0) {
		snprintf(error, FAB_ERROR_BYTES,
			 "device %s: the TCP fabric's only device is \"tcp\"", options->device);
		errno = ENODEV;
		return NULL;
	}
	fab = calloc(1, sizeof(*fab));
	if (!fab) {
		err = -ENOMEM;
		goto err_report;
	}
	fab->head.ops = ops;
	fab->framing = framing;
	fab->head.options = *options;
	fab->head.options.device = NULL;
	fab_init_lists(fab);
	device_init(fab);
	err = fab_init_queues(fab);
	if (err)
		goto err_free;
	err = tcp_loop_init(&fab->loop);
	if (err)
		goto err_free;
	fab->head.fd = fab->loop.epoll_fd;
	return &fab->head;

err_free:
	tcp_rq_fini(&fab->srq);
	tcp_cq_fini(&fab->cq);
	free(fab);
err_report:
	snprintf(error, FAB_ERROR_BYTES, "TCP fabric: %s", strerror(-err));
	errno = -err;
	return NULL;
}

static void tcp_close(struct fab *head)
{
	struct tcp_fab *fab = tcp_fab_of(head);

	while (!TAILQ_EMPTY(&fab->listeners))
		tcp_listener_destroy(&TAILQ_FIRST(&fab->listeners)->head);
	while (!TAILQ_EMPTY(&fab->requests)) {
		struct tcp_request *request = TAILQ_FIRST(&fab->requests);

		TAILQ_REMOVE(&fab->requests, request, link);
		tcp_request_free(request);
	}
	while (!TAILQ_EMPTY(&fab->lingers))
		tcp_linger_stop(fab, TAILQ_FIRST(&fab->lingers));
	assert(TAILQ_EMPTY(&fab->all) && "fab_close() before the last fab_conn_destroy()");
	assert(fab->mrs.used == 0 && "fab_close() before the last fab_mr_deregister()");
	tcp_loop_fini(&fab->loop);
	tcp_rq_fini(&fab->srq);
	tcp_cq_fini(&fab->cq);
	free(fab->left);
	free(fab);
}

/* -- the tables ------------------------------------------------------------------------------- */

static int hello_greet(struct tcp_request *request)
{
	int ready = tcp_first_receive(request->source.fd, request->head.tls, &request->hello, sizeof(request->hello),
				      &request->hello_bytes);

	if (ready > 0 && tcp_hello_check(&request->hello, 1u << FAB_TCP_REQUEST) < 0)
		return -EPROTO;
	return ready;
}

static void hello_reject(struct tcp_request *request, const void *private_data, uint8_t bytes)
{
	struct fab_tcp_hello hello;

	tcp_hello_init(&hello, FAB_TCP_REJECT, private_data, bytes);
	(void)tcp_first_send(request->source.fd, request->head.tls, &hello, sizeof(hello));
}

static int hello_answer(struct tcp_conn *conn, bool accepts, const void *private_data, uint8_t bytes)
{
	struct fab_tcp_hello hello;

	tcp_hello_init(&hello, accepts ? FAB_TCP_ACCEPT : FAB_TCP_REJECT, private_data, bytes);
	if (accepts) {
		hello.read_in = conn->read_in;
		hello.read_out = conn->head.read_out;
	}
	return tcp_first_send(conn->source.fd, conn->head.tls, &hello, sizeof(hello));
}

static const struct tcp_framing tcp_framing = {
	.greet = hello_greet,
	.reject = hello_reject,
	.answer = hello_answer,
	.begin = tcp_rx_begin,
	.iov = tcp_rx_iov,
	.no_memory = tcp_rx_no_memory,
	.finish = tcp_rx_finish,
	.send = tcp_tx_run,
	.header_bytes = sizeof(struct fab_tcp_frame),
};

static struct fab *tcp_open(const struct fab_options *options, char *error)
{
	return tcp_fab_open(&fab_tcp_ops, &tcp_framing, options, error);
}

static int tcp_timeout_ms(const struct fab *fab)
{
	return tcp_loop_timeout_ms(&tcp_fab_of(fab)->loop);
}

static void tcp_close_conn(struct fab_conn *head)
{
	struct tcp_conn *conn = tcp_conn_of(head);

	if (conn->state == TCP_CONN_READY)
		tcp_conn_framing(conn)->send(conn); /* what was posted just before may still be sent */
	tcp_conn_close(conn);
}

static int tcp_mr_register(struct fab *fab, void *addr, size_t bytes, int access,
			   struct fab_mr **mr)
{
	return tcp_mr_create(&tcp_fab_of(fab)->mrs, fab, addr, bytes, access, mr);
}

static void tcp_mr_deregister(struct fab_mr *mr)
{
	tcp_mr_destroy(&tcp_fab_of(mr->fab)->mrs, mr);
}

const struct fab_ops fab_tcp_ops = {
	.kind = FAB_TCP,
	.open = tcp_open,
	.close = tcp_close,
	.arm = tcp_arm,
	.arm_to_send = tcp_arm_to_send,
	.sent = tcp_sent,
	.poll = tcp_poll,
	.poll_event = tcp_poll_event,
	.timeout_ms = tcp_timeout_ms,
	.listen = tcp_listen,
	.listener_destroy = tcp_listener_destroy,
	.listener_address = tcp_listener_address,
	.accept = tcp_accept,
	.reject = tcp_reject,
	.request_device = tcp_request_device,
	.connect = tcp_connect,
	.conn_establish = tcp_conn_establish,
	.conn_refuse = tcp_conn_refuse,
	.conn_close = tcp_close_conn,
	.conn_destroy = tcp_conn_destroy,
	.mr_register = tcp_mr_register,
	.mr_deregister = tcp_mr_deregister,
	.post_send = tcp_post_send,
	.post_recv = tcp_post_recv,
	.post_srq_recv = tcp_post_srq_recv,
};
