// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An initiator's session tells its caller these: the next action, the next time, a queue.
 * session_state.c prepares it.
 */
#include "proto/core/session_impl.h"
#include "proto/core/trace.h"

/* -- looking ----------------------------------------------------------------------------------- */

u16 core_session_live(const struct core_session *session)
{
	u16 live = 0;

	for (u16 i = 0; i < session->options.queues; i++)
		if (session->queue[i].state == CORE_QUEUE_LIVE)
			live++;
	return live;
}

int core_session_route(const struct core_session *session, u16 first)
{
	for (u16 i = 0; i < session->queues; i++) {
		u16 queue = (u16)((first + i) % session->queues);

		if (core_session_open(session, queue))
			return queue;
	}
	return -1;
}

bool core_session_may_connect(const struct core_session *session, u16 index)
{
	for (u16 i = 0; i < session->queues && session->leaves; i++)
		if (session->queue[i].leaving)
			return false;
	/* A target that has sent DRAINING and is not left, as nobody knows another one, may stay. */
	if (session->queue[0].state == CORE_QUEUE_LIVE)
		return true;
	return !index || (session->named && !session->leaves);
}

int core_session_carrier(const struct core_session *session)
{
	for (int via = session->queues - 1; via >= 0; via--)
		if (core_session_carries(session, (u16)via))
			return via;
	return -1;
}

/* Is a FENCE under way on this queue, or to be sent? */
static bool fences(const struct core_session *session, u16 via)
{
	for (u16 i = 0; i < session->options.queues; i++)
		if (session->queue[i].lost.fence_sent && session->queue[i].lost.via == via)
			return true;
	return false;
}

int core_session_fence_via(const struct core_session *session)
{
	for (int via = session->queues - 1; via >= 0; via--)
		if (core_session_carries(session, (u16)via) && !fences(session, (u16)via))
			return via;
	return -1;
}

/* -- times ------------------------------------------------------------------------------------- */

u64 core_queue_keepalive_ns(const struct core_queue *queue)
{
	if (queue->state != CORE_QUEUE_LIVE || !queue->keepalive_ms)
		return (u64)-1;
	return (queue->probed ? queue->probed_ns : queue->heard_ns) + queue->keepalive_ms * MS_NS;
}

/* Each portal may use its whole time limit, one after the other. */
u64 core_session_deadline_ns(const struct core_session *session)
{
	if (session->state != CORE_SESSION_NEW)
		return (u64)-1;
	return session->start_ns +
	       (u64)session->options.connect_timeout_ms * session->options.portals * MS_NS;
}

u64 core_session_fail_fast_ns(const struct core_session *session)
{
	if (!session->dead || !session->options.fail_fast_ms || session->failing_fast)
		return (u64)-1;
	return session->dead_ns + session->options.fail_fast_ms * MS_NS;
}

u64 core_session_give_up_ns(const struct core_session *session)
{
	return session->dead ? session->dead_ns + session->options.give_up_ms * MS_NS : (u64)-1;
}

static u64 earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

u64 core_session_next_ns(const struct core_session *session)
{
	u64 due_ns = earlier(core_session_fail_fast_ns(session), core_session_give_up_ns(session));

	if (core_session_over(session))
		return (u64)-1;
	due_ns = earlier(due_ns, core_session_deadline_ns(session));
	for (u16 i = 0; i < session->options.queues; i++) {
		const struct core_queue *queue = &session->queue[i];

		if (queue->state == CORE_QUEUE_CONNECTING)
			due_ns = earlier(due_ns, queue->by_ns);
		if (queue->state == CORE_QUEUE_ENDED && i < session->queues &&
		    core_session_may_connect(session, i))
			due_ns = earlier(due_ns, queue->retry_ns);
		if (core_lost_wants_fence(&queue->lost) && core_session_fence_via(session) >= 0)
			due_ns = earlier(due_ns, queue->lost.retry_ns);
		due_ns = earlier(due_ns, core_queue_keepalive_ns(queue));
	}
	return due_ns;
}

/* -- attempts ---------------------------------------------------------------------------------- */

/* How long a connection must be LIVE to count as a good one. */
#define LIVED_NS (1000 * MS_NS)
/* How long a target that has sent DRAINING is expected to be back at any moment. */
#define SOON_NS (10000 * MS_NS)

void core_session_expect(struct core_session *session, u64 now_ns)
{
	session->soon_ns = now_ns + SOON_NS;
}

