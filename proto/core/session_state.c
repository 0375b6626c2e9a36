// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The states of an initiator's session and of its queues: the changes that several events share, and
 * what follows from all states after each event. Called by session_event.c, in which each event ends
 * with core_session_settle().
 */
#include "proto/core/session_impl.h"

const char *core_session_state_name(u8 state)
{
	static const char *const names[CORE_SESSION_STATES] = {"new",	   "live",   "recovering",
							       "renewing", "failed", "ended"};

	return state < CORE_SESSION_STATES ? names[state] : "unknown";
}

const char *core_queue_state_name(u8 state)
{
	static const char *const names[CORE_QUEUE_STATES] = {"ended", "connecting", "live",
							     "ending"};

	return state < CORE_QUEUE_STATES ? names[state] : "unknown";
}

/* -- changing ---------------------------------------------------------------------------------- */

void core_session_set_state(struct core_session *session, enum core_session_state state)
{
	if (session->state == state)
		return;
	session->state = (u8)state;
	session->todo |= SESSION_STATE;
}

/* Actions on a connection that ends are dropped, except those that its lost commands need. */
void core_queue_close(struct core_queue *queue)
{
	if (queue->state != CORE_QUEUE_CONNECTING && queue->state != CORE_QUEUE_LIVE)
		return;
	/* A login that the caller has not been told to send needs no close, but is handled the
	 * same way.
	 */
	queue->state = CORE_QUEUE_ENDING;
	/* For commands that were lost before. */
	queue->todo &= QUEUE_RELEASE | QUEUE_RELEASE_HARMLESS | QUEUE_FENCE;
	queue->todo |= QUEUE_CLOSE;
	queue->leaving = false;
}

void core_session_close_all(struct core_session *session)
{
	for (u16 i = 0; i < session->options.queues; i++)
		core_queue_close(&session->queue[i]);
}

void core_session_fail(struct core_session *session, enum core_failure why)
{
	if (core_session_over(session))
		return;
	session->failure = (u8)why;
	session->todo &= (u8) ~(SESSION_NAME | SESSION_FAIL_FAST);
	core_session_set_state(session, CORE_SESSION_FAILED);
	core_session_close_all(session);
}

/* -- portals ------------------------------------------------------------------------------------ */

bool core_session_is_foreign(const struct core_session *session, u16 portal)
{
	return session->options.group[portal] != session->group || session->foreign >> portal & 1;
}

bool core_session_may_be_elsewhere(const struct core_session *session, const u8 instance[16], u16 status)
{
	bool others = false;

	for (u16 portal = 0; portal < session->options.portals; portal++)
		others |= core_session_is_foreign(session, portal);
	return (status == RBLK_E_NO_VOLUME && others) ||
	       (session->options.portals > 1 && memcmp(instance, session->instance, sizeof(session->instance)));
}

bool core_session_differ(const struct core_session *session, u16 a, u16 b)
{
	return session->options.group[a] != session->options.group[b] ||
	       (session->foreign >> a ^ session->foreign >> b) & 1;
}

u16 core_session_home(const struct core_session *session, u16 index)
{
	u16 portals = session->options.portals, first = session->queue[0].home, own = 0;

	for (u16 portal = 0; portal < portals; portal++)
		own += !core_session_is_foreign(session, portal);
	if (!own)
		return first;
	index %= own;
	for (u16 i = 0; i < portals; i++) {
		u16 portal = (u16)((first + i) % portals);

		if (!core_session_is_foreign(session, portal) && !index--)
			return portal;
	}
	return first;
}

void core_queue_go_home(struct core_queue *queue, u16 portal)
{
	queue->home = portal;
	if (queue->state == CORE_QUEUE_CONNECTING)
		core_queue_close(queue); /* its next attempt is where it belongs */
}

/* How many queues have their home at this portal. */
static u16 queues_at(const struct core_session *session, u16 portal)
{
	u16 queues = 0;

	for (u16 i = 0; i < session->queues; i++)
		queues += session->queue[i].home == portal;
	return queues;
}

/* A queue to move: one with its home at another target, else one that shares its home, preferably not LIVE there. */
static struct core_queue *spare(struct core_session *session)
{
	struct core_queue *found = NULL;

	for (u16 i = 1; i < session->queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (core_session_is_foreign(session, queue->home))
			return queue;
		if (queues_at(session, queue->home) > 1 && (!found || queue->state != CORE_QUEUE_LIVE))
			found = queue;
	}
	return found;
}

void core_session_rehome(struct core_session *session)
{
	u16 portals = session->options.portals, first = session->queue[0].home;

	for (u16 i = 0; i < portals; i++) {
		u16 portal = (u16)((first + i) % portals);
		struct core_queue *queue;

		if (core_session_is_foreign(session, portal) || queues_at(session, portal))
			continue;
		queue = spare(session);
		if (!queue)
			break;
		core_queue_go_home(queue, portal);
	}
	for (u16 i = 1; i < session->queues; i++)
		if (core_session_is_foreign(session, session->queue[i].home))
			core_queue_go_home(&session->queue[i], core_session_home(session, i));
}

