// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Takes the actions of a session's state machine: one work hands them out, others, one for each queue and
 * purpose, carry them out, since connecting, draining and fencing wait. See drive.h.
 *
 * drive_work alone hands out, one action after the other. So whatever it began on a connection is begun
 * before it lets close_work take that down, and close_work ends it: no work of one connection meets the next.
 */
#include <linux/jiffies.h>
#include <linux/random.h>
#include <linux/sched/mm.h>

#include "kmod/drive.h"
#include "kmod/attach_limits.h"
#include "kmod/call.h"
#include "kmod/session.h"
#include "kmod/disk.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/overdue.h"
#include "kmod/queue.h"
#include "kmod/tagset.h"
#include "kmod/trace.h"
#include "kmod/volume.h"
#include "kmod/waiting.h"
#include "proto/wire/wire_names.h"

static u64 rblk_drive_now(void)
{
	return jiffies64_to_nsecs(get_jiffies_64());
}

/* -- what happened ------------------------------------------------------------------------------- */

/*
 * Which queue takes the requests of each hardware context: its own, or another that has interrupts.
 * Called with core_lock held, after each event.
 */
static void rblk_drive_routes(struct rblk_session *session)
{
	const struct core_session *core = &session->core;
	u8 other = RBLK_NO_ROUTE, gate = RBLK_GATE_HOLD;
	unsigned int i;

	lockdep_assert_held(&session->core_lock);
	/* Before the routes: who finds none, and has to wait, looks at it then. */
	if (core_session_over(core))
		gate = RBLK_GATE_FAIL;
	else if (core->failing_fast)
		gate = RBLK_GATE_FAIL_FAST;
	WRITE_ONCE(session->gate, gate);
	for (i = 0; i < session->queue_count && other == RBLK_NO_ROUTE; i++)
		if (core_session_open(core, i) && !session->queues[i]->polled)
			other = i;
	for (i = 0; i < session->queue_count; i++)
		smp_store_release(&session->route[i], core_session_open(core, i) ? i : other);
}

/* In a new epoch no handle is valid. */
static void rblk_drive_renew(struct rblk_session *session)
{
	struct rblk_disk *disk;

	lockdep_assert_held(&session->core_lock);
	if (session->epoch == session->core.epoch)
		return;
	session->epoch = session->core.epoch;
	list_for_each_entry(disk, &session->disks, peer) {
		if (!disk->ready)
			continue;
		WRITE_ONCE(disk->ready, false);
		disk->closed_since = jiffies;
		disk->open_tries = 0;
	}
}

/* After an event, with core_lock held. */
static void rblk_drive_follow(struct rblk_session *session)
{
	rblk_drive_renew(session);
	rblk_drive_routes(session);
	queue_work(rblk_workqueue, &session->drive_work);
}

/* Why a connection is lost (`live`), of which the first reason is kept, or an attempt to make one fails. */
static void __printf(3, 0)
rblk_drive_note(struct rblk_queue *queue, bool live, const char *format, va_list args)
{
	struct rblk_session *session = queue->session;
	char *text = live ? session->reason : session->attempt, *end = text + RBLK_TEXT_BYTES;

	lockdep_assert_held(&session->core_lock);
	if (!live || !text[0]) {
		text += scnprintf(text, end - text, "%s: queue %u: ", rblk_queue_peer(queue),
				  queue->index);
		vscnprintf(text, end - text, format, args);
	}
	if (!live)
		return;
	session->reason_untold = true;
	atomic64_inc(&session->losses);
}

void rblk_queue_lost(struct rblk_queue *queue, const char *format, ...)
{
	struct rblk_session *session = queue->session;
	struct core_session *core = &session->core;
	unsigned long flags;
	va_list args;
	u8 state;

	spin_lock_irqsave(&session->core_lock, flags);
	state = core->queue[queue->index].state;
	if (state != CORE_QUEUE_LIVE && state != CORE_QUEUE_CONNECTING)
		goto out;
	va_start(args, format);
	rblk_drive_note(queue, state == CORE_QUEUE_LIVE, format, args);
	va_end(args);
	core_session_lost(core, queue->index, rblk_drive_now());
	rblk_drive_follow(session);
out:
	spin_unlock_irqrestore(&session->core_lock, flags);
}

