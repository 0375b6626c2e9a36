/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The context of fabric_tcp: one thread's epoll, active list, timers, completion queue and events,
 * and the turn that drives everything else (fabric_tcp.h says how a turn works). Called through
 * the table at the end; what connections and listeners do in a turn is in their own files.
 */
#include "proto/fabric/fabric_tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/core/env.h"

#define TCP_EPOLL_BATCH 64

/* -- sources: the active list, timers --------------------------------------------------------- */

void tcp_source_init(struct tcp_source *source, enum tcp_source_kind kind, int fd)
{
	memset(source, 0, sizeof(*source));
	source->kind = kind;
	source->fd = fd;
}

int tcp_source_watch(struct tcp_fab *fab, struct tcp_source *source, uint32_t epoll_events)
{
	struct epoll_event event = {.events = epoll_events | EPOLLET, .data.ptr = source};

	if (epoll_ctl(fab->head.fd, EPOLL_CTL_ADD, source->fd, &event) < 0)
		return -errno;
	return 0;
}

static void source_activate(struct tcp_fab *fab, struct tcp_source *source)
{
	TAILQ_INSERT_TAIL(&fab->active, source, link);
	fab->active_count++;
}

static void source_deactivate(struct tcp_fab *fab, struct tcp_source *source)
{
	TAILQ_REMOVE(&fab->active, source, link);
	fab->active_count--;
}

/* Outside a turn and armed: the owner sleeps, or may go to sleep without asking again. */
static void fab_wake(struct tcp_fab *fab)
{
	uint64_t one = 1;

	if (!fab->armed)
		return;
	fab->armed = false;
	/* Never read: every write is an edge. 2^64 of them do not happen. */
	if (write(fab->wake.fd, &one, sizeof(one)) < 0)
		abort();
}

void tcp_source_mark(struct tcp_fab *fab, struct tcp_source *source, uint8_t work)
{
	if (!source->work)
		source_activate(fab, source);
	source->work |= work;
	fab_wake(fab);
}

void tcp_source_stop_timer(struct tcp_fab *fab, struct tcp_source *source)
{
	if (source->deadline_ns)
		TAILQ_REMOVE(&fab->timers, source, timer_link);
	source->deadline_ns = 0;
}

void tcp_source_set_timer(struct tcp_fab *fab, struct tcp_source *source, uint32_t ms)
{
	tcp_source_stop_timer(fab, source);
	source->deadline_ns = env_now_ns() + (uint64_t)ms * 1000000;
	if (TAILQ_EMPTY(&fab->timers) || source->deadline_ns < fab->next_deadline_ns)
		fab->next_deadline_ns = source->deadline_ns;
	TAILQ_INSERT_TAIL(&fab->timers, source, timer_link);
}

void tcp_source_fini(struct tcp_fab *fab, struct tcp_source *source)
{
	tcp_source_stop_timer(fab, source);
	if (source->work)
		source_deactivate(fab, source);
	source->work = 0;
}

void tcp_source_close(struct tcp_fab *fab, struct tcp_source *source)
{
	epoll_ctl(fab->head.fd, EPOLL_CTL_DEL, source->fd, NULL);
	close(source->fd);
	source->fd = -1;
}

/* Only handshakes and lingering sockets have timers: a walk once per deadline is short. */
static void timers_expire(struct tcp_fab *fab)
{
	struct tcp_source *source, *next;
	uint64_t now;

	if (TAILQ_EMPTY(&fab->timers))
		return;
	now = env_now_ns();
	if (now < fab->next_deadline_ns)
		return;
	fab->next_deadline_ns = UINT64_MAX;
	for (source = TAILQ_FIRST(&fab->timers); source; source = next) {
		next = TAILQ_NEXT(source, timer_link);
		if (source->deadline_ns <= now) {
			tcp_source_stop_timer(fab, source);
			tcp_source_mark(fab, source, TCP_WORK_TIMEOUT);
		} else if (source->deadline_ns < fab->next_deadline_ns) {
			fab->next_deadline_ns = source->deadline_ns;
		}
	}
}

