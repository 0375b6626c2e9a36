// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sending and receiving on a queue that is connected: messages are packed when the doorbell rings,
 * replies are handed to their commands. connect.c connects and takes down.
 *
 * The send queue never overflows: each command has at most one SEND (shared or its own), one
 * registration and one invalidation outstanding, and connect.c sizes it for that many.
 */
#include <linux/slab.h>

#include "kmod/queue.h"
#include "kmod/blk_mq.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/trace.h"
#include "kmod/waiting.h"
#include "proto/core/digest.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/*
 * A bit of `borrowed` for the disk, or `borrow`. If there are others, a disk never has more of them
 * than are left then: one that hangs keeps to half of them, two that hang to three quarters, and
 * others find one.
 */
static unsigned int rblk_queue_free_bit(const struct rblk_queue *queue,
					const struct rblk_disk *disk, unsigned int borrow)
{
	unsigned int bit, own = 0, used = 0;

	lockdep_assert_held(&queue->lock);
	if (!READ_ONCE(queue->session->tags_shared))
		return find_first_zero_bit(queue->borrowed, borrow);
	for_each_set_bit(bit, queue->borrowed, borrow) {
		own += queue->owners[queue->home_tags + bit].disk == disk;
		used++;
	}
	return used + own < borrow ? find_first_zero_bit(queue->borrowed, borrow) : borrow;
}

bool rblk_queue_take_tag(struct rblk_queue *queue, struct rblk_io *io)
{
	const struct request *rq = rblk_io_rq(io);
	unsigned int bit, borrow = queue->credits - queue->home_tags;
	const struct rblk_disk *disk = rblk_disk_of(rq);
	unsigned int tag = rq->tag - RBLK_MQ_RESERVED;
	unsigned long flags;

	if (rq->mq_hctx->queue_num == queue->index && tag < queue->home_tags) {
		io->command.tag = tag;
		return true;
	}
	spin_lock_irqsave(&queue->lock, flags);
	bit = rblk_queue_free_bit(queue, disk, borrow);
	if (bit < borrow) {
		__set_bit(bit, queue->borrowed);
		queue->owners[queue->home_tags + bit] = (struct rblk_owner){ .disk = disk };
	}
	rblk_trace_borrow(queue, io, bit < borrow);
	spin_unlock_irqrestore(&queue->lock, flags);
	if (bit >= borrow)
		return false;
	/* For rblk_memory_unmap(), whatever becomes of it. */
	io->command.queue = queue;
	io->command.tag = queue->home_tags + bit;
	io->borrowed = true;
	return true;
}

void rblk_queue_put_tag(struct rblk_queue *queue, u16 tag)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	__clear_bit(tag - queue->home_tags, queue->borrowed);
	spin_unlock_irqrestore(&queue->lock, flags);
}

static u32 rblk_queue_capsule_bytes(const struct rblk_command *command)
{
	return command->memory == RBLK_MEMORY_CAPSULE ? command->bytes : 0;
}

void rblk_queue_add_locked(struct rblk_queue *queue, struct rblk_command *command)
{
	bool priority = command->wire.flags & RBLK_CMD_PRIORITY;
	struct list_head *at = &queue->pending;

	lockdep_assert_held(&queue->lock);
	command->account.state = CORE_TAG_TAKEN;
	refcount_set(&command->refs, 2); /* its SEND, its answer */
	queue->commands[command->tag] = command;
	queue->owners[command->tag] = (struct rblk_owner){ .disk =
		command->tag < queue->credits ?
			rblk_disk_of(rblk_io_rq(rblk_command_io(command))) : NULL };
	/* With priority it is posted by the next kick, in turn, before all that are held back. */
	while (priority && at->next != &queue->pending &&
	       list_entry(at->next, struct rblk_command, entry)->wire.flags & RBLK_CMD_PRIORITY)
		at = at->next;
	list_add(&command->entry, priority ? at : queue->pending.prev);
	if (!priority)
		core_clock_add(&queue->clock, &command->wire, rblk_queue_capsule_bytes(command));
}

int rblk_queue_add(struct rblk_queue *queue, struct rblk_command *command)
{
	unsigned long flags;
	int error = 0;

	spin_lock_irqsave(&queue->lock, flags);
	if (queue->down)
		error = -ENOTCONN;
	else
		rblk_queue_add_locked(queue, command);
	spin_unlock_irqrestore(&queue->lock, flags);
	return error;
}

