/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A device's own commands to its target. Everything here sleeps but the scheduling.
 */
#ifndef RBLK_KMOD_SESSION_H
#define RBLK_KMOD_SESSION_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct rblk_device;

/*
 * Queue 0 is connected: identify, open the volume, take over what it is; the second time it must be the
 * same volume, and F7 is applied. 0 or negative errno, with one line in text (RBLK_TEXT_BYTES).
 */
int rblk_session_open_volume(struct rblk_device *device, char *text);
void rblk_session_close_handle(struct rblk_device *device, u32 handle);

/* The volume's size may have changed: open it again to learn it, and close the second handle. */
void rblk_session_refresh_work(struct work_struct *work);

#endif
