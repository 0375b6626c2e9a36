/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the session's deadlines: connecting, commands, keep-alive, retries. Checked once per turn at
 * most and per millisecond at least, never per I/O. Draining is bounded by the fabric.
 */
#include "initiator/session.h"

#include "proto/wire/wire_names.h"

#define MS_NS 1000000ull
#define TIMER_PERIOD_NS MS_NS

/* -- commands ---------------------------------------------------------------------------------- */

/*
 * check_ns is when the oldest command of the last check would time out. Commands sent after that
 * check are due later, so nothing is missed by not checking earlier.
 */
static void check_commands(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	u64 limit_ns = session->options.command_timeout_ms * MS_NS;
	u64 now_ns = session->now_ns, oldest_ns = now_ns;

	if (now_ns < queue->check_ns)
		return;
	for (u32 tag = 0; tag < core_tags_count(queue->tags.credits); tag++) {
		struct ini_slot *slot = &queue->slots[tag];

		/* FENCE is answered when storage has ended what it had begun (F5), however long that takes. */
		if (queue->tag_array[tag].state != CORE_TAG_SENT ||
		    slot->command.opcode == RBLK_OP_FENCE)
			continue;
		if (now_ns - slot->sent_ns >= limit_ns) {
			ini_queue_lose(queue, -ETIMEDOUT, "%s was not answered within %u ms",
				       rblk_opcode_name(slot->command.opcode),
				       session->options.command_timeout_ms);
			return;
		}
		if (slot->sent_ns < oldest_ns)
			oldest_ns = slot->sent_ns;
	}
	queue->check_ns = oldest_ns + limit_ns;
}

/* -- events ------------------------------------------------------------------------------------ */

/* The target is told that its event was seen, so that the next may come (V9). */
static bool event_untold(const struct rblk_session *session)
{
	return session->ready && session->queues[0].state == INI_QUEUE_LIVE &&
	       session->event_seen != session->event_told;
}

/* -- the session ------------------------------------------------------------------------------- */

void ini_timer_run(struct rblk_session *session)
{
	if (session->now_ns - session->timers_ns < TIMER_PERIOD_NS && !session->events_due)
		return;
	session->timers_ns = session->now_ns;
	core_session_tick(&session->core, session->now_ns);
	/* Reserved tags are all in use: then there are commands under way, and the next turn tries again. */
	if (event_untold(session) && !session->queues[0].pending_count)
		ini_control_keepalive(&session->queues[0]);
	for (u16 i = 0; i < session->queue_count; i++) {
		struct ini_queue *queue = &session->queues[i];

		if (queue->state != INI_QUEUE_LIVE)
			continue;
		if (queue->tags.sent)
			check_commands(queue);
		if (queue->retry.head)
			ini_queue_retry(queue, session->now_ns);
	}
}

static u64 earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 queue_due_ns(const struct ini_queue *queue)
{
	u64 due_ns = UINT64_MAX;

	if (queue->tags.sent)
		due_ns = earlier(due_ns, queue->check_ns);
	for (const struct ini_slot *slot = queue->retry.head; slot; slot = slot->next)
		due_ns = earlier(due_ns, slot->retry_ns);
	return due_ns;
}

int ini_timer_next_ms(const struct rblk_session *session)
{
	u64 now_ns = env_now_ns(), due_ns = UINT64_MAX;
	int fabric_ms = fab_timeout_ms(session->fab), own_ms;

	if (session->ended)
		return -1;
	if (event_untold(session))
		due_ns = now_ns;
	due_ns = earlier(due_ns, core_session_next_ns(&session->core));
	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].state == INI_QUEUE_LIVE)
			due_ns = earlier(due_ns, queue_due_ns(&session->queues[i]));
	if (due_ns == UINT64_MAX)
		return fabric_ms;
	/* Rounded up, so that the turn after the sleep finds it due; bounded to fit an int. */
	own_ms = due_ns <= now_ns ? 0 : (int)(earlier(due_ns - now_ns, 3600000 * MS_NS) / MS_NS) + 1;
	return fabric_ms >= 0 && fabric_ms < own_ms ? fabric_ms : own_ms;
}
