/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens to the initiators' sessions: each event in each state, each change of state and each
 * action of proto/core/session.h is counted for the report, and what must hold after every event is
 * checked; once more for the module's. See seen.h.
 */
#include "tests/sim/seen.h"

#include <string.h>
#include "proto/core/session.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/history.h"
#include "tests/sim/module.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

/*
 * Its queues are spread over all portals of its target, so that one that is back is used again. Queue 0 may be away, to
 * try another target.
 */
static void check_homes(const struct core_session *session)
{
	u16 homes[CORE_PORTALS_MAX] = {0};
	u16 own = 0, without = 0, spare = 0;

	for (u16 i = 0; i < session->queues; i++)
		homes[session->queue[i].home]++;
	for (u16 i = 0; i < session->options.portals; i++) {
		if (core_session_is_foreign(session, i)) {
			spare += homes[i] - (session->queue[0].home == i);
			continue;
		}
		own++;
		without += !homes[i];
		spare += homes[i] > 1 ? homes[i] - 1 : 0;
	}
	if (without && spare)
		sim_fail("%u portals are no queue's home, and %u queues could go there", without, spare);
	for (u16 i = 1; i < session->queues && own; i++)
		if (core_session_is_foreign(session, session->queue[i].home))
			sim_fail("queue %u goes to another target than queue 0's", i);
}

/*
 * F5: what FAIL_FAST has failed, its user may write again; while the target may still carry it out, no queue
 * takes commands.
 */
static void check_held(const struct core_session *session)
{
	bool owed = false;

	for (u16 i = 0; i < session->options.queues; i++) {
		const struct core_lost *lost = &session->queue[i].lost;

		owed |= lost->waits && lost->failed && !lost->fenced;
	}
	if (owed && core_session_route(session, 0) >= 0)
		sim_fail("commands may be sent, and a fence is owed for some that have failed (F5)");
}

static_assert(sizeof(((struct sim_session_before *)0)->queues) >= RBLK_QUEUES_MAX, "a state for each queue");

static struct sim_session_before before_of(const struct core_session *session)
{
	struct sim_session_before before = {
		.session = session,
		.state = session->state,
		.home = session->queue[0].home,
		.epoch = session->epoch,
		.live = core_session_live(session),
		.open = core_session_open(session, 0)};

	for (u16 i = 0; i < session->options.queues; i++)
		before.queues[i] = session->queue[i].state;
	return before;
}

/* Logins that have been sent and have no answer yet: of the session whose history is kept. */
static u16 logging;

/* What it says of its connections, and of itself. */
static void history_after(const struct core_session *session, const struct sim_session_before *before)
{
	bool renews = session->epoch != before->epoch;

	for (u16 i = 0; i < session->options.queues; i++) {
		const struct core_queue *queue = &session->queue[i];

		if (before->queues[i] == queue->state)
			continue;
		if (before->queues[i] == CORE_QUEUE_LIVE)
			sim_history("LOST", i, queue->incarnation, before->epoch);
		if (queue->state == CORE_QUEUE_LIVE)
			sim_history("UP", i, 0, 0);
		else if (logging & 1u << i && !renews)
			sim_history("OVER", i, 0, 0);
		logging &= (u16)~(1u << i);
	}
	if (renews)
		sim_history("RENEW", 0, session->epoch, 0);
	if (core_session_open(session, 0) != before->open)
		sim_history(before->open ? "SHUT" : "OPEN", 0, 0, 0);
	/* Where two targets are named, each is a portal. */
	if (core_session_open(session, 0) && !before->open)
		sim_history("AT", session->queue[0].portal, 0, 0);
}

