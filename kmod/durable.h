/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A record of what is durable for each volume that this host has attached (F7, core/durable.h): all
 * disks of one volume share it, over whatever session, because a FLUSH on one of them speaks for
 * all. A disk has a part in it, which is told of a loss while somebody has the disk open.
 *
 * Each has a lock of its own, the innermost: session->core_lock may be held around it. I/O takes it
 * only for a FLUSH, and for the first write that succeeds behind one.
 */
#ifndef RBLK_KMOD_DURABLE_H
#define RBLK_KMOD_DURABLE_H

#include "kmod/disk.h"

struct rblk_io;

/* The volume with this uuid is the disk's: 0 or -ENOMEM. Once; sleeps. */
int rblk_durable_get(struct rblk_disk *disk, const u8 uuid[16]);
/* If it has one; sleeps. */
void rblk_durable_put(struct rblk_disk *disk);
/*
 * The disk's first opener has come; its last one is gone, and with it whoever had to be told.
 * opens_lock is held.
 */
void rblk_durable_join(struct rblk_disk *disk);
void rblk_durable_leave(struct rblk_disk *disk);

/*
 * An OPEN has shown this cache epoch, and the disk uses its handle from here on; with core_lock
 * held. True: acknowledged writes may be lost, for rblk_durable_say_lost().
 */
bool rblk_durable_learn(struct rblk_disk *disk, const u8 epoch[16], bool caches);
void rblk_durable_say_lost(const struct rblk_disk *disk);

/* A FLUSH of the disk is asked for: its number. Any context. */
u64 rblk_durable_number(struct rblk_disk *disk);
/*
 * A request has succeeded, which owes. False: it is a FLUSH, and fails all the same. By the queue's
 * CQ handlers.
 */
bool rblk_durable_done(struct rblk_io *io);
/* Whoever has the disk open knows that writes may be lost. Any context. */
void rblk_durable_acknowledge(struct rblk_disk *disk);
/* FLUSH fails. */
bool rblk_durable_lost(const struct rblk_disk *disk);

#endif
