/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the session's deadlines: connecting, commands, keep-alive, retries, late SENDs. Checked once per turn at
 * most and per millisecond at least, never per I/O. Draining is bounded by the fabric.
 */
#include "initiator/fence.h"
#include "initiator/reopen_volumes.h"
#include "initiator/session.h"

#include "proto/wire/wire_names.h"
#include "proto/words/units.h"

#define MS_NS 1000000ull
#define TIMER_PERIOD_NS MS_NS
/* How often devices without a connection are looked for: see fab_devices_check(). */
#define DEVICES_PERIOD_NS (3000 * MS_NS)

/* -- commands ---------------------------------------------------------------------------------- */

/* A target that works answers an ABORT at once. */
#define ABORT_MS 5000u

static u64 command_ns(const struct rblk_session *session)
{
	return session->options.command_timeout_ms * MS_NS;
}

static u64 abort_ns(const struct rblk_session *session)
{
	u64 limit_ns = command_ns(session);

	return limit_ns < ABORT_MS * MS_NS ? limit_ns : ABORT_MS * MS_NS;
}

/* FENCE and RESERVE are answered when storage has completed the I/O that it had begun (F5), however long that takes. */
static bool slot_lasts(const struct ini_slot *slot)
{
	return slot->command.opcode == RBLK_OP_FENCE || slot->command.opcode == RBLK_OP_RESERVE;
}

/* When the timer must act on a command that was sent. */
static u64 slot_due_ns(const struct ini_slot *slot)
{
	const struct rblk_session *session = slot->queue->session;

	if (slot_lasts(slot))
		return (slot->asked_ns ? slot->asked_ns : slot->sent_ns) + command_ns(session);
	if (slot->command.opcode == RBLK_OP_ABORT)
		return slot->sent_ns + abort_ns(session);
	if (!slot->overdue_ns)
		return slot->sent_ns + command_ns(session);
	/* A command that has begun takes as long as its store: other volumes use this connection, too. */
	if (!session->options.begun_timeout_ms)
		return UINT64_MAX;
	return slot->overdue_ns + session->options.begun_timeout_ms * MS_NS;
}

/*
 * Its time is over. I/O is aborted first, which ends a command that has not begun. One that has
 * begun runs on, for begun_timeout_ms if the program has set that. True: the connection must be ended.
 */
static bool slot_overdue(struct ini_slot *slot)
{
	if (slot_lasts(slot)) {
		/* There may be no target any more, and with a keepalive_ms of 0 nobody else asks. */
		ini_control_keepalive(slot->queue);
		slot->asked_ns = slot->queue->session->now_ns;
		return false;
	}
	if (!slot->volume || slot->overdue_ns)
		return true;
	slot->overdue_ns = slot->queue->session->now_ns;
	return false;
}

/* An ABORT asks whether the target is alive, too: again and again while the command has no answer. */
static bool wants_abort(const struct ini_slot *slot)
{
	const struct rblk_session *session = slot->queue->session;

	if (slot->abort_sent)
		return slot->overdue_ns && session->now_ns - slot->asked_ns >= command_ns(session);
	return slot->overdue_ns || slot->canceled;
}

static void lose_overdue(struct ini_queue *queue, const struct ini_slot *slot)
{
	const struct rblk_session *session = queue->session;
	u64 waited_ns = session->now_ns - slot->sent_ns;
	char text[UNITS_TEXT_BYTES];

	if (slot->volume)
		units_text(UNITS_TIME_MS, session->options.command_timeout_ms, text);
	else
		units_format_us((double)waited_ns / 1e3, text);
	ini_queue_lose(queue, -ETIMEDOUT, "%s was not answered within %s", rblk_opcode_name(slot->command.opcode), text);
}

/*
 * check_ns is when the first of them is due, or an ABORT could be that is sent now: commands sent
 * after that check are due later, so nothing is missed by not checking earlier.
 */
