/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Submission to a volume's store and completion: every READ, WRITE, FLUSH, DISCARD, WRITE_ZEROES
 * and EXTENTS of every session passes here. A failed FLUSH or FUA is remembered for all sessions
 * (F9), errors of the store are logged and counted, and what one volume or one owner has in flight
 * is bounded. The store (store.h) does the operation itself.
 */
#ifndef RBLK_TARGET_STORE_SUBMIT_H
#define RBLK_TARGET_STORE_SUBMIT_H

#include "target/store/volume.h"

/* Make and undo a reactor's channel to a volume's store, on that reactor's thread. As attach and
 * detach in struct tgt_store_ops; the last detach of all reactors, by a session's close, clears what F9 remembers. */
int tgt_volume_attach(struct tgt_volume *volume, struct tgt_ring *ring, struct tgt_channel **channel);
void tgt_volume_detach(struct tgt_volume *volume, struct tgt_channel *channel);
/* `limit = auto`: how many READs and WRITEs its store has at once follows the time that they take (pace.h). */
void tgt_volume_pace(struct tgt_channel *channel, bool paced);
/* Before tgt_volume_detach(), if that comes much later: no operation comes any more, and none is in flight. */
void tgt_volume_retire(struct tgt_channel *channel);

/*
 * As submit in struct tgt_store_ops, but that io->ended takes the place of io->done: it is called
 * where 0 was returned, later, on the reactor's thread. io->done is not the caller's to set.
 * Operations beyond the channel's limits wait, and owners (io->waiter.owner, the unit of sharing) take
 * turns; FLUSHes that wait are done together. -EBUSY, returned or told to io->ended, means that
 * nothing was begun: the store had no room.
 */
int tgt_volume_submit(struct tgt_volume *volume, struct tgt_channel *channel, struct tgt_io *io);
/* True: it was waiting, nothing of it was done, and io->ended is not called. False: it has begun. */
bool tgt_volume_withdraw(struct tgt_io *io);

#endif
