/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the module's files share: its version, its work queue, its control device. */
#ifndef RBLK_KMOD_MODULE_H
#define RBLK_KMOD_MODULE_H

#include <linux/workqueue.h>

/* Losses, give-ups, keep-alives: on the way of writing back memory, so with a rescuer. */
extern struct workqueue_struct *rblk_workqueue;

int rblk_control_init(void);
void rblk_control_fini(void);

#endif
