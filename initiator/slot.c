/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a queue as an object: its memory, its state, and its slots with the lists that they are on. io.c and control.c
 * fill them; command.c sends them, complete.c receives their answers, connect.c connects the queue.
 */
#include "initiator/queue.h"

#include <assert.h>
#include <stdlib.h>
#include "initiator/session.h"

/* -- state ------------------------------------------------------------------------------------- */

static const u8 next_states[INI_QUEUE_STATES] = {
	[INI_QUEUE_CLOSED] = 1u << INI_QUEUE_CONNECTING,
	[INI_QUEUE_CONNECTING] = 1u << INI_QUEUE_LIVE | 1u << INI_QUEUE_DRAINING,
	[INI_QUEUE_LIVE] = 1u << INI_QUEUE_DRAINING,
	[INI_QUEUE_DRAINING] = 1u << INI_QUEUE_CLOSED,
};

const char *ini_queue_state_name(enum ini_queue_state state)
{
	static const char *const names[INI_QUEUE_STATES] = { "closed", "connecting", "live",
							     "draining" };

	return state < INI_QUEUE_STATES ? names[state] : "unknown";
}

bool ini_queue_set_state(struct ini_queue *queue, enum ini_queue_state state)
{
	if (!(next_states[queue->state] & 1u << state)) {
		ini_session_fail(queue->session, -EPROTO, "%s: queue %u: from state %s to %s",
				 ini_session_peer(queue->session), queue->index,
				 ini_queue_state_name(queue->state), ini_queue_state_name(state));
		return false;
	}
	queue->state = state;
	return true;
}

/* -- memory ------------------------------------------------------------------------------------ */

static u32 power_of_two_above(u32 value)
{
	u32 power = 1;

	while (power < value)
		power *= 2;
	return power;
}

/*
 * Every command may need a message of its own, and those of commands that were answered may still
 * wait for a signalled SEND behind them: a quarter of the depth at most, see message_flags(). A
 * power of two, because message numbers wrap.
 */
u32 ini_queue_send_depth(u16 credits)
{
	u32 slots = core_tags_count(credits);

	return power_of_two_above(slots + slots / 2);
}

static int queue_alloc(struct ini_queue *queue)
{
	size_t receives = (size_t)queue->receive_count * INI_REPLY_BYTES;

	queue->tag_array = calloc(queue->slot_count, sizeof(*queue->tag_array));
	queue->slots = calloc(queue->slot_count, sizeof(*queue->slots));
	queue->receive_wr = calloc(queue->receive_count, sizeof(*queue->receive_wr));
	queue->receive_sge = calloc(queue->receive_count, sizeof(*queue->receive_sge));
	queue->message_end = calloc(queue->send_depth, sizeof(*queue->message_end));
	queue->block = ini_pages_alloc(receives + queue->ring_size * sizeof(*queue->ring),
				       &queue->block_bytes);
	if (!queue->tag_array || !queue->slots || !queue->receive_wr || !queue->receive_sge ||
	    !queue->message_end || !queue->block)
		return -ENOMEM;
	queue->ring = (void *)(queue->block + receives);
	return 0;
}

int ini_queue_init(struct ini_queue *queue, struct rblk_session *session, u16 index)
{
	u16 credits = (u16)session->options.credits;
	int err;

	queue->session = session;
	queue->index = index;
	queue->conn_id = UINT64_MAX;
	queue->slot_count = core_tags_count(credits);
	/* One for each possible answer, and one for an event. */
	queue->receive_count = queue->slot_count + RBLK_EVENT_RECEIVES;
	queue->send_depth = ini_queue_send_depth(credits);
	/* Likewise in descriptors, and what is left over where a message did not fit at the end. */
	queue->ring_size = power_of_two_above(2 * queue->slot_count + RBLK_BATCH_MAX);
	err = queue_alloc(queue);
	if (err)
		return err;
	for (u32 i = 0; i < queue->slot_count; i++) {
		queue->slots[i].queue = queue;
		queue->slots[i].tag = (u16)i;
	}
	core_tags_init(&queue->tags, queue->tag_array, credits);
	/* No key of these buffers is given out: the target fills them by SEND. */
	return ini_mr_register(&session->fabs, queue->block, queue->block_bytes,
			       IBV_ACCESS_LOCAL_WRITE, &queue->mr);
}

