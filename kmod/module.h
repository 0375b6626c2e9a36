/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the module's files share: its version, its work queue, its control device. */
#ifndef RBLK_KMOD_MODULE_H
#define RBLK_KMOD_MODULE_H

#include <linux/workqueue.h>

/*
 * Both are on the way of writing back memory, so each has a rescuer: what never waits for the target, and
 * what does (connecting, the session's own commands), which the former ends.
 */
extern struct workqueue_struct *rblk_workqueue;
extern struct workqueue_struct *rblk_calls;

int rblk_control_init(void);
void rblk_control_fini(void);

#endif
