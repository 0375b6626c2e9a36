// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The initiator's session: what each event changes. session_state.c has the changes that several events
 * share, and what follows after each event; session_next.c what the caller is told to do. Nothing here
 * sends, waits or allocates.
 */
#include "proto/core/session_impl.h"
#include "proto/core/trace.h"

/* -- fences, portals, epochs -------------------------------------------------------------------- */

/* A FENCE sent, or to be sent, on this queue gets no answer any more. */
static void drop_fences(struct core_session *session, u16 via)
{
	for (u16 i = 0; i < session->options.queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (!queue->lost.fence_sent || queue->lost.via != via)
			continue;
		queue->lost.fence_sent = false;
		queue->todo &= (u8)~QUEUE_FENCE;
	}
}

/*
 * A connection that was LIVE is lost. The session does for all that it has lost what it still had to do for earlier
 * losses.
 */
static void lose(struct core_session *session, u16 index, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];

	drop_fences(session, index);
	if (!queue->lost.waits || !queue->lost.renewed)
		queue->todo &= (u8)~QUEUE_RELEASE_HARMLESS;
	core_lost_begin(&queue->lost, queue->incarnation, now_ns);
	core_queue_close(queue);
}

/* Another queue than 0 with its home at this portal, preferably not LIVE there. NULL: there is none. */
static struct core_queue *at_home(struct core_session *session, u16 portal)
{
	struct core_queue *found = NULL;

	for (u16 i = 1; i < session->queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (queue->home != portal)
			continue;
		if (queue->state != CORE_QUEUE_LIVE || queue->portal != portal)
			return queue;
		if (!found)
			found = queue;
	}
	return found;
}

/*
 * Makes this portal queue 0's home. A queue that has its home there, if any, gets queue 0's home instead; another
 * target's portal may be no queue's home, but each portal of the session's target stays some queue's. If the other
 * queue is LIVE there, it stays until queue 0 is accepted.
 */
static void move_first(struct core_session *session, u16 portal)
{
	struct core_queue *queue = at_home(session, portal);

	if (queue)
		core_queue_go_home(queue, session->queue[0].home);
	session->queue[0].home = portal;
	core_session_rehome(session);
}

/* The portal of queue 0 has failed: prefer one that is seen to work. False: there is none. */
static bool move_first_to_live(struct core_session *session)
{
	for (u16 i = 1; i < session->queues; i++) {
		const struct core_queue *queue = &session->queue[i];

		if (queue->state == CORE_QUEUE_LIVE && queue->portal != session->queue[0].portal) {
			if (queue->portal != session->queue[0].home)
				move_first(session, queue->portal);
			return true;
		}
	}
	return false;
}

/* The portal that queue 0 tries next: first the other portals of the same target, each once. */
static u16 next_portal(const struct core_session *session)
{
	u16 portals = session->options.portals, home = session->queue[0].home, next = home;

	for (u16 i = 1; i < portals; i++) {
		u16 portal = (u16)((home + i) % portals);

		if (session->tried >> portal & 1)
			continue;
		if (!core_session_differ(session, home, portal))
			return portal;
		if (next == home)
			next = portal;
	}
	return next == home ? (u16)((home + 1) % portals) : next;
}

/* Sends queue 0 to another target, as this one is of no use now. False: all portals have been tried. */
static bool leave_target(struct core_session *session)
{
	bool more = core_session_elsewhere(session);

	session->tried = core_session_tried(session);
	if (session->options.portals > 1)
		move_first(session, next_portal(session));
	return more;
}

/* An attempt at this portal failed. */
static void attempt_failed(struct core_session *session, u16 index, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];
	enum core_retry when = CORE_RETRY_DELAY;

	/* It took (nearly) all of its time: the target may only be slow. */
	if (now_ns + queue->attempt_ms / 4 * MS_NS >= queue->by_ns)
		queue->patience_ms = queue->attempt_ms + queue->attempt_ms / 4;
	if (!index)
		session->tried |= 1u << queue->portal;
	if (!index && session->options.portals > 1) {
		if (queue->untried) {
			queue->untried--;
			when = CORE_RETRY_NOW;
		} else {
			queue->untried = (u16)(session->options.portals - 1);
		}
		if (!move_first_to_live(session))
			move_first(session, next_portal(session));
	}
	if (!index && session->state == CORE_SESSION_NEW && when != CORE_RETRY_NOW) {
		core_session_fail(session, CORE_FAILURE_UNREACHED);
		return;
	}
	core_queue_close(queue);
	core_queue_plan_retry(session, index, when, now_ns);
}

