/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Handles of a session that are to be closed at the target. Called by volume.c and attach.c.
 */
#ifndef RBLK_KMOD_CLOSE_H
#define RBLK_KMOD_CLOSE_H

#include <linux/types.h>

struct rblk_disk;
struct rblk_session;

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
