// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A disk's gendisk: who has it open, its limits, its size, its beginning and end. Called by
 * attach.c and volume.c. Its requests are blk_mq.c's.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/log2.h>
#include <linux/sysfs.h>

#include "kmod/disk.h"
#include "kmod/blk_mq.h"
#include "kmod/compat.h"
#include "kmod/memory.h"
#include "kmod/queue.h"

RBLK_COMPAT_OPEN(rblk_disk_opened)
{
	struct rblk_disk *rblk = RBLK_COMPAT_DISK->private_data;
	int error = 0;

	mutex_lock(&rblk->opens_lock);
	if (rblk->detaching) {
		error = -ENXIO;
	} else {
		if (!rblk->openers++)
			rblk_durable_join(rblk);
		kref_get(&rblk->refs);
	}
	mutex_unlock(&rblk->opens_lock);
	return error;
}

RBLK_COMPAT_RELEASE(rblk_disk_released)
{
	struct rblk_disk *rblk = disk->private_data;

	mutex_lock(&rblk->opens_lock);
	/* F7: everyone who had it open has closed it. */
	if (!--rblk->openers)
		rblk_durable_leave(rblk);
	mutex_unlock(&rblk->opens_lock);
	rblk_disk_put(rblk);
}

/*
 * No get_unique_id: it hands out EUI64, NAA and T10 identifiers, and a volume has a UUID (sysfs:
 * wwid).
 */
static const struct block_device_operations rblk_disk_ops = {
	.owner = THIS_MODULE,
	.open = rblk_disk_opened,
	.release = rblk_disk_released,
	.pr_ops = &rblk_pr_ops,
};

/*
 * A hint of the target's that block layers calculate with: a power of two that is at least a block
 * and at most `most`, whatever was sent.
 */
static u32 rblk_disk_hint(const struct rblk_disk *disk, u32 bytes, u32 most)
{
	/* A whole number of pages is not enough of a bound: a power of two is. */
	most = rounddown_pow_of_two(max(most, disk->block_bytes));
	return clamp(is_power_of_2(bytes) ? bytes : 0, disk->block_bytes, most);
}

/* From here on a queue that can do less is refused (works.c). */
static int rblk_disk_find_limits(struct rblk_disk *disk, struct rblk_limits *l)
{
	struct rblk_session *session = disk->session;
	u32 max_bytes = disk->max_io_bytes, shift = disk->block_shift - SECTOR_SHIFT;
	/* of one discard or one writing of zeroes; blk-mq counts its bytes in 32 bits */
	u32 discard = min(disk->max_discard_blocks, (UINT_MAX >> SECTOR_SHIFT) >> shift) << shift;
	unsigned int i;

	/*
	 * All may have been lost since the volume was opened; one that is accepted later is
	 * compared with disk_bytes then (works.c).
	 */
	spin_lock_irq(&session->core_lock);
	for (i = 0; i < session->hw_queues; i++)
		if (session->queues[i]->accepted_bytes)
			max_bytes = min(max_bytes, session->queues[i]->accepted_bytes);
	if (max_bytes >= PAGE_SIZE)
		session->disk_bytes = max(session->disk_bytes, max_bytes);
	spin_unlock_irq(&session->core_lock);
	/* The block layer cannot promise to send less than a page. */
	if (max_bytes < PAGE_SIZE)
		return -EOPNOTSUPP;
	disk->disk_bytes = max_bytes;
	*l = (struct rblk_limits){
		.logical_bytes = disk->block_bytes,
		.physical_bytes = rblk_disk_hint(disk, disk->physical_bytes, max_bytes),
		.optimal_bytes = rounddown(min(disk->optimal_bytes, RBLK_IO_BYTES_MAX),
					   disk->block_bytes),
		.max_sectors = max_bytes >> SECTOR_SHIFT,
		.max_segments = max_bytes / SZ_4K + 1, /* of the virtual boundary */
		.untorn_min_bytes = disk->untorn_min_bytes,
		.untorn_max_bytes = disk->untorn_max_bytes,
		.write_cache = disk->volume_flags & RBLK_VOLUME_FLUSH &&
			       disk->volume_flags & RBLK_VOLUME_VOLATILE_CACHE,
		.fua = disk->volume_flags & RBLK_VOLUME_FUA,
		.rotational = disk->volume_flags & RBLK_VOLUME_ROTATIONAL,
		/* A page that changed after its digest was computed would not match it. */
		.stable = disk->session->options.digest,
	};
	if (disk->volume_flags & RBLK_VOLUME_DISCARD) {
		/* Split only where one fits: a coarser granularity than the most would not be. */
		l->discard_granularity =
			rblk_disk_hint(disk, disk->discard_granularity,
				       discard << SECTOR_SHIFT);
		l->max_discard_sectors = discard;
	}
	if (disk->volume_flags & RBLK_VOLUME_WRITE_ZEROES)
		l->max_zeroes_sectors = discard;
	return 0;
}

