/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Drives a session as its state machine (proto/core/session.h) says. What happens is told to the
 * machine where it happens, under session->core_lock; what follows is done by works (works.c),
 * which may sleep. tell.h logs and reports it.
 */
#ifndef RBLK_KMOD_DRIVE_H
#define RBLK_KMOD_DRIVE_H

#include <linux/types.h>

struct core_action;
struct rblk_due;
struct rblk_session;
struct rblk_disk;
struct rblk_queue;
struct work_struct;

/* Begin to connect. */
void rblk_drive_start(struct rblk_session *session);
/* Connected and named, every queue tried; or over. */
bool rblk_drive_settled(const struct rblk_session *session);
/* From here on a lost session comes back: until then it fails at once. */
void rblk_drive_endure(struct rblk_disk *disk);
/* FAILED, for this reason: all that waits fails as soon as it may. Any context. */
void rblk_drive_abandon(struct rblk_session *session, const char *why);
/* Sleeps. The session is over: returns when no queue has a connection and no work runs. */
void rblk_drive_stop(struct rblk_session *session);

/* Any context: the queue's connection, or its attempt, is lost. The first reason is kept. */
void rblk_queue_lost(struct rblk_queue *queue, const char *format, ...) __printf(2, 3);
/* Any context: the target has refused the attempt, for this reason (enum rblk_reject_reason). */
void rblk_queue_rejected(struct rblk_queue *queue, u16 reason, u32 detail, const char *format, ...)
	__printf(4, 5);
/* Something of the queue's arrived. */
void rblk_queue_heard(struct rblk_queue *queue);

/*
 * -- works.c's: the machine's clock; and after each event, with core_lock held: what follows is
 * done soon
 */
u64 rblk_drive_now(void);
void rblk_drive_follow(struct rblk_session *session);
/* Any context: a disk's time has begun. */
void rblk_drive_kick(struct rblk_session *session);

/* With its owner's lock held: it is due at that time (jiffies). False: it was to be earlier. */
bool rblk_due_at(struct rblk_due *due, unsigned long at);
/* By drive_work, which does all that is due: it runs again after so many jiffies, or earlier. */
void rblk_drive_in(struct rblk_session *session, unsigned long wait);
/* The same: has its time come? Else it runs again when that has. */
bool rblk_drive_is_due(struct rblk_session *session, const struct rblk_due *due);

/*
 * -- works.c: how the actions of the state machine are carried out, and the machine told what came
 * of it: by the works of a queue, which connect it and close it, because that waits; by commands of
 * the session, which drive_work sends, and whose answers are taken where they arrive.
 */

/* The queue's work. */
void rblk_works_run(struct work_struct *work);
/* The last step of connecting: the machine is told, unless the queue can do too little. 0. */
int rblk_works_accepted(struct rblk_queue *queue);
/*
 * CORE_ACTION_FENCE. Its answer comes when storage has ended what it had begun (F5), from a target
 * that lives until then; nobody waits for it. Process context, without a lock.
 */
void rblk_works_fence(struct rblk_session *session, const struct core_action *action);
/* KEEPALIVE. On queue 0 it confirms the last event (V9). By drive_work. */
void rblk_works_probe(struct rblk_queue *queue);
/*
 * CORE_ACTION_NAME: the target is told who we are, until that is answered with anything but BUSY
 * (C6), for connect_ms. By drive_work.
 */
void rblk_works_name(struct rblk_session *session);
/*
 * F5, so that a volume whose storage hangs delays none but its own commands: the target is asked
 * for each volume that has lost some with the queue, also for those that have failed since, one
 * after the other, again and again, until none has or the whole queue is fenced. By drive_work.
 */
void rblk_works_fence_volumes(struct rblk_queue *queue);
/* With core_lock held: that begins, or another volume is to be asked for. */
void rblk_works_ask_volumes(struct rblk_queue *queue);
/* Sleeps. The machine begins no more: none runs on return. */
void rblk_works_stop(struct rblk_session *session);

#endif
