/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The send side of a queue. One flush makes one chain: first the replies that need not wait, then
 * RDMA READs, then (F2) replies behind READs that go straight into a store's memory. Its last work
 * request is signalled, and the last READ into the pool, so that storing begins when data is here.
 */
#include "target/io/transfer.h"

#include <assert.h>
#include <string.h>
#include "target/serve/handle.h"
#include "target/io/reply.h"

/* -- the chain --------------------------------------------------------------------------------- */

static void chain_post(struct tgt_queue *queue)
{
	struct tgt_chain *chain = &queue->reactor->chain;
	struct ibv_send_wr *bad;
	int err;

	if (!chain->count)
		return;
	if (chain->failed) {
		chain->count = 0;
		return;
	}
	/* Everything before a signalled one is known to be complete when it is. */
	chain->wr[chain->count - 1].send_flags |= IBV_SEND_SIGNALED;
	chain->wr[chain->count - 1].next = NULL;
	chain->count = 0;
	err = fab_post_send(queue->conn, chain->wr, &bad);
	if (err) {
		/*
		 * Never posted, never completed: DRAINED gives back what they use. The queue is
		 * closed when its lists are not being walked any more.
		 */
		chain->failed = true;
		tgt_log_limited(&queue->reactor->log_limit, TGT_LOG_ERROR,
				"session %u queue %u [%s]: posting failed: %s",
				queue->session->number, queue->index, fab_conn_peer(queue->conn),
				strerror(-err));
	}
}

static void chain_begin(struct tgt_queue *queue)
{
	queue->reactor->chain.count = 0;
	queue->reactor->chain.failed = false;
}

static void chain_end(struct tgt_queue *queue)
{
	chain_post(queue);
	if (queue->reactor->chain.failed)
		tgt_queue_close(queue, NULL);
}

struct ibv_send_wr *tgt_transfer_add(struct tgt_queue *queue, struct tgt_sent **sent)
{
	struct tgt_chain *chain = &queue->reactor->chain;
	struct ibv_send_wr *wr;
	uint32_t sequence = queue->sent_head++;

	if (chain->count == TGT_CHAIN_MAX)
		chain_post(queue);
	*sent = &queue->sent[sequence & queue->sent_mask];
	memset(*sent, 0, sizeof(**sent));
	wr = &chain->wr[chain->count];
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = sequence;
	wr->sg_list = &chain->sge[chain->count];
	wr->num_sge = 1;
	if (chain->count)
		chain->wr[chain->count - 1].next = wr;
	chain->count++;
	return wr;
}

/* -- pieces ------------------------------------------------------------------------------------ */

uint32_t tgt_transfer_pieces(const struct tgt_queue *queue, const struct tgt_request *request)
{
	return (uint32_t)((request->data_bytes + queue->max_msg_bytes - 1) / queue->max_msg_bytes);
}

static struct ibv_send_wr *transfer_piece(struct tgt_request *request, enum ibv_wr_opcode opcode,
					  struct tgt_sent **sent)
{
	struct tgt_queue *queue = request->queue;
	struct ibv_send_wr *wr = tgt_transfer_add(queue, sent);
	uint32_t left = request->data_bytes - request->moved;
	uint32_t bytes = left < queue->max_msg_bytes ? left : (uint32_t)queue->max_msg_bytes;

	wr->opcode = opcode;
	wr->sg_list->addr = (uintptr_t)request->data + request->moved;
	wr->sg_list->length = bytes;
	wr->sg_list->lkey = request->lkey;
	wr->wr.rdma.remote_addr = request->address + request->moved;
	wr->wr.rdma.rkey = request->rkey;
	request->moved += bytes;
	if (request->home == TGT_HOME_DIRECT) {
		(*sent)->handle = request->handle;
		tgt_handle_get(request->handle);
	}
	return wr;
}

struct ibv_send_wr *tgt_transfer_write(struct tgt_request *request)
{
	struct ibv_send_wr *wr;
	struct tgt_sent *sent;

	do {
		wr = transfer_piece(request, IBV_WR_RDMA_WRITE, &sent);
	} while (request->moved < request->data_bytes);
	if (request->home == TGT_HOME_POOL || request->home == TGT_HOME_REPORT) {
		sent->report = request->home == TGT_HOME_REPORT;
		sent->block = request->data;
		sent->block_bytes = request->data_bytes;
	}
	request->home = TGT_HOME_NONE;
	return wr;
}

