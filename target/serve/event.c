/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events of a session.
 */
#include "target/serve/event.h"

#include <string.h>
#include "target/serve/queue.h"

void tgt_event_kick(struct tgt_session *session)
{
	const struct tgt_events *events = &session->events;
	struct tgt_queue *queue = session->slots[0].queue;

	/* Whoever has not proven the session's name is not told, and so cannot confirm. */
	if (!queue || !queue->io_queue.open || !queue->proven)
		return;
	/* An initiator without RBLK_FEATURE_EVENTS gets none; a later incarnation may. */
	queue->io_queue.event_due =
		queue->io_queue.features & RBLK_FEATURE_EVENTS && !events->outstanding &&
		(events->list_changed || events->draining || events->handle_events);
	if (queue->io_queue.event_due)
		tgt_io_queue_mark_dirty(&queue->io_queue);
}

void tgt_event_volume(struct tgt_handle *handle, bool removed)
{
	if (!handle->event_changed && !handle->event_removed)
		handle->session->events.handle_events++;
	if (removed)
		handle->event_removed = true;
	else
		handle->event_changed = true;
	tgt_event_kick(handle->session);
}

void tgt_event_forget(struct tgt_handle *handle)
{
	if (!handle->event_changed && !handle->event_removed)
		return;
	handle->session->events.handle_events--;
	tgt_event_kick(handle->session);
}

static bool event_of_handle(struct tgt_session *session, enum rblk_event *code, uint32_t *id)
{
	struct tgt_handle *handle;

	tgt_session_each_handle(handle, session) {
		if (!handle->event_removed && !handle->event_changed)
			continue;
		*code = handle->event_removed ? RBLK_EVENT_VOLUME_REMOVED
					      : RBLK_EVENT_VOLUME_CHANGED;
		*id = handle->id;
		handle->event_removed = false;
		handle->event_changed = false;
		session->events.handle_events--;
		return true;
	}
	return false;
}

void tgt_event_next(struct tgt_session *session, struct rblk_wire_completion *event)
{
	struct tgt_events *events = &session->events;
	enum rblk_event code = RBLK_EVENT_LIST_CHANGED;
	uint32_t handle = 0;

	if (!event_of_handle(session, &code, &handle)) {
		if (events->draining) {
			code = RBLK_EVENT_DRAINING;
			events->draining = false;
		} else {
			events->list_changed = false;
		}
	}
	events->outstanding = true;
	events->code = code;
	events->handle = handle;
	if (++events->number == 0)
		events->number = 1; /* KEEPALIVE says 0 for "none seen" */
	memset(event, 0, sizeof(*event));
	event->tag = rblk_to_le16(RBLK_TAG_EVENT);
	event->status = rblk_to_le16((uint16_t)code);
	event->flags = RBLK_CPL_EVENT;
	event->result = rblk_to_le64((uint64_t)events->number << 32 | handle);
	tgt_event_kick(session);
}

void tgt_event_seen(struct tgt_session *session, uint32_t number)
{
	if (!session->events.outstanding || number != session->events.number)
		return;
	session->events.outstanding = false;
	tgt_event_kick(session);
}

void tgt_event_restart(struct tgt_session *session)
{
	struct tgt_events *events = &session->events;
	bool unseen = events->outstanding;
	struct tgt_handle *handle;

	events->number = 0;
	events->outstanding = false;
	if (unseen && events->code == RBLK_EVENT_LIST_CHANGED) {
		events->list_changed = true;
	} else if (unseen && events->code != RBLK_EVENT_DRAINING) { /* who comes back has looked elsewhere in vain */
		/* No event for a handle that is closed by now. */
		tgt_session_each_handle(handle, session)
			if (handle->id == events->handle && !handle->closing)
				tgt_event_volume(handle, events->code == RBLK_EVENT_VOLUME_REMOVED);
	}
	tgt_event_kick(session);
}
