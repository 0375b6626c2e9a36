/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Abort: an admin command that names a command of another queue, which may be another thread's. It is put into the
 * controller's list; the thread of that queue finds it there, asks rblk's ABORT of the command's sequence, and puts the
 * answer into the list, where the admin queue finds it. A command that has begun to write is not aborted, as ever.
 */
#include "target/nvme/queue.h"

#include <pthread.h>

#define TICKS_MOST 3u /* of the admin queue, that an abort waits for a queue which has ended meanwhile */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all controllers' aborts */

/* One in that state, if it is ASKED of that queue; the lock is held. NULL: there is none. */
static struct nvme_abort *find(struct nvme_controller *controller, enum nvme_abort_state state, uint16_t queue)
{
	for (struct nvme_abort *abort = controller->aborts; abort < controller->aborts + NVME_ABORTS_MAX; abort++)
		if (abort->state == state && (state != NVME_ABORT_ASKED || abort->queue == queue))
			return abort;
	return NULL;
}

static void answer(struct nvme_queue *queue, struct nvme_slot *slot, bool dropped)
{
	nvme_respond(queue, slot, NVME_OK, dropped ? 0 : 1);
}

/* -- the admin queue ----------------------------------------------------------------------------- */

/* Event requests alone wait there. */
static bool event_drop(struct nvme_queue *queue, __le16 id)
{
	for (unsigned int i = 0; i < queue->event_count; i++) {
		struct nvme_slot *event = queue->events[i];

		if (event->command.id != id)
			continue;
		queue->events[i] = queue->events[--queue->event_count];
		nvme_respond(queue, event, NVME_ABORTED, 0);
		return true;
	}
	return false;
}

void nvme_abort(struct nvme_queue *queue, struct nvme_slot *slot)
{
	uint32_t word10 = nvme_word(slot, 10);
	uint16_t of = word10 & 0xffff, id = (uint16_t)(word10 >> 16);
	struct nvme_abort *abort;

	if (!of) {
		answer(queue, slot, event_drop(queue, rblk_to_le16(id)));
		return;
	}
	if (of >= queue->controller->queues || !queue->controller->connected[of]) {
		answer(queue, slot, false);
		return;
	}
	pthread_mutex_lock(&lock);
	abort = find(queue->controller, NVME_ABORT_FREE, of);
	if (abort) {
		*abort = (struct nvme_abort){.state = NVME_ABORT_ASKED, .queue = of, .id = id, .slot = slot};
		queue->controller->aborts_open++;
	}
	pthread_mutex_unlock(&lock);
	if (abort)
		nvme_controller_tell();
	else
		nvme_respond(queue, slot, NVME_ABORT_LIMIT | NVME_NO_RETRY, 0);
}

static void abort_hear(struct nvme_queue *queue, struct nvme_abort *abort, bool tick)
{
	struct nvme_slot *slot = NULL;
	bool dropped;

	pthread_mutex_lock(&lock);
	if (abort->state != NVME_ABORT_FREE)
		abort->slot->tries += tick;
	dropped = abort->state == NVME_ABORT_ANSWERED && abort->dropped;
	if (abort->state == NVME_ABORT_ANSWERED ||
	    (abort->state == NVME_ABORT_ASKED && abort->slot->tries > TICKS_MOST)) {
		slot = abort->slot;
		abort->state = NVME_ABORT_FREE;
		queue->controller->aborts_open--;
	}
	pthread_mutex_unlock(&lock);
	if (!slot)
		return;
	answer(queue, slot, dropped);
	queue->transport->wake(queue);
}

/* -- the queue whose command it is --------------------------------------------------------------- */

static struct nvme_slot *slot_find(struct nvme_queue *queue, uint16_t id)
{
	for (uint32_t i = 0; i < queue->hello.entries; i++)
		if (queue->slots[i].used && queue->slots[i].command.id == rblk_to_le16(id))
			return &queue->slots[i];
	return NULL;
}

/* One at a time: it has a reserved tag. False: there is none. */
static bool abort_next(struct nvme_queue *queue)
{
	struct nvme_abort *abort;

	pthread_mutex_lock(&lock);
	abort = find(queue->controller, NVME_ABORT_ASKED, queue->hello.queue);
	if (abort)
		abort->state = NVME_ABORT_TAKEN;
	pthread_mutex_unlock(&lock);
	queue->abort = abort;
	return abort;
}

static void abort_take(struct nvme_queue *queue)
{
	struct rblk_wire_command *wire = &queue->abort_wire;
	struct nvme_slot *slot;

	while (!queue->abort && abort_next(queue)) {
		slot = slot_find(queue, queue->abort->id);
		if (slot && slot->fuse == NVME_FUSE_SECOND)
			slot = slot->partner;
		/* The reactor has it, at the moment. */
		if (slot && slot->tagged) {
			slot->aborting = true;
			*wire = (struct rblk_wire_command){.opcode = RBLK_OP_ABORT};
			wire->tag = rblk_to_le16((uint16_t)(queue->credits + 1));
			wire->lba = rblk_to_le64(rblk_le32(slot->wire.sequence));
			queue->abort_waits = true;
			queue->transport->wake(queue);
			return;
		}
		nvme_abort_done(queue, RBLK_ABORT_UNKNOWN);
	}
}

bool nvme_abort_hand_over(struct nvme_queue *queue)
{
	uint64_t wr_id;
	char *memory = queue->transport->take(queue, sizeof(queue->abort_wire), &wr_id);

	if (!memory)
		return false;
	queue->abort_waits = false;
	queue->transport->push(queue, wr_id, nvme_message_place(queue, memory, 0, &queue->abort_wire));
	return true;
}

void nvme_abort_done(struct nvme_queue *queue, uint64_t result)
{
	struct nvme_abort *abort = queue->abort;

	queue->abort = NULL;
	/* It came too late: whatever ends the command now is something else. */
	for (uint32_t i = 0; result != RBLK_ABORT_DROPPED && i < queue->hello.entries; i++)
		queue->slots[i].aborting = false;
	pthread_mutex_lock(&lock);
	abort->state = NVME_ABORT_ANSWERED;
	abort->dropped = result == RBLK_ABORT_DROPPED;
	pthread_mutex_unlock(&lock);
	nvme_controller_tell();
}

void nvme_abort_news(struct nvme_queue *queue, bool tick)
{
	if (!queue->answered || !queue->controller->aborts_open)
		return;
	if (!nvme_is_admin(queue))
		abort_take(queue);
	else
		for (unsigned int i = 0; i < NVME_ABORTS_MAX; i++)
			abort_hear(queue, &queue->controller->aborts[i], tick);
}

void nvme_abort_end(struct nvme_queue *queue)
{
	if (queue->abort)
		nvme_abort_done(queue, RBLK_ABORT_RUNS);
}
