/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Carries out what the session's state machine (proto/core/session.h) asks for: connects and closes
 * queues, has FENCE and KEEPALIVE sent, names the session again, sends commands again or fails them.
 * Other files report events to the machine as they happen. Its actions are carried out here, once a
 * turn, so that none of them runs inside another function's work.
 */
#include "initiator/session.h"

#include <stdio.h>
#include "initiator/fence.h"
#include "initiator/io.h"
#include "initiator/retry.h"
#include "initiator/reopen_volumes.h"
#include "proto/words/units.h"

/* -- what follows ------------------------------------------------------------------------------ */

/* The queue's connection is destroyed, and all callbacks of its commands were made. */
static void tell_drained(struct ini_queue *queue)
{
	if (queue->tags.taken_io || queue->tags.taken_reserved) {
		queue->session->unsettled = true;
		return;
	}
	queue->drained = false;
	core_session_drained(&queue->session->core, queue->index, queue->session->now_ns);
}

/* The machine has found that the target is silent: nobody else has said why the queue is lost. */
static void tell_silence(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	const struct core_queue *core = &session->core.queue[queue->index];
	u64 limit_ns = core->keepalive_ms * 1000000ull;
	char text[UNITS_TEXT_BYTES];

	if (queue->state != INI_QUEUE_LIVE || core_session_over(&session->core) || !limit_ns ||
	    !core->probed || session->now_ns - core->probed_ns < limit_ns)
		return;
	ini_session_note(session,
			 "%s: queue %u: connection lost: KEEPALIVE was not answered within %s",
			 fab_conn_peer(queue->conn), queue->index, units_text(UNITS_TIME_MS, core->keepalive_ms, text));
	session->failure.last = -ETIMEDOUT;
	ini_portal_failed(queue, -ETIMEDOUT);
}

static void close_queue(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	struct ini_portal *portal = ini_portal_of(queue);
	char text[UNITS_TEXT_BYTES];

	tell_silence(queue);

	/* The attempt's time is over, and there was no answer. */
	if (queue->state == INI_QUEUE_CONNECTING && !portal->error &&
	    session->now_ns >= session->core.queue[queue->index].by_ns) {
		portal->error = -ETIMEDOUT;
		snprintf(portal->words, sizeof(portal->words), "no answer within %s",
			 units_text(UNITS_TIME_MS, session->core.queue[queue->index].attempt_ms, text));
	}
	queue->again = false;
	if (queue->state == INI_QUEUE_CLOSED && !queue->drained)
		core_session_drained(&session->core, queue->index, session->now_ns);
	else
		ini_queue_close(queue); /* DRAINED follows */
}

/* A command has outlived its time: its disk may hang, and nothing bounds that. */
static bool queue_is_overdue(const struct ini_queue *queue)
{
	for (u32 tag = 0; tag < core_tags_count(queue->tags.credits); tag++)
		if (queue->tag_array[tag].state == CORE_TAG_SENT && queue->slots[tag].overdue_ns)
			return true;
	return false;
}

/* Has it I/O to be waited for? A target that ends begins none that it has refused. */
static bool queue_is_busy(const struct ini_queue *queue)
{
	u32 refused = 0;

	for (const struct ini_slot *slot = queue->retry.head; slot; slot = slot->next)
		refused += queue->session->core.leaves && !core_tags_reserved(&queue->tags, slot->tag);
	return queue->tags.taken_io > refused && !queue_is_overdue(queue);
}

/* It moves to another portal when its commands have ended; those that last go on after a fence (F5). */
static void leave_queue(struct ini_queue *queue)
{
	if (queue_is_busy(queue))
		queue->session->unsettled = true;
	else
		core_session_lost(&queue->session->core, queue->index, queue->session->now_ns);
}

static void name_session(struct rblk_session *session)
{
	int err = ini_reopen(session);

	if (!err)
		return;
	session->failure.last = err;
	core_session_named(&session->core, false, session->now_ns);
}

/* -- the program's view --------------------------------------------------------------------------
 */

/* The machine failed the session. The last failure's words say why, unless a time limit ended
 * it. */
