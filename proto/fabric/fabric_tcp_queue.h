/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rings of fabric_tcp: send queue, receive queue, completion queue. Owns their memory, which is
 * allocated at their creation and never after, and their accounts; knows no connection and no
 * socket. fabric_tcp_post.c fills them, fabric_tcp_tx.c and fabric_tcp_rx.c work on them,
 * fabric_tcp_conn.c completes and flushes.
 */
#ifndef RBLK_FABRIC_TCP_QUEUE_H
#define RBLK_FABRIC_TCP_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/fabric/fabric_tcp_wire.h"

#define TCP_SGE_MAX 16u         /* of any work request */
#define TCP_INLINE_MAX 256u
#define TCP_SEND_WR_MAX 16384u
#define TCP_RECV_WR_MAX 16384u
#define TCP_SRQ_WR_MAX 65536u
#define TCP_READS_MAX 128u
#define TCP_CQ_DEPTH_DEFAULT 1024u
#define TCP_CQ_DEPTH_MAX (1u << 20)

struct tcp_conn;

/* -- completion queue ------------------------------------------------------------------------- */

struct tcp_cqe {
	struct ibv_wc wc;
	struct tcp_conn *conn; /* lives until its last completion was polled */
};

/* A ring; head and tail run freely. Never overrun: producers wait for room. */
struct tcp_cq {
	struct tcp_cqe *cqes;
	uint32_t mask;
	uint32_t head; /* oldest */
	uint32_t tail; /* next free */
};

/* -- receive queue ---------------------------------------------------------------------------- */

struct tcp_recv_wr {
	uint64_t wr_id;
	uint32_t sges;
};

/* Receives in posting order, of a connection or shared. */
struct tcp_rq {
	struct tcp_recv_wr *wrs;
	struct ibv_sge *sges; /* sge_max per entry */
	uint32_t mask;
	uint32_t depth; /* what may be posted; the ring is a power of two */
	uint32_t sge_max;
	uint32_t head; /* next to be consumed */
	uint32_t tail;
};

/* -- send queue ------------------------------------------------------------------------------- */

enum tcp_send_flags {
	TCP_SEND_SIGNALED = 1 << 0,
	TCP_SEND_FENCE = 1 << 1,
	TCP_SEND_INLINE = 1 << 2,
	TCP_SEND_ANSWERED = 1 << 3, /* READ: its data has arrived */
	TCP_SEND_DIGEST = 1 << 4,   /* READ: with a digest, in `immediate` */
};

#define TCP_LOCAL_INV 0 /* tcp_send_wr.opcode of a work request that never meets the wire */

struct tcp_send_wr {
	uint64_t wr_id;
	uint64_t address;
	uint32_t key;       /* remote, or to be invalidated */
	__u8 immediate[4];
	uint32_t length;
	uint32_t sequence;  /* once started */
	uint8_t opcode;     /* enum fab_tcp_opcode or TCP_LOCAL_INV */
	uint8_t flags;      /* enum tcp_send_flags */
	uint8_t sges;
	uint8_t status;     /* enum ibv_wc_status; not 0: failed, ends the connection when reached */
};

/*
 * Send queue: a ring in which done <= send <= post (running freely). [done, send) is started and
 * not completed, [send, post) waits. Payload of an entry, segments or inline bytes, lies at
 * data + (index & mask) * stride.
 */
struct tcp_sq {
	struct tcp_send_wr *wrs;
	unsigned char *data;
	size_t stride;
	uint32_t mask;
	uint32_t depth;
	uint32_t sge_max;
	uint32_t done;
	uint32_t send;
	uint32_t post;
	uint32_t read;      /* at or before the oldest READ that is not answered */
	uint32_t reads_out; /* READs started and not answered */
	uint32_t sequence;  /* of the next request to start */
	uint32_t acked;     /* highest that the peer has executed */
	bool stalled;       /* a work request failed here: nothing behind it starts */
};

/* The smallest power of two that holds `count`; count <= 2^31. */
uint32_t tcp_ring_size(uint32_t count);

/* The inits return 0 or negative errno; the matching fini frees what there is, also then. */
int tcp_cq_init(struct tcp_cq *cq, uint32_t depth);
void tcp_cq_fini(struct tcp_cq *cq);

static inline uint32_t tcp_cq_room(const struct tcp_cq *cq)
{
	return cq->mask + 1 - (cq->tail - cq->head);
}

static inline bool tcp_cq_empty(const struct tcp_cq *cq)
{
	return cq->tail == cq->head;
}

int tcp_rq_init(struct tcp_rq *rq, uint32_t depth, uint32_t sge_max);
void tcp_rq_fini(struct tcp_rq *rq);
/* As ibv_post_recv(). */
int tcp_rq_post(struct tcp_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Consume the next receive into *wr and sges (rq->sge_max of them). False: none is posted. */
bool tcp_rq_take(struct tcp_rq *rq, struct tcp_recv_wr *wr, struct ibv_sge *sges);

int tcp_sq_init(struct tcp_sq *sq, uint32_t depth, uint32_t sge_max, uint32_t inline_bytes);
void tcp_sq_fini(struct tcp_sq *sq);
/* One work request; inline_bytes: how many may come inline. -ENOMEM: the queue is full. */
int tcp_sq_post(struct tcp_sq *sq, const struct ibv_send_wr *wr, uint32_t inline_bytes);
/* Started, and acknowledged or answered; so it can complete when those before it have. */
static inline bool tcp_send_finished(const struct tcp_sq *sq, const struct tcp_send_wr *wr)
{
	if (wr->opcode == TCP_LOCAL_INV)
		return true;
	if (wr->opcode == FAB_TCP_READ)
		return wr->flags & TCP_SEND_ANSWERED;
	return (int32_t)(sq->acked - wr->sequence) >= 0;
}
/* The fields of its completion. */
enum ibv_wc_opcode tcp_send_wc_opcode(const struct tcp_send_wr *wr);

static inline struct tcp_send_wr *tcp_sq_wr(const struct tcp_sq *sq, uint32_t index)
{
	return &sq->wrs[index & sq->mask];
}

static inline void *tcp_sq_data(const struct tcp_sq *sq, uint32_t index)
{
	return sq->data + (index & sq->mask) * sq->stride;
}

#endif
