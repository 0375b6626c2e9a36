/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The block device over an attached volume: blk-mq's operations, the gendisk and its limits.
 * Called by device.c; sleeps.
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
/* Undo the mapping of every started request, which is held then; its queue has been drained and its keys
 * are invalid. */
void rblk_disk_unmap_held(struct rblk_device *device);
/*
 * End every started request with an error, or only those that are to fail fast. The queues are down
 * and blk-mq is quiesced, and nothing else ends them.
 */
void rblk_disk_fail_held(struct rblk_device *device, bool fail_fast_only);

void rblk_disk_resize(struct rblk_device *device, u64 blocks);

extern const struct attribute_group *rblk_disk_groups[]; /* sysfs.c */

#endif
