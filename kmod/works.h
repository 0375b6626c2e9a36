/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The works of a session and its queues: they carry out the actions of the state machine, because
 * those wait, and tell the machine what came of it. These functions prepare and end them; an action
 * of the machine queues them (drive.c), and an event that is to be acknowledged queues probe_work,
 * too.
 */
#ifndef RBLK_KMOD_WORKS_H
#define RBLK_KMOD_WORKS_H

struct rblk_queue;
struct rblk_session;

void rblk_works_init(struct rblk_session *session);
void rblk_works_init_queue(struct rblk_queue *queue);
/* Sleeps. The machine begins no more: none runs on return. */
void rblk_works_stop(struct rblk_session *session);

#endif
