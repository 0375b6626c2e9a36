/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every difference between the kernels that this module builds on (6.1 and later), so that
 * no other file tests a version.
 */
#ifndef RBLK_KMOD_COMPAT_H
#define RBLK_KMOD_COMPAT_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/version.h>

#define RBLK_KERNEL(major, minor) (LINUX_VERSION_CODE >= KERNEL_VERSION(major, minor, 0))

/* crc32c() moved in 6.14. */
#if RBLK_KERNEL(6, 14)
#include <linux/crc32.h>
#else
#include <linux/crc32c.h>
#endif

/* crypto_memneq() moved in 6.3. */
#if RBLK_KERNEL(6, 3)
#include <crypto/utils.h>
#else
#include <crypto/algapi.h>
#endif

/* Limits of a disk, as they are known when the volume has been opened. */
struct rblk_limits {
	u32 logical_bytes, physical_bytes, optimal_bytes;
	u32 max_sectors, max_segments;
	u32 discard_granularity, max_discard_sectors, max_zeroes_sectors;
	u32 untorn_min_bytes, untorn_max_bytes; /* 0: none */
	bool write_cache, fua, rotational;
	bool stable; /* pages do not change while they are written */
};

#define RBLK_DMA_ALIGNMENT_MASK 3u
/* Fast registration takes whole pages: only the ends of a request may be unaligned. */
#define RBLK_VIRT_BOUNDARY_MASK 4095ul

#if RBLK_KERNEL(6, 9)

static inline struct gendisk *rblk_compat_alloc_disk(struct blk_mq_tag_set *set,
						     const struct rblk_limits *l, void *data)
{
	struct queue_limits lim = {
		.logical_block_size = l->logical_bytes,
		.physical_block_size = l->physical_bytes,
		.io_min = l->physical_bytes,
		.io_opt = l->optimal_bytes,
		.max_hw_sectors = l->max_sectors,
		.max_segments = l->max_segments,
		.virt_boundary_mask = RBLK_VIRT_BOUNDARY_MASK,
		.dma_alignment = RBLK_DMA_ALIGNMENT_MASK,
		.max_hw_discard_sectors = l->max_discard_sectors,
		.discard_granularity = l->discard_granularity,
		.max_write_zeroes_sectors = l->max_zeroes_sectors,
	};
#if RBLK_KERNEL(6, 11)
	lim.features = (l->write_cache ? BLK_FEAT_WRITE_CACHE : 0) | (l->fua ? BLK_FEAT_FUA : 0) |
		       (l->rotational ? BLK_FEAT_ROTATIONAL : 0) |
		       (l->stable ? BLK_FEAT_STABLE_WRITES : 0);
	lim.atomic_write_hw_max = l->untorn_max_bytes;
	lim.atomic_write_hw_unit_max = l->untorn_max_bytes;
	lim.atomic_write_hw_unit_min = l->untorn_min_bytes;
	/* Some of 6.12 and 6.13 have it, too; the others take the limits for it. */
#ifdef BLK_FEAT_ATOMIC_WRITES
	lim.features |= l->untorn_max_bytes ? BLK_FEAT_ATOMIC_WRITES : 0;
#endif
	return blk_mq_alloc_disk(set, &lim, data);
#else
	struct gendisk *disk = blk_mq_alloc_disk(set, &lim, data);

	if (!IS_ERR(disk)) {
		blk_queue_write_cache(disk->queue, l->write_cache, l->fua);
		if (!l->rotational)
			blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
		if (l->stable)
			blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, disk->queue);
	}
	return disk;
#endif
}

static inline struct request_queue *rblk_compat_alloc_queue(struct blk_mq_tag_set *set)
{
	return blk_mq_alloc_queue(set, NULL, NULL);
}

#else /* 6.1 */

static inline struct request_queue *rblk_compat_alloc_queue(struct blk_mq_tag_set *set)
{
	return blk_mq_init_queue(set);
}

static inline struct gendisk *rblk_compat_alloc_disk(struct blk_mq_tag_set *set,
						     const struct rblk_limits *l, void *data)
{
	struct gendisk *disk = blk_mq_alloc_disk(set, data);
	struct request_queue *q;

	if (IS_ERR(disk))
		return disk;
	q = disk->queue;
	blk_queue_logical_block_size(q, l->logical_bytes);
	blk_queue_physical_block_size(q, l->physical_bytes);
	blk_queue_io_min(q, l->physical_bytes);
	blk_queue_io_opt(q, l->optimal_bytes);
	blk_queue_max_hw_sectors(q, l->max_sectors);
	blk_queue_max_segments(q, l->max_segments);
	blk_queue_virt_boundary(q, RBLK_VIRT_BOUNDARY_MASK);
	blk_queue_dma_alignment(q, RBLK_DMA_ALIGNMENT_MASK);
	q->limits.discard_granularity = l->discard_granularity;
	blk_queue_max_discard_sectors(q, l->max_discard_sectors);
	blk_queue_max_write_zeroes_sectors(q, l->max_zeroes_sectors);
	blk_queue_write_cache(q, l->write_cache, l->fua);
	if (!l->rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, q);
	if (l->stable)
		blk_queue_flag_set(QUEUE_FLAG_STABLE_WRITES, q);
	return disk;
}

#endif

/* Untorn writes came in 6.11. */
#ifndef REQ_ATOMIC
#define REQ_ATOMIC 0
#endif

/* block_device_operations' open and release took a block_device before 6.5. */
#if RBLK_KERNEL(6, 5)
#define RBLK_COMPAT_OPEN(name) static int name(struct gendisk *disk, blk_mode_t mode)
#define RBLK_COMPAT_RELEASE(name) static void name(struct gendisk *disk)
#define RBLK_COMPAT_DISK (disk)
#else
#define RBLK_COMPAT_OPEN(name) static int name(struct block_device *bdev, fmode_t mode)
#define RBLK_COMPAT_RELEASE(name) static void name(struct gendisk *disk, fmode_t mode)
#define RBLK_COMPAT_DISK (bdev->bd_disk)
#endif

/* A request knows its queue: the argument went away in 6.15. */
static inline int rblk_compat_map_sg(struct request *rq, struct scatterlist *sgl)
{
#if RBLK_KERNEL(6, 15)
	return blk_rq_map_sg(rq, sgl);
#else
	return blk_rq_map_sg(rq->q, rq, sgl);
#endif
}

/* The NUMA node of init_request became signed on the way to 7.2. */
typedef typeof(__builtin_choose_expr(
	__builtin_types_compatible_p(typeof(((struct blk_mq_ops *)NULL)->init_request),
				     int (*)(struct blk_mq_tag_set *, struct request *,
					     unsigned int, int)),
	0, 0u)) rblk_compat_node_t;

/* Registrations and the reservation can be read since 6.4, when a conflict got its number, too. */
#if RBLK_KERNEL(6, 4)
#define RBLK_COMPAT_PR_READ
#else
#define PR_STS_RESERVATION_CONFLICT 0x18
#endif

/* Merging became the default in 6.14, and its flag (an enumerator) went away. */
#if RBLK_KERNEL(6, 14)
#define RBLK_COMPAT_TAG_FLAGS 0
#else
#define RBLK_COMPAT_TAG_FLAGS BLK_MQ_F_SHOULD_MERGE
#endif

#endif
