/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work queues of fabric_tcp: posting, completing in order, flushing. Owns the rings of send and
 * receive work requests; nothing is allocated after their creation. Sending what is posted is
 * fabric_tcp_tx.c, filling receives is fabric_tcp_rx.c.
 */
#include "proto/fabric/fabric_tcp.h"

#include <errno.h>
#include <stdlib.h>

/* -- rings ------------------------------------------------------------------------------------ */

int tcp_sq_init(struct tcp_sq *sq, uint32_t depth, uint32_t sge_max, uint32_t inline_bytes)
{
	uint32_t size = tcp_ring_size(depth ? depth : 1);

	sq->depth = depth;
	sq->mask = size - 1;
	sq->sge_max = sge_max ? sge_max : 1;
	sq->sequence = 1;
	/* Inline bytes lie where the segments would. */
	sq->stride = sq->sge_max * sizeof(struct ibv_sge);
	if (inline_bytes > sq->stride)
		sq->stride = (inline_bytes + 15) & ~(size_t)15;
	sq->wrs = calloc(size, sizeof(*sq->wrs));
	sq->data = calloc(size, sq->stride);
	return sq->wrs && sq->data ? 0 : -ENOMEM; /* tcp_sq_fini() frees what there is */
}

void tcp_sq_fini(struct tcp_sq *sq)
{
	free(sq->wrs);
	free(sq->data);
}

int tcp_rq_init(struct tcp_rq *rq, uint32_t depth, uint32_t sge_max)
{
	uint32_t size = tcp_ring_size(depth ? depth : 1);

	rq->depth = depth;
	rq->mask = size - 1;
	rq->sge_max = sge_max;
	rq->wrs = calloc(size, sizeof(*rq->wrs));
	rq->sges = calloc(size, sge_max * sizeof(*rq->sges));
	return rq->wrs && rq->sges ? 0 : -ENOMEM; /* tcp_rq_fini() frees what there is */
}

void tcp_rq_fini(struct tcp_rq *rq)
{
	free(rq->wrs);
	free(rq->sges);
}

/* -- posting sends ---------------------------------------------------------------------------- */

static int send_opcode(const struct ibv_send_wr *wr, struct tcp_send_wr *out)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
		out->opcode = FAB_TCP_SEND;
		return 0;
	case IBV_WR_SEND_WITH_IMM:
		out->opcode = FAB_TCP_SEND_IMM;
		memcpy(out->immediate, &wr->imm_data, sizeof(out->immediate));
		return 0;
	case IBV_WR_SEND_WITH_INV:
		out->opcode = FAB_TCP_SEND_INV;
		out->key = wr->invalidate_rkey;
		return 0;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		memcpy(out->immediate, &wr->imm_data, sizeof(out->immediate));
		out->opcode = FAB_TCP_WRITE_IMM;
		break;
	case IBV_WR_RDMA_WRITE:
		out->opcode = FAB_TCP_WRITE;
		break;
	case IBV_WR_RDMA_READ:
		out->opcode = FAB_TCP_READ;
		break;
	case IBV_WR_LOCAL_INV:
		out->opcode = TCP_LOCAL_INV;
		out->key = wr->invalidate_rkey;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
	out->address = wr->wr.rdma.remote_addr;
	out->key = wr->wr.rdma.rkey;
	return 0;
}

static int send_payload_inline(struct tcp_conn *conn, const struct ibv_send_wr *wr,
			       struct tcp_send_wr *out)
{
	unsigned char *next = tcp_sq_data(&conn->sq, conn->sq.post);

	if (out->length > conn->head.inline_bytes || out->opcode == FAB_TCP_READ)
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(next, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		next += wr->sg_list[i].length;
	}
	out->flags |= TCP_SEND_INLINE;
	return 0;
}

static int send_payload(struct tcp_conn *conn, const struct ibv_send_wr *wr,
			struct tcp_send_wr *out)
{
	uint64_t length = 0;

	if (out->opcode == TCP_LOCAL_INV)
		return 0;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > conn->sq.sge_max)
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > FAB_TCP_MESSAGE_MAX)
		return -EINVAL;
	out->length = (uint32_t)length;
	if (wr->send_flags & IBV_SEND_INLINE)
		return send_payload_inline(conn, wr, out);
	out->sges = (uint8_t)wr->num_sge;
	if (wr->num_sge > 0) /* else there need not be a list */
		memcpy(tcp_sq_data(&conn->sq, conn->sq.post), wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	return 0;
}

static int send_post_one(struct tcp_conn *conn, const struct ibv_send_wr *wr)
{
	struct tcp_sq *sq = &conn->sq;
	struct tcp_send_wr *out = tcp_sq_wr(sq, sq->post);
	int err;

	if (sq->post - sq->done >= sq->depth)
		return -ENOMEM;
	*out = (struct tcp_send_wr){.wr_id = wr->wr_id};
	if (wr->send_flags & IBV_SEND_SIGNALED)
		out->flags |= TCP_SEND_SIGNALED;
	if (wr->send_flags & IBV_SEND_FENCE)
		out->flags |= TCP_SEND_FENCE;
	err = send_opcode(wr, out);
	if (!err)
		err = send_payload(conn, wr, out);
	if (!err)
		sq->post++;
	return err;
}

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
		err = send_post_one(conn, wr);
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
		tcp_source_mark(fab, &conn->source, TCP_WORK_COMPLETE);
	else if (fab->armed)
		tcp_tx_run(conn);
	else
		tcp_source_mark(fab, &conn->source, TCP_WORK_TX);
	return err;
}

