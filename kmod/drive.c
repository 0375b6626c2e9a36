// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tells a session's state machine what happened, and takes its actions: one work hands them out and
 * carries them out, but for what connects and closes queues, for which each has a work of its own
 * (works.c). See drive.h.
 *
 * drive_work alone hands out, one action after the other. So whatever it sent on a connection is
 * sent before it lets the queue's work take that down, which ends it. Only a FENCE outlives a
 * connection: it says which incarnation it fences, and its answer counts for that alone.
 */
#include <linux/jiffies.h>
#include <linux/random.h>
#include <linux/sched/mm.h>

#include "kmod/drive.h"
#include "kmod/attach_limits.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "kmod/tell.h"
#include "kmod/volume.h"
#include "kmod/waiting.h"
#include "proto/core/trace.h"

u64 rblk_drive_now(void)
{
	return jiffies64_to_nsecs(get_jiffies_64());
}

/* -- what is to be done at a time -- */

bool rblk_due_at(struct rblk_due *due, unsigned long at)
{
	if (due->set && !time_before(at, due->at))
		return false;
	*due = (struct rblk_due){ true, at };
	return true;
}

void rblk_drive_in(struct rblk_session *session, unsigned long wait)
{
	session->drive_wait = min(session->drive_wait, wait);
}

bool rblk_drive_is_due(struct rblk_session *session, const struct rblk_due *due)
{
	if (due->set && time_before(jiffies, due->at))
		rblk_drive_in(session, due->at - jiffies);
	return due->set && !time_before(jiffies, due->at);
}

/* -- what happened -- */

/*
 * Which queue takes the requests of a hardware context: its own, or the next one that has
 * interrupts. So lost queues' requests are spread over the others, which have few tags for them.
 * The machine would hold all of them for what has failed (F5): here waiting.c holds those of its
 * volume.
 */
static u8 rblk_drive_route(const struct rblk_session *session, unsigned int home)
{
	unsigned int i, queue;

	for (i = 0; i < session->queue_count; i++) {
		queue = (home + i) % session->queue_count;
		if (core_session_carries(&session->core, queue) &&
		    (!i || !session->queues[queue]->polled))
			return queue;
	}
	return RBLK_NO_ROUTE;
}

/* Called with core_lock held, after each event. */
static void rblk_drive_routes(struct rblk_session *session)
{
	const struct core_session *core = &session->core;
	u8 gate = RBLK_GATE_HOLD;
	unsigned int i;

	lockdep_assert_held(&session->core_lock);
	/* Before the routes: a request that finds no route reads the gate before it waits. */
	if (core_session_over(core))
		gate = RBLK_GATE_FAIL;
	else if (core->failing_fast)
		gate = RBLK_GATE_FAIL_FAST;
	WRITE_ONCE(session->gate, gate);
	for (i = 0; i < session->queue_count; i++)
		smp_store_release(&session->route[i], rblk_drive_route(session, i));
}

/* In a new epoch no handle is valid. */
static void rblk_drive_renew(struct rblk_session *session)
{
	struct rblk_disk *disk;

	lockdep_assert_held(&session->core_lock);
	if (session->epoch == session->core.epoch)
		return;
	session->epoch = session->core.epoch;
	list_for_each_entry(disk, &session->disks, peer)
		if (disk->ready)
			rblk_volume_closed(disk);
}

void rblk_drive_follow(struct rblk_session *session)
{
	lockdep_assert_held(&session->core_lock);
	rblk_drive_renew(session);
	rblk_drive_routes(session);
	rblk_drive_kick(session);
}

void rblk_drive_kick(struct rblk_session *session)
{
	mod_delayed_work(rblk_workqueue, &session->drive_work, 0);
}

/* With a reason (enum rblk_reject_reason), the target has refused the attempt; 0: it is lost. */
static void __printf(4, 0)
rblk_drive_down(struct rblk_queue *queue, u16 reason, u32 detail, const char *format, va_list args)
{
	struct rblk_session *session = queue->session;
	struct core_session *core = &session->core;
	char why[RBLK_TEXT_BYTES];
	unsigned long flags;
	u8 state;

	vscnprintf(why, sizeof(why), format, args);
	spin_lock_irqsave(&session->core_lock, flags);
	state = core->queue[queue->index].state;
	if (state == CORE_QUEUE_LIVE && !reason)
		rblk_tell_lost(queue, "%s", why);
	else if (state == CORE_QUEUE_CONNECTING)
		rblk_tell_attempt(queue, "%s", why);
	else
		goto out;
	if (reason)
		core_session_rejected(core, queue->index, reason, detail, rblk_drive_now());
	else
		core_session_lost(core, queue->index, rblk_drive_now());
	rblk_drive_follow(session);
out:
	spin_unlock_irqrestore(&session->core_lock, flags);
}

