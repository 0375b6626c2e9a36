/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection of fabric_tcp: its states, its making, its completions, its end by failure, close
 * and drain. fabric_tcp_cm.c brings it from fab_connect() or fab_accept() to READY; what it carries
 * then is fabric_tcp_tx.c and fabric_tcp_rx.c. Called by these, by the table's calls, and by turns.
 */
#include "proto/fabric/fabric_tcp_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/fabric/fabric_tcp_linger.h"
#include "proto/fabric/fabric_tcp_stream.h"

#define SOLE_REST_TURNS 1024u

/* -- states ----------------------------------------------------------------------------------- */

#define TO(state) (1u << (state))

static const uint8_t conn_transitions[TCP_CONN_STATES] = {
	[TCP_CONN_CONNECTING] = TO(TCP_CONN_SECURING) | TO(TCP_CONN_GREETING) | TO(TCP_CONN_ERROR) |
				TO(TCP_CONN_CLOSING),
	[TCP_CONN_SECURING] = TO(TCP_CONN_GREETING) | TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_GREETING] = TO(TCP_CONN_READY) | TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_ACCEPTED] = TO(TCP_CONN_READY) | TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_READY] = TO(TCP_CONN_ERROR) | TO(TCP_CONN_CLOSING),
	[TCP_CONN_ERROR] = TO(TCP_CONN_CLOSING),
	[TCP_CONN_CLOSING] = TO(TCP_CONN_DRAINED),
	[TCP_CONN_DRAINED] = 0,
};

static const char *const conn_state_names[TCP_CONN_STATES] = {
	[TCP_CONN_CONNECTING] = "connecting", [TCP_CONN_SECURING] = "securing",
	[TCP_CONN_GREETING] = "greeting",     [TCP_CONN_ACCEPTED] = "accepted",
	[TCP_CONN_READY] = "ready",	      [TCP_CONN_ERROR] = "error",
	[TCP_CONN_CLOSING] = "closing",	      [TCP_CONN_DRAINED] = "drained",
};

static void conn_stop(struct tcp_conn *conn);

/* The text of the event that ends it; another connection may fail before it is delivered. */
static void conn_reason(struct tcp_conn *conn, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void conn_reason(struct tcp_conn *conn, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(conn->reason, sizeof(conn->reason), format, args);
	va_end(args);
}

bool tcp_conn_set_state(struct tcp_conn *conn, enum tcp_state state)
{
	enum fab_event_type type =
		conn->state < TCP_CONN_ACCEPTED ? FAB_EVENT_FAILED : FAB_EVENT_DISCONNECTED;

	if (conn_transitions[conn->state] & TO(state)) {
		conn->state = state;
		return true;
	}
	fab_fail(conn->head.fab, -EPROTO, "%s: connection %u: from %s to %s: no such transition",
		 conn->head.peer, conn->head.qp_num, conn_state_names[conn->state],
		 conn_state_names[state]);
	/* A connection that has ended already continues its teardown. */
	if (conn->state < TCP_CONN_ERROR) {
		conn_reason(conn, "%s", conn->head.fab->error);
		conn->state = TCP_CONN_ERROR;
		conn_stop(conn);
		tcp_conn_raise(conn, type, -EPROTO);
	}
	return false;
}

/* -- creation, destruction -------------------------------------------------------------------- */

/* Unique in the process, so that a log of several fabs can be read. 0 means "none yet". */
static uint32_t conn_next_qp_num(void)
{
	static _Atomic uint32_t last;
	uint32_t qp_num;

	do
		qp_num = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	while (qp_num == 0);
	return qp_num;
}

int tcp_conn_check_options(struct fab *fab, const struct fab_conn_options *options)
{
	const struct fab_limits *limits = &tcp_fab_of(fab)->device.limits;

	if (options->send_depth > limits->max_send_wr || options->recv_depth > limits->max_recv_wr)
		return fab_fail(fab, -EINVAL,
				"connection: %u sends and %u receives, at most %u and %u",
				options->send_depth, options->recv_depth, limits->max_send_wr,
				limits->max_recv_wr);
	if (options->send_sge > limits->max_sge)
		return fab_fail(fab, -EINVAL, "connection: %u segments, at most %u",
				options->send_sge, limits->max_sge);
	return 0;
}

uint8_t tcp_reads_min(unsigned int a, unsigned int b)
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

	head->inline_bytes =
		options->inline_bytes < TCP_INLINE_MAX ? options->inline_bytes : TCP_INLINE_MAX;
	err = tcp_sq_init(&conn->sq, options->send_depth, options->send_sge, head->inline_bytes);
	if (err)
		return err;
	conn->tx.responses = calloc(responses, sizeof(*conn->tx.responses));
	if (!conn->tx.responses)
		return -ENOMEM;
	conn->tx.response_mask = responses - 1;
	conn->rx.sequence = 1;
	conn->rx.header_size = fab->framing->header_bytes;
	conn->rq = &fab->srq;
	if (fab->srq.wrs)
		return 0;
	conn->rq = &conn->own_rq;
	return tcp_rq_init(&conn->own_rq, options->recv_depth, fab->head.options.recv_sge);
}

