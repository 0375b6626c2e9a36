/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns aborted commands: rblk_abort(), and the ABORT that asks the target to drop one. timer.c
 * sends it, too, when a command's time is over. A command that has begun at the target may run on;
 * its own answer says how it ended.
 */
#include "initiator/io.h"
#include "initiator/retry.h"
#include "initiator/session.h"
#include "proto/wire/wire_names.h"
#include "proto/words/units.h"

#include <errno.h>

/*
 * The command's own completion says whether it was dropped. A command that the target does not have any more was
 * answered before, on the same connection: that answer does not come.
 */
static void abort_done(void *arg, const struct rblk_result *result)
{
	const struct ini_slot *abort = arg; /* its tag is free, but nobody has used it yet */
	struct ini_queue *queue = abort->queue;
	u32 sequence = (u32)rblk_le64(abort->command.lba);

	if (result->error || result->value != RBLK_ABORT_UNKNOWN || queue->state != INI_QUEUE_LIVE)
		return;
	for (u32 tag = 0; tag < queue->tags.credits; tag++) {
		const struct ini_slot *slot = &queue->slots[tag];
		char text[UNITS_TEXT_BYTES];

		if (queue->tag_array[tag].state != CORE_TAG_SENT || queue->tag_array[tag].sequence != sequence)
			continue;
		ini_queue_lose(queue, -ETIMEDOUT, "%s was not answered within %s, and the target does not have it",
			       rblk_opcode_name(slot->command.opcode),
			       units_format_us((double)(queue->session->now_ns - slot->sent_ns) / 1e3, text));
		return;
	}
}

void ini_slot_abort(struct ini_slot *slot)
{
	struct ini_queue *queue = slot->queue;
	struct ini_slot *abort;

	/* The last reserved tag is kept for KEEPALIVE. */
	if (queue->tags.taken_reserved >= RBLK_RESERVED_TAGS - 1)
		return;
	abort = ini_slot_take(queue, true);
	if (!abort)
		return;
	abort->command.opcode = RBLK_OP_ABORT;
	abort->command.lba = rblk_to_le64(queue->tag_array[slot->tag].sequence);
	abort->done = abort_done;
	abort->arg = abort;
	ini_slot_start(abort);
	slot->abort_sent = true;
	slot->asked_ns = queue->session->now_ns;
}

/* -- by the program ---------------------------------------------------------------------------- */

/* Nothing was done of a command that was not sent, unless it was sent before on a connection
 * that was lost. */
static u16 unsent_status(u8 flags)
{
	return flags & RBLK_CMD_RETRY ? RBLK_OK : RBLK_E_ABORTED;
}

static void list_remove(struct ini_list *list, struct ini_slot *slot)
{
	struct ini_list rest = *list;
	struct ini_slot *next;
	enum ini_place place = (enum ini_place)slot->place;

	*list = (struct ini_list){NULL, NULL};
	while ((next = ini_list_pop(&rest)))
		if (next != slot)
			ini_list_append(list, next, place);
}

/* The command waits here, to be sent for the first time or again after BUSY. */
static void cancel_unsent(struct ini_slot *slot)
{
	slot->place = INI_PLACE_NONE;
	slot->result = (struct rblk_result){.error = -ECANCELED,
					    .status = unsent_status(slot->command.flags)};
	if (!slot->first_ns) {
		ini_slot_finish(slot);
		return;
	}
	slot->answered = true; /* BUSY */
	ini_slot_release(slot);
}

static void cancel_slot(struct ini_slot *slot)
{
	struct ini_queue *queue = slot->queue;

	switch ((enum ini_place)slot->place) {
	case INI_PLACE_PENDING:
		list_remove(slot->command.flags & RBLK_CMD_PRIORITY ? &queue->priority : &queue->pending, slot);
		if (!--queue->pending_count)
			core_clock_emptied(&queue->clock);
		cancel_unsent(slot);
		break;
	case INI_PLACE_RETRY:
		list_remove(&queue->retry, slot);
		cancel_unsent(slot);
		break;
	case INI_PLACE_NONE:
		slot->canceled = true;
		if (!slot->abort_sent)
			ini_slot_abort(slot);
		if (!slot->abort_sent)
			queue->check_ns = 0; /* the timer does it, when a tag is free */
		break;
	case INI_PLACE_HELD:
	case INI_PLACE_DONE:
		break; /* it has its result */
	}
}

/* Finds the callback: the program's own, or the library's that stands for it. */
static bool started_by(rblk_callback done, void *arg, const struct ini_origin *origin)
{
	return (done == origin->done && arg == origin->arg) ||
	       ini_vector_stops(done, arg, origin) ||
	       ini_checksum_stops(done, arg, origin) || ini_compare_is(done, arg, origin) ||
	       ini_extents_is(done, arg, origin);
}

static bool cancel_on_queue(struct ini_queue *queue, const struct ini_origin *origin)
{
	u32 count = core_tags_count(queue->tags.credits);
	bool found = false;

	if (queue->state == INI_QUEUE_CLOSED && !queue->tags.taken_io)
		return false;
	for (u32 tag = 0; tag < count; tag++) {
		struct ini_slot *slot = &queue->slots[tag];

		if (queue->tag_array[tag].state == CORE_TAG_FREE ||
		    slot->volume != origin->volume || !started_by(slot->done, slot->arg, origin))
			continue;
		cancel_slot(slot);
		found = true;
	}
	return found;
}

static bool cancel_parked(struct rblk_session *session, const struct ini_origin *origin)
{
	struct ini_parking *parking = &session->parking;
	struct ini_parked **link = &parking->waiting, *parked;
	bool found = false;

	for (parked = parking->done; parked && !found; parked = parked->next)
		found = parked->volume == origin->volume &&
			started_by(parked->io.done, parked->io.arg, origin);
	while ((parked = *link)) {
		if (parked->volume != origin->volume ||
		    !started_by(parked->io.done, parked->io.arg, origin)) {
			link = &parked->next;
			continue;
		}
		found = true;
		if (!ini_parked_fenced(parked)) {
			parked->end = -ECANCELED;
			link = &parked->next;
			continue;
		}
		ini_parking_finish(parking, ini_parking_unlink(parking, link), -ECANCELED);
		parked->result.status = unsent_status(parked->io.flags);
	}
	return found;
}

int rblk_abort(struct rblk_volume *volume, rblk_callback done, void *arg)
{
	const struct ini_origin origin = {.volume = volume, .done = done, .arg = arg};
	struct rblk_session *session = volume->session;
	bool found = false;

	if (!done)
		return ini_io_refuse(volume, -EINVAL, "ABORT", "no callback is given");
	for (u16 i = 0; i < session->queue_count; i++)
		found |= cancel_on_queue(&session->queues[i], &origin);
	found |= cancel_parked(session, &origin);
	return found ? 0 : -ENOENT;
}
