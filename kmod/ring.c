// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Small buffers in pages; see ring.h. Called by connect.c and memory.c. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "kmod/ring.h"

int rblk_ring_create(struct rblk_ring *ring, struct ib_device *ibdev, unsigned int entries,
		     u32 entry_bytes, enum dma_data_direction direction)
{
	int node = ibdev_to_node(ibdev);
	u32 i, bytes;

	ring->direction = direction;
	ring->layout = rblk_chunks_lay_out(PAGE_SIZE, entry_bytes, entries);
	bytes = ring->layout.chunk_bytes;
	ring->chunks = kvzalloc_node(array_size(ring->layout.chunks, sizeof(*ring->chunks)),
				     GFP_KERNEL, node);
	if (!ring->chunks)
		return -ENOMEM;
	for (i = 0; i < ring->layout.chunks; i++) {
		struct page *page = alloc_pages_node(node, GFP_KERNEL | __GFP_ZERO | __GFP_COMP,
						     get_order(bytes));
		u64 dma;

		if (!page)
			return -ENOMEM;
		dma = ib_dma_map_page(ibdev, page, 0, bytes, direction);
		if (ib_dma_mapping_error(ibdev, dma)) {
			__free_pages(page, get_order(bytes));
			return -EIO;
		}
		ring->chunks[i] = (struct rblk_ring_chunk){ page, dma };
	}
	return 0;
}

void rblk_ring_release(struct rblk_ring *ring, struct ib_device *ibdev)
{
	u32 i, bytes = ring->layout.chunk_bytes;

	for (i = 0; ring->chunks && i < ring->layout.chunks && ring->chunks[i].page; i++) {
		ib_dma_unmap_page(ibdev, ring->chunks[i].dma, bytes, ring->direction);
		__free_pages(ring->chunks[i].page, get_order(bytes));
	}
	kvfree(ring->chunks);
	ring->chunks = NULL;
}

void *rblk_ring_entry(const struct rblk_ring *ring, unsigned int i, u64 *dma)
{
	const struct rblk_ring_chunk *c = &ring->chunks[i / ring->layout.per_chunk];
	u32 offset = i % ring->layout.per_chunk * ring->layout.entry_bytes;

	*dma = c->dma + offset;
	return page_address(c->page) + offset;
}
