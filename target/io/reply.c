/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completions on their way out. Those of one turn share one SEND, behind the RDMA WRITEs of the
 * data that they announce (F1: RC order makes the data visible first). If only a few reads are
 * ready, each is completed by its own WRITE WITH IMMEDIATE instead.
 */
#include "target/io/wr_chain.h"

#include <arpa/inet.h>
#include <string.h>
#include "proto/core/trace.h"
#include "target/io/request.h"

/*
 * Up to this many reads of one turn are completed each by its own RDMA WRITE WITH IMMEDIATE; more
 * share one SEND behind their WRITEs. K immediates are K messages and K completions at the
 * initiator, the SEND makes K + 1 messages and one completion.
 */
#define TGT_REPLY_IMMEDIATES 2u

/* -- reads completed by an immediate ----------------------------------------------------------- */

static bool reply_may_be_immediate(const struct tgt_request *request)
{
	return request->state == TGT_REQUEST_DATA_OUT && request->opcode == RBLK_OP_READ &&
	       request->flags & RBLK_CMD_IMMEDIATE;
}

/* How many are done, if all of them may be completed so; else 0. */
static unsigned int reply_immediates(const struct tgt_io_queue *io_queue)
{
	const struct tgt_request *request;
	unsigned int count = 0;

	if (tgt_io_queue_event_due(io_queue))
		return 0;
	TAILQ_FOREACH(request, &io_queue->done.plain, link)
		if (++count > TGT_REPLY_IMMEDIATES || !reply_may_be_immediate(request))
			return 0;
	TAILQ_FOREACH(request, &io_queue->done.priority, link)
		if (++count > TGT_REPLY_IMMEDIATES || !reply_may_be_immediate(request))
			return 0;
	return count;
}

/*
 * Only those that are there now: the last of them may end the use of a handle, and the CLOSE that
 * has waited for it joins the list; that is not a READ.
 */
static bool reply_add_immediates(struct tgt_io_queue *io_queue)
{
	for (unsigned int left = reply_immediates(io_queue); left; left--) {
		struct tgt_request *request = tgt_turns_first(&io_queue->done);
		struct ibv_send_wr *wr;

		if (!tgt_chain_room(io_queue, tgt_chain_pieces(io_queue, request)))
			return false;
		wr = tgt_chain_write(request);
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->imm_data =
			htonl(rblk_immediate(request->tag, rblk_time_encode(request->queued_us),
					     rblk_time_encode(request->stored_us)));
		tgt_turns_take(&io_queue->done, request);
		tgt_request_finish(request);
	}
	return true;
}

/* -- reply messages ---------------------------------------------------------------------------- */

/* A message under construction: completions side by side in the reply ring. */
struct reply_message {
	struct rblk_wire_completion *first;
	uint32_t count, room; /* room: until the ring, the batch or the message ends */
	bool has_replies; /* not an event alone */
	bool priority;	  /* of the last reply in it */
	bool invalidate;
	uint32_t invalidate_rkey;
};

static void message_begin(struct tgt_io_queue *io_queue, struct reply_message *message)
{
	uint32_t head = io_queue->reply_head & io_queue->reply_mask;
	uint32_t free_slots = io_queue->reply_mask + 1 - (io_queue->reply_head - io_queue->reply_tail);

	memset(message, 0, sizeof(*message));
	message->first = &io_queue->replies[head];
	message->room = io_queue->reply_mask + 1 - head; /* to the ring's end */
	if (message->room > free_slots)
		message->room = free_slots;
	if (message->room > io_queue->reply_batch)
		message->room = io_queue->reply_batch;
}

