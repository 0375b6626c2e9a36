/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue's send side: the chain of one turn, the accounts of the send queue, RDMA READs and
 * WRITEs split to the device's limits. Its reactor's thread only.
 */
#ifndef RBLK_TARGET_TRANSFER_H
#define RBLK_TARGET_TRANSFER_H

#include "target/serve/queue.h"

/* Room for `count` more work requests on the send queue? */
static inline bool tgt_transfer_room(const struct tgt_queue *queue, uint32_t count)
{
	return queue->send_depth - (queue->sent_head - queue->sent_tail) >= count;
}

/* The next work request of the chain, zeroed but for wr_id, with one segment of its own, and its
 * entry in the accounts. There must be room. */
struct ibv_send_wr *tgt_transfer_add(struct tgt_queue *queue, struct tgt_sent **sent);

/* How many work requests the data of a request needs. */
uint32_t tgt_transfer_pieces(const struct tgt_queue *queue, const struct tgt_request *request);
/* RDMA WRITE all of request->data; returns the last of them. There must be room. What the data lies
 * in now belongs to the send queue. */
struct ibv_send_wr *tgt_transfer_write(struct tgt_request *request);

/* Post what is due on a dirty queue: replies, READs, chained replies; one chain, one doorbell. */
void tgt_transfer_flush(struct tgt_queue *queue);

/* A signalled work request has completed well: so have all before it. */
void tgt_transfer_completed(struct tgt_queue *queue, uint64_t wr_id);
/* The connection is closed: READs into a store's memory may still land there. */
void tgt_transfer_orphan(struct tgt_queue *queue);
/* The connection is drained: give back what the outstanding ones use. */
void tgt_transfer_abandon(struct tgt_queue *queue);

/* Keep-alive: an empty RDMA WRITE, which the peer's adapter answers. */
void tgt_transfer_probe(struct tgt_queue *queue);

#endif
