// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What is said of a session's connections; see tell.h. */
#include "kmod/tell.h"
#include "kmod/disk.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "kmod/trace.h"
#include "kmod/waiting.h"

/* -- reasons ------------------------------------------------------------------------------------- */

void rblk_tell_vlost(struct rblk_queue *queue, bool live, const char *format, va_list args)
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

void rblk_tell_lost(struct rblk_queue *queue, bool live, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	rblk_tell_vlost(queue, live, format, args);
	va_end(args);
}

void rblk_tell_attempt(struct rblk_session *session, const char *why)
{
	lockdep_assert_held(&session->core_lock);
	strscpy(session->attempt, why, sizeof(session->attempt));
}

void rblk_tell_abandoned(struct rblk_session *session, const char *why)
{
	lockdep_assert_held(&session->core_lock);
	strscpy(session->reason, why, sizeof(session->reason));
	session->attempt[0] = '\0';
}

void rblk_tell_mended(struct rblk_session *session)
{
	const struct core_session *core = &session->core;

	lockdep_assert_held(&session->core_lock);
	if (core->state != CORE_SESSION_LIVE || core_session_live(core) < core->queues)
		return;
	session->reason[0] = '\0';
	session->attempt[0] = '\0';
}

bool rblk_tell_reason(struct rblk_session *session, char *text)
{
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	scnprintf(text, RBLK_TEXT_BYTES, "%s%s%s", session->reason,
		  session->reason[0] && session->attempt[0] ? "; then " : "", session->attempt);
	spin_unlock_irqrestore(&session->core_lock, flags);
	return text[0];
}

/* Here and not where it was noticed: a console is slow, and interrupts were off. */
void rblk_tell_loss(struct rblk_session *session)
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

/* -- the state ----------------------------------------------------------------------------------- */

static void rblk_tell_disks(struct rblk_session *session, u8 state)
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

void rblk_tell_state(struct rblk_session *session)
{
	char reason[RBLK_TEXT_BYTES];
	u8 state = READ_ONCE(session->core.state), was = session->told_state;

	session->told_state = state;
	trace_rblk_state(session, was, state);
	rblk_tell_disks(session, state);
	if (!READ_ONCE(session->endures))
		return;
	if (state == CORE_SESSION_LIVE) {
		pr_info("rblk: session %d [%s]: connected again\n", session->number,
			rblk_session_peer(session));
	} else if (state == CORE_SESSION_FAILED) {
		rblk_tell_reason(session, reason);
		pr_err("rblk: session %d [%s]: gave up, I/O fails until its disks are detached: %s\n",
		       session->number, rblk_session_peer(session), reason);
	}
}