static void check_commands(struct ini_queue *queue)
{
	struct rblk_session *session = queue->session;
	u64 now_ns = session->now_ns, next_ns = now_ns + abort_ns(session);

	if (now_ns < queue->check_ns)
		return;
	for (u32 tag = 0; tag < core_tags_count(queue->tags.credits); tag++) {
		struct ini_slot *slot = &queue->slots[tag];
		u64 due_ns;

		if (queue->tag_array[tag].state != CORE_TAG_SENT)
			continue;
		if (slot_due_ns(slot) <= now_ns && slot_overdue(slot)) {
			lose_overdue(queue, slot);
			return;
		}
		if (wants_abort(slot))
			ini_slot_abort(slot);
		due_ns = wants_abort(slot) ? now_ns + TIMER_PERIOD_NS : slot_due_ns(slot);
		if (due_ns < next_ns)
			next_ns = due_ns;
	}
	queue->check_ns = next_ns;
}

/* -- events ------------------------------------------------------------------------------------ */

/* The target is told that its event was seen, so that the next may come (V9). */
static bool event_untold(const struct rblk_session *session)
{
	return session->ready && session->queues[0].state == INI_QUEUE_LIVE &&
	       session->events.seen != session->events.confirmed;
}

/* -- the session ------------------------------------------------------------------------------- */

/* Until then, what waits for a SEND does so. */
static u64 late_ns(const struct ini_queue *queue)
{
	return queue->last_send_ns + CORE_CLOCK_LATE_MS * MS_NS;
}

void ini_timer_run(struct rblk_session *session)
{
	if (session->now_ns - session->looks.timers_ns < TIMER_PERIOD_NS && !session->looks.events_due)
		return;
	session->looks.timers_ns = session->now_ns;
	if (session->publish)
		ini_session_publish(session);
	if (session->now_ns - session->looks.devices_ns >= DEVICES_PERIOD_NS) {
		session->looks.devices_ns = session->now_ns;
		for (u16 i = 0; i < session->fabs.count; i++)
			fab_devices_check(session->fabs.list[i]);
	}
	core_session_tick(&session->core, session->now_ns);
	/* All reserved tags are in use, so there are outstanding commands, and the next turn
	 * tries again. */
	if (event_untold(session))
		ini_control_keepalive(&session->queues[0]);
	ini_reopen_run(session);
	ini_fence_run(session);
	for (u16 i = 0; i < session->queue_count; i++) {
		struct ini_queue *queue = &session->queues[i];

		if (queue->state != INI_QUEUE_LIVE)
			continue;
		if (queue->tags.sent)
			check_commands(queue);
		if (queue->retry.head)
			ini_queue_retry(queue, session->now_ns);
		if (queue->clock.owed && session->now_ns >= late_ns(queue))
			queue->urgent = true;
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
	/* Urgent and still there, it waits for room, which a completion makes. */
	if (queue->clock.owed && !queue->urgent)
		due_ns = earlier(due_ns, late_ns(queue));
	for (const struct ini_slot *slot = queue->retry.head; slot; slot = slot->next)
		due_ns = earlier(due_ns, slot->retry_ns);
	return due_ns;
}

int ini_timer_next_ms(const struct rblk_session *session)
{
	u64 now_ns = env_now_ns(), due_ns = UINT64_MAX;
	int fabric_ms = ini_fabs_timeout_ms(&session->fabs), own_ms;

	if (session->ended)
		return -1;
	if (ini_control_due(session))
		due_ns = now_ns;
	if (event_untold(session))
		due_ns = earlier(due_ns, session->looks.timers_ns + TIMER_PERIOD_NS);
	due_ns = earlier(due_ns, core_session_next_ns(&session->core));
	if (session->logout_ns && !core_session_over(&session->core))
		due_ns = earlier(due_ns, session->logout_ns);
	due_ns = earlier(due_ns, ini_reopen_due_ns(session));
	due_ns = earlier(due_ns, ini_fence_due_ns(session));
	for (u16 i = 0; i < session->queue_count; i++)
		if (session->queues[i].state == INI_QUEUE_LIVE)
			due_ns = earlier(due_ns, queue_due_ns(&session->queues[i]));
	if (due_ns == UINT64_MAX)
		return fabric_ms;
	/* Rounded up, so that the turn after the sleep finds it due; bounded to fit an int. */
	own_ms = due_ns <= now_ns ? 0 : (int)(earlier(due_ns - now_ns, 3600000 * MS_NS) / MS_NS) + 1;
	return fabric_ms >= 0 && fabric_ms < own_ms ? fabric_ms : own_ms;
}
