// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * blk-mq's side: one hardware context per queue, requests become commands, commit_rqs rings the
 * doorbell. Owns the tag set and the gendisk of a device. What becomes of commands is command.c's.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/log2.h>
#include <linux/sysfs.h>

#include "kmod/disk.h"
#include "kmod/compat.h"
#include "kmod/device.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/overdue.h"
#include "kmod/queue.h"
#include "kmod/reservation.h"
#include "kmod/waiting.h"

/* -- blk-mq ------------------------------------------------------------------------------------- */

/* Not an error of queue_rq's: that would leave a started request of dm-multipath's behind. */
static void rblk_disk_end(struct rblk_io *io, blk_status_t status)
{
	io->command.error = blk_status_to_errno(status);
	blk_mq_complete_request(rblk_io_rq(io));
}

static blk_status_t rblk_disk_queue_rq(struct blk_mq_hw_ctx *hctx,
				       const struct blk_mq_queue_data *bd)
{
	struct rblk_queue *home = hctx->driver_data;
	struct rblk_device *device = home->device;
	struct rblk_io *io = blk_mq_rq_to_pdu(bd->rq);
	u8 route = smp_load_acquire(&device->route[home->index]);
	blk_status_t status;

	io->command.queue = home;
	io->refusals = 0;
	io->retry = false;
	io->overdue = false;
	io->expired = false;
	io->flush = 0;
	if (unlikely(route == RBLK_NO_ROUTE)) {
		blk_mq_start_request(bd->rq);
		rblk_waiting_hold(device, io);
		return BLK_STS_OK;
	}
	if (!rblk_queue_take_tag(device->queues[route], io))
		return BLK_STS_RESOURCE;
	/* Started before it is sent: its answer may come at once. */
	blk_mq_start_request(bd->rq);
	status = rblk_io_send(io, device->queues[route]);
	/* Another queue's doorbell is nobody's to ring later: the route may have changed by then. */
	if (bd->last || route != home->index)
		rblk_queue_kick(device->queues[route]);
	if (status == BLK_STS_OK || status == BLK_STS_RESOURCE)
		return status;
	if (status == BLK_STS_TRANSPORT)
		rblk_waiting_hold(device, io); /* the queue went down meanwhile */
	else
		rblk_disk_end(io, status);
	return BLK_STS_OK;
}

static void rblk_disk_commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	rblk_queue_kick(hctx->driver_data);
}

static int rblk_disk_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch)
{
	return rblk_queue_poll(hctx->driver_data);
}

/* Polled I/O has the last queues, all other I/O those before them. */
static void rblk_disk_map_queues(struct blk_mq_tag_set *set)
{
	struct rblk_device *device = set->driver_data;
	unsigned int polled = device->options.poll_queues;

	set->map[HCTX_TYPE_DEFAULT].nr_queues = set->nr_hw_queues - polled;
	blk_mq_map_queues(&set->map[HCTX_TYPE_DEFAULT]);
	if (!polled)
		return;
	set->map[HCTX_TYPE_READ].nr_queues = 0; /* no queues of their own */
	set->map[HCTX_TYPE_POLL].nr_queues = polled;
	set->map[HCTX_TYPE_POLL].queue_offset = set->nr_hw_queues - polled;
	blk_mq_map_queues(&set->map[HCTX_TYPE_POLL]);
}

static int rblk_disk_init_hctx(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index)
{
	struct rblk_device *device = data;

	hctx->driver_data = device->queues[index];
	return 0;
}

static int rblk_disk_init_request(struct blk_mq_tag_set *set, struct request *rq,
				  unsigned int hctx, rblk_compat_node_t node)
{
	struct rblk_device *device = set->driver_data;

	rblk_io_init(blk_mq_rq_to_pdu(rq), device->queues[hctx]);
	return 0;
}

static const struct blk_mq_ops rblk_mq_ops = {
	.queue_rq = rblk_disk_queue_rq,
	.commit_rqs = rblk_disk_commit_rqs,
	.complete = rblk_io_complete,
	.timeout = rblk_overdue_check,
	.poll = rblk_disk_poll,
	.map_queues = rblk_disk_map_queues,
	.init_hctx = rblk_disk_init_hctx,
	.init_request = rblk_disk_init_request,
};

/* -- gendisk -------------------------------------------------------------------------------------- */