/* The target does not know the session: begin a new epoch without any state. */
static void begin_anew(struct core_session *session, u64 now_ns)
{
	session->epoch++;
	session->named = false;
	session->foreign = 0;
	session->todo &= (u8)~SESSION_NAME;
	if (session->state != CORE_SESSION_NEW)
		core_session_set_state(session, CORE_SESSION_RENEWING);
	for (u16 i = 0; i < session->options.queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (queue->state == CORE_QUEUE_CONNECTING) {
			core_queue_close(queue);
			core_queue_plan_retry(session, i, CORE_RETRY_NOW, now_ns);
		}
		if (i)
			queue->home = core_session_home(session, i);
		queue->incarnation = 0;
		queue->accepted = 0;
		queue->todo &= (u8)~QUEUE_FENCE;
		core_lost_renew(&queue->lost);
	}
}

/* -- events ------------------------------------------------------------------------------------ */

void core_session_init(struct core_session *session, const struct core_session_options *options)
{
	memset(session, 0, sizeof(*session));
	session->options = *options;
	session->queues = options->queues;
	session->epoch = options->epoch ? options->epoch : 1;
	session->group = options->group[0];
	for (u16 i = 0; i < options->queues; i++) {
		session->queue[i].home = core_session_home(session, i);
		session->queue[i].untried = (u16)(options->portals - 1);
		core_backoff_init(&session->queue[i].backoff, options->reconnect_min_ms,
				  options->reconnect_max_ms, options->random + i * 0x9e3779b9u);
	}
}

void core_session_start(struct core_session *session, u64 now_ns)
{
	session->start_ns = now_ns;
	core_session_settle(session, now_ns);
}

void core_session_abandon(struct core_session *session, u64 now_ns)
{
	rblk_trace_session(session, ABANDONED, 0, 0);
	core_session_fail(session, CORE_FAILURE_ABANDONED);
	core_session_settle(session, now_ns);
}

void core_session_stop(struct core_session *session, u64 now_ns)
{
	rblk_trace_session(session, STOPPED, 0, 0);
	session->todo &= (u8) ~(SESSION_NAME | SESSION_FAIL_FAST);
	core_session_set_state(session, CORE_SESSION_ENDED);
	core_session_close_all(session);
	core_session_settle(session, now_ns);
}

static bool same_target(const struct core_session *session, u16 index, const u8 instance[16])
{
	/* The first acceptance in an epoch identifies the target. */
	if (!index && !session->queue[0].accepted)
		return true;
	return !memcmp(session->instance, instance, sizeof(session->instance));
}

/* Queue 0 is up: the session is LIVE, or must first be named. */
static void first_accepted(struct core_session *session, const u8 instance[16], u64 now_ns)
{
	memcpy(session->instance, instance, sizeof(session->instance));
	session->leaves = false;
	session->soon_ns = 0;
	session->group = session->options.group[session->queue[0].portal];
	session->foreign &= ~(1u << session->queue[0].portal); /* it may have led to another target before */
	core_session_rehome(session);
	/* Its login, with the OPEN of each volume, is the fence of all older epochs. */
	for (u16 i = 0; i < session->options.queues; i++)
		core_lost_epoch_accepted(&session->queue[i].lost);
	/* The queue that made room for queue 0 moves to its new home. */
	for (u16 i = 1; i < session->queues; i++) {
		struct core_queue *queue = &session->queue[i];

		queue->retry_ns = now_ns; /* what was wrong may be over */
		if (queue->state == CORE_QUEUE_LIVE && queue->portal != queue->home &&
		    !queue->leaving) {
			queue->leaving = true;
			queue->todo |= QUEUE_LEAVE;
		}
	}
	if (session->named)
		core_session_set_state(session, CORE_SESSION_LIVE);
	else
		session->todo |= SESSION_NAME;
}

