/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The names that the module's files share: its version, its work queue, its control device. */
#ifndef RBLK_KMOD_MODULE_H
#define RBLK_KMOD_MODULE_H

#include <linux/workqueue.h>

/*
 * All are on the way of writing back memory, so each has a rescuer, which runs one work after the
 * other: what never waits for the target; what does (connecting, the session's own commands), for a
 * limited time; and of those OPEN and CLOSE, which wait for one another. The former end the latter.
 */
extern struct workqueue_struct *rblk_workqueue;
extern struct workqueue_struct *rblk_calls;
extern struct workqueue_struct *rblk_opens;

int rblk_control_init(void);
void rblk_control_fini(void);

#endif