RBLK_COMPAT_OPEN(rblk_disk_open)
{
	return rblk_device_open(RBLK_COMPAT_DISK->private_data);
}

RBLK_COMPAT_RELEASE(rblk_disk_release)
{
	rblk_device_release(disk->private_data);
}

/* No get_unique_id: it hands out EUI64, NAA and T10 identifiers, and a volume has a UUID (sysfs: wwid). */
static const struct block_device_operations rblk_disk_ops = {
	.owner = THIS_MODULE,
	.open = rblk_disk_open,
	.release = rblk_disk_release,
	.pr_ops = &rblk_pr_ops,
};

/*
 * A hint of the target's that block layers calculate with: a power of two that is at least a block
 * and at most `most`, whatever was sent.
 */
static u32 rblk_disk_hint(const struct rblk_device *device, u32 bytes, u32 most)
{
	/* A whole number of pages is not enough of a bound: a power of two is. */
	most = rounddown_pow_of_two(max(most, device->block_bytes));
	return clamp(is_power_of_2(bytes) ? bytes : 0, device->block_bytes, most);
}

/* What may go in one discard or one writing of zeroes; blk-mq counts its bytes in 32 bits. */
static u32 rblk_disk_discard_sectors(const struct rblk_device *device)
{
	u32 shift = device->block_shift - SECTOR_SHIFT;

	return min(device->max_discard_blocks, (UINT_MAX >> SECTOR_SHIFT) >> shift) << shift;
}

/* With lifecycle held, what it agreed to at login and its memory stay, even if it is lost. */
static bool rblk_disk_queue_live(struct rblk_device *device, unsigned int queue)
{
	bool live;

	lockdep_assert_held(&device->lifecycle);
	spin_lock_irq(&device->core_lock);
	live = device->core.queue[queue].state == CORE_QUEUE_LIVE;
	spin_unlock_irq(&device->core_lock);
	return live;
}

static int rblk_disk_limits(struct rblk_device *device, struct rblk_limits *l)
{
	u32 max_bytes = device->max_io_bytes, discard = rblk_disk_discard_sectors(device);
	unsigned int i;

	/* One that is not connected now is of use only if it can do as much (drive.c). */
	for (i = 0; i < device->hw_queues; i++) {
		if (!rblk_disk_queue_live(device, i))
			continue;
		max_bytes = min(max_bytes, rblk_memory_max_bytes(device->queues[i]));
		max_bytes = min(max_bytes, device->queues[i]->max_io_bytes);
	}
	/* The block layer cannot promise to send less than a page. */
	if (max_bytes < PAGE_SIZE)
		return -EOPNOTSUPP;
	WRITE_ONCE(device->disk_bytes, max_bytes);
	*l = (struct rblk_limits){
		.logical_bytes = device->block_bytes,
		.physical_bytes = rblk_disk_hint(device, device->physical_bytes, max_bytes),
		.optimal_bytes = rounddown(min(device->optimal_bytes, RBLK_IO_BYTES_MAX),
					   device->block_bytes),
		.max_sectors = max_bytes >> SECTOR_SHIFT,
		.max_segments = max_bytes / SZ_4K + 1, /* of the virtual boundary */
		.write_cache = device->volume_flags & RBLK_VOLUME_FLUSH &&
			       device->volume_flags & RBLK_VOLUME_VOLATILE_CACHE,
		.fua = device->volume_flags & RBLK_VOLUME_FUA,
		.rotational = device->volume_flags & RBLK_VOLUME_ROTATIONAL,
	};
	if (device->volume_flags & RBLK_VOLUME_DISCARD) {
		/* Split only where one fits: a coarser granularity than the most would not be. */
		l->discard_granularity =
			rblk_disk_hint(device, device->discard_granularity,
				       discard << SECTOR_SHIFT);
		l->max_discard_sectors = discard;
	}
	if (device->volume_flags & RBLK_VOLUME_WRITE_ZEROES)
		l->max_zeroes_sectors = discard;
	return 0;
}

/*
 * A hardware context for each queue that the target allows, and a request for each tag that a queue has
 * for its own.
 */
static unsigned int rblk_disk_count_queues(struct rblk_device *device)
{
	unsigned int i, depth = UINT_MAX, plain = device->queue_count - device->options.poll_queues;

	device->hw_queues = device->core.queues;
	device->options.poll_queues = device->hw_queues > plain ? device->hw_queues - plain : 0;
	device->credits = UINT_MAX;
	for (i = 0; i < device->hw_queues; i++) {
		if (!rblk_disk_queue_live(device, i))
			continue;
		device->credits = min_t(unsigned int, device->credits, device->queues[i]->credits);
		depth = min(depth, device->queues[i]->home_tags);
	}
	return depth;
}

