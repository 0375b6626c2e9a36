/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands without a queue (parking.h): which come there, when they are started on a queue, or end. What
 * was on a connection that is lost waits for the fence of its incarnation (F5).
 */
#ifndef RBLK_INITIATOR_PARKED_H
#define RBLK_INITIATOR_PARKED_H

#include "initiator/session.h"

/* With what is in slots, are there as many commands as the session takes? Then no new one is. */
bool ini_parking_full(const struct rblk_session *session);
/* Keep a command that has just come. 0 or -EAGAIN: full. `buffer` may be NULL. */
int ini_park_new(struct rblk_volume *volume, const struct ini_io *io, struct ini_buffer *buffer);
/*
 * The queue's connection is drained: its I/O goes from slots to here. LOST if the target had it;
 * what it did not have is READY.
 */
void ini_park_queue(struct ini_queue *queue);
/* The fence of what was lost with this queue is acknowledged. `renewed`: in a new epoch. */
void ini_parked_release(struct rblk_session *session, u16 queue, bool renewed);
/* A new epoch begins: what may have been done in the old one, and must not be done twice, fails (F8). */
void ini_parked_renew(struct rblk_session *session);
/* Its callback is next, or a slot has it: it holds nothing any more. */
void ini_parked_remove(struct ini_parking *parking, struct ini_parked *parked);
/* All of it ends with this error. */
void ini_parked_fail(struct rblk_session *session, int error);
/* FLUSHes of a volume whose acknowledged writes may be lost end with EIO (F7). */
void ini_parked_fail_flushes(struct rblk_volume *volume);
/* Call back at most `max` (0: all); how many were the program's own. */
unsigned int ini_parked_deliver(struct rblk_session *session, unsigned int max);

#endif
