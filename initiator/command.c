/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the sending side: packing what is pending into as few messages as it fits in
 * (core/batch.h), gathered straight from the user's buffers and posted as one chain. No system
 * call, no lock and no allocation of its own.
 */
#include "initiator/queue.h"

#include "initiator/session.h"

/*
 * Room for descriptors, contiguous, at the ring's head; what is left of the ring's end is
 * skipped when it is too short for what waits. Returns how many fit.
 */
static u32 ring_room(struct ini_queue *queue)
{
	u32 wanted = queue->pending_count < queue->limits.commands ? queue->pending_count :
								     queue->limits.commands;
	u32 room = queue->ring_size - (queue->ring_head - queue->ring_tail);
	u32 to_end = queue->ring_size - queue->ring_head % queue->ring_size;

	if (to_end < wanted && room > to_end) {
		queue->ring_head += to_end;
		room -= to_end;
		to_end = queue->ring_size;
	}
	return room < to_end ? room : to_end;
}

static bool message_room(const struct ini_queue *queue)
{
	return queue->messages_sent - queue->messages_done < queue->send_depth;
}

/* Move commands of the list into `batch`, their descriptors into the ring, their data into `sge`. */
static void message_pack(struct ini_queue *queue, struct ini_list *list, struct core_batch *batch, struct ibv_sge *sge)
{
	struct rblk_wire_command *descriptor = &queue->ring[queue->ring_head % queue->ring_size];
	struct ini_slot *slot;

	while ((slot = list->head) && core_batch_fits(batch, slot->capsule_bytes, ini_slot_segments(slot))) {
		struct ibv_sge *data = &sge[batch->segments - 1];

		ini_list_pop(list);
		queue->pending_count--;
		if (slot->gather)
			memcpy(data, slot->gather->sge, slot->gather->count * sizeof(*data));
		else if (slot->capsule_bytes)
			*data = (struct ibv_sge){
				.addr = (uintptr_t)slot->capsule,
				.length = slot->capsule_bytes,
				.lkey = slot->capsule_lkey,
			};
		*descriptor = slot->command;
		descriptor->sequence = rblk_to_le32(core_tags_send(&queue->tags, slot->tag));
		core_batch_add(batch, descriptor, slot->capsule_bytes, ini_slot_segments(slot));
		descriptor++;
		slot->message = queue->messages_sent;
		slot->sent_ns = queue->session->now_ns;
		slot->overdue_ns = 0;
		slot->abort_sent = false;
		slot->asked_ns = 0;
		if (!slot->first_ns)
			slot->first_ns = slot->sent_ns;
	}
}

/*
 * Signalled is a SEND that reads the user's memory (F4: its completion says when that ends), one beside commands that
 * were sent before (those that come next wait for it, core_clock), and every so often another, so that the ring and the
 * send queue never fill up with SENDs without a completion: a quarter of either at most.
 */
static unsigned int message_flags(struct ini_queue *queue, const struct core_batch *batch)
{
	u32 last = queue->messages_signalled; /* behind the last one signalled */
	u32 signalled_end =
		last ? queue->message_end[(last - 1) % queue->send_depth] : queue->ring_tail;
	unsigned int flags = 0;

	if (batch->capsule_bytes || queue->tags.sent > batch->commands ||
	    queue->messages_sent - last >= queue->send_depth / 4 ||
	    queue->ring_head - signalled_end >= queue->ring_size / 4)
		flags |= IBV_SEND_SIGNALED;
	/* A single command: spares the device a read of its descriptor. */
	if (!batch->capsule_bytes && core_batch_bytes(batch) <= queue->inline_bytes)
		flags |= IBV_SEND_INLINE;
	return flags;
}

/*
 * The next message as the n-th work request of the doorbell. `all`: also commands without PRIORITY. False: nothing to
 * send, or no room.
 */
static bool message_build(struct ini_queue *queue, bool all, unsigned int n)
{
	struct rblk_session *session = queue->session;
	struct core_batch_limits limits = queue->limits;
	struct ibv_send_wr *wr = &session->doorbell.wr[n];
	struct ibv_sge *sge = session->doorbell.sge[n];
	struct ini_list *list = queue->priority.head ? &queue->priority : &queue->pending;
	struct core_batch batch;
	u32 first, room;

	if (!list->head || (list == &queue->pending && !all) || !message_room(queue))
		return false;
	room = ring_room(queue);
	if (!room)
		return false;
	if (room < limits.commands)
		limits.commands = (u16)room;
	core_batch_init(&batch, &limits);
	first = queue->ring_head;
	message_pack(queue, list, &batch, sge);
	queue->ring_head += batch.commands;
	sge[batch.segments - 1] = (struct ibv_sge){
		.addr = (uintptr_t)&queue->ring[first % queue->ring_size],
		.length = core_batch_descriptor_bytes(&batch),
		.lkey = queue->lkey,
	};
	*wr = (struct ibv_send_wr){
		.wr_id = ini_wr_id(INI_WR_SEND + batch.waited_by, queue->index, queue->messages_sent),
		.sg_list = sge,
		.num_sge = batch.segments,
		.opcode = IBV_WR_SEND,
		.send_flags = message_flags(queue, &batch),
	};
	queue->message_end[queue->messages_sent % queue->send_depth] = queue->ring_head;
	if (wr->send_flags & IBV_SEND_SIGNALED) {
		queue->messages_signalled = queue->messages_sent + 1;
		core_clock_sent(&queue->clock, batch.waited_by, queue->messages_sent);
	}
	queue->messages_sent++;
	return true;
}

int ini_queue_doorbell(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	bool all = !core_clock_waits(&queue->clock) || queue->urgent || session->sends_unheard;
	struct ibv_send_wr *bad;
	unsigned int count;
	int err;

	while (queue->pending_count && queue->state == INI_QUEUE_LIVE) {
		for (count = 0; count < INI_CHAIN_MAX && message_build(queue, all, count); count++)
			if (count)
				session->doorbell.wr[count - 1].next = &session->doorbell.wr[count];
		if (!queue->pending_count)
			core_clock_emptied(&queue->clock);
		queue->urgent = queue->urgent && queue->pending_count;
		if (!count)
			return 0; /* the turn that sees a SEND's completion or answer rings again, or the timer */
		queue->last_send_ns = session->now_ns;
		err = fab_post_send(queue->conn, session->doorbell.wr, &bad);
		if (err) {
			ini_queue_lose(queue, err, "post %u messages: %s", count, strerror(-err));
			return err;
		}
	}
	return 0;
}

void ini_session_doorbells(struct rblk_session *session)
{
	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].pending_count)
			ini_queue_doorbell(&session->queues[i]);
}

void ini_queue_sent(struct ini_queue *queue, u32 message)
{
	struct ini_list held = queue->held;
	struct ini_slot *slot;

	queue->messages_done = message + 1;
	queue->ring_tail = queue->message_end[message % queue->send_depth];
	queue->held = (struct ini_list){ NULL, NULL };
	while ((slot = ini_list_pop(&held))) {
		if ((int32_t)(queue->messages_done - slot->message) > 0)
			ini_slot_finish(slot);
		else
			ini_list_append(&queue->held, slot, INI_PLACE_HELD);
	}
}
