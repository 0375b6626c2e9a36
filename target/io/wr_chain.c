/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The chain of one turn: how work requests are added to it, accounted for and posted.
 */
#include "target/io/wr_chain.h"

#include <string.h>
#include "target/io/share.h"

static void chain_post(struct tgt_io_queue *io_queue)
{
	struct tgt_chain *chain = &io_queue->loop->chain;
	unsigned int count = chain->failed ? 0 : chain->count;
	struct ibv_send_wr *bad;
	int err;

	chain->count = 0;
	if (!count)
		return;
	/* When a signalled one completes, everything before it is complete. */
	chain->wr[count - 1].send_flags |= IBV_SEND_SIGNALED;
	chain->wr[count - 1].next = NULL;
	err = fab_post_send(io_queue->conn, chain->wr, &bad);
	if (err) {
		/*
		 * Never posted, never completed: DRAINED releases what they use. The queue is
		 * closed when its lists are not being walked any more.
		 */
		chain->failed = true;
		tgt_log_limited(&io_queue->loop->log_limit, TGT_LOG_ERROR,
				"session %u queue %u [%s]: posting failed: %s",
				io_queue->session_number, io_queue->index, fab_conn_peer(io_queue->conn),
				strerror(-err));
	}
}

void tgt_chain_begin(struct tgt_io_queue *io_queue)
{
	io_queue->loop->chain.count = 0;
	io_queue->loop->chain.failed = false;
}

void tgt_chain_end(struct tgt_io_queue *io_queue)
{
	chain_post(io_queue);
	if (io_queue->loop->chain.failed)
		io_queue->ops->close(io_queue, NULL);
}

static inline struct ibv_send_wr *chain_add(struct tgt_io_queue *io_queue, struct tgt_sent **sent)
{
	struct tgt_chain *chain = &io_queue->loop->chain;
	struct ibv_send_wr *wr;
	struct tgt_sent *entry;

	if (chain->count == TGT_CHAIN_MAX)
		chain_post(io_queue);
	if (io_queue->sent_head == io_queue->sent_tail) {
		io_queue->taken_ns = io_queue->loop->now_ns;
		io_queue->is_late = false;
		tgt_loop_timer(io_queue->loop, io_queue->taken_ns + TGT_TAKE_NS);
	}
	/* Field by field: both are long, and of most of it no operation reads what another one has left there. */
	entry = &io_queue->sent[io_queue->sent_head & io_queue->sent_mask];
	entry->reads = NULL;
	entry->access = NULL;
	entry->block = NULL;
	entry->block_bytes = 0;
	entry->replies = 0;
	entry->orphan = 0;
	entry->read_bytes = 0;
	entry->report = false;
	entry->write.state = TGT_WRITE_NONE;
	*sent = entry;
	wr = &chain->wr[chain->count];
	wr->wr_id = io_queue->sent_head++;
	wr->next = wr + 1; /* chain_post() ends it */
	wr->sg_list = &chain->sge[chain->count++];
	wr->num_sge = 1;
	wr->send_flags = 0;
	return wr;
}

struct ibv_send_wr *tgt_chain_add(struct tgt_io_queue *io_queue, struct tgt_sent **sent)
{
	return chain_add(io_queue, sent);
}

/* -- pieces ------------------------------------------------------------------------------------ */

static inline struct ibv_send_wr *chain_piece(struct tgt_request *request, enum ibv_wr_opcode opcode,
					      struct tgt_sent **sent)
{
	struct tgt_io_queue *io_queue = request->io_queue;
	struct ibv_send_wr *wr = chain_add(io_queue, sent);
	uint32_t left = request->data_bytes - request->moved;
	uint32_t bytes = left < io_queue->max_msg_bytes ? left : (uint32_t)io_queue->max_msg_bytes;

	wr->opcode = opcode;
	wr->sg_list->addr = (uintptr_t)request->data + request->moved;
	wr->sg_list->length = bytes;
	wr->sg_list->lkey = request->lkey;
	wr->wr.rdma.remote_addr = request->address + request->moved;
	wr->wr.rdma.rkey = request->rkey;
	request->moved += bytes;
	if (request->home == TGT_HOME_DIRECT) {
		(*sent)->access = request->access;
		tgt_access_get(request->access);
	}
	return wr;
}

struct ibv_send_wr *tgt_chain_piece(struct tgt_request *request, enum ibv_wr_opcode opcode,
				    struct tgt_sent **sent)
{
	return chain_piece(request, opcode, sent);
}

struct ibv_send_wr *tgt_chain_write(struct tgt_request *request)
{
	struct ibv_send_wr *wr;
	struct tgt_sent *sent;

	do {
		wr = chain_piece(request, IBV_WR_RDMA_WRITE, &sent);
	} while (request->moved < request->data_bytes);
	if (request->home == TGT_HOME_POOL || request->home == TGT_HOME_REPORT) {
		sent->report = request->home == TGT_HOME_REPORT;
		/* The disk has it no more. */
		if (!sent->report)
			tgt_portion_give(request->access->portion, request->data_bytes);
		sent->block = request->data;
		sent->block_bytes = request->data_bytes;
	}
	request->home = TGT_HOME_NONE;
	return wr;
}
