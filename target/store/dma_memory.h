/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A piece of a reactor's memory that devices may access: mapped once, on huge pages where there are
 * some, registered with the reactor's ring as fixed buffers. Its user registers it with a fabric,
 * because keys belong to a protection domain. Created and destroyed on one thread at a time.
 */
#ifndef RBLK_TARGET_DMA_MEMORY_H
#define RBLK_TARGET_DMA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include "target/store/ring.h"

struct tgt_dma_memory {
	char *base;
	size_t bytes;	  /* as used */
	size_t mapped;	  /* as mapped */
	int buffer_first; /* index of the first fixed buffer, or -1 */
};

/* ring: NULL for none. Negative errno; where only the ring refuses, buffer_first is -1 and 0 is
 * returned. */
int tgt_dma_memory_map(struct tgt_dma_memory *memory, size_t bytes, bool huge, struct tgt_ring *ring);
void tgt_dma_memory_unmap(struct tgt_dma_memory *memory); /* the ring is destroyed */

/* The fixed buffer that `at` is in, or -1. One block of a pool never lies in two of them. */
static inline int tgt_dma_memory_buffer(const struct tgt_dma_memory *memory, const void *at)
{
	size_t place = (size_t)((const char *)at - memory->base);

	if (memory->buffer_first < 0 || place >= memory->bytes)
		return -1;
	return memory->buffer_first + (int)(place >> 30);
}

#endif