void rblk_queue_heard(struct rblk_queue *queue)
{
	core_session_heard(&queue->session->core, queue->index, rblk_drive_now());
}

void rblk_drive_abandon(struct rblk_session *session, const char *why)
{
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (!core_session_over(&session->core)) {
		strscpy(session->reason, why, sizeof(session->reason));
		session->attempt[0] = '\0';
	}
	core_session_abandon(&session->core, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irqrestore(&session->core_lock, flags);
}

/* -- carrying out: connect, close ------------------------------------------------------------------ */

/* Everything is up: nothing is wrong any more. core_lock is held. */
static void rblk_drive_mend(struct rblk_session *session)
{
	const struct core_session *core = &session->core;

	if (core->state != CORE_SESSION_LIVE || core_session_live(core) < core->queues)
		return;
	session->reason[0] = '\0';
	session->attempt[0] = '\0';
}

static void rblk_drive_accepted(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;

	lockdep_assert_held(&session->core_lock);
	if (!core_session_accepted(&session->core, queue->index, queue->target_instance,
				   queue->keepalive_ms, rblk_drive_now()))
		scnprintf(session->attempt, sizeof(session->attempt),
			  "%s: queue %u: the target is not that of the other queues (or was restarted)",
			  rblk_queue_peer(queue), queue->index);
	rblk_drive_mend(session);
}

/*
 * Requests of the queue's own hardware context have their own tags; the rest is for those of queues that
 * are lost. A lone queue needs them only if it is granted fewer than the first time.
 */
static void rblk_drive_share_tags(struct rblk_queue *queue)
{
	const struct rblk_session *session = queue->session;
	unsigned int borrow = clamp(queue->credits / 8u, 1u, (unsigned int)RBLK_BORROW_MAX);

	if (session->queue_count == 1 && queue->credits >= READ_ONCE(session->credits))
		borrow = 0;
	queue->home_tags = queue->credits - borrow;
}

bool rblk_drive_is_live(struct rblk_session *session, unsigned int queue)
{
	bool live;

	spin_lock_irq(&session->core_lock);
	live = session->core.queue[queue].state == CORE_QUEUE_LIVE;
	spin_unlock_irq(&session->core_lock);
	return live;
}

/* Disks that exist keep their limits: a queue that can do less is of no use. */
static int rblk_drive_check_limits(struct rblk_queue *queue, char *text)
{
	const struct rblk_session *session = queue->session;
	u32 bytes = min(rblk_memory_max_bytes(queue), queue->max_io_bytes);

	if (!READ_ONCE(session->disk_bytes) || bytes >= session->disk_bytes)
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "%s: queue %u: commands of %u bytes, the disks have %u",
		  rblk_queue_peer(queue), queue->index, bytes, session->disk_bytes);
	return -EOPNOTSUPP;
}

