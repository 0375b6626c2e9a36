/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sessions: from the login of a queue 0 until nothing of them is left and their time without
 * queues is over.
 */
#include "target/serve/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "proto/core/env.h"
#include "proto/wire/wire_names.h"
#include "target/serve/admin.h"
#include "target/serve/handle.h"
#include "target/serve/queue.h"

struct tgt_session *tgt_session_create(struct tgt_reactor *reactor,
				       const struct rblk_wire_login *login, struct tgt_lease *lease)
{
	struct tgt_session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->reactor = reactor;
	memcpy(session->id, login->session_id, sizeof(session->id));
	session->epoch = rblk_le64(login->session_epoch);
	session->queue_count = rblk_le16(login->queue_count);
	session->number = ++reactor->session_number * reactor->config.reactors + reactor->index;
	session->lease = lease;
	tgt_lease_share(lease);
	strcpy(session->initiator, "unnamed");
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		TAILQ_INIT(&session->places[i].fences);
	/* Handles of a life that this target has forgotten must not lead to volumes of this one. */
	env_random(&session->handle_generation, sizeof(session->handle_generation));
	session->idle_since_ns = reactor->now_ns;
	TAILQ_INSERT_TAIL(&reactor->sessions, session, link);
	reactor->session_count++;
	return session;
}

struct tgt_session *tgt_session_find(struct tgt_reactor *reactor, const uint8_t id[16])
{
	struct tgt_session *session;

	TAILQ_FOREACH(session, &reactor->sessions, link)
	if (!memcmp(session->id, id, sizeof(session->id)))
		return session;
	return NULL;
}

/* One line that says what the session was, and what its commands cost. Peers make them end. */
static void session_log_totals(struct tgt_session *session)
{
	uint64_t messages = session->messages_in + session->out.sends + session->out.writes +
			    session->out.write_imms + session->out.reads;

	tgt_log_limited(&session->reactor->totals_limit, TGT_LOG_INFO,
			"session %u [%s] %s: ended: %" PRIu64 " commands, %" PRIu64 " bytes read, %" PRIu64
			" written, %" PRIu64 ".%02" PRIu64 " messages a command (in %" PRIu64
			", sends %" PRIu64 ", writes %" PRIu64 ", immediates %" PRIu64 ", reads %" PRIu64
			", doorbells %" PRIu64 "), %" PRIu64 " us queued, %" PRIu64 " us stored",
			session->number, session->peer, session->initiator, session->commands,
			session->bytes_read, session->bytes_written,
			session->commands ? messages / session->commands : 0,
			session->commands ? messages * 100 / session->commands % 100 : 0,
			session->messages_in, session->out.sends, session->out.writes,
			session->out.write_imms, session->out.reads, session->out.doorbells,
			session->queued_us, session->stored_us);
}

static uint64_t session_keep_ns(const struct tgt_reactor *reactor)
{
	return reactor->keepalive_ns ? 2 * reactor->keepalive_ns : TGT_SESSION_KEEP_NS;
}

/* Everything of it has ended: no queue, so no request, so no user of a handle is left. */
static void session_free(struct tgt_session *session)
{
	struct tgt_reactor *reactor = session->reactor;

	if (session->peer[0])
		session_log_totals(session);
	tgt_handle_close_all(session);
	TAILQ_REMOVE(&reactor->sessions, session, link);
	reactor->session_count--;
	reactor->rejudge = true;
	tgt_lease_put(session->lease);
	free(session);
}

void tgt_session_end(struct tgt_session *session, const char *reason)
{
	session->ending = true;
	if (!session->queues_here) {
		session_free(session);
		return;
	}
	for (unsigned int i = 0; i < RBLK_QUEUES_MAX; i++)
		if (session->places[i].queue)
			tgt_queue_close(session->places[i].queue, reason);
}

