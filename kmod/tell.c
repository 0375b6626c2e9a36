// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Logs and reports a session's connections and its state; see tell.h. */
#include "kmod/tell.h"
#include "kmod/disk.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "kmod/trace.h"

/* -- reasons -- */

/* The line of a queue, behind others that are kept: whose it is, then why. */
static void __printf(4, 0)
rblk_tell_line(struct rblk_queue *queue, char *line, size_t length, const char *format,
	       va_list args)
{
	length += scnprintf(line + length, RBLK_TEXT_BYTES - length, "%s%s: queue %u: ",
			    length ? "; " : "", rblk_queue_peer(queue), queue->index);
	vscnprintf(line + length, RBLK_TEXT_BYTES - length, format, args);
}

void rblk_tell_lost(struct rblk_queue *queue, const char *format, ...)
{
	struct rblk_session *session = queue->session;
	va_list args;

	lockdep_assert_held(&session->core_lock);
	va_start(args, format);
	if (!session->reason[0])
		rblk_tell_line(queue, session->reason, 0, format, args);
	va_end(args);
	session->reason_untold = true;
	atomic64_inc(&session->losses);
}

void rblk_tell_attempt(struct rblk_queue *queue, const char *format, ...)
{
	struct rblk_session *session = queue->session;
	bool first = session->core.state == CORE_SESSION_NEW && !queue->index;
	const char *peer = rblk_queue_peer(queue), *told = session->attempt;
	va_list args;

	lockdep_assert_held(&session->core_lock);
	/* Another portal's may begin or end like it: "110.9.0.1:44301". */
	while ((told = strstr(told, peer)) && !(told[strlen(peer)] == ':' &&
						(told == session->attempt || told[-1] == ' ')))
		told++;
	va_start(args, format);
	/* An attach is told of each portal. */
	rblk_tell_line(queue, session->attempt, first && !told ? strlen(session->attempt) : 0,
		       format, args);
	va_end(args);
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
	size_t length = strlen(text);
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	scnprintf(text + length, RBLK_TEXT_BYTES - length, "%s%s%s%s", length ? "; " : "",
		  session->reason, session->reason[0] && session->attempt[0] ? "; then " : "",
		  session->attempt);
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
		pr_warn_ratelimited("rblk: session %d [%s]: lost a connection: %s\n",
				    session->number, rblk_session_peer(session), reason);
}

int rblk_refuse(char *text, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vscnprintf(text, RBLK_TEXT_BYTES, format, args);
	va_end(args);
	return error;
}

/* -- the state -- */

void rblk_tell_state(struct rblk_session *session, u8 state)
{
	char reason[RBLK_TEXT_BYTES];
	struct rblk_disk *disk;

	trace_rblk_state(session, session->told_state, state);
	session->told_state = state;
	spin_lock_irq(&session->core_lock);
	list_for_each_entry(disk, &session->disks, peer)
		rblk_disk_notify(disk);
	spin_unlock_irq(&session->core_lock);
	if (!READ_ONCE(session->endures))
		return;
	if (state == CORE_SESSION_LIVE) {
		pr_info_ratelimited("rblk: session %d [%s]: connected again\n", session->number,
				    rblk_session_peer(session));
	} else if (state == CORE_SESSION_FAILED) {
		reason[0] = '\0';
		rblk_tell_reason(session, reason);
		pr_err_ratelimited("rblk: session %d [%s]: gave up, I/O fails until its disks are detached: %s\n",
				   session->number, rblk_session_peer(session), reason);
	}
}
