/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands without a queue (parking.h): which ones are put there, when they are started on a queue,
 * and when they end. Commands of a lost connection wait for the fence of its incarnation (F5), unless
 * they change nothing.
 */
#ifndef RBLK_INITIATOR_RETRY_H
#define RBLK_INITIATOR_RETRY_H

#include "initiator/session.h"

/* Does the session have as many commands as it may, with those in slots? Then it accepts no new
 * one for this volume. */
bool ini_parking_full(const struct rblk_volume *volume);
/* Keep a new command. 0 or -EAGAIN: full, unless it `waits`. `buffer` may be NULL. */
int ini_park_new(struct rblk_volume *volume, const struct ini_io *io, struct ini_buffer *buffer);
/*
 * The queue's connection is drained: its I/O moves from slots to here. LOST if the target had it,
 * else READY.
 */
void ini_park_queue(struct ini_queue *queue);
/* The target acknowledged the fence of the commands lost with this queue. `renewed`: in a new
 * epoch. */
void ini_parked_release(struct rblk_session *session, u16 queue, bool renewed);
/* Those of them that need no fence may be sent again, as they were sent first (F5). */
void ini_parked_release_harmless(struct rblk_session *session, u16 queue);
/*
 * The target acknowledged the fence for those of them that are on the volume with this handle: they may be sent again. And
 * the volume behind `handle`, by the number of its handle, that has such commands; 0: none has.
 */
void ini_parked_release_volume(struct rblk_session *session, u16 queue, u32 handle);
u32 ini_parked_next_volume(const struct rblk_session *session, u16 queue, u32 handle);
/* Can nothing of it be in flight any more? It may be called back as lost (F5). */
bool ini_parked_fenced(const struct ini_parked *parked);
/* A new epoch begins: commands that may have been done in the old one, and must not be done
 * twice, fail (F8). */
void ini_parked_renew(struct rblk_session *session);
/* Its callback is next, or a slot has it: release what it holds. */
void ini_parked_remove(struct ini_parking *parking, struct ini_parked *parked);
/* All commands end with this error. */
void ini_parked_fail(struct rblk_session *session, int error);
/* Call back at most `max` (0: all). Returns how many callbacks were the program's own. */
unsigned int ini_parked_deliver(struct rblk_session *session, unsigned int max);

#endif
