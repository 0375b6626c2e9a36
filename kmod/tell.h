/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Logs and reports a session's connections: why one was lost, why none is made, and the session's
 * state. It owns the session's `reason`, `attempt` and count of losses, and decides nothing. Called
 * by drive.c and works.c; attach.c and disks.c ask for the reason.
 */
#ifndef RBLK_KMOD_TELL_H
#define RBLK_KMOD_TELL_H

#include <linux/types.h>

struct rblk_queue;
struct rblk_session;

/*
 * A time in a message: "30 s", "1500 ms"; printf(RBLK_TIME, RBLK_TIME_OF(ms)). From ten seconds on
 * without a fraction.
 */
#define RBLK_TIME "%u %s"
#define RBLK_IS_SECONDS(ms) ((ms) >= 10000 || (ms) % 1000 == 0)
#define RBLK_TIME_OF(ms) RBLK_IS_SECONDS(ms) ? (ms) / 1000 : (ms), RBLK_IS_SECONDS(ms) ? "s" : "ms"

/* -- with session->core_lock held */

/* A connection is lost: the first reason is kept, and the loss is counted. */
void rblk_tell_lost(struct rblk_queue *queue, const char *format, ...) __printf(2, 3);
/* An attempt to make a connection has failed: the last reason is kept. */
void rblk_tell_attempt(struct rblk_queue *queue, const char *format, ...) __printf(2, 3);
/* If all queues are up, nothing is wrong any more. */
void rblk_tell_mended(struct rblk_session *session);

/* -- by drive_work, without a lock */

/*
 * The session's state has changed to this one: trace it, log it, and wake those who poll the state
 * of its disks.
 */
void rblk_tell_state(struct rblk_session *session, u8 state);
/* Log the loss that was not logged yet, if there is one. */
void rblk_tell_loss(struct rblk_session *session);

/* -- any context */

/*
 * Behind `text` (RBLK_TEXT_BYTES): why a connection was lost, or none is made, as one line. False:
 * that is empty.
 */
bool rblk_tell_reason(struct rblk_session *session, char *text);
/* Says why an attach or a detach fails, as one line (RBLK_TEXT_BYTES); returns the error. */
int rblk_refuse(char *text, int error, const char *format, ...) __printf(3, 4);

#endif