static void rblk_drive_connect_work(struct work_struct *work)
{
	struct rblk_queue *queue = container_of(work, struct rblk_queue, connect_work);
	struct rblk_session *session = queue->session;
	unsigned int noio = memalloc_noio_save();
	char text[RBLK_TEXT_BYTES];
	int error = rblk_queue_connect(queue, text);
	unsigned long flags;

	if (!error)
		error = rblk_drive_check_limits(queue, text);
	if (!error)
		rblk_drive_share_tags(queue);
	spin_lock_irqsave(&session->core_lock, flags);
	if (error && error != -ECANCELED)
		strscpy(session->attempt, text, sizeof(session->attempt));
	if (!error)
		rblk_drive_accepted(queue);
	else if (queue->reject_reason)
		core_session_rejected(&session->core, queue->index, queue->reject_reason,
				      queue->reject_detail, rblk_drive_now());
	else
		core_session_unreached(&session->core, queue->index, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irqrestore(&session->core_lock, flags);
	memalloc_noio_restore(noio);
}

/*
 * F4, in this order: no request is being dispatched or sent again on it, the queue pair is in ERR and
 * drained, every key is invalid; only then is anything unmapped. The requests stay started, and wait.
 */
static void rblk_drive_close(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;
	/* What memory is written back to may wait for this. */
	unsigned int noio = memalloc_noio_save();
	unsigned long flags;
	bool open;

	rblk_queue_abort(queue);
	cancel_work_sync(&queue->connect_work);
	open = !queue->down; /* else no command ever came, and I/O on other queues goes on */
	mutex_lock(&session->lifecycle);
	if (open)
		rblk_tagset_quiesce(session);
	rblk_queue_stop(queue);
	rblk_tagset_settle(session);
	rblk_queue_release_keys(queue);
	rblk_waiting_take_lost(queue);
	rblk_queue_release_hardware(queue);
	if (open)
		rblk_tagset_unquiesce(session);
	mutex_unlock(&session->lifecycle);
	/* What was to be sent on this connection does not meet the next one. */
	cancel_work_sync(&queue->probe_work);
	cancel_delayed_work_sync(&queue->leave_work);
	rblk_overdue_stop(queue);
	if (!queue->index)
		cancel_work_sync(&session->name_work);
	spin_lock_irqsave(&session->core_lock, flags);
	core_session_drained(&session->core, queue->index, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irqrestore(&session->core_lock, flags);
	memalloc_noio_restore(noio);
}

/* How often a queue that is to move is looked at. */
#define RBLK_LEAVE_MS 10u

/* It takes no commands any more, and moves when those that it has are answered: none has to be sent again. */
static void rblk_drive_leave_work(struct work_struct *work)
{
	struct rblk_queue *queue =
		container_of(to_delayed_work(work), struct rblk_queue, leave_work);
	const struct core_queue *core = &queue->session->core.queue[queue->index];

	if (READ_ONCE(core->state) != CORE_QUEUE_LIVE)
		return;
	if (rblk_queue_idle(queue))
		rblk_queue_lost(queue, "moves to another portal");
	else
		queue_delayed_work(rblk_workqueue, &queue->leave_work,
				   msecs_to_jiffies(RBLK_LEAVE_MS));
}

static void rblk_drive_close_work(struct work_struct *work)
{
	rblk_drive_close(container_of(work, struct rblk_queue, close_work));
}

/* -- carrying out: commands of the session ----------------------------------------------------------- */

/*
 * The answer comes when storage has ended what it had begun (F5), and until then from a living target. It
 * counts for what it was asked for alone: the queue may have been connected and lost again meanwhile.
 */
static void rblk_drive_fence_work(struct work_struct *work)
{
	struct rblk_queue *queue = container_of(work, struct rblk_queue, fence_work);
	struct rblk_session *session = queue->session;
	const struct core_lost *lost = &session->core.queue[queue->index].lost;
	struct rblk_session_command sc = { .opcode = RBLK_OP_FENCE, .lba = queue->index };
	unsigned int noio = memalloc_noio_save();
	u64 epoch;
	u16 via;
	int error;

	spin_lock_irq(&session->core_lock);
	sc.argument = queue->lost_incarnation;
	epoch = queue->lost_epoch;
	via = queue->via;
	spin_unlock_irq(&session->core_lock);
	error = rblk_call_run(session->queues[via], &sc, RBLK_CALL_FOREVER);
	spin_lock_irq(&session->core_lock);
	/*
	 * Without an answer its carrier is lost, which the machine knows (a queue that takes no command is
	 * going down); or there was no tag for it.
	 */
	if ((!error || sc.status || error == -EBUSY) && epoch == session->core.epoch && lost->via == via &&
	    lost->incarnation == sc.argument) {
		core_session_fenced(&session->core, queue->index, !error, rblk_drive_now());
		rblk_drive_follow(session);
	}
	spin_unlock_irq(&session->core_lock);
	memalloc_noio_restore(noio);
}

static void rblk_drive_probe_work(struct work_struct *work)
{
	struct rblk_queue *queue = container_of(work, struct rblk_queue, probe_work);
	struct rblk_session *session = queue->session;
	u32 event = READ_ONCE(session->event_seen);
	struct rblk_session_command sc = { .opcode = RBLK_OP_KEEPALIVE };

	if (!queue->index) {
		sc.argument = event;
		WRITE_ONCE(session->event_told, event); /* from its SEND on, the target may tell the next */
	}
	/* Without an answer the connection is lost by its keep-alive time, or by this one. */
	rblk_call_run(queue, &sc, session->options.command_ms);
}

/*
 * A new epoch: once the target knows us, each disk's volume is opened, by a work of its own. F7:
 * acknowledgements of the former epoch count as such, so its connections are drained first. Queue 0's
 * own was, before it was connected again.
 */
static void rblk_drive_name_work(struct work_struct *work)
{
	struct rblk_session *session = container_of(work, struct rblk_session, name_work);
	unsigned int noio = memalloc_noio_save();
	char text[RBLK_TEXT_BYTES] = "";
	struct rblk_disk *disk;
	unsigned long flags;
	unsigned int i;
	int error;

	for (i = 1; i < session->queue_count; i++)
		flush_work(&session->queues[i]->close_work);
	error = rblk_volume_identify(session, text);
	spin_lock_irqsave(&session->core_lock, flags);
	if (error && text[0])
		strscpy(session->attempt, text, sizeof(session->attempt));
	core_session_named(&session->core, !error, rblk_drive_now());
	rblk_drive_mend(session);
	rblk_drive_follow(session);
	list_for_each_entry(disk, &session->disks, peer)
		if (!error && disk->opened && !disk->ready)
			mod_delayed_work(rblk_calls, &disk->open_work, 0);
	spin_unlock_irqrestore(&session->core_lock, flags);
	memalloc_noio_restore(noio);
}

/* -- handing out ------------------------------------------------------------------------------------ */

/* The disks see the session's state as theirs. */
static void rblk_drive_tell_disks(struct rblk_session *session, u8 state)
{
	struct rblk_disk *disk;
	bool failed = false;

	spin_lock_irq(&session->core_lock);
	list_for_each_entry(disk, &session->disks, peer) {
		/* In the same epoch nobody has told it what changed meanwhile. */
		if (state == CORE_SESSION_LIVE && disk->ready && READ_ONCE(disk->added))
			queue_work(rblk_calls, &disk->refresh_work);
		/* An attach takes the first failure for its answer. */
		if (state != CORE_SESSION_LIVE && disk->opened && !disk->endures) {
			WRITE_ONCE(disk->ready, false);
			WRITE_ONCE(disk->gate, RBLK_GATE_FAIL);
			failed = true;
		}
		rblk_disk_notify(disk);
	}
	spin_unlock_irq(&session->core_lock);
	if (failed)
		rblk_waiting_sweep(session);
}

static void rblk_drive_told(struct rblk_session *session)
{
	char reason[RBLK_TEXT_BYTES];
	u8 state = READ_ONCE(session->core.state), was = session->told_state;

	session->told_state = state;
	trace_rblk_state(session, was, state);
	rblk_drive_tell_disks(session, state);
	if (!READ_ONCE(session->endures))
		return;
	if (state == CORE_SESSION_LIVE) {
		pr_info("rblk: session %d [%s]: connected again\n", session->number,
			rblk_session_peer(session));
	} else if (state == CORE_SESSION_FAILED) {
		rblk_session_say_reason(session, reason);
		pr_err("rblk: session %d [%s]: gave up, I/O fails until its disks are detached: %s\n",
		       session->number, rblk_session_peer(session), reason);
	}
}

/* Here and not where it was noticed: a console is slow, and interrupts were off. */
static void rblk_drive_tell_loss(struct rblk_session *session)
{
	char reason[RBLK_TEXT_BYTES];
	bool untold;

	spin_lock_irq(&session->core_lock);
	untold = session->reason_untold;
	session->reason_untold = false;
	strscpy(reason, session->reason, sizeof(reason));
	spin_unlock_irq(&session->core_lock);
	if (untold && READ_ONCE(session->endures))
		pr_warn_ratelimited("rblk: session %d [%s]: lost a connection: %s\n", session->number,
				    rblk_session_peer(session), reason);
}

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
		/* Before the machine's own time, which would end it without a word. */
		queue->connect_by = jiffies + msecs_to_jiffies(session->options.connect_ms) - 2;
		WRITE_ONCE(queue->aborted, false);
	} else if (action->kind == CORE_ACTION_FENCE) {
		queue->lost_incarnation = action->incarnation;
		queue->lost_epoch = action->epoch;
		queue->via = action->via;
	}
}

