// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Small buffers in single pages; see ring.h. Called by connect.c. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "kmod/ring.h"

static unsigned int rblk_ring_per_page(const struct rblk_ring *ring)
{
	return PAGE_SIZE / ring->entry_bytes;
}

int rblk_ring_create(struct rblk_ring *ring, struct ib_device *ibdev, unsigned int entries,
		     u32 entry_bytes, enum dma_data_direction direction)
{
	int node = ibdev_to_node(ibdev);
	unsigned int i;

	ring->entry_bytes = entry_bytes;
	ring->direction = direction;
	ring->page_count = DIV_ROUND_UP(entries, rblk_ring_per_page(ring));
	ring->pages = kvzalloc_node(array_size(ring->page_count, sizeof(*ring->pages)), GFP_KERNEL,
				    node);
	if (!ring->pages)
		return -ENOMEM;
	for (i = 0; i < ring->page_count; i++) {
		struct page *page = alloc_pages_node(node, GFP_KERNEL | __GFP_ZERO, 0);
		u64 dma;

		if (!page)
			return -ENOMEM;
		dma = ib_dma_map_page(ibdev, page, 0, PAGE_SIZE, direction);
		if (ib_dma_mapping_error(ibdev, dma)) {
			__free_page(page);
			return -EIO;
		}
		ring->pages[i] = (struct rblk_ring_page){ page, dma };
	}
	return 0;
}

void rblk_ring_release(struct rblk_ring *ring, struct ib_device *ibdev)
{
	unsigned int i;

	for (i = 0; ring->pages && i < ring->page_count && ring->pages[i].page; i++) {
		ib_dma_unmap_page(ibdev, ring->pages[i].dma, PAGE_SIZE, ring->direction);
		__free_page(ring->pages[i].page);
	}
	kvfree(ring->pages);
	ring->pages = NULL;
}

void *rblk_ring_entry(const struct rblk_ring *ring, unsigned int i, u64 *dma)
{
	const struct rblk_ring_page *p = &ring->pages[i / rblk_ring_per_page(ring)];
	u32 offset = i % rblk_ring_per_page(ring) * ring->entry_bytes;

	*dma = p->dma + offset;
	return page_address(p->page) + offset;
}