bool core_session_accepted(struct core_session *session, u16 index, const u8 instance[16],
			   u32 keepalive_ms, u32 features, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];

	rblk_trace_session(session, ACCEPTED, index, features & RBLK_FEATURE_VOLUME_FENCE);
	if (queue->state != CORE_QUEUE_CONNECTING)
		return true; /* closed meanwhile */
	if (!same_target(session, index, instance)) {
		session->foreign |= 1u << queue->portal;
		attempt_failed(session, index, now_ns);
		core_session_rehome(session);
		core_session_settle(session, now_ns);
		return false;
	}
	queue->state = CORE_QUEUE_LIVE;
	queue->keepalive_ms = keepalive_ms;
	queue->live_ns = queue->heard_ns = now_ns;
	queue->probed = false;
	queue->untried = (u16)(session->options.portals - 1);
	queue->patience_ms = 0;
	if (!(features & RBLK_FEATURE_VOLUME_FENCE))
		core_lost_accepted(&queue->lost);
	if (!index)
		first_accepted(session, instance, now_ns);
	queue->accepted = queue->incarnation;
	rblk_trace_instance(session, index, instance);
	core_session_settle(session, now_ns);
	return true;
}

static void probe(struct core_queue *queue, u64 now_ns)
{
	queue->probed = true;
	queue->probed_ns = now_ns;
	queue->todo |= QUEUE_PROBE;
}

/* Queues that seem to be LIVE may not be. A probe without an answer keeps its time: refusals that come
 * more often than the keep-alive time must not put off the end of its wait.
 */
static void probe_all(struct core_session *session, u64 now_ns)
{
	for (u16 i = 0; i < session->queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (queue->state == CORE_QUEUE_LIVE &&
		    (!queue->probed || queue->heard_ns >= queue->probed_ns))
			probe(queue, now_ns);
	}
}

/* It has never been LIVE, and does not reconnect. */
static bool impatient(const struct core_session *session)
{
	return session->state == CORE_SESSION_NEW && !session->options.give_up_ms;
}

/* This target refuses. `final`: for good; else it may have room, or be back, later. */
static void refused(struct core_session *session, u16 index, bool final, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];
	enum core_retry when = final ? CORE_RETRY_LATE : CORE_RETRY_DELAY;

	/* A target with LIVE queues is not left. */
	if (!index && !core_session_live(session)) {
		if (!final)
			queue->untried = (u16)(session->options.portals - 1);
		if (leave_target(session)) {
			when = CORE_RETRY_NOW;
		} else if (session->state == CORE_SESSION_NEW && (final || impatient(session))) {
			core_session_fail(session, CORE_FAILURE_REFUSED);
			return;
		}
	}
	/* A session that was LIVE tries until give-up, because an operator may correct the
	 * target. */
	core_queue_close(queue);
	core_queue_plan_retry(session, index, when, now_ns);
}

static void no_session(struct core_session *session, u16 index, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];
	bool alone = !core_session_live(session);

	core_queue_close(queue);
	if (!index && alone) {
		core_queue_plan_retry(session, index, CORE_RETRY_NOW, now_ns);
		begin_anew(session, now_ns);
		return;
	}
	/* If the other queues are answered, this portal leads to another target: no queue goes there in this epoch. */
	probe_all(session, now_ns);
	if (!index)
		move_first_to_live(session);
	if (!alone) {
		session->foreign |= 1u << queue->portal;
		core_session_rehome(session);
	}
	core_queue_plan_retry(session, index, CORE_RETRY_DELAY, now_ns);
}

static void fewer_queues(struct core_session *session, u16 index, u32 most, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];

	if (index || !most || most >= session->queues || core_session_live(session)) {
		refused(session, index, true, now_ns);
		return;
	}
	core_queue_close(queue);
	core_queue_plan_retry(session, index, CORE_RETRY_NOW, now_ns);
	/* One number for an epoch, and the target may know this one. */
	begin_anew(session, now_ns);
	session->queues = (u16)most;
}

