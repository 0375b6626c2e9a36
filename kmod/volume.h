/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A disk's volume at the target: opening it, opening it again in each new epoch of the session, its
 * size, F7. Called by attach.c, drive.c, works.c and disks.c.
 */
#ifndef RBLK_KMOD_VOLUME_H
#define RBLK_KMOD_VOLUME_H

#include <linux/types.h>

struct rblk_disk;
struct rblk_session;

/*
 * The disk's next OPEN is by another number than before. No command with the handle is outstanding,
 * nor will be sent. With core_lock held.
 */
void rblk_volume_number(struct rblk_disk *disk);
/*
 * Sleeps, killably: until the volume is open for the first time, for connect_ms while the target is
 * BUSY. 0 or negative errno, with one line in text (RBLK_TEXT_BYTES; empty: the session knows why).
 */
int rblk_volume_open(struct rblk_disk *disk, char *text);
/*
 * Opens it, as soon as the session is live, at that time (jiffies) or earlier; again, it must be
 * the same volume, and F7 is applied. Any context, with core_lock held.
 */
void rblk_volume_want(struct rblk_disk *disk, unsigned long at);
/* Sends OPEN, and takes its answers. By drive_work. */
void rblk_volume_drive(struct rblk_session *session);
/*
 * Look at the volume, which may have changed; soon, but not too often. Any context, with core_lock
 * held.
 */
void rblk_volume_recheck(struct rblk_disk *disk);
/*
 * Its handle is not valid any more: fail_fast_ms and give_up_ms count from here. Any context, with
 * core_lock held.
 */
void rblk_volume_closed(struct rblk_disk *disk);
/*
 * The target has said of this handle that its volume was removed or replaced: if it is the disk's,
 * the volume is opened again. Any context, with core_lock held.
 */
void rblk_volume_gone(struct rblk_disk *disk, u32 handle);

/* -- close.c: handles of a session that are to be closed at the target */

/*
 * The handle in the slot is to be closed; or another one is about to be opened there, which closes
 * it. What is said of a CLOSE that is under way does not count any more. Any context, with
 * core_lock held.
 */
void rblk_close_mark(struct rblk_session *session, u32 handle, bool close);
/* It is to be closed soon. Process context, interrupts on; does not sleep. */
void rblk_close_add(struct rblk_session *session, u32 handle);
/* Sends one CLOSE, if one is due and none is under way. By drive_work. */
void rblk_close_send(struct rblk_session *session);
/*
 * Sleeps until the disk's handle is closed, for command_ms at most; after that CLOSE is still sent,
 * when the session is live again.
 */
void rblk_close(struct rblk_disk *disk);

#endif