static void message_append(struct reply_message *message, const struct tgt_request *request)
{
	struct rblk_wire_completion *completion = &message->first[message->count++];

	message->has_replies = true;
	message->priority = tgt_request_priority(request);
	memset(completion, 0, sizeof(*completion));
	completion->tag = rblk_to_le16(request->tag);
	completion->status = rblk_to_le16(request->status);
	completion->result = rblk_to_le64(request->result);
	completion->queued_us = rblk_to_le32(request->queued_us);
	completion->stored_us = rblk_to_le32(request->stored_us);
	completion->sequence = rblk_to_le32(request->sequence);
	if (request->opcode == RBLK_OP_READ && request->flags & RBLK_CMD_DIGEST &&
	    request->status == RBLK_OK) {
		completion->flags |= RBLK_CPL_DIGEST;
		completion->digest = rblk_to_le32(request->digest);
	}
	/* A SEND invalidates one key: the first that asks. The initiator ends the others. */
	if (request->flags & RBLK_CMD_INVALIDATE && !message->invalidate) {
		message->invalidate = true;
		message->invalidate_rkey = request->rkey;
		completion->flags |= RBLK_CPL_INVALIDATED;
	}
}

/* There must be room for one work request. */
static void message_send(struct tgt_io_queue *io_queue, struct reply_message *message, bool fence)
{
	uint32_t bytes = message->count * (uint32_t)sizeof(struct rblk_wire_completion);
	struct ibv_send_wr *wr;
	struct tgt_sent *sent;

	rblk_trace_reply(io_queue, message->count);
	wr = tgt_chain_add(io_queue, &sent);
	wr->opcode = message->invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
	if (message->invalidate)
		wr->invalidate_rkey = message->invalidate_rkey;
	/* F2, F3: behind the READs that fetched what this completion reports as stored. */
	if (fence)
		wr->send_flags |= IBV_SEND_FENCE;
	if (bytes <= fab_conn_inline(io_queue->conn) &&
	    (!message->invalidate ||
	     fab_device_limits(fab_conn_device(io_queue->conn))->invalidate_inline))
		wr->send_flags |= IBV_SEND_INLINE;
	wr->sg_list->addr = (uintptr_t)message->first;
	wr->sg_list->length = bytes;
	wr->sg_list->lkey = io_queue->lkey;
	sent->replies = (uint16_t)message->count;
	io_queue->reply_head += message->count;
}

/*
 * One message of what is done. fence: of replies that stay behind READs. Those with priority do not share one with
 * others, for whose data they would have to wait (F1). False: no room, nothing was added.
 */
static bool reply_add_message(struct tgt_io_queue *io_queue, bool fence)
{
	struct tgt_request *request;
	struct reply_message message;

	message_begin(io_queue, &message);
	if (!message.room || !tgt_chain_room(io_queue, 1))
		return false;
	if (!fence && tgt_io_queue_event_due(io_queue))
		io_queue->ops->event(io_queue, &message.first[message.count++]);
	while ((request = fence ? TAILQ_FIRST(&io_queue->chained) : tgt_turns_first(&io_queue->done)) &&
	       message.count < message.room) {
		if (!fence && message.has_replies && message.priority != tgt_request_priority(request))
			break;
		if (request->state == TGT_REQUEST_DATA_OUT) {
			/* F1: first its data, then the completion behind it; one place for the
			 * SEND. */
			if (!tgt_chain_room(io_queue, tgt_chain_pieces(io_queue, request) + 1))
				break;
			tgt_chain_write(request);
		}
		message_append(&message, request);
		if (fence)
			TAILQ_REMOVE(&io_queue->chained, request, link);
		else
			tgt_turns_take(&io_queue->done, request);
		tgt_request_finish(request);
	}
	if (!message.count)
		return false;
	message_send(io_queue, &message, fence);
	return true;
}

void tgt_reply_add(struct tgt_io_queue *io_queue)
{
	if (!reply_add_immediates(io_queue))
		return;
	while (tgt_turns_first(&io_queue->done) || tgt_io_queue_event_due(io_queue))
		if (!reply_add_message(io_queue, false))
			return;
}

/* Where there is no room: the READs are posted anyway, and the replies' FENCE holds in a later chain, too. */
void tgt_reply_add_chained(struct tgt_io_queue *io_queue)
{
	while (!TAILQ_EMPTY(&io_queue->chained) && reply_add_message(io_queue, true))
		;
}
