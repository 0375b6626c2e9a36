/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What happens to the initiators' sessions: each event in each state, each change of state and each
 * action of proto/core/session.h is counted for the report, and what must hold after every event is
 * checked; once more for the module's. The linker leads librblk's and the module's calls of
 * core_session_*() here.
 */
#include <string.h>
#include "proto/core/session.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/history.h"
#include "tests/sim/inside.h"
#include "tests/sim/module.h"
#include "tests/sim/trace.h"

/* Its queues are spread over all portals, so that one that is back is used again. */
static void check_homes(const struct core_session *session)
{
	bool home[CORE_PORTALS_MAX] = {false};

	if (session->queues < session->options.portals)
		return;
	for (u16 i = 0; i < session->queues; i++)
		home[session->queue[i].home] = true;
	for (u16 i = 0; i < session->options.portals && session->queues == session->options.queues;
	     i++)
		if (!home[i])
			sim_fail("portal %u is no queue's home any more", i);
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

/* Its state before an event. */
struct before {
	u8 state;
	u16 home;
	u64 epoch;
	u8 queues[RBLK_QUEUES_MAX];
	bool open; /* commands may go on queue 0 */
};

static struct before before_of(const struct core_session *session)
{
	struct before before = {
		.state = session->state,
		.home = session->queue[0].home,
		.epoch = session->epoch,
		.open = core_session_open(session, 0)};

	for (u16 i = 0; i < session->options.queues; i++)
		before.queues[i] = session->queue[i].state;
	return before;
}

/* Logins that have been sent and have no answer yet: of the session whose history is kept. */
static u16 logging;

/* What it says of its connections, and of itself. */
static void history_after(const struct core_session *session, const struct before *before)
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

static void after(const struct core_session *session, struct before before)
{
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
		history_after(session, &before);
	if (session->state != before.state) {
		sim_reached(from[before.state], name, NULL);
		if (sim_module_runs())
			sim_reached("module", from[before.state], name);
		if (session->state == CORE_SESSION_FAILED)
			sim_reached("session fails", failures[session->failure],
				    core_session_state_name(before.state));
	}
	if (session->queue[0].home != before.home)
		sim_reached("session", "queue 0 takes another portal", name);
	if (session->epoch < before.epoch)
		sim_fail("a session's epoch goes back");
	check_homes(session);
	check_held(session);
}

/* `event` is a group: "session EVENT in STATE, queue STATE". */
static struct before seen(const char *event, const struct core_session *session, int index)
{
	sim_reached(event, core_session_state_name(session->state),
		    index < 0 ? NULL : core_queue_state_name(session->queue[index].state));
	if (sim_module_runs())
		sim_reached("module", event, core_session_state_name(session->state));
	return before_of(session);
}

static bool fence_under_way(const struct core_session *session)
{
	for (u16 i = 0; i < session->options.queues; i++)
		if (session->queue[i].lost.fence_sent)
			return true;
	return false;
}

/* -- events --------------------------------------------------------------------------------------
 */

void __real_core_session_abandon(struct core_session *session, u64 now_ns);
void __wrap_core_session_abandon(struct core_session *session, u64 now_ns);
void __wrap_core_session_abandon(struct core_session *session, u64 now_ns)
{
	struct before before = seen("session abandoned", session, -1);

	__real_core_session_abandon(session, now_ns);
	after(session, before);
}

void __real_core_session_stop(struct core_session *session, u64 now_ns);
void __wrap_core_session_stop(struct core_session *session, u64 now_ns);
void __wrap_core_session_stop(struct core_session *session, u64 now_ns)
{
	struct before before = seen("session stopped", session, -1);

	if (fence_under_way(session))
		sim_reached("session stopped", "a FENCE is under way", NULL);
	__real_core_session_stop(session, now_ns);
	after(session, before);
}

bool __real_core_session_accepted(struct core_session *session, u16 queue, const u8 instance[16],
				  u32 keepalive_ms, u64 now_ns);
bool __wrap_core_session_accepted(struct core_session *session, u16 queue, const u8 instance[16],
				  u32 keepalive_ms, u64 now_ns);
bool __wrap_core_session_accepted(struct core_session *session, u16 queue, const u8 instance[16],
				  u32 keepalive_ms, u64 now_ns)
{
	struct before before = seen("session accepted", session, queue);
	bool same;

	if (session->queue[queue].lost.fence_sent)
		sim_reached("session accepted", "before its FENCE is answered", NULL);
	same = __real_core_session_accepted(session, queue, instance, keepalive_ms, now_ns);
	if (!same)
		sim_reached("session accepted", "by another target than the others", NULL);
	else if (session->queue[queue].state == CORE_QUEUE_LIVE && memcmp(session->instance, instance, 16))
		sim_fail("an acceptance by another target is taken for the session's");
	after(session, before);
	return same;
}

void __real_core_session_rejected(struct core_session *session, u16 queue, u16 reason, u32 detail,
				  u64 now_ns);
void __wrap_core_session_rejected(struct core_session *session, u16 queue, u16 reason, u32 detail,
				  u64 now_ns);
void __wrap_core_session_rejected(struct core_session *session, u16 queue, u16 reason, u32 detail,
				  u64 now_ns)
{
	struct before before = seen("session rejected", session, queue);

	sim_reached("session rejected", core_session_state_name(session->state),
		    rblk_reject_text(reason));
	if (reason == RBLK_REJECT_NO_SESSION && fence_under_way(session))
		sim_reached("session rejected", "unknown, and a FENCE is under way", NULL);
	__real_core_session_rejected(session, queue, reason, detail, now_ns);
	after(session, before);
}

void __real_core_session_unreached(struct core_session *session, u16 queue, u64 now_ns);
void __wrap_core_session_unreached(struct core_session *session, u16 queue, u64 now_ns);
void __wrap_core_session_unreached(struct core_session *session, u16 queue, u64 now_ns)
{
	struct before before = seen("session unreached", session, queue);

	__real_core_session_unreached(session, queue, now_ns);
	after(session, before);
}

void __real_core_session_lost(struct core_session *session, u16 queue, u64 now_ns);
void __wrap_core_session_lost(struct core_session *session, u16 queue, u64 now_ns);
void __wrap_core_session_lost(struct core_session *session, u16 queue, u64 now_ns)
{
	struct before before =
		seen(queue ? "session lost another queue" : "session lost queue 0", session, queue);

	if (session->queue[queue].leaving)
		sim_reached("session", "a queue has left its portal", NULL);
	__real_core_session_lost(session, queue, now_ns);
	after(session, before);
}

void __real_core_session_drained(struct core_session *session, u16 queue, u64 now_ns);
void __wrap_core_session_drained(struct core_session *session, u16 queue, u64 now_ns);
void __wrap_core_session_drained(struct core_session *session, u16 queue, u64 now_ns)
{
	struct before before = seen("session drained", session, queue);

	if (session->queue[queue].lost.waits)
		sim_reached("session drained",
			    session->queue[queue].lost.fenced ? "fenced before" : "not fenced yet",
			    NULL);
	__real_core_session_drained(session, queue, now_ns);
	after(session, before);
}

void __real_core_session_fenced(struct core_session *session, u16 queue, bool success, u64 now_ns);
void __wrap_core_session_fenced(struct core_session *session, u16 queue, bool success, u64 now_ns);
void __wrap_core_session_fenced(struct core_session *session, u16 queue, bool success, u64 now_ns)
{
	struct before before =
		seen(success ? "session fenced" : "session not fenced", session, queue);

	if (!session->queue[queue].lost.fence_sent)
		sim_reached("session fenced", "when nobody waits for it any more", NULL);
	else if (success)
		sim_history("FENCE_HEARD", queue, 0, 0);
	if (session->queue[queue].lost.fence_sent && success)
		sim_inside_fenced(sim_session_of(sim_actor_self()), queue,
				  session->queue[queue].lost.incarnation);
	__real_core_session_fenced(session, queue, success, now_ns);
	after(session, before);
}

void __real_core_session_named(struct core_session *session, bool success, u64 now_ns);
void __wrap_core_session_named(struct core_session *session, bool success, u64 now_ns);
void __wrap_core_session_named(struct core_session *session, bool success, u64 now_ns)
{
	struct before before = seen(success ? "session named" : "session not named", session, 0);

	__real_core_session_named(session, success, now_ns);
	after(session, before);
}

void __real_core_session_misled(struct core_session *session, u64 now_ns);
void __wrap_core_session_misled(struct core_session *session, u64 now_ns);
void __wrap_core_session_misled(struct core_session *session, u64 now_ns)
{
	struct before before = seen("session misled", session, 0);

	__real_core_session_misled(session, now_ns);
	after(session, before);
}

/* Only what it changes is counted. */
void __real_core_session_tick(struct core_session *session, u64 now_ns);
void __wrap_core_session_tick(struct core_session *session, u64 now_ns);
void __wrap_core_session_tick(struct core_session *session, u64 now_ns)
{
	struct before before = before_of(session);
	u16 live = core_session_live(session);

	__real_core_session_tick(session, now_ns);
	if (core_session_live(session) < live)
		sim_reached("session", "a silent queue is lost", NULL);
	after(session, before);
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

bool __real_core_session_action(struct core_session *session, struct core_action *action);
bool __wrap_core_session_action(struct core_session *session, struct core_action *action);
bool __wrap_core_session_action(struct core_session *session, struct core_action *action)
{
	static const char *const names[CORE_ACTIONS] = {
		[CORE_ACTION_CONNECT] = "connect",   [CORE_ACTION_CLOSE] = "close",
		[CORE_ACTION_LEAVE] = "leave",	     [CORE_ACTION_FENCE] = "fence",
		[CORE_ACTION_NAME] = "name",	     [CORE_ACTION_RELEASE] = "release",
		[CORE_ACTION_PROBE] = "probe",	     [CORE_ACTION_FAIL_FAST] = "fail fast",
		[CORE_ACTION_FAIL_ALL] = "fail all", [CORE_ACTION_STATE] = "state",
		[CORE_ACTION_RELEASE_HARMLESS] = "release reads",
	};
	bool is = __real_core_session_action(session, action);

	if (is)
		sim_reached("session action", names[action->kind],
			    core_session_state_name(session->state));
	if (is && sim_module_runs())
		sim_reached("module is to", names[action->kind],
			    core_session_state_name(session->state));
	if (is && action->kind == CORE_ACTION_CONNECT && sim_history_is_kept()) {
		logging |= (u16)(1u << action->queue);
		sim_history(action->fence ? "LOGIN_AGAIN" : "LOGIN", action->queue, action->epoch,
			    action->incarnation);
	}
	if (is && action->kind == CORE_ACTION_NAME)
		check_named(session);
	if (is && action->kind == CORE_ACTION_RELEASE)
		sim_reached("session action", "release",
			    action->renewed ? "in a new epoch" : "in the same epoch");
	return is;
}
