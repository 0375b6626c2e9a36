/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The block device over an attached volume: blk-mq's operations, the gendisk and its limits.
 * Called by attach.c and drive.c; sleeps.
 */
#ifndef RBLK_KMOD_DISK_H
#define RBLK_KMOD_DISK_H

#include <linux/types.h>

struct rblk_device;

/* Tag set and gendisk, not yet visible; then visible (partitions are read: I/O must flow). */
int rblk_disk_create(struct rblk_device *device);
int rblk_disk_add(struct rblk_device *device);
void rblk_disk_remove(struct rblk_device *device);  /* invisible; waits for its I/O */
void rblk_disk_destroy(struct rblk_device *device); /* after remove, or instead of add */

/* Hold back requests that are not yet started / let them continue. */
void rblk_disk_quiesce(struct rblk_device *device);
void rblk_disk_unquiesce(struct rblk_device *device);
/* Wait for requests that were answered before the drain and are still being ended on some CPU:
 * they use their slots. */
void rblk_disk_settle(struct rblk_device *device);
void rblk_disk_resize(struct rblk_device *device, u64 blocks);

extern const struct attribute_group *rblk_disk_groups[]; /* sysfs.c */

#endif
