/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a source reads as zeroes without being read: holes of a file, what a target knows of a volume. An
 * end remembers the last answer, which copy_run.c walks from the first byte to the last. Called by
 * copy_run.c for the source, by copy_verify.c for the volume whose checksums it asks for.
 */
#include "initiator/cmd/copy.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define HOLES_EXTENTS 256 /* the most of one answer */

struct copy_holes {
	uint64_t from, to; /* of the last answer for a file */
	bool zero;
	bool useless; /* the file system, or the target, does not tell */
	struct rblk_extent extents[HOLES_EXTENTS];
	unsigned int count; /* of them, known */
};

int copy_holes_init(struct copy_end *end)
{
	/* Standard input's offset must not be moved, and a pipe has no holes. */
	if (end->session ? !end->info->can_extents : !end->regular || end->standard)
		return 0;
	end->holes = calloc(1, sizeof(*end->holes));
	if (!end->holes) {
		cmd_error("out of memory");
		return -ENOMEM;
	}
	return 0;
}

void copy_holes_fini(struct copy_end *end)
{
	free(end->holes);
	end->holes = NULL;
}

static void holes_of_file(struct copy_end *end, uint64_t offset, uint64_t limit)
{
	struct copy_holes *holes = end->holes;
	off_t next = lseek(end->fd, (off_t)offset, SEEK_DATA);
	off_t size = 0;

	holes->from = offset;
	holes->to = limit;
	holes->zero = false;
	if (next > (off_t)offset) {
		holes->zero = true;
		holes->to = (uint64_t)next;
	} else if (next >= 0) {
		next = lseek(end->fd, (off_t)offset, SEEK_HOLE);
		if (next > (off_t)offset)
			holes->to = (uint64_t)next;
	} else if (errno == ENXIO) {
		/* No data behind this; a file that has become shorter is read, which fails. */
		size = lseek(end->fd, 0, SEEK_END);
		holes->zero = size >= (off_t)limit;
	} else {
		holes->useless = true;
	}
}

/* The extent that holds this offset, or NULL. */
static const struct rblk_extent *holes_extent(const struct copy_holes *holes, uint64_t offset)
{
	unsigned int low = 0, high = holes->count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;
		const struct rblk_extent *extent = &holes->extents[middle];

		if (offset < extent->offset)
			high = middle;
		else if (offset - extent->offset < extent->bytes)
			return extent;
		else
			low = middle + 1;
	}
	return NULL;
}

/* If the target cannot tell, all is data: an error shows when that is read. */
static void holes_of_volume(struct copy_end *end, uint64_t offset, uint64_t limit)
{
	struct copy_holes *holes = end->holes;
	uint64_t most = (uint64_t)UINT32_MAX * end->block_bytes;
	uint64_t block = offset - offset % end->block_bytes;
	uint64_t bytes = (limit - block + end->block_bytes - 1) / end->block_bytes * end->block_bytes;
	int count;

	count = rblk_get_extents(end->volume, bytes < most ? bytes : most, block, holes->extents,
				 HOLES_EXTENTS);
	holes->useless = count <= 0;
	holes->count = count > 0 ? (unsigned int)count : 0;
}

void copy_holes_at(struct copy_end *end, uint64_t offset, uint64_t limit, uint64_t *to, bool *zero)
{
	struct copy_holes *holes = end->holes;
	const struct rblk_extent *extent;

	*to = limit;
	*zero = false;
	if (!holes || holes->useless)
		return;
	if (!end->session) {
		if (offset < holes->from || offset >= holes->to)
			holes_of_file(end, offset, limit);
		*to = holes->to < limit ? holes->to : limit;
		*zero = holes->zero;
		return;
	}
	extent = holes_extent(holes, offset);
	if (!extent) {
		holes_of_volume(end, offset, limit);
		extent = holes_extent(holes, offset);
	}
	if (!extent)
		return;
	if (extent->offset + extent->bytes < limit)
		*to = extent->offset + extent->bytes;
	*zero = extent->flags & RBLK_EXTENT_IS_ZERO;
}

void copy_holes_forget(struct copy_end *end)
{
	if (!end->holes)
		return;
	end->holes->from = end->holes->to = 0;
	end->holes->count = 0;
}

uint32_t copy_holes_next(struct copy *copy, uint64_t most, bool *zero)
{
	uint64_t offset = copy->next_offset, block = copy->block_bytes;
	uint64_t want = most - offset < copy->chunk_bytes ? most : offset + copy->chunk_bytes;
	uint64_t end = offset, first, last, to;
	bool is_zero;

	*zero = false;
	while (copy->source.holes && copy->hole_bytes && end < want) {
		copy_holes_at(&copy->source, end, most, &to, &is_zero);
		first = (end + block - 1) / block * block;
		last = to / block * block;
		end = to;
		if (!is_zero || last < first || last - first < COPY_HOLE_MIN)
			continue;
		if (first > offset)
			return (uint32_t)(first - offset);
		*zero = true;
		return last - offset < copy->hole_bytes ? (uint32_t)(last - offset) : copy->hole_bytes;
	}
	return (uint32_t)(want - offset);
}
