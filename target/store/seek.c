/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The walk of seek.h. A hole shrinks to whole units and data grows to them, so that a reported hole
 * is one to its last byte. The file may change meanwhile; whatever the file system answers, each
 * step advances by a unit at least.
 */
#include "target/store/seek.h"

#include <errno.h>
#include <unistd.h>

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Where what is sought begins; `end` where there is none of it. Negative errno. */
static int64_t seek_to(int fd, uint64_t offset, int whence, uint64_t end,
		       off_t (*seek)(int fd, off_t offset, int whence))
{
	off_t found = seek(fd, (off_t)offset, whence);

	if (found >= 0)
		return (int64_t)least((uint64_t)found, end);
	return errno == ENXIO ? (int64_t)end : -errno;
}

int tgt_seek_extents(int fd, uint64_t size, const struct tgt_io *io,
		     off_t (*seek)(int fd, off_t offset, int whence))
{
	struct tgt_walk walk = tgt_walk_begin(io);
	uint64_t unit = io->extent_unit, known = least(walk.end, size - size % unit);
	/* Holes shorter than a unit make no extent: so the number of questions is bounded. */
	unsigned int left = 4 * walk.room;

	while (walk.offset < known && left--) {
		int64_t data = seek_to(fd, walk.offset, SEEK_DATA, known, seek), hole;
		uint64_t to;

		if (data < 0)
			return (int)data;
		to = (uint64_t)data - (uint64_t)data % unit;
		if (!tgt_walk_on(&walk, to, true) || walk.offset >= known)
			break;
		hole = seek_to(fd, (uint64_t)data < walk.offset ? walk.offset : (uint64_t)data,
			       SEEK_HOLE, known, seek);
		if (hole < 0)
			return (int)hole;
		to = ((uint64_t)hole + unit - 1) / unit * unit;
		/* Data that became a hole between the two questions. */
		if (to <= walk.offset)
			to = walk.offset + unit;
		if (!tgt_walk_on(&walk, least(to, known), false))
			break;
	}
	if (walk.offset >= known)
		tgt_walk_on(&walk, walk.end, false);
	return 0;
}
