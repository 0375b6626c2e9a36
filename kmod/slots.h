/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the slots of a queue lie: pure arithmetic, for memory.c and for a test of machines with
 * larger pages. Memory is allocated and mapped in chunks of at least a page, each of which has one
 * slot or several; regions register so many slots each as the RDMA device can, in units of 4 KiB.
 */
#ifndef RBLK_KMOD_SLOTS_H
#define RBLK_KMOD_SLOTS_H

#include "proto/wire/types.h"

#define RBLK_SLOT_UNIT 4096u

struct rblk_slots {
	u32 slot_bytes; /* a power of two, at least RBLK_SLOT_UNIT */
	u32 chunk_bytes, per_chunk, chunks;
	u32 per_mr, mrs; /* slots in a region; 0: not even one fits */
};

/* Chunks of pages of page_bytes, regions of up to mr_units times RBLK_SLOT_UNIT; a slot per tag. */
static inline struct rblk_slots rblk_slots_lay_out(u32 page_bytes, u32 slot_bytes, u32 mr_units,
						   u32 tags)
{
	struct rblk_slots s = { .slot_bytes = slot_bytes };

	s.chunk_bytes = slot_bytes > page_bytes ? slot_bytes : page_bytes;
	s.per_chunk = s.chunk_bytes / slot_bytes;
	s.chunks = (tags + s.per_chunk - 1) / s.per_chunk;
	s.per_mr = mr_units / (slot_bytes / RBLK_SLOT_UNIT);
	if (s.per_mr > tags)
		s.per_mr = tags;
	s.mrs = s.per_mr ? (tags + s.per_mr - 1) / s.per_mr : 0;
	return s;
}

static inline u32 rblk_slots_chunk(const struct rblk_slots *s, u32 tag)
{
	return tag / s->per_chunk;
}

/* In its chunk. */
static inline u32 rblk_slots_offset(const struct rblk_slots *s, u32 tag)
{
	return tag % s->per_chunk * s->slot_bytes;
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
