/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * AUTHENTICATE: on each new connection of a session with a key the initiator proves its name, and
 * the target that it has the secret, before the state machine is told that it was accepted. Nothing
 * else is sent until then. Steps of connect.c, between which the target's answers come.
 */
#ifndef RBLK_KMOD_AUTHENTICATE_H
#define RBLK_KMOD_AUTHENTICATE_H

struct rblk_queue;

/*
 * 0 or negative errno, told already as a loss, or, where the target refuses or does not prove
 * itself, as if it had rejected the login. rblk_authenticate_prove() sleeps.
 */
int rblk_authenticate_begin(struct rblk_queue *queue);
int rblk_authenticate_prove(struct rblk_queue *queue);
int rblk_authenticate_end(struct rblk_queue *queue);

#endif