/*
 * Not by the requests: one that has just ended may be freed with its disk (a FLUSH of the block
 * layer's own is).
 */
bool rblk_queue_serves(struct rblk_queue *queue, const struct rblk_disk *disk)
{
	bool serves = false;
	unsigned long flags;
	unsigned int tag;

	spin_lock_irqsave(&queue->lock, flags);
	for (tag = 0; !serves && tag < queue->credits; tag++)
		serves = smp_load_acquire(&queue->commands[tag]) &&
			 (!disk || queue->owners[tag].disk == disk);
	spin_unlock_irqrestore(&queue->lock, flags);
	return serves;
}

/* -- packing --------------------------------------------------------------------------------- */

struct rblk_packing {
	struct ib_send_wr *first, **next; /* the chain to be posted */
	struct rblk_message *message;     /* NULL: none is open */
	struct core_batch batch;          /* what is in it */
	unsigned int sges;
};

static void rblk_packing_link(struct rblk_packing *p, struct ib_send_wr *wr)
{
	*p->next = wr;
	p->next = &wr->next;
	wr->next = NULL;
}

/* The message is full, or there is nothing more: its SEND goes behind its registrations. */
static void rblk_packing_close(struct rblk_queue *queue, struct rblk_packing *p)
{
	struct rblk_message *m = p->message;

	if (!m)
		return;
	m->sge[p->sges] = (struct ib_sge){
		.addr = m->descriptors_dma,
		.length = core_batch_descriptor_bytes(&p->batch),
		.lkey = queue->pd->local_dma_lkey,
	};
	ib_dma_sync_single_for_device(queue->ibdev, m->descriptors_dma, m->sge[p->sges].length,
				      DMA_TO_DEVICE);
	m->wr = (struct ib_send_wr){
		.wr_cqe = &m->cqe,
		.sg_list = m->sge,
		.num_sge = p->sges + 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	rblk_packing_link(p, &m->wr);
	m->waited_by = p->batch.waited_by;
	core_clock_sent(&queue->clock, m->waited_by, queue->next_sequence - m->count);
	queue->stats.messages++;
	trace_rblk_send(queue, m->count, p->batch.capsule_bytes);
	p->message = NULL;
}

struct core_batch_limits rblk_queue_limits(const struct rblk_queue *queue)
{
	return (struct core_batch_limits){
		.message_bytes = queue->command_bytes,
		.commands = min_t(u16, queue->max_batch, RBLK_DESCRIPTORS_PER_MESSAGE),
		.segments = queue->message_sge,
	};
}

/* There is one: as many as commands can be outstanding. */
static void rblk_packing_open(struct rblk_queue *queue, struct rblk_packing *p)
{
	struct core_batch_limits limits = rblk_queue_limits(queue);

	p->message = list_first_entry(&queue->free_messages, struct rblk_message, free);
	list_del(&p->message->free);
	p->message->count = 0;
	p->sges = 0;
	core_batch_init(&p->batch, &limits);
}

static void rblk_packing_add(struct rblk_queue *queue, struct rblk_packing *p,
			     struct rblk_command *command)
{
	struct rblk_message *m = p->message;
	struct rblk_wire_command *wire = &m->descriptors[m->count];
	u32 capsule_bytes = rblk_queue_capsule_bytes(command);

	core_batch_add(&p->batch, &command->wire, capsule_bytes, 1);
	/*
	 * F4: before it counts as sent. A hostile target may answer what it has not seen, and its
	 * key is to end all the same.
	 */
	if (command->memory == RBLK_MEMORY_FAST)
		smp_store_release(&rblk_command_io(command)->mr_valid, true);
	queue->owners[command->tag].sequence = queue->next_sequence;
	queue->owners[command->tag].sent = true;
	rblk_trace_send(command);
	core_tag_send(&command->account, queue->next_sequence);
	command->wire.sequence = rblk_to_le32(queue->next_sequence++);
	if (capsule_bytes) {
		rblk_memory_slot_sge(queue, command->tag, capsule_bytes, &m->sge[p->sges++]);
	} else if (command->memory == RBLK_MEMORY_FAST) {
		struct rblk_io *io = rblk_command_io(command);

		rblk_packing_link(p, &io->reg_wr.wr);
		queue->stats.registrations++;
		trace_rblk_register(io);
	}
	*wire = command->wire;
	m->tags[m->count++] = command->tag;
	queue->stats.commands++;
}

/* all: not only what has PRIORITY, which comes first. */
static int rblk_queue_post_locked(struct rblk_queue *queue, bool all)
{
	struct rblk_packing p = { .next = &p.first };
	struct rblk_command *command, *next;

	lockdep_assert_held(&queue->lock);
	list_for_each_entry_safe(command, next, &queue->pending, entry) {
		if (!all && !(command->wire.flags & RBLK_CMD_PRIORITY))
			break;
		list_del_init(&command->entry);
		if (p.message && ((p.batch.waited_by == CORE_WAITED_BY_NONE) !=
					  !!(command->wire.flags & RBLK_CMD_PRIORITY) ||
				  !core_batch_fits(&p.batch, rblk_queue_capsule_bytes(command), 1)))
			rblk_packing_close(queue, &p);
		if (!p.message)
			rblk_packing_open(queue, &p);
		rblk_packing_add(queue, &p, command);
	}
	rblk_packing_close(queue, &p);
	if (all)
		core_clock_emptied(&queue->clock);
	if (!p.first)
		return 0;
	queue->stats.doorbells++;
	return ib_post_send(queue->qp, p.first, NULL);
}

void rblk_queue_kick(struct rblk_queue *queue, bool now)
{
	unsigned long flags;
	int error = 0;

	spin_lock_irqsave(&queue->lock, flags);
	/* A polled queue's completions may be looked at by nobody: nothing waits for them. */
	now |= queue->polled || !core_clock_waits(&queue->clock);
	if (!queue->down) {
		error = rblk_queue_post_locked(queue, now);
		if (!now && !delayed_work_pending(&queue->late_work))
			rblk_overdue_watch_send(queue);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (error)
		rblk_queue_lost(queue, "posting: error %d", error);
}

/* -- completions; softirq of this queue's CQ, or its poller -- */

#define RBLK_POLL_BUDGET 64

static int rblk_queue_poll_locked(struct rblk_queue *queue)
{
	lockdep_assert_held(&queue->poll_lock);
	return queue->poll_ended ? 0 : ib_process_cq_direct(queue->cq, RBLK_POLL_BUDGET);
}

int rblk_queue_poll(struct rblk_queue *queue, struct io_comp_batch *batch)
{
	int found;

	if (!spin_trylock(&queue->poll_lock))
		return 0; /* another poller runs, and ends our requests, too */
	queue->batch = batch;
	found = rblk_queue_poll_locked(queue);
	queue->batch = NULL;
	spin_unlock(&queue->poll_lock);
	return found;
}

void rblk_queue_poll_all(struct rblk_queue *queue)
{
	int left;

	spin_lock(&queue->poll_lock);
	/* A queue that is being drained may have no CQ any more. */
	for (left = queue->poll_ended ? 0 : queue->cq->cqe + 1; left > 0; left -= RBLK_POLL_BUDGET)
		if (rblk_queue_poll_locked(queue) <= 0)
			break;
	spin_unlock(&queue->poll_lock);
}

void rblk_queue_wc_error(struct rblk_queue *queue, const char *what, const struct ib_wc *wc)
{
	/* Flushed although the queue is not being taken down: it went into error by itself. */
	if (wc->status == IB_WC_WR_FLUSH_ERR) {
		if (!READ_ONCE(queue->down))
			rblk_queue_lost(queue, "the connection was lost");
		return;
	}
	rblk_queue_lost(queue, "%s: %s%s", what, ib_wc_status_msg(wc->status),
			wc->status == IB_WC_RETRY_EXC_ERR ? " (the target or its link is down)" :
			wc->status == IB_WC_LOC_LEN_ERR ?
				" (the target's reply is longer than it may be)" : "");
}

void rblk_queue_send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_message *m = container_of(wc->wr_cqe, struct rblk_message, cqe);
	struct rblk_queue *queue = m->queue;
	struct rblk_command *sent[RBLK_DESCRIPTORS_PER_MESSAGE];
	unsigned long flags;
	u16 i, count = m->count;
	int error = 0;

	if (wc->status != IB_WC_SUCCESS) {
		/* Its commands are held until the queue is drained; nothing is put here. */
		rblk_queue_wc_error(queue, "send", wc);
		return;
	}
	for (i = 0; i < count; i++)
		sent[i] = queue->commands[m->tags[i]];
	spin_lock_irqsave(&queue->lock, flags);
	list_add(&m->free, &queue->free_messages);
	/* Commands that were held back go before anything else. */
	if (core_clock_completed(&queue->clock, m->waited_by) && !queue->down)
		error = rblk_queue_post_locked(queue, true);
	spin_unlock_irqrestore(&queue->lock, flags);
	for (i = 0; i < count; i++)
		rblk_command_put(sent[i]);
	if (error)
		rblk_queue_lost(queue, "posting: error %d", error);
}

/* The command of a tag that the target names, NULL: there is none. */
static struct rblk_command *rblk_queue_command(struct rblk_queue *queue, u16 tag)
{
	return tag < core_tags_count(queue->credits) ? queue->commands[tag] : NULL;
}

/*
 * A fake time-out of blk-mq's (fail_io_timeout): the answer is as if it had never come, so that the
 * request takes the whole way of one without an answer.
 */
static bool rblk_queue_fakes_timeout(struct rblk_queue *queue, struct rblk_command *command)
{
	return command->tag < queue->credits &&
	       blk_should_fake_timeout(rblk_io_rq(rblk_command_io(command))->q);
}

/* The command is answered: if its SEND has not completed, the acknowledgement is late, or lost. */
static void rblk_queue_arrived(struct rblk_queue *queue, const struct rblk_command *command)
{
	unsigned long flags;
	int error = 0;

	if (likely(refcount_read(&command->refs) == 1))
		return;
	spin_lock_irqsave(&queue->lock, flags);
	if (core_clock_answered(&queue->clock, rblk_le32(command->wire.sequence)) && !queue->down)
		error = rblk_queue_post_locked(queue, true);
	spin_unlock_irqrestore(&queue->lock, flags);
	if (error)
		rblk_queue_lost(queue, "posting: error %d", error);
}

/* One completion of a reply. False: V6. */
static bool rblk_queue_completion(struct rblk_queue *queue,
				  const struct rblk_wire_completion *completion, u32 invalidated,
				  bool *named)
{
	u16 tag = rblk_le16(completion->tag);
	struct rblk_command *command = rblk_queue_command(queue, tag);
	enum core_tags_error error = CORE_TAGS_NOT_SENT;
	const char *fault;

	if (command && rblk_queue_fakes_timeout(queue, command)) {
		*named |= rblk_command_has_key(command, invalidated);
		return true;
	}
	if (command)
		error = core_tag_answer(&command->account, rblk_le32(completion->sequence));
	fault = error ? core_tags_error_text(error) :
			core_digest_fault(&command->wire, completion);
	if (fault) {
		rblk_queue_lost(queue, "tag %u: %s", tag, fault);
		return false;
	}
	if (rblk_command_has_key(command, invalidated))
		*named = true;
	rblk_queue_arrived(queue, command);
	rblk_command_answered(command, completion, invalidated);
	return true;
}

/* False: V9. One event at a time, on queue 0 alone: there is one receive for it. */
static bool rblk_queue_event(struct rblk_queue *queue,
			     const struct rblk_wire_completion *completion)
{
	struct rblk_session *session = queue->session;
	u64 result = rblk_le64(completion->result);

	/* V9: one event until it is confirmed, and a confirmed one is not sent again. */
	if (queue->index || READ_ONCE(session->event_seen) != READ_ONCE(session->event_told) ||
	    (u32)(result >> 32) == READ_ONCE(session->event_told)) {
		rblk_queue_lost(queue, "%s",
				queue->index ? "an event on another queue than the first"
					     : "an event before the last one was confirmed");
		return false;
	}
	WRITE_ONCE(session->event_seen, (u32)(result >> 32));
	trace_rblk_event(queue, rblk_le16(completion->status));
	rblk_session_event(session, rblk_le16(completion->status), (u32)result);
	return true;
}

static void rblk_queue_reply(struct rblk_queue *queue, struct rblk_receive *receive,
			     const struct ib_wc *wc)
{
	const struct rblk_wire_completion *completions;
	enum rblk_wire_error error;
	u32 invalidated = wc->wc_flags & IB_WC_WITH_INVALIDATE ? wc->ex.invalidate_rkey : 0;
	bool named = !(wc->wc_flags & IB_WC_WITH_INVALIDATE);
	u16 count, i;

	if (wc->wc_flags & IB_WC_WITH_IMM) {
		rblk_queue_lost(queue, "a reply that is not a plain SEND");
		return;
	}
	error = rblk_check_reply(receive->data, wc->byte_len, queue->features,
				 core_tags_count(queue->credits), &completions, &count);
	if (error) {
		rblk_queue_lost(queue, "malformed reply: %s", rblk_wire_error_text(error));
		return;
	}
	queue->stats.replies++;
	for (i = 0; i < count; i++) {
		if (completions[i].flags & RBLK_CPL_EVENT) {
			if (!rblk_queue_event(queue, &completions[i]))
				return;
			continue;
		}
		if (!rblk_queue_completion(queue, &completions[i], invalidated, &named))
			return;
	}
	/*
	 * V8: a missing key of a slot, or of another command, would show only when it is used.
	 * These answers are valid; no more are accepted.
	 */
	if (!named)
		rblk_queue_lost(queue, "an invalidation that no answer names");
}

static void rblk_queue_immediate(struct rblk_queue *queue, const struct ib_wc *wc)
{
	u32 immediate = be32_to_cpu(wc->ex.imm_data);
	u16 tag = immediate >> 16;
	struct rblk_command *command = rblk_queue_command(queue, tag);
	enum core_tags_error error = CORE_TAGS_NOT_SENT;

	if (command && !(command->wire.flags & RBLK_CMD_IMMEDIATE)) {
		rblk_queue_lost(queue, "tag %u: %s", tag, "an immediate that was not asked for");
		return;
	}
	if (command && rblk_queue_fakes_timeout(queue, command))
		return;
	if (command)
		error = core_tag_answer_immediate(&command->account);
	if (error) {
		rblk_queue_lost(queue, "tag %u: %s", tag, core_tags_error_text(error));
		return;
	}
	queue->stats.immediates++;
	rblk_queue_arrived(queue, command);
	rblk_command_answered_immediate(command, immediate >> 8, immediate);
}

/*
 * F3, F4: end the key of an answered command here, since the target's reply did not. All of a reply
 * go in one chain, of which the last one is signalled: work requests of a send queue are done in
 * order.
 */
void rblk_queue_invalidate(struct rblk_queue *queue, struct rblk_io *io)
{
	io->inv_wr = (struct ib_send_wr){
		.wr_cqe = &io->inv_cqe,
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = io->mr->rkey,
	};
	if (queue->ending_last)
		queue->ending_last->inv_wr.next = &io->inv_wr;
	else
		queue->ending_first = io;
	queue->ending_last = io;
	queue->stats.invalidations++;
	trace_rblk_invalidate(io, false);
}

static void rblk_queue_post_invalidations(struct rblk_queue *queue)
{
	struct rblk_io *first = queue->ending_first, *last = queue->ending_last;
	unsigned long flags;
	int error = 0;

	if (!last)
		return;
	last->inv_first = first;
	last->inv_wr.send_flags = IB_SEND_SIGNALED;
	queue->ending_first = NULL;
	queue->ending_last = NULL;
	spin_lock_irqsave(&queue->lock, flags);
	if (!queue->down) {
		queue->stats.doorbells++;
		error = ib_post_send(queue->qp, &first->inv_wr, NULL);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (error)
		rblk_queue_lost(queue, "posting an invalidation: error %d", error);
}

int rblk_queue_post_receive(struct rblk_queue *queue, struct rblk_receive *receive)
{
	struct ib_sge sge = {
		.addr = receive->dma,
		.length = RBLK_REPLY_BYTES,
		.lkey = queue->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_cqe = &receive->cqe, .sg_list = &sge, .num_sge = 1 };

	ib_dma_sync_single_for_device(queue->ibdev, receive->dma, RBLK_REPLY_BYTES,
				      DMA_FROM_DEVICE);
	return ib_post_recv(queue->qp, &wr, NULL);
}

void rblk_queue_receive_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_receive *receive = container_of(wc->wr_cqe, struct rblk_receive, cqe);
	struct rblk_queue *queue = receive->queue;
	int error;

	if (wc->status != IB_WC_SUCCESS) {
		rblk_queue_wc_error(queue, "receive", wc);
		return;
	}
	rblk_queue_heard(queue);
	/* C3: the target may use a credit again as soon as a command of this reply has ended. */
	error = rblk_queue_post_receive(queue, queue->spare);
	if (error) {
		rblk_queue_lost(queue, "posting a receive: error %d", error);
		return;
	}
	queue->spare = receive;
	ib_dma_sync_single_for_cpu(queue->ibdev, receive->dma, RBLK_REPLY_BYTES, DMA_FROM_DEVICE);
	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM)
		rblk_queue_immediate(queue, wc);
	else
		rblk_queue_reply(queue, receive, wc);
	rblk_queue_post_invalidations(queue);
}
