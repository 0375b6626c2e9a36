/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The send side of an I/O queue. One flush makes one chain: first the replies that need not wait, then
 * RDMA READs, then (F2) replies behind READs that go straight into a store's memory. Its last work
 * request is signalled, and the last READ into the pool, so that storing begins when data is here.
 */
#include "target/io/transfer.h"

#include "target/io/wr_chain.h"
#include "target/io/request.h"
#include "target/io/share.h"

/*
 * The request ends before its READs into the store's own memory do, so each READ is a write of its
 * own. A range lock that came meanwhile waits for them, because they came first.
 */
static void transfer_write_begin(struct tgt_request *request, struct tgt_sent *sent,
				 const struct ibv_sge *sge)
{
	struct tgt_channel *channel = request->access->channel;
	const char *direct = channel->store->info.direct;

	tgt_write_goes_on(&channel->range_locks, &sent->write, (uint64_t)((const char *)(uintptr_t)sge->addr - direct),
			  sge->length);
}

/* A second READ is posted before the first one has come, whatever their length. */
#define TGT_READS_LEAST 2u
/* For so long after a command that passes READs, another one is expected. */
#define TGT_BESIDE_NS 100000000ull

/* Commands that need no READ, and those with priority, pass READs that are not posted yet. Where these come, no more
 * READs are posted than keep the connection busy. Where only WRITEs come, batches are larger. */
static bool transfer_is_bounded(const struct tgt_io_queue *io_queue)
{
	return io_queue->read_bytes && io_queue->loop->now_ns - io_queue->beside_ns < TGT_BESIDE_NS;
}

static bool transfer_may_read(const struct tgt_io_queue *io_queue)
{
	uint32_t depth = fab_conn_read_out(io_queue->conn);

	/* More than the peer answers would stall the send queue. A place is left for the reply that may have to follow. */
	return io_queue->reads_out < (depth ? depth : 1) && tgt_chain_room(io_queue, 2) &&
	       (!transfer_is_bounded(io_queue) || io_queue->reads_out < TGT_READS_LEAST ||
		io_queue->read_bytes_out < io_queue->read_bytes);
}

/* READs in the order of the commands. Where they are bounded, each half of the bound says when it has come. */
static void transfer_fetch(struct tgt_io_queue *io_queue, struct ibv_send_wr **last_pool_read)
{
	struct tgt_request *request;
	uint32_t bytes = 0;

	while ((request = tgt_turns_first(&io_queue->fetching))) {
		while (request->moved < request->data_bytes) {
			struct tgt_sent *sent;
			struct ibv_send_wr *wr;

			if (!transfer_may_read(io_queue))
				return;
			wr = tgt_chain_piece(request, IBV_WR_RDMA_READ, &sent);
			sent->read_bytes = wr->sg_list->length;
			io_queue->reads_out++;
			io_queue->read_bytes_out += sent->read_bytes;
			bytes += sent->read_bytes;
			if (transfer_is_bounded(io_queue) && bytes >= io_queue->read_bytes / 2) {
				wr->send_flags |= IBV_SEND_SIGNALED;
				bytes = 0;
			}
			if (request->home == TGT_HOME_DIRECT) {
				transfer_write_begin(request, sent, wr->sg_list);
				continue;
			}
			sent->reads = request;
			request->reads_pending++;
			*last_pool_read = wr;
		}
		tgt_turns_take(&io_queue->fetching, request);
		if (request->home == TGT_HOME_DIRECT)
			tgt_request_chained(request);
	}
}

/* -- one turn ---------------------------------------------------------------------------------- */

void tgt_transfer_flush(struct tgt_io_queue *io_queue)
{
	struct ibv_send_wr *last_pool_read = NULL;

	tgt_chain_begin(io_queue);
	/* A request that finds no room stays in its list; the completion that makes room marks it dirty. */
	tgt_reply_add(io_queue);
	transfer_fetch(io_queue, &last_pool_read);
	if (last_pool_read)
		last_pool_read->send_flags |= IBV_SEND_SIGNALED;
	tgt_reply_add_chained(io_queue);
	tgt_chain_end(io_queue);
}

static void transfer_release(struct tgt_io_queue *io_queue, struct tgt_sent *sent, bool well)
{
	struct tgt_request *request = sent->reads;

	if (sent->block)
		tgt_share_free(io_queue, sent->block, sent->block_bytes, sent->report);
	if (sent->orphan)
		tgt_orphans_end(&sent->access->channel->volume->orphans, sent->orphan);
	if (sent->access) {
		tgt_write_end(&sent->access->channel->range_locks, &sent->write);
		tgt_access_put(sent->access);
	}
	io_queue->reply_tail += sent->replies;
	if (sent->read_bytes)
		io_queue->reads_out--;
	io_queue->read_bytes_out -= sent->read_bytes;
	if (!request)
		return;
	request->reads_pending--;
	if (well && !request->reads_pending && request->moved == request->data_bytes)
		tgt_request_data_in(request);
}

void tgt_transfer_digest(struct tgt_io_queue *io_queue, uint64_t wr_id, uint32_t digest)
{
	struct tgt_request *request = io_queue->sent[wr_id & io_queue->sent_mask].reads;

	if (request)
		request->digest = digest;
}

void tgt_transfer_completed(struct tgt_io_queue *io_queue, uint64_t wr_id)
{
	uint32_t end = (uint32_t)wr_id + 1;

	tgt_io_queue_heard(io_queue);
	io_queue->taken_ns = io_queue->loop->now_ns;
	io_queue->is_late = false;
	while (io_queue->sent_tail != end)
		transfer_release(io_queue, &io_queue->sent[io_queue->sent_tail++ & io_queue->sent_mask], true);
	if (tgt_turns_first(&io_queue->done) || tgt_turns_first(&io_queue->fetching) ||
	    !TAILQ_EMPTY(&io_queue->chained))
		tgt_io_queue_mark_dirty(io_queue);
}

bool tgt_transfer_orphan(struct tgt_io_queue *io_queue, const struct tgt_access *access)
{
	bool any = false;

	for (uint32_t i = io_queue->sent_tail; i != io_queue->sent_head; i++) {
		struct tgt_sent *sent = &io_queue->sent[i & io_queue->sent_mask];

		if (!sent->access || !sent->read_bytes || (access && sent->access != access))
			continue;
		any = true;
		if (!sent->orphan)
			sent->orphan = tgt_orphans_begin(&sent->access->channel->volume->orphans);
	}
	return any;
}

void tgt_transfer_abandon(struct tgt_io_queue *io_queue)
{
	while (io_queue->sent_tail != io_queue->sent_head)
		transfer_release(io_queue, &io_queue->sent[io_queue->sent_tail++ & io_queue->sent_mask], false);
}

void tgt_transfer_probe(struct tgt_io_queue *io_queue)
{
	struct ibv_send_wr *wr;
	struct tgt_sent *sent;

	/* Outstanding work requests serve as a probe: they complete, or the connection is lost. */
	if (!tgt_chain_room(io_queue, 1))
		return;
	tgt_chain_begin(io_queue);
	wr = tgt_chain_add(io_queue, &sent);
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->num_sge = 0;
	wr->sg_list = NULL;
	wr->wr.rdma.remote_addr = 0;
	wr->wr.rdma.rkey = 0;
	tgt_chain_end(io_queue);
}
