/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rings of fabric_tcp: work requests in the order of posting, completions in theirs. Nothing is
 * allocated after their creation.
 */
#include "proto/fabric/fabric_tcp_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -- rings ------------------------------------------------------------------------------------ */

uint32_t tcp_ring_size(uint32_t count)
{
	uint32_t size = 1;

	while (size < count)
		size *= 2;
	return size;
}

int tcp_cq_init(struct tcp_cq *cq, uint32_t depth)
{
	uint32_t size = tcp_ring_size(depth);

	cq->mask = size - 1;
	cq->cqes = calloc(size, sizeof(*cq->cqes));
	return cq->cqes ? 0 : -ENOMEM;
}

void tcp_cq_fini(struct tcp_cq *cq)
{
	free(cq->cqes);
}

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

/* Rare: not a part of its caller, which is on the path of each work request. */
static __attribute__((noinline)) int send_payload_inline(struct tcp_sq *sq, const struct ibv_send_wr *wr,
			       uint32_t inline_bytes, struct tcp_send_wr *out)
{
	unsigned char *next = tcp_sq_data(sq, sq->post);

	if (out->length > inline_bytes || out->opcode == FAB_TCP_READ)
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(next, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		next += wr->sg_list[i].length;
	}
	out->flags |= TCP_SEND_INLINE;
	return 0;
}

static int send_payload(struct tcp_sq *sq, const struct ibv_send_wr *wr, uint32_t inline_bytes,
			struct tcp_send_wr *out)
{
	struct ibv_sge *sges = tcp_sq_data(sq, sq->post);
	uint64_t length = 0;

	if (out->opcode == TCP_LOCAL_INV)
		return 0;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > sq->sge_max)
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++) {
		sges[i] = wr->sg_list[i];
		length += sges[i].length;
	}
	if (length > FAB_TCP_MESSAGE_MAX)
		return -EINVAL;
	out->length = (uint32_t)length;
	if (wr->send_flags & IBV_SEND_INLINE)
		return send_payload_inline(sq, wr, inline_bytes, out);
	out->sges = (uint8_t)wr->num_sge;
	return 0;
}

int tcp_sq_post(struct tcp_sq *sq, const struct ibv_send_wr *wr, uint32_t inline_bytes)
{
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
		err = send_payload(sq, wr, inline_bytes, out);
	if (!err)
		sq->post++;
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

int tcp_rq_post(struct tcp_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
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

bool tcp_rq_take(struct tcp_rq *rq, struct tcp_recv_wr *wr, struct ibv_sge *sges)
{
	uint32_t i = rq->head & rq->mask;

	if (rq->head == rq->tail)
		return false;
	*wr = rq->wrs[i];
	memcpy(sges, &rq->sges[i * rq->sge_max], wr->sges * sizeof(*sges));
	rq->head++;
	return true;
}

/* -- completing ------------------------------------------------------------------------------- */

enum ibv_wc_opcode tcp_send_wc_opcode(const struct tcp_send_wr *wr)
{
	switch (wr->opcode) {
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