static void rblk_drive_act(struct rblk_session *session, const struct core_action *action)
{
	struct rblk_queue *queue = session->queues[action->queue];

	switch (action->kind) {
	case CORE_ACTION_CONNECT:
		queue_work(rblk_calls, &queue->connect_work);
		break;
	case CORE_ACTION_CLOSE:
		queue_work(rblk_workqueue, &queue->close_work);
		break;
	case CORE_ACTION_LEAVE:
		queue_delayed_work(rblk_workqueue, &queue->leave_work, 0);
		break;
	case CORE_ACTION_FENCE:
		queue_work(rblk_fences, &queue->fence_work);
		break;
	case CORE_ACTION_PROBE:
		queue_work(rblk_calls, &queue->probe_work);
		break;
	case CORE_ACTION_NAME:
		queue_work(rblk_calls, &session->name_work);
		break;
	case CORE_ACTION_RELEASE:
		rblk_waiting_release(session, action->queue);
		break;
	case CORE_ACTION_FAIL_FAST:
		rblk_waiting_sweep(session);
		break;
	case CORE_ACTION_FAIL_ALL:
		rblk_waiting_sweep(session);
		WRITE_ONCE(session->ended, true);
		break;
	case CORE_ACTION_STATE:
		rblk_drive_told(session);
		break;
	case CORE_ACTION_NONE:
	case CORE_ACTIONS:
		break;
	}
}