/*
 * READs in the order of the commands, as many as the peer can answer at a time: more would only
 * stall the send queue, and the replies behind them.
 */
static void transfer_fetch(struct tgt_queue *queue, struct ibv_send_wr **last_pool_read)
{
	uint32_t depth = fab_conn_read_out(queue->conn);
	struct tgt_request *request;

	if (!depth)
		depth = 1;
	while ((request = TAILQ_FIRST(&queue->fetching))) {
		while (request->moved < request->data_bytes) {
			struct tgt_sent *sent;
			struct ibv_send_wr *wr;

			/* One place is left for the reply that may have to follow. */
			if (queue->reads_out >= depth || !tgt_transfer_room(queue, 2))
				return;
			wr = transfer_piece(request, IBV_WR_RDMA_READ, &sent);
			sent->read = true;
			queue->reads_out++;
			if (request->home == TGT_HOME_DIRECT)
				continue;
			sent->reads = request;
			request->reads_pending++;
			*last_pool_read = wr;
		}
		TAILQ_REMOVE(&queue->fetching, request, link);
		if (request->home == TGT_HOME_DIRECT)
			tgt_request_chained(request);
	}
}

/* -- one turn ---------------------------------------------------------------------------------- */

void tgt_transfer_flush(struct tgt_queue *queue)
{
	struct ibv_send_wr *last_pool_read = NULL;

	chain_begin(queue);
	/* What finds no room stays in its list; the completion that makes room marks us dirty. */
	tgt_reply_add(queue);
	transfer_fetch(queue, &last_pool_read);
	if (last_pool_read)
		last_pool_read->send_flags |= IBV_SEND_SIGNALED;
	tgt_reply_add_chained(queue);
	chain_end(queue);
}

static void transfer_release(struct tgt_queue *queue, struct tgt_sent *sent, bool well)
{
	struct tgt_request *request = sent->reads;

	queue->reports -= sent->report;
	if (sent->block)
		tgt_reactor_memory_free(queue->reactor, sent->block, sent->block_bytes);
	if (sent->orphan)
		atomic_fetch_sub(&sent->handle->outlet->volume->orphans, 1);
	if (sent->handle)
		tgt_handle_put(sent->handle);
	queue->reply_tail += sent->replies;
	if (sent->read)
		queue->reads_out--;
	if (!request)
		return;
	request->reads_pending--;
	if (well && !request->reads_pending && request->moved == request->data_bytes)
		tgt_request_data_in(request);
}

void tgt_transfer_completed(struct tgt_queue *queue, uint64_t wr_id)
{
	uint32_t end = (uint32_t)wr_id + 1;

	tgt_queue_heard(queue);
	while (queue->sent_tail != end)
		transfer_release(queue, &queue->sent[queue->sent_tail++ & queue->sent_mask], true);
	if (!TAILQ_EMPTY(&queue->done) || !TAILQ_EMPTY(&queue->fetching) ||
	    !TAILQ_EMPTY(&queue->chained))
		tgt_queue_mark_dirty(queue);
}

void tgt_transfer_orphan(struct tgt_queue *queue)
{
	for (uint32_t i = queue->sent_tail; i != queue->sent_head; i++) {
		struct tgt_sent *sent = &queue->sent[i & queue->sent_mask];

		if (!sent->handle || !sent->read)
			continue;
		sent->orphan = true;
		atomic_fetch_add(&sent->handle->outlet->volume->orphans, 1);
	}
}

void tgt_transfer_abandon(struct tgt_queue *queue)
{
	while (queue->sent_tail != queue->sent_head)
		transfer_release(queue, &queue->sent[queue->sent_tail++ & queue->sent_mask], false);
}

void tgt_transfer_probe(struct tgt_queue *queue)
{
	struct ibv_send_wr *wr;
	struct tgt_sent *sent;

	/* What is outstanding tells as much: it completes, or the connection is lost. */
	if (!tgt_transfer_room(queue, 1))
		return;
	chain_begin(queue);
	wr = tgt_transfer_add(queue, &sent);
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->num_sge = 0;
	wr->sg_list = NULL;
	chain_end(queue);
}
