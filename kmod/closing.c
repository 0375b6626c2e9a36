// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CLOSE, on queue 0; see closing.h. The session's closing_work sends it, for one record after the
 * other, tries again what was not answered, and frees what is over.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "kmod/closing.h"
#include "kmod/call.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "proto/core/trace.h"

/* So much later CLOSE is sent again to a target that was busy, or if no reserved tag was free. */
#define RBLK_CLOSING_AGAIN_MS 100u

struct rblk_closing *rblk_closing_alloc(void)
{
	struct rblk_closing *closing = kzalloc(sizeof(*closing), GFP_KERNEL);

	if (closing)
		INIT_LIST_HEAD(&closing->entry);
	return closing;
}

void rblk_closing_free(struct rblk_closing *closing)
{
	kfree(closing);
}

void rblk_closing_name(struct rblk_closing *closing, u64 epoch, u32 handle)
{
	closing->epoch = epoch;
	closing->handle = handle;
}

void rblk_closing_kick(struct rblk_session *session)
{
	mod_delayed_work(rblk_opens, &session->closing_work, 0);
}

void rblk_closing_add(struct rblk_session *session, struct rblk_closing *closing)
{
	unsigned long flags;
	bool room;

	closing->session = session;
	closing->state = RBLK_CLOSING_DUE;
	spin_lock_irqsave(&session->core_lock, flags);
	/* A session has no more handles, whatever its target says. */
	room = session->closing_count < RBLK_HANDLES_MAX;
	if (room) {
		list_add_tail(&closing->entry, &session->closings);
		session->closing_count++;
	}
	spin_unlock_irqrestore(&session->core_lock, flags);
	if (room)
		rblk_closing_kick(session);
	else
		kfree(closing);
}

/* -- what a CLOSE has come to -- */

/*
 * Answered, whatever the status: a handle that is closed already, or about to be, gives NO_VOLUME;
 * a target that drains ends the session. A CLOSE without an answer may have been done. It is sent
 * again, which is harmless: the number is not another handle's so soon (proto/README.md, 6, CLOSE).
 */
static void rblk_closing_judge(struct rblk_closing *closing, int error, u16 status)
{
	bool answered =
		(!error || status) && status != RBLK_E_BUSY && status != RBLK_E_NO_RESOURCES;
	struct rblk_session *session = closing->session;
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	closing->state = answered ? RBLK_CLOSING_DONE : RBLK_CLOSING_DUE;
	spin_unlock_irqrestore(&session->core_lock, flags);
}

/* rblk_left_fn of a CLOSE. */
static void rblk_closing_answered(struct rblk_session *session, const struct rblk_call *call,
				  void *arg)
{
	rblk_closing_judge(arg, call->command.error, call->command.status);
	/* From there on it may be freed. */
	rblk_closing_kick(session);
}

void rblk_closing_opened(struct rblk_session *session, const struct rblk_call *call, void *arg)
{
	struct rblk_closing *closing = arg;
	const struct rblk_wire_volume *volume;

	rblk_trace_left_open(call, closing->epoch);
	if (call->command.error || call->command.status) {
		rblk_closing_free(closing);
		return;
	}
	/* No more is taken of it than a number, which the target knows or does not. */
	volume = rblk_call_report(call);
	rblk_closing_name(closing, closing->epoch, rblk_le32(READ_ONCE(volume->handle)));
	rblk_closing_add(session, closing);
}

/* -- sending -- */

static void rblk_closing_send(struct rblk_session *session, struct rblk_closing *closing)
{
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_CLOSE,
		.epoch = closing->epoch,
		.volume = closing->handle,
		.left = rblk_closing_answered,
		.left_arg = closing,
	};
	int error;

	mutex_lock(&session->volume_lock);
	error = rblk_call_run(session->queues[0], &sc, session->options.command_ms);
	mutex_unlock(&session->volume_lock);
	/* Else rblk_closing_answered() judges, or has: it is not ours any more. */
	if (!sc.was_left)
		rblk_closing_judge(closing, error, sc.status);
	wake_up_all(&session->wait);
}