static void rblk_drive_time(struct rblk_session *session)
{
	u64 now = rblk_drive_now(), next;

	spin_lock_irq(&session->core_lock);
	next = core_session_next_ns(&session->core);
	spin_unlock_irq(&session->core_lock);
	if (next != U64_MAX)
		mod_delayed_work(rblk_workqueue, &session->tick_work,
				 next > now ? nsecs_to_jiffies(next - now) + 1 : 0);
}

static void rblk_drive_work(struct work_struct *work)
{
	struct rblk_session *session = container_of(work, struct rblk_session, drive_work);
	unsigned int noio = memalloc_noio_save();
	struct core_action action;
	bool more;

	do {
		spin_lock_irq(&session->core_lock);
		more = core_session_action(&session->core, &action);
		if (more)
			rblk_drive_prepare(session, &action);
		spin_unlock_irq(&session->core_lock);
		if (more)
			rblk_drive_act(session, &action);
	} while (more);
	rblk_drive_tell_loss(session);
	rblk_drive_time(session);
	rblk_waiting_kick(session);
	wake_up_all(&session->wait);
	memalloc_noio_restore(noio);
}

static void rblk_drive_live(struct rblk_session *session, unsigned long *live)
{
	unsigned int i;

	bitmap_zero(live, RBLK_QUEUES_MAX);
	for (i = 0; i < session->queue_count; i++)
		if (session->core.queue[i].state == CORE_QUEUE_LIVE)
			__set_bit(i, live);
}

