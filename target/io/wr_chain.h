/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A chain: the work requests that one I/O queue posts in one turn, with one doorbell, and their entries
 * in the accounts of the send queue. Data is split to the device's limits. reply.c adds completions, transfer.c the
 * rest. The reactor's thread only.
 */
#ifndef RBLK_TARGET_WR_CHAIN_H
#define RBLK_TARGET_WR_CHAIN_H

#include "target/io/io_queue.h"

void tgt_chain_begin(struct tgt_io_queue *io_queue);
/* Post it; if the fabric refuses, the I/O queue is closed. */
void tgt_chain_end(struct tgt_io_queue *io_queue);

/* Room for `count` more work requests on the send queue? */
static inline bool tgt_chain_room(const struct tgt_io_queue *io_queue, uint32_t count)
{
	return io_queue->send_depth - (io_queue->sent_head - io_queue->sent_tail) >= count;
}

/* The next work request, for its opcode's own fields to be set, with one segment of its own, and its entry in the
 * accounts, zeroed. There must be room. */
struct ibv_send_wr *tgt_chain_add(struct tgt_io_queue *io_queue, struct tgt_sent **sent);

/* How many work requests the data of a request needs. */
static inline uint32_t tgt_chain_pieces(const struct tgt_io_queue *io_queue, const struct tgt_request *request)
{
	if (request->data_bytes <= io_queue->max_msg_bytes)
		return 1;
	return (uint32_t)((request->data_bytes + io_queue->max_msg_bytes - 1) / io_queue->max_msg_bytes);
}
/* The next piece of request->data, as a READ or a WRITE. There must be room. */
struct ibv_send_wr *tgt_chain_piece(struct tgt_request *request, enum ibv_wr_opcode opcode,
				    struct tgt_sent **sent);
/* RDMA WRITE all of request->data; returns the last of the work requests. There must be room. The
 * data's memory now belongs to the send queue. */
struct ibv_send_wr *tgt_chain_write(struct tgt_request *request);

/* -- reply.c ----------------------------------------------------------------------------------- */

/* Add to the chain what io_queue->done and the room on the send queue allow; what is left is added later. */
void tgt_reply_add(struct tgt_io_queue *io_queue);
/* Likewise io_queue->chained: replies that must stay behind the READs before them (F2). */
void tgt_reply_add_chained(struct tgt_io_queue *io_queue);

#endif