void tgt_session_queue_ended(struct tgt_session *session, struct tgt_queue *queue)
{
	struct tgt_place *place = &session->places[queue->index];

	session->commands += queue->commands;
	session->messages_in += queue->messages_in;
	session->bytes_read += queue->bytes_read;
	session->bytes_written += queue->bytes_written;
	session->queued_us += queue->queued_us;
	session->stored_us += queue->stored_us;
	place->queue = NULL;
	tgt_admin_fenced(session, queue->index);
	session->reactor->rejudge = true;
	if (--session->queues_here)
		return;
	session->idle_since_ns = session->reactor->now_ns;
	tgt_reactor_timer(session->reactor,
			  session->idle_since_ns + session_keep_ns(session->reactor));
	/* Nothing to come back to: no volume is open. A reconnection is as good as a new session.
	 */
	if (session->ending || !session->handles_open)
		session_free(session);
}

uint64_t tgt_session_expire(struct tgt_reactor *reactor, bool need)
{
	uint64_t keep_ns = session_keep_ns(reactor);
	uint64_t next_ns = UINT64_MAX;
	struct tgt_session *session, *following, *oldest = NULL;

	for (session = TAILQ_FIRST(&reactor->sessions); session; session = following) {
		following = TAILQ_NEXT(session, link);
		if (session->queues_here)
			continue;
		if (reactor->now_ns - session->idle_since_ns >= keep_ns) {
			session_free(session);
			need = false;
			continue;
		}
		if (session->idle_since_ns + keep_ns < next_ns)
			next_ns = session->idle_since_ns + keep_ns;
		if (!oldest || session->idle_since_ns < oldest->idle_since_ns)
			oldest = session;
	}
	if (need && oldest)
		session_free(oldest);
	return next_ns;
}

/* -- events ------------------------------------------------------------------------------------ */

bool tgt_session_event_due(const struct tgt_session *session)
{
	const struct tgt_events *events = &session->events;
	const struct tgt_queue *queue = session->places[0].queue;

	/* Who has not agreed to events is not told; a later incarnation of queue 0 may be. */
	if (!queue || !(queue->features & RBLK_FEATURE_EVENTS))
		return false;
	/* The connecting side sends first: its first message's reply looks here again. */
	if (!queue->messages_in)
		return false;
	return (events->list_changed || events->draining || events->handle_events) &&
	       !events->outstanding;
}

static bool event_of_handle(struct tgt_session *session, enum rblk_event *code, uint32_t *id)
{
	for (uint32_t i = 0; i < session->handle_slots; i++) {
		struct tgt_handle *handle = session->handles[i];

		if (!handle || (!handle->event_removed && !handle->event_changed))
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

void tgt_session_event_next(struct tgt_session *session, struct rblk_wire_completion *event)
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
}

void tgt_session_event_seen(struct tgt_session *session, uint32_t number)
{
	if (!session->events.outstanding || number != session->events.number)
		return;
	session->events.outstanding = false;
	tgt_session_event_kick(session);
}

void tgt_session_event_restart(struct tgt_session *session)
{
	struct tgt_events *events = &session->events;
	bool unseen = events->outstanding;

	events->number = 0;
	events->outstanding = false;
	if (!unseen)
		return;
	if (events->code == RBLK_EVENT_LIST_CHANGED) {
		events->list_changed = true;
	} else if (events->code == RBLK_EVENT_DRAINING) {
		events->draining = true;
	} else {
		/* Of a handle that is closed by now nothing is left to say. */
		struct tgt_handle *handle = tgt_handle_find(session, events->handle);

		if (handle)
			tgt_handle_note(handle, events->code == RBLK_EVENT_VOLUME_REMOVED);
	}
}

void tgt_session_event_kick(struct tgt_session *session)
{
	struct tgt_queue *queue = session->places[0].queue;

	if (queue && queue->state == TGT_QUEUE_OPEN)
		tgt_queue_mark_dirty(queue);
}