static void __printf(2, 3) rblk_drive_silent(struct rblk_queue *queue, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	rblk_drive_note(queue, true, format, args);
	va_end(args);
}

/* The machine notices silence, and loses the connections: what it lost is said and counted here. */
static void rblk_drive_tick_work(struct work_struct *work)
{
	struct rblk_session *session =
		container_of(to_delayed_work(work), struct rblk_session, tick_work);
	DECLARE_BITMAP(live, RBLK_QUEUES_MAX);
	unsigned int i;

	spin_lock_irq(&session->core_lock);
	rblk_drive_live(session, live);
	core_session_tick(&session->core, rblk_drive_now());
	for (i = 0; i < session->queue_count; i++)
		if (test_bit(i, live) && session->core.queue[i].state != CORE_QUEUE_LIVE &&
		    !core_session_over(&session->core))
			rblk_drive_silent(session->queues[i], "no answer to KEEPALIVE for %u ms",
					  session->queues[i]->keepalive_ms);
	rblk_drive_follow(session);
	spin_unlock_irq(&session->core_lock);
}

/* -- beginning and end -------------------------------------------------------------------------------- */

void rblk_drive_init_queue(struct rblk_queue *queue)
{
	INIT_WORK(&queue->connect_work, rblk_drive_connect_work);
	/* Two places, for lockdep: name_work waits for all but the first queue's, which waits for it. */
	if (queue->index)
		INIT_WORK(&queue->close_work, rblk_drive_close_work);
	else
		INIT_WORK(&queue->close_work, rblk_drive_close_work);
	INIT_WORK(&queue->fence_work, rblk_drive_fence_work);
	INIT_WORK(&queue->probe_work, rblk_drive_probe_work);
	INIT_DELAYED_WORK(&queue->leave_work, rblk_drive_leave_work);
	rblk_overdue_init_queue(queue);
}

void rblk_drive_init(struct rblk_session *session)
{
	const struct core_session_options options = {
		.queues = session->queue_count,
		.portals = session->options.portal_count,
		.connect_timeout_ms = session->options.connect_ms,
		.reconnect_min_ms = RBLK_ATTACH_RECONNECT_MS_MIN,
		.reconnect_max_ms = session->options.reconnect_ms,
		.fail_fast_ms = session->options.fail_fast_ms,
		.give_up_ms = 0, /* an attach takes the first failure for its answer */
		.random = get_random_u32(),
	};

	INIT_WORK(&session->drive_work, rblk_drive_work);
	INIT_WORK(&session->name_work, rblk_drive_name_work);
	INIT_DELAYED_WORK(&session->tick_work, rblk_drive_tick_work);
	memset(session->route, RBLK_NO_ROUTE, sizeof(session->route));
	core_session_init(&session->core, &options);
}

void rblk_drive_start(struct rblk_session *session)
{
	spin_lock_irq(&session->core_lock);
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
	unsigned int i;

	spin_lock_irq(&session->core_lock);
	core_session_stop(&session->core, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irq(&session->core_lock);
	/* Every queue is closed by its own work, and nothing is connected any more. */
	wait_event(session->wait, READ_ONCE(session->ended));
	for (i = 0; i < session->queue_count; i++) {
		cancel_work_sync(&session->queues[i]->connect_work);
		cancel_work_sync(&session->queues[i]->fence_work);
		cancel_work_sync(&session->queues[i]->probe_work);
		flush_work(&session->queues[i]->close_work);
	}
	cancel_work_sync(&session->name_work);
	cancel_delayed_work_sync(&session->tick_work);
	cancel_work_sync(&session->drive_work);
	cancel_delayed_work_sync(&session->tick_work); /* the last drive may have set it */
}

void rblk_drive_leave_ibdev(struct rblk_queue *queue)
{
	rblk_queue_lost(queue, "its RDMA device was removed");
	flush_work(&queue->session->drive_work);
	flush_work(&queue->close_work);
}