static u32 all_portals(const struct core_session *session)
{
	return (1u << session->options.portals) - 1;
}

u32 core_session_tried(const struct core_session *session)
{
	u16 here = session->queue[0].portal;
	u32 mask = 0;

	for (u16 portal = 0; portal < session->options.portals; portal++)
		mask |= (u32)!core_session_differ(session, here, portal) << portal;
	return session->tried | (mask == all_portals(session) ? 1u << here : mask);
}

bool core_session_elsewhere(const struct core_session *session)
{
	return core_session_tried(session) != all_portals(session);
}

/* -- consequences ------------------------------------------------------------------------------ */

/*
 * How many times longer than the pause before it an attempt to come back may take. It is short at
 * first, because the connection manager repeats a request that was lost only after seconds.
 */
#define ATTEMPT_PAUSES 20

static u32 attempt_ms(const struct core_session *session, const struct core_queue *queue)
{
	u64 ms = (u64)queue->backoff.delay_ms * ATTEMPT_PAUSES;
	u32 most = session->options.connect_timeout_ms;

	/* Where the pauses do not grow any more, attempts still do. */
	if (queue->backoff.delay_ms == queue->backoff.max_ms && ms < queue->patience_ms)
		ms = queue->patience_ms;
	return session->state == CORE_SESSION_NEW || !ms || ms > most ? most : (u32)ms;
}

static void connect_queues(struct core_session *session, u64 now_ns)
{
	for (u16 i = 0; i < session->queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (queue->state != CORE_QUEUE_ENDED || now_ns < queue->retry_ns ||
		    !core_session_may_connect(session, i))
			continue;
		queue->state = CORE_QUEUE_CONNECTING;
		queue->incarnation++;
		queue->portal = queue->home;
		queue->attempt_ms = attempt_ms(session, queue);
		queue->by_ns = now_ns + queue->attempt_ms * MS_NS;
		queue->todo |= QUEUE_CONNECT;
	}
}

/* F5 over any LIVE queue, so that commands do not wait for a portal that is gone. */
static void send_fences(struct core_session *session, u64 now_ns)
{
	for (u16 i = 0; i < session->options.queues; i++) {
		struct core_queue *queue = &session->queue[i];
		int via;

		if (!core_lost_wants_fence(&queue->lost) || now_ns < queue->lost.retry_ns)
			continue;
		via = core_session_fence_via(session);
		if (via < 0)
			continue;
		queue->lost.fence_sent = true;
		queue->lost.via = (u16)via;
		queue->todo |= QUEUE_FENCE;
	}
}

static void release_commands(struct core_session *session)
{
	for (u16 i = 0; i < session->options.queues; i++) {
		struct core_queue *queue = &session->queue[i];

		if (core_lost_harmless_ready(&queue->lost, session->named)) {
			queue->lost.harmless = true;
			queue->todo |= QUEUE_RELEASE_HARMLESS;
		}
		if (!core_lost_ready(&queue->lost, session->named))
			continue;
		queue->lost.waits = false;
		queue->lost.fence_sent = false;
		queue->renewed = queue->lost.renewed;
		queue->todo &= (u8)~(QUEUE_FENCE | QUEUE_RELEASE_HARMLESS);
		queue->todo |= QUEUE_RELEASE;
	}
}

static void end_all(struct core_session *session)
{
	if (session->failed_all)
		return;
	for (u16 i = 0; i < session->options.queues; i++)
		if (session->queue[i].state != CORE_QUEUE_ENDED)
			return;
	session->failed_all = true;
	session->todo |= SESSION_FAIL_ALL;
}

/* F5: what FAIL_FAST has failed must not land on what is sent from now on. */
static void hold_commands(struct core_session *session)
{
	session->held = false;
	for (u16 i = 0; i < session->options.queues; i++)
		session->held |= core_lost_holds(&session->queue[i].lost);
}

void core_session_fail_fast(struct core_session *session)
{
	session->failing_fast = true;
	session->todo |= SESSION_FAIL_FAST;
	for (u16 i = 0; i < session->options.queues; i++)
		session->queue[i].lost.failed = session->queue[i].lost.waits;
}

static bool no_queue_is_up(const struct core_session *session)
{
	for (u16 i = 0; i < session->queues; i++)
		if (core_session_carries(session, i))
			return false;
	return true;
}

void core_session_settle(struct core_session *session, u64 now_ns)
{
	bool dead;

	session->acts = true;
	if (core_session_over(session)) {
		end_all(session);
		return;
	}
	dead = session->state != CORE_SESSION_NEW && no_queue_is_up(session);
	if (dead && !session->dead)
		session->dead_ns = now_ns;
	session->dead = dead;
	if (!dead)
		session->failing_fast = false;
	if (dead && !session->options.give_up_ms) {
		/* A session that does not reconnect. */
		core_session_fail(session, CORE_FAILURE_GIVE_UP);
		end_all(session);
		return;
	}
	connect_queues(session, now_ns);
	send_fences(session, now_ns);
	hold_commands(session);
	release_commands(session);
}