static void conn_free(struct tcp_conn *conn)
{
	if (conn->state_of_framing)
		tcp_conn_framing(conn)->forget(conn);
	rblk_tls_destroy(conn->head.tls);
	if (conn->source.fd >= 0)
		close(conn->source.fd);
	tcp_sq_fini(&conn->sq);
	tcp_rq_fini(&conn->own_rq);
	free(conn->tx.responses);
	free(conn->rx.spill);
	free(conn);
}

int tcp_conn_create(struct fab *fab, int fd, const struct sockaddr *peer,
		    const struct fab_conn_options *options, uint8_t read_in, enum tcp_state state,
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
	conn->state = state;
	conn->read_in = read_in;
	fab_conn_set_peer(&conn->head, peer);
	err = conn_init_queues(conn, options);
	if (err)
		goto err_free;
	do {
		conn->head.qp_num = conn_next_qp_num();
		err = fab_conn_table_insert(fab, &conn->head);
	} while (err == -EEXIST);
	if (err)
		goto err_free;
	conn->source.fd = fd;
	err = tcp_source_watch(&tcp_fab_of(fab)->loop, &conn->source, TCP_CONN_EVENTS);
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
	 * Nothing points here any more: no completion is queued (drained), close() took the socket
	 * out of epoll, and these are the last lists.
	 */
	if (conn->events)
		TAILQ_REMOVE(&fab->events, conn, event_link);
	tcp_source_fini(&fab->loop, &conn->source);
	TAILQ_REMOVE(&fab->all, conn, link);
	fab_conn_table_remove(head->fab, head);
	conn_free(conn);
}

/* -- events, completions ----------------------------------------------------------------------- */

void tcp_conn_raise(struct tcp_conn *conn, enum fab_event_type type, int status)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);

	if (!conn->events)
		TAILQ_INSERT_TAIL(&fab->events, conn, event_link);
	conn->events |= (uint8_t)(1u << type);
	conn->event_status = status;
	tcp_loop_wake(&fab->loop);
}

struct ibv_wc *tcp_conn_push_wc(struct tcp_conn *conn, uint64_t wr_id)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct tcp_cqe *cqe = &fab->cq.cqes[fab->cq.tail++ & fab->cq.mask];

	memset(&cqe->wc, 0, sizeof(cqe->wc));
	cqe->wc.wr_id = wr_id;
	cqe->wc.qp_num = conn->head.qp_num;
	cqe->conn = conn;
	conn->cq_count++;
	tcp_loop_wake(&fab->loop);
	return &cqe->wc;
}

void tcp_conn_complete(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct tcp_sq *sq = &conn->sq;

	while (sq->done != sq->send) {
		struct tcp_send_wr *wr = tcp_sq_wr(sq, sq->done);
		struct ibv_wc *wc;

		if (wr->status) {
			tcp_conn_fail(conn, -EIO); /* whose flush begins with this one */
			return;
		}
		if (!tcp_send_finished(sq, wr))
			return;
		if (wr->flags & TCP_SEND_SIGNALED) {
			if (tcp_cq_room(&fab->cq) == 0) {
				tcp_conn_mark(conn, TCP_WORK_COMPLETE);
				return;
			}
			wc = tcp_conn_push_wc(conn, wr->wr_id);
			wc->opcode = tcp_send_wc_opcode(wr);
			wc->byte_len = wr->length;
			if (wr->flags & TCP_SEND_DIGEST) {
				wc->wc_flags = FAB_WC_DIGEST;
				memcpy(&wc->imm_data, wr->immediate, sizeof(wr->immediate));
			}
		}
		sq->done++;
	}
}

static void flush_one(struct tcp_conn *conn, uint64_t wr_id, uint8_t status)
{
	struct ibv_wc *wc = tcp_conn_push_wc(conn, wr_id);

	wc->status = status ? status : IBV_WC_WR_FLUSH_ERR;
	wc->vendor_err = status; /* the fabric has no other status for it */
}

static bool conn_flushed(const struct tcp_conn *conn)
{
	return !conn->rx.receiving && conn->sq.done == conn->sq.post &&
	       conn->own_rq.head == conn->own_rq.tail;
}

