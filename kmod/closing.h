/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Handles that a session is to close. At the target a handle lives over reconnections until CLOSE
 * or the end of the epoch, so a CLOSE that is lost with its connection is sent again until it is
 * answered, or the epoch is over.
 *
 * A record is made before OPEN is sent, so that closing never lacks memory. It is its maker's until
 * rblk_closing_add() gives it to the session, whose closing_work frees it.
 */
#ifndef RBLK_KMOD_CLOSING_H
#define RBLK_KMOD_CLOSING_H

#include <linux/list.h>
#include <linux/types.h>

struct rblk_call;
struct rblk_session;

enum rblk_closing_state {
	RBLK_CLOSING_DUE,  /* its CLOSE is to be sent, perhaps again */
	RBLK_CLOSING_SENT, /* closing_work waits for the answer, or has left it (call.h) */
	RBLK_CLOSING_DONE, /* to be freed */
};

struct rblk_closing {
	struct rblk_session *session; /* that it was given to */
	struct list_head entry;       /* session->closings; core_lock */
	u8 state; /* enum rblk_closing_state; core_lock, once it is the session's */
	u32 handle;
	u64 epoch; /* of the session, in which that is valid */
};

/* Sleeps. NULL: no memory. */
struct rblk_closing *rblk_closing_alloc(void);
/* One that no session has. NULL is ignored. */
void rblk_closing_free(struct rblk_closing *closing);
/* Its OPEN was answered with this handle. */
void rblk_closing_name(struct rblk_closing *closing, u64 epoch, u32 handle);
/*
 * Its handle is closed as soon as the session is live; it is not used any more. Any context,
 * without core_lock.
 */
void rblk_closing_add(struct rblk_session *session, struct rblk_closing *closing);
/* Sleeps, for command_ms at most: until one that was added is closed, or left for later. */
void rblk_closing_wait(struct rblk_session *session, const struct rblk_closing *closing);

/*
 * rblk_left_fn of an OPEN that nobody waits for any more; `arg` is its record, with the epoch: if
 * it has opened a handle, that is closed.
 */
void rblk_closing_opened(struct rblk_session *session, const struct rblk_call *call, void *arg);
/* The session is live. Any context. */
void rblk_closing_kick(struct rblk_session *session);

/* Does not sleep. */
void rblk_closing_init(struct rblk_session *session);
/* Sleeps. No connection is left, nor comes. */
void rblk_closing_stop(struct rblk_session *session);

#endif
