/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the end that the program wants: commands that are under way are answered, and what the session has open is closed at
 * the target, before it disconnects. A target ends such a session with its last connection; one that is cut off it keeps for its
 * client. A logout has LOGOUT_MS and one connection: whatever is not done by then ends as if the program had been killed.
 */
#include "initiator/session.h"

#include "initiator/volume.h"
#include "proto/core/trace.h"

/* A target that works answers CLOSE at once. */
#define LOGOUT_MS 1000u

static void disconnect(struct rblk_session *session)
{
	ini_session_note(session, "%s: closed", ini_session_peer(session));
	session->failure.final = -ECANCELED;
	core_session_stop(&session->core, session->now_ns);
}

void rblk_session_stop(struct rblk_session *session)
{
	if (core_session_over(&session->core) || session->logout_ns)
		return;
	/* All that follows, callbacks too, is rblk_poll()'s: the caller may hold a lock that they take. */
	session->logout_ns = env_now_ns() + LOGOUT_MS * 1000000ull;
	if (session->core.state != CORE_SESSION_LIVE)
		disconnect(session);
}

/* Nothing of the session is under way. */
static bool is_quiet(const struct rblk_session *session)
{
	if (session->parking.used || session->control.again || session->queues[0].tags.taken_reserved)
		return false;
	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].tags.taken_io)
			return false;
	return true;
}

static void closed(void *arg, const struct rblk_result *result)
{
	struct rblk_volume *volume = arg;

	/* The target had no room for it: it is tried again. */
	if (result->status == RBLK_E_BUSY || result->status == RBLK_E_NO_RESOURCES)
		volume->epoch = volume->session->core.epoch;
}

/* As many as there are reserved tags. False: nothing is open, or no CLOSE can be sent. */
static bool close_some(struct rblk_session *session)
{
	bool sent = false;

	for (struct rblk_volume *volume = session->volumes; volume; volume = volume->next) {
		if (volume->epoch != session->core.epoch)
			continue;
		if (ini_volume_send_close(volume, closed, volume))
			break;
		volume->epoch = 0;
		sent = true;
	}
	return sent;
}

static bool goes_on(const struct rblk_session *session)
{
	return session->core.state == CORE_SESSION_LIVE && session->now_ns < session->logout_ns;
}

void ini_logout_run(struct rblk_session *session)
{
	bool goes = goes_on(session);

	if (!session->logout_ns || core_session_over(&session->core) || (goes && (!is_quiet(session) || close_some(session))))
		return;
	if (goes)
		rblk_trace_logout(session);
	disconnect(session);
}

bool ini_logout_due(const struct rblk_session *session)
{
	return session->logout_ns && !core_session_over(&session->core) && (!goes_on(session) || is_quiet(session));
}
