/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The names that the module's files share: its version, its work queue, its control device. */
#ifndef RBLK_KMOD_MODULE_H
#define RBLK_KMOD_MODULE_H

#include <linux/workqueue.h>

/*
 * Both are on the way of writing back memory, so each has a rescuer, which runs one work after the
 * other: what never waits for the target; and what does, for a limited time: OPEN and CLOSE. The
 * former ends the latter.
 */
extern struct workqueue_struct *rblk_workqueue;
extern struct workqueue_struct *rblk_opens;

int rblk_control_init(void);
void rblk_control_fini(void);

#endif
