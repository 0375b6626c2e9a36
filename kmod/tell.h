/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is said of a session's connections: why one was lost, why none is made, and the session's state. It owns
 * the session's `reason`, `attempt` and count of losses, and tells them to the log and to the disks. Called by
 * drive.c and works.c; attach.c and disks.c ask for the reason.
 */
#ifndef RBLK_KMOD_TELL_H
#define RBLK_KMOD_TELL_H

#include <linux/stdarg.h>
#include <linux/types.h>

struct rblk_queue;
struct rblk_session;

/* -- with session->core_lock held */

/*
 * A connection is lost (`live`): the first reason is kept, and the loss is counted. Or an attempt to make one
 * failed: the last reason is kept.
 */
void rblk_tell_lost(struct rblk_queue *queue, bool live, const char *format, ...) __printf(3, 4);
void rblk_tell_vlost(struct rblk_queue *queue, bool live, const char *format, va_list args) __printf(3, 0);
/* The same of an attempt, as a whole line. */
void rblk_tell_attempt(struct rblk_session *session, const char *why);
/* The session is given up for this reason: no other counts. */
void rblk_tell_abandoned(struct rblk_session *session, const char *why);
/* If all queues are up, nothing is wrong any more. */
void rblk_tell_mended(struct rblk_session *session);

/* -- by drive_work, without a lock */

/* The session's state has changed: its disks see it as theirs. */
void rblk_tell_state(struct rblk_session *session);
/* Log the loss that was not logged yet, if there is one. */
void rblk_tell_loss(struct rblk_session *session);

/* -- any context */

/* Why a connection was lost, or none is made, as one line (RBLK_TEXT_BYTES); false: all are up. */
bool rblk_tell_reason(struct rblk_session *session, char *text);

#endif