static int rblk_disk_create_locked(struct rblk_device *device)
{
	struct blk_mq_tag_set *set = &device->tag_set;
	struct rblk_limits limits;
	struct gendisk *disk;
	unsigned int depth = rblk_disk_count_queues(device);
	int error;

	lockdep_assert_held(&device->lifecycle);
	if (depth == UINT_MAX)
		return -ENOTCONN;
	set->ops = &rblk_mq_ops;
	set->nr_hw_queues = device->hw_queues;
	set->nr_maps = device->options.poll_queues ? HCTX_MAX_TYPES : 1;
	set->queue_depth = depth;
	set->numa_node = ibdev_to_node(device->queues[0]->ibdev);
	set->cmd_size = sizeof(struct rblk_io);
	set->flags = RBLK_COMPAT_TAG_FLAGS;
	set->timeout = msecs_to_jiffies(device->options.command_ms);
	set->driver_data = device;
	error = blk_mq_alloc_tag_set(set);
	if (error)
		return error;
	device->tag_set_ready = true;

	error = rblk_disk_limits(device, &limits);
	if (error)
		return error;
	disk = rblk_compat_alloc_disk(set, &limits, device);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	disk->queue->queuedata = device;
	/* No major of its own: extended numbers, as NVMe's, a type that LVM takes without being told. */
	disk->fops = &rblk_disk_ops;
	disk->private_data = device;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "rblk%d", device->index);
	set_capacity(disk, device->blocks << (device->block_shift - SECTOR_SHIFT));
	if (device->volume_flags & RBLK_VOLUME_READ_ONLY || device->options.read_only)
		set_disk_ro(disk, true);
	device->disk = disk;
	return 0;
}

int rblk_disk_create(struct rblk_device *device)
{
	int error;

	/* No queue is taken down meanwhile. */
	mutex_lock(&device->lifecycle);
	error = rblk_disk_create_locked(device);
	mutex_unlock(&device->lifecycle);
	return error;
}

int rblk_disk_add(struct rblk_device *device)
{
	int error = device_add_disk(NULL, device->disk, rblk_disk_groups);
	struct kernfs_node *group;

	if (error)
		return error;
	group = sysfs_get_dirent(disk_to_dev(device->disk)->kobj.sd, "rblk");
	if (group)
		device->state_node = sysfs_get_dirent(group, "state");
	sysfs_put(group);
	smp_store_release(&device->disk_added, true);
	return 0;
}

void rblk_disk_remove(struct rblk_device *device)
{
	if (device->disk_added)
		del_gendisk(device->disk);
	WRITE_ONCE(device->disk_added, false);
}

void rblk_disk_destroy(struct rblk_device *device)
{
	sysfs_put(device->state_node);
	if (device->disk)
		put_disk(device->disk);
	if (device->tag_set_ready)
		blk_mq_free_tag_set(&device->tag_set);
	device->disk = NULL;
	device->tag_set_ready = false;
}

void rblk_disk_quiesce(struct rblk_device *device)
{
	if (device->disk)
		blk_mq_quiesce_queue(device->disk->queue);
}

void rblk_disk_unquiesce(struct rblk_device *device)
{
	struct request_queue *q;

	if (!device->disk)
		return;
	q = device->disk->queue;
	blk_mq_unquiesce_queue(q);
	/*
	 * Before 6.13 a request that has just met the quiesced queue is inserted unnoticed, and
	 * would never run: once those are inserted, run the queues again.
	 */
	synchronize_rcu();
	blk_mq_run_hw_queues(q, true);
}

void rblk_disk_settle(struct rblk_device *device)
{
	if (device->tag_set_ready)
		blk_mq_tagset_wait_completed_request(&device->tag_set);
}

void rblk_disk_resize(struct rblk_device *device, u64 blocks)
{
	device->blocks = blocks;
	if (set_capacity_and_notify(device->disk,
				    blocks << (device->block_shift - SECTOR_SHIFT)))
		pr_info("%s: %llu blocks of %u bytes now\n", device->disk->disk_name, blocks,
			device->block_bytes);
}