void core_session_rejected(struct core_session *session, u16 index, u16 reason, u32 detail,
			   u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];

	rblk_trace_session(session, REJECTED, index, reason);
	if (queue->state != CORE_QUEUE_CONNECTING)
		return;
	session->reject_reason = reason;
	session->reject_detail = detail;
	if (reason == RBLK_REJECT_DRAINING)
		core_session_expect(session, now_ns);
	switch (reason) {
	case RBLK_REJECT_NO_SESSION:
		no_session(session, index, now_ns);
		break;
	case RBLK_REJECT_STALE_EPOCH:
		core_session_fail(session, CORE_FAILURE_REFUSED);
		break;
	case RBLK_REJECT_STALE_INCARNATION:
		core_queue_close(queue);
		/* Try once more at once, with an incarnation higher than the target's. */
		core_queue_plan_retry(session, index,
				      detail > queue->incarnation ? CORE_RETRY_NOW
								  : CORE_RETRY_DELAY,
				      now_ns);
		if (detail > queue->incarnation && detail < (u32)-1)
			queue->incarnation = detail;
		break;
	case RBLK_REJECT_QUEUE_COUNT:
		fewer_queues(session, index, detail, now_ns);
		break;
	case RBLK_REJECT_NO_CREDITS:
	case RBLK_REJECT_NO_RESOURCES:
	case RBLK_REJECT_DRAINING:
		refused(session, index, false, now_ns);
		break;
	default:
		refused(session, index, true, now_ns);
	}
	core_session_settle(session, now_ns);
}

void core_session_unreached(struct core_session *session, u16 index, u64 now_ns)
{
	rblk_trace_session(session, UNREACHED, index, 0);
	if (session->queue[index].state != CORE_QUEUE_CONNECTING)
		return;
	attempt_failed(session, index, now_ns);
	core_session_settle(session, now_ns);
}

/* The target is about to end, and another one is known: queue 0 goes there when no queue is LIVE any more. */
static bool moves(const struct core_session *session)
{
	bool may = session->leaves && session->options.give_up_ms;

	for (u16 portal = 0; portal < session->options.portals && may; portal++)
		if (core_session_differ(session, portal, session->queue[0].portal))
			return true;
	return false;
}

static void live_lost(struct core_session *session, u16 index, u64 now_ns)
{
	enum core_retry when;

	lose(session, index, now_ns);
	if (!index && session->named)
		session->tried = 0;
	if (!index && session->leaves)
		core_session_expect(session, now_ns);
	when = core_queue_after_loss(session, index, now_ns);
	if (!index && moves(session)) {
		leave_target(session);
		when = CORE_RETRY_NOW;
	}
	core_queue_plan_retry(session, index, when, now_ns);
	if (index)
		return;
	if (impatient(session)) {
		core_session_fail(session, CORE_FAILURE_UNREACHED);
		return;
	}
	if (!moves(session))
		move_first_to_live(session);
	if (session->state == CORE_SESSION_LIVE)
		core_session_set_state(session, CORE_SESSION_RECOVERING);
}

void core_session_lost(struct core_session *session, u16 index, u64 now_ns)
{
	rblk_trace_session(session, LOST, index, 0);
	if (session->queue[index].state == CORE_QUEUE_LIVE)
		live_lost(session, index, now_ns);
	else if (session->queue[index].state == CORE_QUEUE_CONNECTING)
		attempt_failed(session, index, now_ns);
	core_session_settle(session, now_ns);
}

void core_session_drained(struct core_session *session, u16 index, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];

	rblk_trace_session(session, DRAINED, index, 0);
	if (queue->state != CORE_QUEUE_ENDING)
		return;
	queue->state = CORE_QUEUE_ENDED;
	queue->lost.drained = true;
	if (session->failing_fast && !core_session_over(session))
		core_session_fail_fast(session);
	core_session_settle(session, now_ns);
}