void sim_session_after(const struct sim_session_before *before)
{
	const struct core_session *session = before->session;
	static const char *const from[CORE_SESSION_STATES] = {
		"session goes from new to",	   "session goes from live to",
		"session goes from recovering to", "session goes from renewing to",
		"session goes from failed to",	   "session goes from ended to",
	};
	static const char *const failures[CORE_FAILURES] = {
		"for no reason", "unreached", "refused", "timeout",
		"naming",	 "abandoned", "give-up",
	};
	const char *name = core_session_state_name(session->state);

	if (sim_history_is_kept())
		history_after(session, before);
	if (session->state != before->state) {
		sim_reached(from[before->state], name, NULL);
		if (sim_module_runs())
			sim_reached("module", from[before->state], name);
		if (session->state == CORE_SESSION_FAILED)
			sim_reached("session fails", failures[session->failure],
				    core_session_state_name(before->state));
	}
	if (session->queue[0].home != before->home)
		sim_reached("session", "queue 0 takes another portal", name);
	if (session->epoch < before->epoch)
		sim_fail("a session's epoch goes back");
	if (before->event == SIM_SESSION_ACCEPTED && before->queues[before->index] == CORE_QUEUE_CONNECTING &&
	    session->queue[before->index].state != CORE_QUEUE_LIVE)
		sim_reached("session accepted", "by another target than the others", NULL);
	if (before->event == SIM_SESSION_TICK && core_session_live(session) < before->live)
		sim_reached("session", "a silent queue is lost", NULL);
	check_homes(session);
	check_held(session);
}

static bool fence_under_way(const struct core_session *session)
{
	for (u16 i = 0; i < session->options.queues; i++)
		if (session->queue[i].lost.fence_sent)
			return true;
	return false;
}

/* -- events -------------------------------------------------------------------------------------- */

/* Of one queue: the report has its state, too. */
static bool of_queue(enum sim_session_event event)
{
	return event != SIM_SESSION_ABANDONED && event != SIM_SESSION_STOPPED;
}

/* A group of the report: "session EVENT in STATE, queue STATE". NULL: only what it changes is counted. */
static const char *event_name(enum sim_session_event event, unsigned int index, unsigned int what)
{
	switch (event) {
	case SIM_SESSION_ABANDONED:
		return "session abandoned";
	case SIM_SESSION_STOPPED:
		return "session stopped";
	case SIM_SESSION_ACCEPTED:
		return "session accepted";
	case SIM_SESSION_REJECTED:
		return "session rejected";
	case SIM_SESSION_UNREACHED:
		return "session unreached";
	case SIM_SESSION_LOST:
		return index ? "session lost another queue" : "session lost queue 0";
	case SIM_SESSION_DRAINED:
		return "session drained";
	case SIM_SESSION_FENCED:
		return what ? "session fenced" : "session not fenced";
	case SIM_SESSION_NAMED:
		return what ? "session named" : "session not named";
	case SIM_SESSION_MISLED:
		return "session misled";
	case SIM_SESSION_TICK:
		return NULL;
	}
	return NULL;
}

/* incarnation: 0: it has failed. */
static void fenced_seen(const struct core_session *session, const struct core_lost *lost, unsigned int index,
			unsigned int incarnation)
{
	if (!lost->fence_sent)
		sim_reached("session fenced", "when nobody waits for it any more", NULL);
	else if (lost->asked != lost->incarnation)
		sim_reached("session fenced", "and lost again meanwhile", NULL);
	else if (incarnation == lost->asked)
		sim_whitebox_fenced(sim_session_of(sim_actor_self()), session->epoch, index, lost->incarnation);
}