void tcp_conn_flush(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct tcp_sq *sq = &conn->sq;
	struct tcp_rq *rq = &conn->own_rq;

	/* Shared receives that were not consumed stay for other connections. */
	if (conn->rx.receiving && tcp_cq_room(&fab->cq) > 0) {
		conn->rx.receiving = false;
		flush_one(conn, conn->rx.recv.wr_id, conn->rx.recv_status);
	}
	while (sq->done != sq->post && tcp_cq_room(&fab->cq) > 0) {
		struct tcp_send_wr *wr = tcp_sq_wr(sq, sq->done++);

		flush_one(conn, wr->wr_id, wr->status);
	}
	while (rq->head != rq->tail && tcp_cq_room(&fab->cq) > 0)
		flush_one(conn, rq->wrs[rq->head++ & rq->mask].wr_id, 0);
	if (!conn_flushed(conn))
		tcp_conn_mark(conn, TCP_WORK_COMPLETE);
}

/* -- asking its socket ------------------------------------------------------------------------- */

void tcp_fab_set_sole(struct tcp_fab *fab, struct tcp_conn *conn)
{
	if (fab->sole)
		tcp_source_rewatch(&fab->loop, &fab->sole->source, TCP_CONN_EVENTS);
	fab->sole = conn;
	if (conn)
		tcp_source_rewatch(&fab->loop, &conn->source, TCP_SOLE_EVENTS);
}

void tcp_conn_block(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);

	conn->tx.blocked = true;
	/* One that has filled its socket does so again soon. */
	if (fab->sole == conn) {
		fab->sole_rest = SOLE_REST_TURNS;
		tcp_fab_set_sole(fab, NULL);
	}
}

/* -- the end ---------------------------------------------------------------------------------- */

/* The queue pair is in ERR: nothing moves any more, what is posted comes back. */
static void conn_stop(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);

	tcp_source_stop_timer(&fab->loop, &conn->source);
	if (conn->rx.starved) {
		conn->rx.starved = false;
		if (conn->rq != &conn->own_rq)
			TAILQ_REMOVE(&fab->starved, conn, rx.starved_link);
	}
	tcp_stream_end(conn->head.tls);
	if (fab->sole == conn)
		fab->sole = NULL;
	if (conn->source.fd >= 0) {
		tcp_source_unwatch(&fab->loop, &conn->source);
		tcp_linger_start(fab, conn->source.fd);
		conn->source.fd = -1;
	}
	tcp_conn_flush(conn);
}

void tcp_conn_end(struct tcp_conn *conn, enum tcp_state state)
{
	if (tcp_conn_set_state(conn, state))
		conn_stop(conn);
}

/* TLS knows more. */
static const char *conn_error_text(const struct tcp_conn *conn, int error)
{
	const char *words = conn->head.tls ? rblk_tls_words(conn->head.tls) : "";

	return *words ? words : strerror(-error);
}

void tcp_conn_fail(struct tcp_conn *conn, int status)
{
	if (conn->state != TCP_CONN_READY && conn->state != TCP_CONN_ACCEPTED)
		return;
	/* The device's words for a peer that does not acknowledge; all others are flushed. */
	if (status == -ETIMEDOUT && conn->sq.done != conn->sq.send)
		tcp_sq_wr(&conn->sq, conn->sq.done)->status = IBV_WC_RETRY_EXC_ERR;
	conn->head.lost = status;
	conn_reason(conn, "connection to %s: %s", conn->head.peer,
		    status ? conn_error_text(conn, status) : "closed by the peer");
	tcp_conn_end(conn, TCP_CONN_ERROR);
	tcp_conn_raise(conn, FAB_EVENT_DISCONNECTED, status);
}

void tcp_conn_fail_connecting(struct tcp_conn *conn, int error, const char *what)
{
	if (conn->state > TCP_CONN_GREETING)
		return;
	conn_reason(conn, "%s: %s: %s", conn->head.peer, what, conn_error_text(conn, error));
	tcp_conn_end(conn, TCP_CONN_ERROR);
	tcp_conn_raise(conn, FAB_EVENT_FAILED, error);
}

void tcp_conn_close(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);

	if (conn->state == TCP_CONN_CLOSING || conn->state == TCP_CONN_DRAINED)
		return;
	/* The caller of fab_conn_close() needs no DISCONNECTED. */
	if (conn->events) {
		conn->events = 0;
		TAILQ_REMOVE(&fab->events, conn, event_link);
	}
	tcp_conn_end(conn, TCP_CONN_CLOSING);
	tcp_conn_check_drained(conn);
}

void tcp_conn_check_drained(struct tcp_conn *conn)
{
	if (conn->state != TCP_CONN_CLOSING || conn->cq_count > 0 || !conn_flushed(conn))
		return;
	if (tcp_conn_set_state(conn, TCP_CONN_DRAINED))
		tcp_conn_raise(conn, FAB_EVENT_DRAINED, 0);
}