void ini_queue_fini(struct ini_queue *queue)
{
	ini_mr_deregister(&queue->mr);
	ini_pages_free(queue->block, queue->block_bytes);
	free(queue->message_end);
	free(queue->receive_sge);
	free(queue->receive_wr);
	free(queue->slots);
	free(queue->tag_array);
	memset(queue, 0, sizeof(*queue));
}

/* -- lists ------------------------------------------------------------------------------------- */

void ini_list_append(struct ini_list *list, struct ini_slot *slot, enum ini_place place)
{
	slot->place = place;
	slot->next = NULL;
	if (list->tail)
		list->tail->next = slot;
	else
		list->head = slot;
	list->tail = slot;
}

struct ini_slot *ini_list_pop(struct ini_list *list)
{
	struct ini_slot *slot = list->head;

	if (!slot)
		return NULL;
	list->head = slot->next;
	if (!list->head)
		list->tail = NULL;
	slot->next = NULL;
	slot->place = INI_PLACE_NONE;
	return slot;
}

/* -- slots ------------------------------------------------------------------------------------- */

struct ini_slot *ini_slot_take(struct ini_queue *queue, bool reserved)
{
	struct ini_slot *slot;
	int tag;

	if (queue->state != INI_QUEUE_LIVE ||
	    (!reserved && !core_session_open(&queue->session->core, queue->index)))
		return NULL;
	tag = core_tags_take(&queue->tags, reserved);
	if (tag < 0)
		return NULL;
	slot = &queue->slots[tag];
	memset(&slot->command, 0, sizeof(slot->command));
	slot->command.tag = rblk_to_le16((u16)tag);
	slot->volume = NULL;
	slot->buffer = NULL;
	slot->capsule = NULL;
	slot->gather = NULL;
	slot->piece = false;
	slot->canceled = false;
	slot->capsule_bytes = 0;
	slot->data_bytes = 0;
	slot->owes = 0;
	slot->first_ns = 0;
	slot->tries = 0;
	slot->digests = 0;
	slot->answered = false;
	memset(&slot->result, 0, sizeof(slot->result));
	return slot;
}

void ini_slot_put(struct ini_slot *slot)
{
	core_tags_put(&slot->queue->tags, slot->tag);
}

void ini_slot_start(struct ini_slot *slot)
{
	struct ini_queue *queue = slot->queue;

	queue->pending_count++;
	if (slot->command.flags & RBLK_CMD_PRIORITY) {
		ini_list_append(&queue->priority, slot, INI_PLACE_PENDING);
		return;
	}
	ini_list_append(&queue->pending, slot, INI_PLACE_PENDING);
	queue->urgent |= !slot->volume;
	core_clock_add(&queue->clock, &slot->command, slot->capsule_bytes);
}

void ini_slot_finish(struct ini_slot *slot)
{
	ini_list_append(&slot->queue->session->done, slot, INI_PLACE_DONE);
}

void ini_slot_fail(struct ini_slot *slot, int error)
{
	assert(error);
	slot->result.error = error;
	ini_slot_finish(slot);
}

/*
 * F4: in-capsule data is read from the user's memory by the SEND itself. The reply proves that
 * the target has it, but if the acknowledgement was lost the device may still send from that memory
 * again; so the command is held until the SEND has completed, too.
 */
void ini_slot_release(struct ini_slot *slot)
{
	struct ini_queue *queue = slot->queue;

	if (slot->capsule_bytes && (int32_t)(queue->messages_done - slot->message) <= 0)
		ini_list_append(&queue->held, slot, INI_PLACE_HELD);
	else
		ini_slot_finish(slot);
}