/*
 * Those that are closed, or went with their epoch, are freed. False: none is left whose CLOSE is
 * not with the target.
 */
static bool rblk_closing_sort(struct rblk_session *session)
{
	struct rblk_closing *closing, *after;
	LIST_HEAD(ended);
	bool due = false;

	spin_lock_irq(&session->core_lock);
	list_for_each_entry_safe(closing, after, &session->closings, entry) {
		if (closing->state == RBLK_CLOSING_SENT)
			continue;
		if (closing->state == RBLK_CLOSING_DONE || closing->epoch != session->core.epoch) {
			list_move_tail(&closing->entry, &ended);
			session->closing_count--;
		} else {
			due = true;
		}
	}
	spin_unlock_irq(&session->core_lock);
	list_for_each_entry_safe(closing, after, &ended, entry)
		kfree(closing);
	return due;
}

/* The next one to be sent, which is SENT then, and behind all others; NULL: there is none. */
static struct rblk_closing *rblk_closing_next(struct rblk_session *session)
{
	struct rblk_closing *closing, *found = NULL;

	spin_lock_irq(&session->core_lock);
	list_for_each_entry(closing, &session->closings, entry) {
		if (closing->state != RBLK_CLOSING_DUE)
			continue;
		found = closing;
		closing->state = RBLK_CLOSING_SENT;
		list_move_tail(&closing->entry, &session->closings);
		break;
	}
	spin_unlock_irq(&session->core_lock);
	return found;
}

/* Each is tried once; then after a pause, or when the session is live again. */
static void rblk_closing_work(struct work_struct *work)
{
	struct rblk_session *session =
		container_of(to_delayed_work(work), struct rblk_session, closing_work);
	unsigned int noio = memalloc_noio_save(), left;
	struct rblk_closing *closing;

	rblk_closing_sort(session);
	for (left = READ_ONCE(session->closing_count); left && rblk_session_live(session); left--) {
		closing = rblk_closing_next(session);
		if (!closing)
			break;
		rblk_closing_send(session, closing);
	}
	if (rblk_closing_sort(session) && rblk_session_live(session))
		queue_delayed_work(rblk_opens, &session->closing_work,
				   msecs_to_jiffies(RBLK_CLOSING_AGAIN_MS) + 1);
	wake_up_all(&session->wait);
	memalloc_noio_restore(noio);
}

/* -- waiting -- */

/* It may have been freed: only its address counts. */
static bool rblk_closing_over(struct rblk_session *session, const struct rblk_closing *closing)
{
	const struct rblk_closing *at;
	bool over = true;

	spin_lock_irq(&session->core_lock);
	list_for_each_entry(at, &session->closings, entry)
		over &= at != closing || at->state == RBLK_CLOSING_DONE;
	over |= session->core.state != CORE_SESSION_LIVE;
	spin_unlock_irq(&session->core_lock);
	return over;
}

void rblk_closing_wait(struct rblk_session *session, const struct rblk_closing *closing)
{
	/* Whoever has waited for so long goes on; so does the work. */
	wait_event_timeout(session->wait, rblk_closing_over(session, closing),
			   msecs_to_jiffies(session->options.command_ms));
}

/* -- beginning and end -- */

void rblk_closing_init(struct rblk_session *session)
{
	INIT_LIST_HEAD(&session->closings);
	INIT_DELAYED_WORK(&session->closing_work, rblk_closing_work);
}

void rblk_closing_stop(struct rblk_session *session)
{
	struct rblk_closing *closing, *after;

	cancel_delayed_work_sync(&session->closing_work);
	/* Every command of the session has ended. */
	list_for_each_entry_safe(closing, after, &session->closings, entry)
		kfree(closing);
	INIT_LIST_HEAD(&session->closings);
}
