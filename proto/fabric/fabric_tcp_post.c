/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Posting to connections of fabric_tcp: work requests go into the rings, and what waits for them
 * is told. Called through the table, on the fab's thread.
 */
#include "proto/fabric/fabric_tcp_post.h"

#include <errno.h>

#include "proto/fabric/fabric_tcp_conn.h"

int tcp_post_send(struct fab_conn *head, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	struct tcp_fab *fab = tcp_conn_fab(conn);
	int err = 0;

	if (conn->state < TCP_CONN_READY || conn->state >= TCP_CONN_CLOSING) {
		*bad = wr;
		return conn->state < TCP_CONN_READY ? -EINVAL : -ENOTCONN;
	}
	for (; wr; wr = wr->next) {
		err = tcp_sq_post(&conn->sq, wr, head->inline_bytes);
		if (err)
			break;
	}
	if (err)
		*bad = wr;
	/*
	 * Armed, the owner may go to sleep without another turn (something else woke it): what it
	 * posts goes now. Else it goes with all that this turn of the owner still posts.
	 */
	if (conn->state != TCP_CONN_READY)
		tcp_conn_mark(conn, TCP_WORK_COMPLETE);
	else if (fab->loop.armed)
		fab->framing->send(conn);
	else
		tcp_conn_mark(conn, TCP_WORK_TX);
	return err;
}

int tcp_post_recv(struct fab_conn *head, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	int err;

	if (conn->rq != &conn->own_rq || conn->state >= TCP_CONN_CLOSING) {
		*bad = wr;
		return conn->state >= TCP_CONN_CLOSING ? -ENOTCONN : -EINVAL;
	}
	err = tcp_rq_post(&conn->own_rq, wr, bad);
	if (conn->state == TCP_CONN_ERROR) {
		tcp_conn_mark(conn, TCP_WORK_COMPLETE);
	} else if (conn->rx.starved) {
		conn->rx.starved = false;
		tcp_conn_mark(conn, TCP_WORK_RX);
	}
	return err;
}

int tcp_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct tcp_fab *fab = tcp_fab_of(device->fab);
	int err;

	if (!fab->srq.wrs) {
		*bad = wr;
		return -EINVAL;
	}
	err = tcp_rq_post(&fab->srq, wr, bad);
	/* All of them, in order; a connection that finds no receive waits again, at the end. */
	while (!TAILQ_EMPTY(&fab->starved)) {
		struct tcp_conn *conn = TAILQ_FIRST(&fab->starved);

		TAILQ_REMOVE(&fab->starved, conn, rx.starved_link);
		conn->rx.starved = false;
		tcp_conn_mark(conn, TCP_WORK_RX);
	}
	return err;
}