void core_queue_plan_retry(struct core_session *session, u16 index, enum core_retry when,
			   u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];
	u64 wait_ns = 0;

	/* One queue that tries often is enough: the others follow when queue 0 is accepted. */
	if (!index && now_ns < session->soon_ns)
		core_backoff_shorten(&queue->backoff);
	if (when == CORE_RETRY_DELAY)
		wait_ns = core_backoff_next_ns(&queue->backoff);
	else if (when == CORE_RETRY_LATE)
		wait_ns = core_backoff_longest_ns(&queue->backoff);
	queue->retry_ns = now_ns + wait_ns;
}

enum core_retry core_queue_after_loss(struct core_session *session, u16 index, u64 now_ns)
{
	struct core_queue *queue = &session->queue[index];

	if (session->named && queue->heard_ns > queue->live_ns)
		core_backoff_shorten(&queue->backoff);
	if (now_ns - queue->live_ns >= LIVED_NS)
		core_backoff_reset(&queue->backoff);
	if (queue->backoff.delay_ms)
		return CORE_RETRY_DELAY;
	/* If that fails, the next attempt is after a delay. */
	queue->backoff.delay_ms = queue->backoff.min_ms;
	return CORE_RETRY_NOW;
}

/* -- actions ----------------------------------------------------------------------------------- */

/*
 * In this order: actions that end something come before those that begin something. A queue that was accepted may be lost
 * again before its actions are taken: then RELEASE is of the loss before, and comes before CLOSE, which lets commands of the
 * next loss be found that are not fenced (F5).
 */
static const struct {
	u8 todo;
	u8 kind;
} queue_actions[] = {
	{QUEUE_RELEASE, CORE_ACTION_RELEASE},
	{QUEUE_RELEASE_HARMLESS, CORE_ACTION_RELEASE_HARMLESS},
	{QUEUE_CLOSE, CORE_ACTION_CLOSE},
	{QUEUE_FENCE, CORE_ACTION_FENCE},
	{QUEUE_LEAVE, CORE_ACTION_LEAVE},
	{QUEUE_CONNECT, CORE_ACTION_CONNECT},
	{QUEUE_PROBE, CORE_ACTION_PROBE},
};

static bool queue_action(struct core_session *session, u16 index, u8 todo, u8 kind,
			 struct core_action *action)
{
	struct core_queue *queue = &session->queue[index];

	if (!(queue->todo & todo))
		return false;
	queue->todo &= (u8)~todo;
	action->kind = kind;
	action->queue = index;
	action->portal = queue->portal;
	action->via = queue->lost.via;
	action->epoch = session->epoch;
	action->incarnation = kind == CORE_ACTION_FENCE || kind == CORE_ACTION_RELEASE_HARMLESS ?
				      queue->lost.incarnation :
				      queue->incarnation;
	if (kind == CORE_ACTION_FENCE)
		queue->lost.asked = queue->lost.incarnation;
	action->fence = queue->accepted;
	action->renewed = queue->renewed;
	return true;
}

static const struct {
	u8 todo;
	u8 kind;
} session_actions[] = {
	{SESSION_STATE, CORE_ACTION_STATE},
	{SESSION_FAIL_FAST, CORE_ACTION_FAIL_FAST},
	{SESSION_FAIL_ALL, CORE_ACTION_FAIL_ALL},
	{SESSION_NAME, CORE_ACTION_NAME},
};

/*
 * F7: what a connection of the old epoch acknowledges counts as acknowledged in that one, so volumes are opened in the new
 * one only when all of those are drained.
 */
static bool may_name(const struct core_session *session)
{
	for (u16 i = 0; i < session->options.queues; i++)
		if (session->queue[i].lost.waits && !session->queue[i].lost.drained)
			return false;
	/* It may have been lost meanwhile; its next acceptance asks for NAME again. */
	return session->queue[0].state == CORE_QUEUE_LIVE;
}

bool core_session_action(struct core_session *session, struct core_action *action)
{
	memset(action, 0, sizeof(*action));
	for (u16 a = 0; a < sizeof(queue_actions) / sizeof(*queue_actions); a++)
		for (u16 i = 0; i < session->options.queues; i++)
			if (queue_action(session, i, queue_actions[a].todo, queue_actions[a].kind,
					 action)) {
				rblk_trace_action(session, action);
				return true;
			}
	for (u16 a = 0; a < sizeof(session_actions) / sizeof(*session_actions); a++) {
		if (!(session->todo & session_actions[a].todo) ||
		    (session_actions[a].todo == SESSION_NAME && !may_name(session)))
			continue;
		session->todo &= (u8)~session_actions[a].todo;
		action->kind = session_actions[a].kind;
		action->epoch = session->epoch;
		rblk_trace_action(session, action);
		return true;
	}
	session->acts = false;
	return false;
}