void core_session_fenced(struct core_session *session, u16 index, u32 incarnation, bool success, u64 now_ns)
{
	struct core_lost *lost = &session->queue[index].lost;

	rblk_trace_session(session, FENCED, index, success ? incarnation : 0);
	if (!lost->fence_sent || lost->asked != incarnation)
		return; /* too late: it was sent again by another queue, or is not needed any more */
	lost->fence_sent = false;
	if (success)
		lost->fenced |= lost->incarnation == incarnation; /* else it was lost again: a FENCE for all of it follows */
	else
		lost->retry_ns = now_ns + session->options.reconnect_min_ms * MS_NS;
	core_session_settle(session, now_ns);
}

void core_session_named(struct core_session *session, bool success, u64 now_ns)
{
	rblk_trace_session(session, NAMED, 0, success);
	if (core_session_over(session) || session->queue[0].state != CORE_QUEUE_LIVE ||
	    session->named)
		return;
	if (success) {
		session->named = true;
		core_session_set_state(session, CORE_SESSION_LIVE);
	} else if (session->state == CORE_SESSION_NEW) {
		core_session_fail(session, CORE_FAILURE_NAMING);
	} else {
		live_lost(session, 0, now_ns);
	}
	core_session_settle(session, now_ns);
}

void core_session_misled(struct core_session *session, u64 now_ns)
{
	bool more;

	rblk_trace_session(session, MISLED, 0, 0);
	if (core_session_over(session) || session->queue[0].state != CORE_QUEUE_LIVE)
		return;
	for (u16 i = 0; i < session->options.queues; i++)
		if (session->queue[i].state == CORE_QUEUE_LIVE)
			lose(session, i, now_ns);
	if (!session->options.give_up_ms) {
		core_session_set_state(session, CORE_SESSION_NEW);
		session->start_ns = now_ns;
	}
	more = leave_target(session);
	begin_anew(session, now_ns);
	/* Portals that do not help are tried more and more rarely, however quickly they answer. */
	core_queue_plan_retry(session, 0, more ? CORE_RETRY_NOW : CORE_RETRY_DELAY, now_ns);
	core_session_settle(session, now_ns);
}

void core_session_leaves(struct core_session *session, u64 now_ns)
{
	if (core_session_over(session))
		return;
	session->leaves = true;
	for (u16 i = 0; i < session->queues && moves(session); i++) {
		struct core_queue *queue = &session->queue[i];

		if (queue->state != CORE_QUEUE_LIVE || queue->leaving)
			continue;
		queue->leaving = true;
		queue->todo |= QUEUE_LEAVE;
	}
	core_session_settle(session, now_ns);
}

/* -- time -------------------------------------------------------------------------------------- */

static void check_silence(struct core_session *session, u16 index, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];

	if (queue->probed && queue->heard_ns >= queue->probed_ns)
		queue->probed = false;
	if (now_ns < core_queue_keepalive_ns(queue))
		return;
	if (queue->probed) {
		live_lost(session, index, now_ns);
		/* An attempt there would only wait, if the target stands still, say: queue 0 tries the others. */
		if (!core_session_over(session) && !core_session_live(session) && session->options.portals > 1 &&
		    session->queue[0].home == queue->portal)
			attempt_failed(session, 0, now_ns);
		return;
	}
	probe(queue, now_ns);
}

void core_session_tick(struct core_session *session, u64 now_ns)
{
	rblk_trace_session(session, TICK, 0, 0);
	if (core_session_over(session))
		return;
	for (u16 i = 0; i < session->options.queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (queue->state == CORE_QUEUE_CONNECTING && now_ns >= queue->by_ns)
			attempt_failed(session, i, now_ns);
		else if (queue->state == CORE_QUEUE_LIVE)
			check_silence(session, i, now_ns);
	}
	if (now_ns >= core_session_deadline_ns(session))
		core_session_fail(session, CORE_FAILURE_TIMEOUT);
	if (now_ns >= core_session_give_up_ns(session))
		core_session_fail(session, CORE_FAILURE_GIVE_UP);
	if (now_ns >= core_session_fail_fast_ns(session) && !core_session_over(session))
		core_session_fail_fast(session);
	core_session_settle(session, now_ns);
}
