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
 * Queues are connected: identify, open the volume, take over what it is. 0 or negative errno, with
 * one line in text (RBLK_TEXT_BYTES).
 */
int rblk_session_open_volume(struct rblk_device *device, char *text);
void rblk_session_close_handle(struct rblk_device *device, u32 handle);

/* The next one in half the target's period, if the device is live; a period of 0 wants none. */
void rblk_session_schedule_keepalive(struct rblk_device *device);
void rblk_session_keepalive_work(struct work_struct *work);
/* The volume's size may have changed: open it again to learn it, and close the second handle. */
void rblk_session_refresh_work(struct work_struct *work);

#endif
