/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The names that the module's files share: its version, its work queue, its control device. */
#ifndef RBLK_KMOD_MODULE_H
#define RBLK_KMOD_MODULE_H

#include <linux/workqueue.h>

/*
 * On the way of writing back memory, so it has a rescuer, which runs one work after the other: none
 * waits for the target.
 */
extern struct workqueue_struct *rblk_workqueue;

struct dentry;
struct miscdevice;
extern struct miscdevice rblk_control_device; /* control.c */
extern struct dentry *rblk_debugfs; /* sysfs.c: the module's folder */

#endif
