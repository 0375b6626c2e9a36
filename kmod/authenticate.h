/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * AUTHENTICATE: on each new connection of a session with a key the initiator proves its name, and
 * the target that it has the secret, before works.c tells the state machine that it was accepted.
 * Nothing else is sent until then.
 */
#ifndef RBLK_KMOD_AUTHENTICATE_H
#define RBLK_KMOD_AUTHENTICATE_H

struct rblk_queue;

/*
 * Sleeps, for what is left of the attempt's time. 0, or negative errno with one line in text
 * (RBLK_TEXT_BYTES); where the target refuses or does not prove itself, reject_reason is set as if
 * it had rejected the login.
 */
int rblk_authenticate(struct rblk_queue *queue, char *text);

#endif