int rblk_disk_create(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	struct rblk_limits limits;
	struct gendisk *gendisk;
	int error = rblk_mq_create(session);

	if (!error)
		error = rblk_disk_find_limits(disk, &limits);
	if (error)
		return error;
	gendisk = rblk_compat_alloc_disk(&session->tag_set, &limits, disk);
	if (IS_ERR(gendisk))
		return PTR_ERR(gendisk);
	gendisk->queue->queuedata = disk;
	disk->flushes = limits.write_cache;
	/*
	 * No major of its own: extended numbers, as NVMe's, a type that LVM takes without being
	 * told.
	 */
	gendisk->fops = &rblk_disk_ops;
	gendisk->private_data = disk;
	snprintf(gendisk->disk_name, sizeof(gendisk->disk_name), "rblk%d", disk->index);
	set_capacity(gendisk, disk->blocks << (disk->block_shift - SECTOR_SHIFT));
	disk->read_only = disk->volume_flags & RBLK_VOLUME_READ_ONLY || disk->options.read_only;
	set_disk_ro(gendisk, disk->read_only);
	/* From here on it is held back with the others; it has had no request. */
	mutex_lock(&session->lifecycle);
	disk->gendisk = gendisk;
	if (!list_is_singular(&session->disks))
		rblk_mq_share(session);
	mutex_unlock(&session->lifecycle);
	return 0;
}

int rblk_disk_add(struct rblk_disk *disk)
{
	int error = device_add_disk(NULL, disk->gendisk, rblk_disk_groups);
	struct kernfs_node *group;

	if (error)
		return error;
	group = sysfs_get_dirent(disk_to_dev(disk->gendisk)->kobj.sd, "rblk");
	if (group)
		disk->state_node = sysfs_get_dirent(group, "state");
	sysfs_put(group);
	rblk_debugfs_add(disk);
	smp_store_release(&disk->added, true);
	return 0;
}

void rblk_disk_remove(struct rblk_disk *disk)
{
	if (disk->added) {
		rblk_debugfs_remove(disk);
		del_gendisk(disk->gendisk);
	}
	WRITE_ONCE(disk->added, false);
}

void rblk_disk_destroy(struct rblk_disk *disk)
{
	sysfs_put(disk->state_node);
	if (disk->gendisk)
		put_disk(disk->gendisk);
}

void rblk_disk_permit(struct rblk_disk *disk, bool writes)
{
	/*
	 * As at attach: what cannot be flushed is written to only if it was attached as volatile.
	 */
	bool lossy = !(disk->volume_flags & RBLK_VOLUME_FLUSH) &&
		     disk->volume_flags & RBLK_VOLUME_VOLATILE_CACHE &&
		     !disk->options.accept_volatile;
	bool read_only = !writes || disk->options.read_only || lossy;

	lockdep_assert_held(&disk->opens_lock);
	if (read_only == disk->read_only)
		return;
	disk->read_only = read_only;
	set_disk_ro(disk->gendisk, read_only);
	pr_info_ratelimited("%s: %s now\n", disk->gendisk->disk_name,
			    read_only ? "read-only" : "writable");
}

void rblk_disk_resize(struct rblk_disk *disk, u64 blocks)
{
	disk->blocks = blocks;
	if (set_capacity_and_notify(disk->gendisk, blocks << (disk->block_shift - SECTOR_SHIFT)))
		pr_info_ratelimited("%s: %llu MiB now, in blocks of %u bytes\n",
				    disk->gendisk->disk_name, blocks >> (20 - disk->block_shift),
				    disk->block_bytes);
}
