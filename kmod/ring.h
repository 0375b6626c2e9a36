/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small buffers of one size that a connection sends from or receives to, mapped for its RDMA device
 * a page at a time, or one at a time if they are larger: a connection never needs a large block of
 * contiguous memory. Owned by one queue, made and released with its device there; the contents
 * belong to the entry's owner.
 */
#ifndef RBLK_KMOD_RING_H
#define RBLK_KMOD_RING_H

#include <rdma/ib_verbs.h>

#include "kmod/slots.h"

struct rblk_ring_chunk {
	struct page *page;
	u64 dma;
};

/* All zero: there is none. */
struct rblk_ring {
	struct rblk_ring_chunk *chunks;
	struct rblk_chunks layout;
	enum dma_data_direction direction;
};

/*
 * Sleeps. entry_bytes is at most a page, or a power of two. 0, -ENOMEM or -EIO; then, too,
 * rblk_ring_release() is due.
 */
int rblk_ring_create(struct rblk_ring *ring, struct ib_device *ibdev, unsigned int entries,
		     u32 entry_bytes, enum dma_data_direction direction);
/* Idempotent. The device must not use the memory any more. */
void rblk_ring_release(struct rblk_ring *ring, struct ib_device *ibdev);
/* Entry i: where it is, and for the device. */
void *rblk_ring_entry(const struct rblk_ring *ring, unsigned int i, u64 *dma);

#endif