void rblk_queue_lost(struct rblk_queue *queue, const char *format, ...)
{
	va_list args;

	rblk_trace_queue_lost(format);
	va_start(args, format);
	rblk_drive_down(queue, 0, 0, format, args);
	va_end(args);
}

void rblk_queue_rejected(struct rblk_queue *queue, u16 reason, u32 detail, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	rblk_drive_down(queue, reason, detail, format, args);
	va_end(args);
}

void rblk_queue_heard(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;
	unsigned long flags = 0;

	/*
	 * A 32-bit kernel stores the time in two halves, which a reader under the lock must not see
	 * apart.
	 */
	if (!IS_ENABLED(CONFIG_64BIT))
		spin_lock_irqsave(&session->core_lock, flags);
	core_session_heard(&session->core, queue->index, rblk_drive_now());
	if (!IS_ENABLED(CONFIG_64BIT))
		spin_unlock_irqrestore(&session->core_lock, flags);
}

void rblk_drive_abandon(struct rblk_session *session, const char *why)
{
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (!core_session_over(&session->core)) { /* no other reason counts */
		strscpy(session->reason, why, sizeof(session->reason));
		session->attempt[0] = '\0';
	}
	core_session_abandon(&session->core, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irqrestore(&session->core_lock, flags);
}

/* -- the timer -- */

/* The queue was in that state before the machine was told the time. */
static void rblk_drive_tell_silent(struct rblk_queue *queue, u8 state)
{
	const struct core_session *core = &queue->session->core;

	if (core->queue[queue->index].state == state)
		return;
	if (state == CORE_QUEUE_CONNECTING)
		rblk_tell_attempt(queue, "%s: no answer in " RBLK_TIME,
				  rblk_queue_connect_step(queue), RBLK_TIME_OF(queue->attempt_ms));
	else if (state == CORE_QUEUE_LIVE && !core_session_over(core))
		rblk_tell_lost(queue, "no answer to KEEPALIVE for " RBLK_TIME,
			       RBLK_TIME_OF(queue->keepalive_ms));
}

/* The machine notices silence, and loses the connections: what it lost is said and counted here. */
static void rblk_drive_tick(struct rblk_session *session)
{
	const struct core_queue *queues = session->core.queue;
	u64 now = rblk_drive_now();
	u8 states[RBLK_QUEUES_MAX];
	unsigned int i;

	spin_lock_irq(&session->core_lock);
	/* An attempt may also end because the session does. */
	for (i = 0; i < session->queue_count; i++)
		states[i] = queues[i].state == CORE_QUEUE_CONNECTING && now < queues[i].by_ns ?
				    CORE_QUEUE_ENDED : queues[i].state;
	core_session_tick(&session->core, now);
	for (i = 0; i < session->queue_count; i++)
		rblk_drive_tell_silent(session->queues[i], states[i]);
	rblk_drive_renew(session);
	rblk_drive_routes(session);
	spin_unlock_irq(&session->core_lock);
}

/* How often a queue that is to move is looked at. */
#define RBLK_LEAVE_MS 10u

/*
 * Queues that are to move to another portal take no commands any more, and are lost when their last
 * one is answered: none has to be sent again. What storage does not end in command_ms (a FENCE,
 * requests of a disk that hangs) does not keep them: it waits as long elsewhere.
 */
static void rblk_drive_leave(struct rblk_session *session)
{
	unsigned int i;

	for_each_set_bit(i, &session->leaving, session->queue_count) {
		if (!rblk_queue_idle(session->queues[i]) &&
		    time_before(jiffies, session->queues[i]->leave_by)) {
			rblk_drive_in(session, msecs_to_jiffies(RBLK_LEAVE_MS));
			continue;
		}
		__clear_bit(i, &session->leaving);
		rblk_queue_lost(session->queues[i], "moves to another portal");
	}
}

/*
 * The commands that nobody waits for: some are sent, and the times of all looked at; on a polled
 * queue the answers, too.
 */
static void rblk_drive_calls(struct rblk_session *session)
{
	unsigned int i;

	rblk_works_name(session);
	/*
	 * An event is confirmed, so that the target may tell the next one; one that came before
	 * queue 0 was accepted is when it is: nothing was to be sent before the target had proven
	 * itself.
	 */
	if (READ_ONCE(session->core.queue[0].state) == CORE_QUEUE_LIVE &&
	    READ_ONCE(session->event_seen) != READ_ONCE(session->event_told))
		rblk_works_probe(session->queues[0]);
	for (i = 0; i < session->queue_count; i++) {
		struct rblk_queue *queue = session->queues[i];
		bool asks = false;

		rblk_overdue_abort(queue);
		rblk_works_fence_volumes(queue);
		rblk_call_late(queue, &asks);
		if (asks)
			rblk_works_probe(queue);
		if (!queue->polled || !READ_ONCE(queue->reserved_used))
			continue;
		rblk_queue_poll(queue, NULL);
		rblk_drive_in(session, msecs_to_jiffies(RBLK_CALL_POLL_MS));
	}
}

/* It runs again at the machine's next time, or for what is due; earlier if something happens. */
static void rblk_drive_again(struct rblk_session *session)
{
	u64 now = rblk_drive_now(), next;

	spin_lock_irq(&session->core_lock);
	next = core_session_next_ns(&session->core);
	spin_unlock_irq(&session->core_lock);
	if (next != U64_MAX)
		rblk_drive_in(session, next > now ? nsecs_to_jiffies(next - now) + 1 : 0);
	/* If it is queued already, then for now. */
	if (session->drive_wait != MAX_JIFFY_OFFSET)
		queue_delayed_work(rblk_workqueue, &session->drive_work, session->drive_wait);
}

/* -- a new state -- */

/* Act on the session's new state for its disks, then tell of it. Called by drive_work. */
static void rblk_drive_state_changed(struct rblk_session *session)
{
	u8 state = READ_ONCE(session->core.state);
	struct rblk_disk *disk;
	bool failed = false;

	spin_lock_irq(&session->core_lock);
	list_for_each_entry(disk, &session->disks, peer) {
		/* In the same epoch nobody has told it what changed meanwhile. */
		if (state == CORE_SESSION_LIVE && disk->ready && READ_ONCE(disk->added))
			rblk_volume_recheck(disk);
		/* An attach takes the first failure for its answer. */
		if (state != CORE_SESSION_LIVE && disk->opened && !disk->endures) {
			WRITE_ONCE(disk->ready, false);
			WRITE_ONCE(disk->gate, RBLK_GATE_FAIL);
			failed = true;
		}
	}
	spin_unlock_irq(&session->core_lock);
	if (failed)
		rblk_waiting_sweep(session);
	rblk_tell_state(session, state);
}

/* -- handing out -- */

/* Under core_lock: what the works read is this action's. */
static void rblk_drive_prepare(struct rblk_session *session, const struct core_action *action)
{
	struct rblk_queue *queue = session->queues[action->queue];

	if (action->kind == CORE_ACTION_CONNECT) {
		queue->incarnation = action->incarnation;
		queue->fence_incarnation = action->fence;
		queue->epoch = action->epoch;
		queue->session_queues = session->core.queues;
		queue->portal = action->portal;
		queue->attempt_ms = session->core.queue[action->queue].attempt_ms;
		queue->step = 0;
		queue->next_step = 0;
		queue->connects = true;
	} else if (action->kind == CORE_ACTION_CLOSE) {
		queue->connects = false;
		queue->closes = true;
		__clear_bit(action->queue, &session->leaving);
	} else if (action->kind == CORE_ACTION_RELEASE_HARMLESS) {
		queue->volumes.incarnation = action->incarnation;
		queue->volumes.epoch = action->epoch;
		rblk_works_ask_volumes(queue);
	} else if (action->kind == CORE_ACTION_NAME) {
		session->naming = (struct rblk_naming){
			.due = { true, jiffies },
			.by = jiffies + msecs_to_jiffies(session->options.connect_ms),
		};
	}
}

static void rblk_drive_act(struct rblk_session *session, const struct core_action *action)
{
	struct rblk_queue *queue = session->queues[action->queue];

	switch (action->kind) {
	case CORE_ACTION_CLOSE:
	case CORE_ACTION_CONNECT:
		queue_work(rblk_workqueue, &queue->work);
		break;
	case CORE_ACTION_LEAVE:
		queue->leave_by = jiffies + msecs_to_jiffies(session->options.command_ms);
		__set_bit(action->queue, &session->leaving);
		break;
	case CORE_ACTION_FENCE:
		rblk_works_fence(session, action);
		break;
	case CORE_ACTION_PROBE:
		rblk_works_probe(queue);
		break;
	case CORE_ACTION_RELEASE:
	case CORE_ACTION_RELEASE_HARMLESS:
		rblk_waiting_release(session, action->queue, action->kind == CORE_ACTION_RELEASE);
		break;
	case CORE_ACTION_FAIL_FAST:
		rblk_waiting_sweep(session);
		break;
	case CORE_ACTION_FAIL_ALL:
		rblk_waiting_sweep(session);
		WRITE_ONCE(session->ended, true);
		break;
	case CORE_ACTION_STATE:
		rblk_drive_state_changed(session);
		break;
	case CORE_ACTION_NAME:
	case CORE_ACTION_NONE:
	case CORE_ACTIONS:
		break;
	}
}

static void rblk_drive_work(struct work_struct *work)
{
	struct rblk_session *session =
		container_of(to_delayed_work(work), struct rblk_session, drive_work);
	unsigned int noio = memalloc_noio_save();
	struct core_action action;
	bool more;

	session->drive_wait = MAX_JIFFY_OFFSET;
	rblk_drive_tick(session);
	do {
		spin_lock_irq(&session->core_lock);
		more = core_session_action(&session->core, &action);
		if (more)
			rblk_drive_prepare(session, &action);
		spin_unlock_irq(&session->core_lock);
		if (more)
			rblk_drive_act(session, &action);
	} while (more);
	rblk_drive_leave(session);
	rblk_waiting_send_due(session);
	rblk_drive_calls(session);
	rblk_volume_drive(session);
	rblk_close_send(session);
	rblk_disk_late(session);
	rblk_tell_loss(session);
	rblk_drive_again(session);
	wake_up_all(&session->wait);
	memalloc_noio_restore(noio);
}

/* -- beginning and end -- */

void rblk_drive_start(struct rblk_session *session)
{
	struct core_session_options options = {
		.queues = session->queue_count,
		.portals = session->options.portal_count,
		.connect_timeout_ms = session->options.connect_ms,
		.reconnect_min_ms = RBLK_ATTACH_RECONNECT_MS_MIN,
		.reconnect_max_ms = session->options.reconnect_ms,
		.fail_fast_ms = session->options.fail_fast_ms,
		.give_up_ms = 0, /* an attach takes the first failure for its answer */
		.random = get_random_u32(),
	};
	unsigned int i;

	for (i = 0; i < options.portals; i++)
		options.group[i] = session->options.portals[i].group;
	INIT_DELAYED_WORK(&session->drive_work, rblk_drive_work);
	memset(session->route, RBLK_NO_ROUTE, sizeof(session->route));
	spin_lock_irq(&session->core_lock);
	core_session_init(&session->core, &options);
	core_session_start(&session->core, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irq(&session->core_lock);
}

void rblk_drive_endure(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;

	spin_lock_irq(&session->core_lock);
	disk->endures = true;
	WRITE_ONCE(session->endures, true);
	session->core.options.give_up_ms = session->options.give_up_ms;
	spin_unlock_irq(&session->core_lock);
}

bool rblk_drive_settled(const struct rblk_session *session)
{
	const struct core_session *core = &session->core;
	unsigned int i;

	if (READ_ONCE(session->ended))
		return true;
	if (READ_ONCE(core->state) != CORE_SESSION_LIVE)
		return false;
	for (i = 0; i < core->queues; i++) {
		u8 state = READ_ONCE(core->queue[i].state);
		u32 tries = READ_ONCE(core->queue[i].incarnation);

		if (state == CORE_QUEUE_CONNECTING ? tries < 2 :
						     state != CORE_QUEUE_LIVE && !tries)
			return false;
	}
	return true;
}

void rblk_drive_stop(struct rblk_session *session)
{
	spin_lock_irq(&session->core_lock);
	core_session_stop(&session->core, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irq(&session->core_lock);
	/* Every queue is closed by its own work, and nothing is connected any more. */
	wait_event(session->wait, READ_ONCE(session->ended));
	rblk_works_stop(session);
	cancel_delayed_work_sync(&session->drive_work);
}