static int tcp_timeout_ms(const struct fab *head)
{
	const struct tcp_fab *fab = tcp_fab_of(head);
	uint64_t now, ms;

	if (TAILQ_EMPTY(&fab->timers))
		return -1;
	now = env_now_ns();
	if (now >= fab->next_deadline_ns)
		return 0;
	ms = (fab->next_deadline_ns - now) / 1000000 + 1;
	return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* -- turns ------------------------------------------------------------------------------------ */

static void source_run(struct tcp_fab *fab, struct tcp_source *source, uint8_t work)
{
	switch ((enum tcp_source_kind)source->kind) {
	case TCP_SOURCE_CONN:
		tcp_conn_run(tcp_container(source, struct tcp_conn, source), work);
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
 * others: nothing is touched afterwards. What comes onto the list meanwhile waits for the next
 * pass, so that this ends.
 */
static void fab_pass(struct tcp_fab *fab, uint8_t kinds)
{
	for (uint32_t n = fab->active_count; n > 0 && fab->active_count > 0; n--) {
		struct tcp_source *source = TAILQ_FIRST(&fab->active);
		uint8_t work = source->work & kinds;

		source_deactivate(fab, source);
		source->work &= (uint8_t)~kinds;
		if (source->work)
			source_activate(fab, source);
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

static void fab_ask_epoll(struct tcp_fab *fab)
{
	struct epoll_event events[TCP_EPOLL_BATCH];
	int count = epoll_wait(fab->head.fd, events, TCP_EPOLL_BATCH, 0);

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
			tcp_source_mark(fab, source, work);
	}
}

static void fab_turn(struct tcp_fab *fab)
{
	fab_pass(fab, TCP_WORK_TX | TCP_WORK_COMPLETE);
	fab_ask_epoll(fab);
	timers_expire(fab);
	fab_pass(fab, TCP_WORK_RX | TCP_WORK_COMPLETE | TCP_WORK_TIMEOUT);
	/* The caller has nothing to add to what is to be sent now. */
	if (tcp_cq_empty(fab))
		fab_pass(fab, TCP_WORK_TX | TCP_WORK_COMPLETE);
}

static int tcp_arm(struct fab *head)
{
	struct tcp_fab *fab = tcp_fab_of(head);

	fab->armed = false;
	fab_pass(fab, TCP_WORK_TX | TCP_WORK_COMPLETE);
	if (!tcp_cq_empty(fab) || !TAILQ_EMPTY(&fab->events) || !TAILQ_EMPTY(&fab->requests) ||
	    fab->accept_error || fab->active_count > 0)
		return 1;
	/* What came since epoll was asked last keeps the descriptor readable: nothing is lost. */
	fab->armed = true;
	return 0;
}

/* -- completions ------------------------------------------------------------------------------ */

struct ibv_wc *tcp_cq_push(struct tcp_conn *conn, uint64_t wr_id)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct tcp_cqe *cqe = &fab->cq.cqes[fab->cq.tail++ & fab->cq.mask];

	memset(&cqe->wc, 0, sizeof(cqe->wc));
	cqe->wc.wr_id = wr_id;
	cqe->wc.qp_num = conn->head.qp_num;
	cqe->conn = conn;
	conn->cq_count++;
	fab_wake(fab);
	return &cqe->wc;
}

static int tcp_poll(struct fab *head, struct ibv_wc *wc, int count)
{
	struct tcp_fab *fab = tcp_fab_of(head);
	struct tcp_cq *cq = &fab->cq;
	int polled;

	fab->armed = false;
	if (tcp_cq_empty(fab)) {
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

void tcp_conn_raise(struct tcp_conn *conn, enum fab_event_type type, int status)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);

	if (!conn->events)
		TAILQ_INSERT_TAIL(&fab->events, conn, event_link);
	conn->events |= (uint8_t)(1u << type);
	conn->event_status = status;
	fab_wake(fab);
}

void tcp_request_raise(struct tcp_fab *fab, struct tcp_request *request)
{
	TAILQ_INSERT_TAIL(&fab->requests, request, link);
	fab_wake(fab);
}

void tcp_accept_failed(struct tcp_fab *fab, int error)
{
	fab->accept_error = error;
	fab_wake(fab);
}

static int accept_event(struct tcp_fab *fab, struct fab_event *event)
{
	event->type = FAB_EVENT_FAILED;
	event->status = fab_fail(&fab->head, fab->accept_error, "cannot accept: %s",
				 strerror(-fab->accept_error));
	fab->accept_error = 0;
	return 1;
}

static int request_event(struct tcp_fab *fab, struct fab_event *event)
{
	struct tcp_request *request = TAILQ_FIRST(&fab->requests);

	TAILQ_REMOVE(&fab->requests, request, link);
	/* The request may be another thread's the moment it is given out: its bytes stay here. */
	fab->event_hello = request->hello;
	event->type = FAB_EVENT_REQUEST;
	event->request = &request->head;
	event->private_data = fab->event_hello.private_data;
	event->private_bytes = fab->event_hello.private_bytes;
	return 1;
}

/* Of a connection's events the earliest in its life comes first: the enum's order. */
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

	fab->armed = false;
	memset(event, 0, sizeof(*event));
	if (TAILQ_EMPTY(&fab->events) && TAILQ_EMPTY(&fab->requests)) {
		/* A caller that waits for events only has nobody else to make progress. */
		if (!fab->progressed && tcp_cq_empty(fab))
			fab_turn(fab);
		else
			timers_expire(fab);
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
	};
}

static void fab_init_lists(struct tcp_fab *fab)
{
	TAILQ_INIT(&fab->active);
	TAILQ_INIT(&fab->timers);
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

	if (options->recv_sge == 0)
		options->recv_sge = 1;
	if (options->recv_sge > TCP_SGE_MAX || options->srq_depth > TCP_SRQ_WR_MAX ||
	    depth > TCP_CQ_DEPTH_MAX)
		return -EINVAL;
	depth = tcp_ring_size(depth);
	fab->cq.cqes = calloc(depth, sizeof(*fab->cq.cqes));
	if (!fab->cq.cqes)
		return -ENOMEM;
	fab->cq.mask = depth - 1;
	if (options->srq_depth == 0)
		return 0;
	return tcp_rq_init(&fab->srq, options->srq_depth, options->recv_sge);
}

static int fab_init_descriptors(struct tcp_fab *fab)
{
	int err;

	fab->head.fd = epoll_create1(EPOLL_CLOEXEC);
	if (fab->head.fd < 0)
		return -errno;
	fab->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fab->wake.fd < 0) {
		err = -errno;
		goto err_close_epoll;
	}
	err = tcp_source_watch(fab, &fab->wake, EPOLLIN);
	if (err)
		goto err_close_wake;
	return 0;

err_close_wake:
	close(fab->wake.fd);
err_close_epoll:
	close(fab->head.fd);
	return err;
}

static struct fab *tcp_open(const struct fab_options *options, char *error)
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
	fab->head.ops = &fab_tcp_ops;
	fab->head.options = *options;
	fab->head.options.device = NULL;
	fab_init_lists(fab);
	device_init(fab);
	tcp_source_init(&fab->wake, TCP_SOURCE_WAKE, -1);
	err = fab_init_queues(fab);
	if (err)
		goto err_free;
	err = fab_init_descriptors(fab);
	if (err)
		goto err_free;
	return &fab->head;

err_free:
	tcp_rq_fini(&fab->srq);
	free(fab->cq.cqes);
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
	close(fab->wake.fd);
	close(fab->head.fd);
	tcp_rq_fini(&fab->srq);
	free(fab->cq.cqes);
	free(fab);
}

const struct fab_ops fab_tcp_ops = {
	.kind = FAB_TCP,
	.open = tcp_open,
	.close = tcp_close,
	.arm = tcp_arm,
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
	.conn_close = tcp_conn_close,
	.conn_destroy = tcp_conn_destroy,
	.mr_register = tcp_mr_register,
	.mr_register_private = tcp_mr_register_private,
	.mr_deregister = tcp_mr_deregister,
	.post_send = tcp_post_send,
	.post_recv = tcp_post_recv,
	.post_srq_recv = tcp_post_srq_recv,
};
