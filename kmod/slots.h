/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where small buffers lie, and the slots of a queue: pure arithmetic, for ring.c, memory.c and a
 * test of machines with larger pages. Memory is allocated and mapped in chunks of at least a page,
 * each of which has one buffer or several; regions register so many slots each as the RDMA device
 * can, in units of 4 KiB.
 */
#ifndef RBLK_KMOD_SLOTS_H
#define RBLK_KMOD_SLOTS_H

#include "proto/wire/types.h"

#define RBLK_SLOT_UNIT 4096u

struct rblk_chunks {
	u32 entry_bytes;
	u32 chunk_bytes, per_chunk, chunks;
};

/* entry_bytes is at most a page, or a power of two. */
static inline struct rblk_chunks rblk_chunks_lay_out(u32 page_bytes, u32 entry_bytes, u32 entries)
{
	struct rblk_chunks c = { .entry_bytes = entry_bytes };

	c.chunk_bytes = entry_bytes > page_bytes ? entry_bytes : page_bytes;
	c.per_chunk = c.chunk_bytes / entry_bytes;
	c.chunks = (entries + c.per_chunk - 1) / c.per_chunk;
	return c;
}

struct rblk_slots {
	u32 slot_bytes; /* a power of two, at least RBLK_SLOT_UNIT */
	u32 per_mr, mrs; /* slots in a region; 0: not even one fits */
};

/* Regions of up to mr_units times RBLK_SLOT_UNIT; a slot per tag. */
static inline struct rblk_slots rblk_slots_lay_out(u32 slot_bytes, u32 mr_units, u32 tags)
{
	struct rblk_slots s = { .slot_bytes = slot_bytes };

	s.per_mr = mr_units / (slot_bytes / RBLK_SLOT_UNIT);
	if (s.per_mr > tags)
		s.per_mr = tags;
	s.mrs = s.per_mr ? (tags + s.per_mr - 1) / s.per_mr : 0;
	return s;
}

static inline u32 rblk_slots_mr(const struct rblk_slots *s, u32 tag)
{
	return tag / s->per_mr;
}

/* From its region's first byte. */
static inline u32 rblk_slots_mr_offset(const struct rblk_slots *s, u32 tag)
{
	return tag % s->per_mr * s->slot_bytes;
}

#endif