/* -- posting receives ------------------------------------------------------------------------- */

static int recv_post_one(struct tcp_rq *rq, const struct ibv_recv_wr *wr)
{
	uint32_t i = rq->tail & rq->mask;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->sge_max)
		return -EINVAL;
	if (rq->tail - rq->head >= rq->depth)
		return -ENOMEM;
	rq->wrs[i].wr_id = wr->wr_id;
	rq->wrs[i].sges = (uint32_t)wr->num_sge;
	if (wr->num_sge > 0) /* else there need not be a list */
		memcpy(&rq->sges[i * rq->sge_max], wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	rq->tail++;
	return 0;
}

static int recv_post(struct tcp_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	for (; wr; wr = wr->next) {
		int err = recv_post_one(rq, wr);

		if (err) {
			*bad = wr;
			return err;
		}
	}
	return 0;
}

int tcp_post_recv(struct fab_conn *head, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct tcp_conn *conn = tcp_conn_of(head);
	int err;

	if (conn->rq != &conn->own_rq || conn->state >= TCP_CONN_CLOSING) {
		*bad = wr;
		return conn->state >= TCP_CONN_CLOSING ? -ENOTCONN : -EINVAL;
	}
	err = recv_post(&conn->own_rq, wr, bad);
	if (conn->state == TCP_CONN_ERROR) {
		tcp_source_mark(tcp_conn_fab(conn), &conn->source, TCP_WORK_COMPLETE);
	} else if (conn->rx.starved) {
		conn->rx.starved = false;
		tcp_source_mark(tcp_conn_fab(conn), &conn->source, TCP_WORK_RX);
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
	err = recv_post(&fab->srq, wr, bad);
	/* All of them, first come first served; who finds nothing left waits again, at the end. */
	while (!TAILQ_EMPTY(&fab->starved)) {
		struct tcp_conn *conn = TAILQ_FIRST(&fab->starved);

		TAILQ_REMOVE(&fab->starved, conn, rx.starved_link);
		conn->rx.starved = false;
		tcp_source_mark(fab, &conn->source, TCP_WORK_RX);
	}
	return err;
}

bool tcp_rq_take(struct tcp_conn *conn)
{
	struct tcp_rq *rq = conn->rq;
	uint32_t i = rq->head & rq->mask;

	if (rq->head == rq->tail)
		return false;
	conn->rx.recv = rq->wrs[i];
	memcpy(conn->rx.recv_sges, &rq->sges[i * rq->sge_max],
	       conn->rx.recv.sges * sizeof(struct ibv_sge));
	conn->rx.receiving = true;
	rq->head++;
	return true;
}

/* -- completing ------------------------------------------------------------------------------- */

static enum ibv_wc_opcode send_wc_opcode(uint8_t opcode)
{
	switch (opcode) {
	case FAB_TCP_WRITE:
	case FAB_TCP_WRITE_IMM:
		return IBV_WC_RDMA_WRITE;
	case FAB_TCP_READ:
		return IBV_WC_RDMA_READ;
	case TCP_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

bool tcp_send_finished(const struct tcp_sq *sq, const struct tcp_send_wr *wr)
{
	if (wr->opcode == TCP_LOCAL_INV)
		return true;
	if (wr->opcode == FAB_TCP_READ)
		return wr->flags & TCP_SEND_ANSWERED;
	return (int32_t)(sq->acked - wr->sequence) >= 0;
}

void tcp_sq_complete(struct tcp_conn *conn)
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
			if (tcp_cq_room(fab) == 0) {
				tcp_source_mark(fab, &conn->source, TCP_WORK_COMPLETE);
				return;
			}
			wc = tcp_cq_push(conn, wr->wr_id);
			wc->opcode = send_wc_opcode(wr->opcode);
			wc->byte_len = wr->length;
		}
		sq->done++;
	}
}

static void flush_one(struct tcp_conn *conn, uint64_t wr_id, uint8_t status)
{
	struct ibv_wc *wc = tcp_cq_push(conn, wr_id);

	wc->status = status ? status : IBV_WC_WR_FLUSH_ERR;
	wc->vendor_err = status; /* the fabric has no other words for it */
}

void tcp_conn_flush(struct tcp_conn *conn)
{
	struct tcp_fab *fab = tcp_conn_fab(conn);
	struct tcp_sq *sq = &conn->sq;
	struct tcp_rq *rq = &conn->own_rq;

	/* Shared receives that nobody has consumed stay for other connections. */
	if (conn->rx.receiving && tcp_cq_room(fab) > 0) {
		conn->rx.receiving = false;
		flush_one(conn, conn->rx.recv.wr_id, conn->rx.recv_status);
	}
	while (sq->done != sq->post && tcp_cq_room(fab) > 0) {
		struct tcp_send_wr *wr = tcp_sq_wr(sq, sq->done++);

		flush_one(conn, wr->wr_id, wr->status);
	}
	while (rq->head != rq->tail && tcp_cq_room(fab) > 0)
		flush_one(conn, rq->wrs[rq->head++ & rq->mask].wr_id, 0);
	if (!tcp_conn_flushed(conn))
		tcp_source_mark(fab, &conn->source, TCP_WORK_COMPLETE);
}

bool tcp_conn_flushed(const struct tcp_conn *conn)
{
	return !conn->rx.receiving && conn->sq.done == conn->sq.post &&
	       conn->own_rq.head == conn->own_rq.tail;
}
