/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Mapping and ring registration of dma_memory.h.
 */
#include "target/store/dma_memory.h"

#include <errno.h>
#include <sys/mman.h>

#define HUGE_BYTES (2ul << 20)
#define FIXED_BYTES (1ul << 30) /* the most that io_uring takes as one fixed buffer */

static void memory_register(struct tgt_dma_memory *memory, struct tgt_ring *ring)
{
	struct iovec iov[TGT_RING_BUFFERS_MAX];
	unsigned int count = 0;

	for (size_t at = 0; at < memory->bytes; at += FIXED_BYTES) {
		size_t left = memory->bytes - at;

		if (count == TGT_RING_BUFFERS_MAX)
			return;
		iov[count].iov_base = memory->base + at;
		iov[count].iov_len = left < FIXED_BYTES ? left : FIXED_BYTES;
		count++;
	}
	memory->buffer_first = tgt_ring_register_buffers(ring, iov, count);
}

/*
 * All of it is made at once: the pages that mmap() reserves can be refused later by a cgroup's limit
 * (hugetlb), as containers have it, and that is a SIGBUS. A kernel before 5.14 cannot tell.
 */
static void *map_huge(size_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (base == MAP_FAILED || madvise(base, bytes, MADV_POPULATE_WRITE) == 0)
		return base;
	munmap(base, bytes);
	return MAP_FAILED;
}

int tgt_dma_memory_map(struct tgt_dma_memory *memory, size_t bytes, bool huge, struct tgt_ring *ring)
{
	size_t mapped = (bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	void *base = MAP_FAILED;

	if (huge)
		base = map_huge(mapped);
	if (base == MAP_FAILED) {
		mapped = (bytes + 4095) & ~4095ul;
		base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (base == MAP_FAILED)
			return -errno;
		/* A hint: kernels without transparent huge pages refuse it, without harm. */
		if (huge)
			madvise(base, mapped, MADV_HUGEPAGE);
	}
	memory->base = base;
	memory->bytes = bytes;
	memory->mapped = mapped;
	memory->buffer_first = -1;
	if (ring)
		memory_register(memory, ring);
	return 0;
}

void tgt_dma_memory_unmap(struct tgt_dma_memory *memory)
{
	if (memory->base)
		munmap(memory->base, memory->mapped);
	memory->base = NULL;
}