/* What some events meet. */
static void details_seen(const struct core_session *session, enum sim_session_event event, unsigned int index,
			 unsigned int what)
{
	const struct core_queue *queue = &session->queue[index];

	switch (event) {
	case SIM_SESSION_STOPPED:
		if (fence_under_way(session))
			sim_reached("session stopped", "a FENCE is under way", NULL);
		break;
	case SIM_SESSION_ACCEPTED:
		if (queue->lost.fence_sent)
			sim_reached("session accepted", "before its FENCE is answered", NULL);
		if (queue->lost.waits && !queue->lost.renewed && what)
			sim_reached("session accepted", "before its fence", NULL);
		break;
	case SIM_SESSION_REJECTED:
		sim_reached("session rejected", core_session_state_name(session->state),
			    rblk_reject_text((u16)what));
		if (what == RBLK_REJECT_NO_SESSION && fence_under_way(session))
			sim_reached("session rejected", "unknown, and a FENCE is under way", NULL);
		break;
	case SIM_SESSION_LOST:
		if (queue->leaving)
			sim_reached("session", "a queue has left its portal", NULL);
		break;
	case SIM_SESSION_DRAINED:
		if (queue->lost.waits)
			sim_reached("session drained", queue->lost.fenced ? "fenced before" : "not fenced yet", NULL);
		break;
	case SIM_SESSION_FENCED:
		fenced_seen(session, &queue->lost, index, what);
		break;
	default:
		break;
	}
}

struct sim_session_before sim_session_event(const struct core_session *session, enum sim_session_event event,
					    unsigned int index, unsigned int what)
{
	struct sim_session_before before = before_of(session);
	const char *name = event_name(event, index, what);

	sim_reached("point", "session", NULL);
	before.event = event;
	before.index = index;
	if (name) {
		sim_reached(name, core_session_state_name(session->state),
			    of_queue(event) ? core_queue_state_name(session->queue[index].state) : NULL);
		if (sim_module_runs())
			sim_reached("module", name, core_session_state_name(session->state));
		details_seen(session, event, index, what);
	}
	return before;
}

void sim_session_instance(const struct core_session *session, unsigned int index, const unsigned char *instance)
{
	sim_reached("point", "instance", NULL);
	if (session->queue[index].state == CORE_QUEUE_LIVE && memcmp(session->instance, instance, 16))
		sim_fail("an acceptance by another target is taken for the session's");
}

/* F7: what the old epoch's connections acknowledge is counted before the volumes' cache epochs are learnt anew. */
static void check_named(const struct core_session *session)
{
	bool drains = false;

	for (u16 i = 0; i < session->options.queues; i++)
		drains |= session->queue[i].lost.waits && !session->queue[i].lost.drained;
	if (drains)
		sim_fail("volumes are opened in a new epoch, and a connection of the old one drains (F7)");
}

/* -- actions -------------------------------------------------------------------------------------
 */

void sim_session_action(const struct core_session *session, const struct core_action *action)
{
	static const char *const names[CORE_ACTIONS] = {
		[CORE_ACTION_CONNECT] = "connect",   [CORE_ACTION_CLOSE] = "close",
		[CORE_ACTION_LEAVE] = "leave",	     [CORE_ACTION_FENCE] = "fence",
		[CORE_ACTION_NAME] = "name",	     [CORE_ACTION_RELEASE] = "release",
		[CORE_ACTION_PROBE] = "probe",	     [CORE_ACTION_FAIL_FAST] = "fail fast",
		[CORE_ACTION_FAIL_ALL] = "fail all", [CORE_ACTION_STATE] = "state",
		[CORE_ACTION_RELEASE_HARMLESS] = "release reads",
	};

	sim_reached("point", "action", NULL);
	sim_reached("session action", names[action->kind], core_session_state_name(session->state));
	if (sim_module_runs())
		sim_reached("module is to", names[action->kind],
			    core_session_state_name(session->state));
	if (action->kind == CORE_ACTION_CONNECT && sim_history_is_kept()) {
		logging |= (u16)(1u << action->queue);
		sim_history(action->fence ? "LOGIN_AGAIN" : "LOGIN", action->queue, action->epoch,
			    action->incarnation);
	}
	if (action->kind == CORE_ACTION_NAME)
		check_named(session);
	if (action->kind == CORE_ACTION_RELEASE)
		sim_reached("session action", "release",
			    action->renewed ? "in a new epoch" : "in the same epoch");
}
