/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns commands that wait for a connection, see retry.h. I/O on live queues does not pass
 * through here.
 */
#include "initiator/retry.h"

#include <assert.h>
#include "initiator/publish.h"
#include "initiator/volume.h"
#include "proto/wire/wire_names.h"

void ini_parked_remove(struct ini_parking *parking, struct ini_parked *parked)
{
	if (parked->buffer)
		parked->buffer->users--;
	parked->volume->inflight--;
	ini_parking_free(parking, parked);
}

/* -- coming ------------------------------------------------------------------------------------ */

static u32 parked_late(const struct rblk_session *session)
{
	u32 count = 0;

	for (const struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		if (volume->late_ns)
			count += volume->parked;
	return count;
}

/* The commands of late volumes have places of their own: those of others do not wait for them. */
bool ini_parking_full(const struct rblk_volume *volume)
{
	const struct rblk_session *session = volume->session;
	u32 count = session->parking.used, late = parked_late(session);

	for (u16 i = 0; i < session->queue_count; i++)
		count += session->queues[i].tags.taken_io;
	return (volume->late_ns ? late : count - late) >= session->parking.capacity / 2 ||
	       count >= session->parking.capacity;
}

int ini_park_new(struct rblk_volume *volume, const struct ini_io *io, struct ini_buffer *buffer)
{
	struct ini_parking *parking = &volume->session->parking;
	struct ini_parked *parked;

	if (!io->waits && ini_parking_full(volume))
		return -EAGAIN;
	parked = ini_parking_take(parking);
	assert(parked);
	parked->volume = volume;
	parked->counted = &volume->parked;
	parked->io = *io;
	parked->buffer = buffer;
	if (buffer)
		buffer->users++;
	volume->inflight++;
	ini_parking_wait(parking, parked, INI_PARKED_READY);
	return 0;
}

/* Restores the request from the command that was sent. */
static struct ini_io io_of(const struct ini_slot *slot)
{
	const struct rblk_wire_command *command = &slot->command;
	u32 shift = slot->volume->block_shift;
	struct ini_io io = {
		.opcode = command->opcode,
		.flags = command->flags & (RBLK_CMD_FUA | RBLK_CMD_NO_UNMAP | RBLK_CMD_UNTORN | RBLK_CMD_PRIORITY | RBLK_CMD_RETRY),
		.bytes = (u64)rblk_le32(command->blocks) << shift,
		.offset = rblk_le64(command->lba) << shift,
		.operation = rblk_le64(command->argument),
		.flush = slot->flush,
		.piece = slot->piece,
		.done = slot->done,
		.arg = slot->arg,
	};

	if (slot->gather)
		io.gather = slot->gather;
	else if (slot->capsule_bytes)
		io.data = slot->capsule;
	else if (slot->buffer)
		io.data = (const void *)(uintptr_t)rblk_le64(command->segment.address);
	else if (command->opcode == RBLK_OP_EXTENTS) {
		io.report = (void *)(uintptr_t)rblk_le64(command->segment.address);
		io.report_bytes = rblk_le32(command->segment.length);
	}
	return io;
}

static void park_slot(struct ini_slot *slot)
{
	struct ini_queue *queue = slot->queue;
	struct ini_parking *parking = &queue->session->parking;
	struct ini_parked *parked = ini_parking_take(parking);

	/* No new command was accepted beyond the capacity. */
	assert(parked);
	parked->volume = slot->volume;
	parked->counted = &slot->volume->parked;
	parked->io = io_of(slot);
	if (slot->gather)
		slot->gather->device = NULL; /* another may have its address when it is sent again */
	parked->buffer = slot->buffer;
	parked->queue = queue->index;
	if (slot->lost)
		parked->end = slot->canceled ? -ECANCELED : slot->overdue_ns ? -ETIMEDOUT : 0;
	ini_parking_wait(parking, parked, slot->lost ? INI_PARKED_LOST : INI_PARKED_READY);
	core_tags_put(&queue->tags, slot->tag);
}

static bool slot_waits(const struct ini_queue *queue, u32 tag)
{
	return queue->tag_array[tag].state != CORE_TAG_FREE &&
	       queue->slots[tag].place != INI_PLACE_DONE;
}

void ini_park_queue(struct ini_queue *queue)
{
	const struct ini_list none = {NULL, NULL};
	const struct rblk_session *session = queue->session;
	/* The session may be over, and its error not be known yet. */
	int error = core_session_over(&session->core) && session->failure.final ? session->failure.final :
		    session->logout_ns ? -ECANCELED :
					 -ECONNRESET;
	u32 count = core_tags_count(queue->tags.credits);

	queue->pending = queue->priority = queue->retry = queue->held = none;
	queue->pending_count = 0;
	for (u32 tag = 0; tag < count; tag++)
		queue->slots[tag].lost = queue->tag_array[tag].state == CORE_TAG_SENT;
	core_tags_recall(&queue->tags);
	for (u32 tag = 0; tag < count; tag++) {
		struct ini_slot *slot = &queue->slots[tag];

		if (!slot_waits(queue, tag))
			continue;
		slot->place = INI_PLACE_NONE;
		if (slot->answered)
			ini_slot_finish(slot); /* it was held only for its SEND, which is over */
		else if (slot->volume)
			park_slot(slot);
		else
			ini_slot_fail(slot, error); /* a session command: its caller decides */
	}
}

/* -- going ------------------------------------------------------------------------------------- */

/*
 * F8: only the old epoch, which is over, knew whether it was done. All other commands may be done
 * twice; a COMPARE_AND_WRITE may not.
 */
static bool outcome_unknown(const struct ini_parked *parked, bool renewed)
{
	return renewed && parked->io.opcode == RBLK_OP_COMPARE_AND_WRITE;
}

/* After a new epoch the OPEN of its volume is its fence (F5). */
static bool needs_no_open(const struct ini_parked *parked)
{
	return parked->volume->epoch == parked->volume->session->core.epoch || !core_lost_needs_fence(parked->io.opcode);
}

bool ini_parked_fenced(const struct ini_parked *parked)
{
	return parked->state == INI_PARKED_READY && (!(parked->io.flags & RBLK_CMD_RETRY) || needs_no_open(parked));
}

/* A LOST one is READY, or ends if it is not to be sent again. The link to what is behind it. */
static struct ini_parked **let_go(struct rblk_session *session, struct ini_parked **link)
{
	struct ini_parking *parking = &session->parking;
	struct ini_parked *parked = *link;

	if (parked->end && needs_no_open(parked)) {
		ini_parking_finish(parking, ini_parking_unlink(parking, link), parked->end);
		return link;
	}
	parked->state = INI_PARKED_READY;
	parking->ready++;
	session->stats.retries++;
	return &parked->next;
}

void ini_parked_release(struct rblk_session *session, u16 queue, bool renewed)
{
	struct ini_parked **link = &session->parking.waiting, *parked;

	while ((parked = *link)) {
		if (parked->state != INI_PARKED_LOST || parked->queue != queue) {
			link = &parked->next;
			continue;
		}
		if (outcome_unknown(parked, renewed))
			parked->end = -EIO;
		parked->io.flags |= RBLK_CMD_RETRY;
		link = let_go(session, link);
	}
}

void ini_parked_release_harmless(struct rblk_session *session, u16 queue)
{
	struct ini_parked **link = &session->parking.waiting, *parked;

	while ((parked = *link)) {
		if (parked->state == INI_PARKED_LOST && parked->queue == queue &&
		    !core_lost_needs_fence(parked->io.opcode))
			link = let_go(session, link);
		else
			link = &parked->next;
	}
}

/* It waits for a fence, and its volume's handle is one of this epoch. */
static bool waits_for_volume(const struct ini_parked *parked, u16 queue)
{
	return parked->state == INI_PARKED_LOST && parked->queue == queue && core_lost_needs_fence(parked->io.opcode) &&
	       parked->volume->epoch == parked->volume->session->core.epoch && !parked->volume->gone;
}

void ini_parked_release_volume(struct rblk_session *session, u16 queue, u32 handle)
{
	struct ini_parked **link = &session->parking.waiting, *parked;

	while ((parked = *link)) {
		if (!waits_for_volume(parked, queue) || parked->volume->handle != handle) {
			link = &parked->next;
			continue;
		}
		parked->io.flags |= RBLK_CMD_RETRY;
		link = let_go(session, link);
	}
}

u32 ini_parked_next_volume(const struct rblk_session *session, u16 queue, u32 handle)
{
	u32 next = 0;

	for (const struct ini_parked *parked = session->parking.waiting; parked; parked = parked->next) {
		u32 other = parked->volume->handle;

		if (other > handle && (!next || other < next) && waits_for_volume(parked, queue))
			next = other;
	}
	return next;
}

void ini_parked_renew(struct rblk_session *session)
{
	struct ini_parking *parking = &session->parking;
	struct ini_parked **link = &parking->waiting, *parked;

	while ((parked = *link)) {
		if (parked->state == INI_PARKED_READY && parked->io.flags & RBLK_CMD_RETRY && !parked->end &&
		    outcome_unknown(parked, true))
			ini_parking_finish(parking, ini_parking_unlink(parking, link), -EIO);
		else
			link = &parked->next;
	}
}

void ini_parked_fail(struct rblk_session *session, int error)
{
	struct ini_parking *parking = &session->parking;

	while (parking->waiting)
		ini_parking_finish(parking, ini_parking_unlink(parking, &parking->waiting), error);
}

unsigned int ini_parked_deliver(struct rblk_session *session, unsigned int max)
{
	struct ini_parking *parking = &session->parking;
	unsigned int count = 0;
	struct ini_parked *parked;

	while ((!max || count < max) && (parked = ini_parking_done(parking))) {
		struct rblk_result result = parked->result;
		rblk_callback done = parked->io.done;
		void *arg = parked->io.arg;

		count += !parked->io.piece;
		if (parked->volume->counted)
			ini_publish_count(parked->volume->counted,
					  &(struct ini_publish_command){.error = result.error});
		ini_parked_remove(parking, parked);
		done(arg, &result);
	}
	return count;
}