static void failed(struct rblk_session *session)
{
	const struct rblk_options *options = &session->options;
	enum core_failure why = session->core.failure;
	char words[150], text[UNITS_TEXT_BYTES];

	snprintf(words, sizeof(words), "%.149s", session->failure.words);
	if (why == CORE_FAILURE_TIMEOUT || (why == CORE_FAILURE_UNREACHED && !session->failure.last)) {
		if (!session->failure.last)
			session->failure.last = -ETIMEDOUT;
		snprintf(session->failure.words, sizeof(session->failure.words), "%s: no session within %s%s%s",
			 ini_session_peer(session), units_text(UNITS_TIME_MS, options->connect_timeout_ms, text),
			 words[0] ? ": " : "", words);
	} else if (why == CORE_FAILURE_GIVE_UP && !options->no_reconnect) {
		session->failure.last = -ETIMEDOUT;
		snprintf(session->failure.words, sizeof(session->failure.words), "no connection for %s: %s",
			 units_text(UNITS_TIME_MS, options->give_up_ms, text), words);
	}
	if (why == CORE_FAILURE_UNREACHED || why == CORE_FAILURE_REFUSED || why == CORE_FAILURE_TIMEOUT)
		ini_session_note_others(session);
	if (why != CORE_FAILURE_ABANDONED)
		session->failure.final = session->logout_ns ? -ECANCELED : session->failure.last ? session->failure.last : -EIO;
}

static void state_changed(struct rblk_session *session)
{
	switch ((enum core_session_state)session->core.state) {
	case CORE_SESSION_LIVE:
		if (!session->ready)
			break;
		session->events.untold |= 1u << RBLK_SESSION_EVENT_RECOVERED;
		session->events.untold &= ~(1u << RBLK_SESSION_EVENT_RECOVERING);
		session->events.draining = false;
		session->events.told++;
		break;
	case CORE_SESSION_RECOVERING:
		session->events.untold |= 1u << RBLK_SESSION_EVENT_RECOVERING;
		session->events.untold &= ~(1u << RBLK_SESSION_EVENT_RECOVERED);
		session->events.told++;
		break;
	case CORE_SESSION_FAILED:
		failed(session);
		break;
	default:
		break;
	}
}

static void fail_all(struct rblk_session *session)
{
	ini_parked_fail(session, session->failure.final);
	session->ended = true;
	session->events.untold |= 1u << RBLK_SESSION_EVENT_FAILED;
}

/* READY when every queue is up, or was tried: a target may have no room for all. */
static void look_ready(struct rblk_session *session)
{
	const struct core_session *core = &session->core;

	if (session->ready || core->state != CORE_SESSION_LIVE)
		return;
	for (u16 i = 0; i < core->queues; i++)
		if (core->queue[i].state != CORE_QUEUE_LIVE &&
		    (core->queue[i].state == CORE_QUEUE_CONNECTING ? core->queue[i].incarnation < 2
								   : !core->queue[i].incarnation))
			return;
	session->ready = true;
	session->events.untold |= 1u << RBLK_SESSION_EVENT_READY;
	session->events.told++;
}

static void act(struct rblk_session *session, const struct core_action *action)
{
	struct ini_queue *queue = &session->queues[action->queue];

	switch (action->kind) {
	case CORE_ACTION_CONNECT:
		ini_connect(queue, action);
		break;
	case CORE_ACTION_CLOSE:
		close_queue(queue);
		break;
	case CORE_ACTION_LEAVE:
		leave_queue(queue);
		break;
	case CORE_ACTION_FENCE:
		ini_fence_send(session, action);
		break;
	case CORE_ACTION_NAME:
		ini_parked_renew(session);
		name_session(session);
		break;
	case CORE_ACTION_RELEASE:
		ini_parked_release(session, action->queue, action->renewed);
		break;
	case CORE_ACTION_RELEASE_HARMLESS:
		ini_parked_release_harmless(session, action->queue);
		ini_fence_volumes(session, action);
		break;
	case CORE_ACTION_PROBE:
		ini_control_keepalive(queue);
		break;
	case CORE_ACTION_FAIL_FAST:
		ini_parked_fail(session, -EIO);
		break;
	case CORE_ACTION_FAIL_ALL:
		fail_all(session);
		break;
	case CORE_ACTION_STATE:
		state_changed(session);
		break;
	case CORE_ACTION_NONE:
	case CORE_ACTIONS:
		break;
	}
}

void ini_drive(struct rblk_session *session)
{
	struct core_action action;

	if (!core_session_acts(&session->core) && !session->unsettled && !session->parking.ready &&
	    !session->control.again && !session->logout_ns)
		return;
	ini_logout_run(session);
	session->unsettled = false;
	for (u16 i = 0; i < session->queue_count; i++) {
		struct ini_queue *queue = &session->queues[i];

		if (queue->drained)
			tell_drained(queue);
		if (session->core.queue[i].leaving)
			leave_queue(queue);
	}
	while (core_session_action(&session->core, &action)) {
		session->activity++;
		act(session, &action);
	}
	look_ready(session);
	ini_control_resume(session);
	if (session->parking.ready)
		ini_io_resume(session);
}
