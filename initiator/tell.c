/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns what the program is told between its commands' callbacks: the session's states, the target's events, and losses of
 * acknowledged writes (F7).
 */
#include "initiator/session.h"

#include "initiator/durable.h"
#include "initiator/volume.h"
#include "proto/wire/wire_check.h"

/* -- the target's events ----------------------------------------------------------------------- */

static void volume_event(struct rblk_session *session, u32 handle,
			 enum rblk_session_event_type type)
{
	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		if (!handle || volume->handle == handle) {
			volume->info.changed = true;
			volume->events |= 1u << type;
		}
}

/* KEEPALIVE confirms it to the target (timer.c); then the next may come. */
void ini_tell_received(struct rblk_session *session, const struct rblk_wire_completion *event)
{
	u64 result = rblk_le64(event->result);

	session->events.seen = (u32)(result >> 32);
	switch ((enum rblk_event)rblk_le16(event->status)) {
	case RBLK_EVENT_VOLUME_CHANGED:
		volume_event(session, (u32)result, RBLK_SESSION_EVENT_VOLUME_CHANGED);
		break;
	case RBLK_EVENT_VOLUME_REMOVED:
		volume_event(session, (u32)result, RBLK_SESSION_EVENT_VOLUME_REMOVED);
		break;
	case RBLK_EVENT_DRAINING:
		session->events.draining = true;
		core_session_leaves(&session->core, session->now_ns);
		session->events.untold |= 1u << RBLK_SESSION_EVENT_DRAINING;
		break;
	case RBLK_EVENT_LIST_CHANGED:
		session->events.untold |= 1u << RBLK_SESSION_EVENT_LIST_CHANGED;
		break;
	case RBLK_EVENT_NONE:
	case RBLK_EVENT_MAX:
		break;
	}
}

/* -- losses ------------------------------------------------------------------------------------ */

void ini_tell_loss(struct rblk_volume *volume)
{
	volume->loss_heard = ini_durable_loss(volume->durable, &volume->open);
}

/* A volume somewhere in the process has lost acknowledged writes, which another session may have found, on another thread. */
void ini_tell_losses(struct rblk_session *session)
{
	u32 losses = __atomic_load_n(&session->durables->losses, __ATOMIC_ACQUIRE);

	if (losses == session->losses)
		return;
	session->losses = losses;
	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		u32 loss = ini_durable_loss(volume->durable, &volume->open);

		if (!loss || loss == volume->loss_told)
			continue;
		ini_session_note(session,
				 "%s: volume \"%s\": writes that were acknowledged and not flushed may be lost",
				 ini_session_peer(session), volume->info.name);
		volume->loss_told = loss;
		volume->events |= 1u << RBLK_SESSION_EVENT_WRITES_LOST;
		session->events.told++;
	}
}

/* -- the program's callback -------------------------------------------------------------------- */

static unsigned int tell(struct rblk_session *session, u32 *events,
			 enum rblk_session_event_type type, struct rblk_volume *volume)
{
	const struct rblk_session_event event = {
		.type = type,
		.volume = volume,
		.error = type == RBLK_SESSION_EVENT_FAILED	   ? session->failure.final :
			 type == RBLK_SESSION_EVENT_RECOVERING ? session->failure.last :
								 0,
	};

	if (!(*events & 1u << type) || !session->events.callback)
		return 0;
	*events &= ~(1u << type);
	if (type == RBLK_SESSION_EVENT_WRITES_LOST)
		ini_tell_loss(volume);
	session->events.callback(session->events.arg, session, &event);
	return 1;
}

static bool tell_once(struct rblk_session *session, struct rblk_volume *volume,
		      enum rblk_session_event_type type)
{
	/* The program does not have one that was never open. */
	if (!volume->epoch || !(volume->events & ~volume->told & 1u << type))
		return false;
	volume->told |= 1u << type;
	return tell(session, &volume->events, type, volume);
}

/*
 * One event of one volume. The callback may close volumes, so the list is begun again behind it.
 * Only the answer to its CLOSE frees a volume, and no event's callback delivers that.
 */
static bool tell_of_volume(struct rblk_session *session)
{
	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		if (tell_once(session, volume, RBLK_SESSION_EVENT_VOLUME_CHANGED) ||
		    tell_once(session, volume, RBLK_SESSION_EVENT_VOLUME_REMOVED) ||
		    tell_once(session, volume, RBLK_SESSION_EVENT_WRITES_LOST))
			return true;
	return false;
}

/* Each volume's once: what comes while the callbacks run is told the next time, however much. */
static unsigned int tell_of_volumes(struct rblk_session *session)
{
	unsigned int count = 0;

	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next)
		volume->told = 0;
	while (tell_of_volume(session))
		count++;
	return count;
}

static bool is_more_to_tell(const struct rblk_session *session)
{
	const struct rblk_volume *volume = session->volumes;

	while (volume && !volume->events)
		volume = volume->next;
	return volume || session->done.head || session->parking.done;
}

unsigned int ini_tell_deliver(struct rblk_session *session)
{
	unsigned int count = 0;

	/* A callback that waits for something polls: events are told one behind the other. */
	if (!session->events.callback || session->events.telling)
		return 0;
	session->events.telling = true;
	/* These bytes were counted already. */
	tell(session, &session->events.untold, RBLK_SESSION_EVENT_READY, NULL);
	tell(session, &session->events.untold, RBLK_SESSION_EVENT_RECOVERING, NULL);
	tell(session, &session->events.untold, RBLK_SESSION_EVENT_RECOVERED, NULL);
	count += tell_of_volumes(session);
	count += tell(session, &session->events.untold, RBLK_SESSION_EVENT_LIST_CHANGED, NULL);
	count += tell(session, &session->events.untold, RBLK_SESSION_EVENT_DRAINING, NULL);
	/* The last event: rblk_poll() returns the error instead of a count. */
	if (!is_more_to_tell(session))
		tell(session, &session->events.untold, RBLK_SESSION_EVENT_FAILED, NULL);
	session->events.telling = false;
	return count;
}

void rblk_session_on_event(struct rblk_session *session, rblk_event_callback callback, void *arg)
{
	session->events.callback = callback;
	session->events.arg = arg;
}
