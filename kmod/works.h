/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the actions of the state machine are carried out, and the machine told what came of it: by
 * the works of a queue, which connect it and close it, because that waits; by commands of the
 * session, which drive_work sends, and whose answers are taken where they arrive.
 */
#ifndef RBLK_KMOD_WORKS_H
#define RBLK_KMOD_WORKS_H

struct core_action;
struct rblk_queue;
struct rblk_session;

void rblk_works_init_queue(struct rblk_queue *queue);
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
