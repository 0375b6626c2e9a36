/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which parts of a file's range are data and which are holes, asked of the file system by SEEK_DATA
 * and SEEK_HOLE. Blocks: called by a store's worker (uring.c), and by tests with a seek of their
 * own. The list itself is filled in the same way for a store that is asked otherwise (rbd/extents.c).
 */
#ifndef RBLK_TARGET_STORE_SEEK_H
#define RBLK_TARGET_STORE_SEEK_H

#include <sys/types.h>
#include "target/store/store.h"

/* The list that is being filled: up to `offset`. */
struct tgt_walk {
	struct tgt_extent *list;
	uint32_t count, room;
	uint64_t offset, end;
};

static inline struct tgt_walk tgt_walk_begin(const struct tgt_io *io)
{
	return (struct tgt_walk){
		.list = io->buffer, .room = io->extent_room, .offset = io->offset, .end = io->offset + io->bytes};
}

/* Continue to `to`, if that is further. False: there is no room for it. */
static inline bool tgt_walk_on(struct tgt_walk *walk, uint64_t to, bool hole)
{
	struct tgt_extent *last = walk->count ? &walk->list[walk->count - 1] : NULL;

	if (to <= walk->offset)
		return true;
	if (!last || last->hole != hole) {
		if (walk->count == walk->room)
			return false;
		last = &walk->list[walk->count++];
		*last = (struct tgt_extent){.hole = hole};
	}
	last->bytes += to - walk->offset;
	walk->offset = to;
	return true;
}

/*
 * Fills io's buffer for the range of io on fd. `size` is the file's: what is beyond it is data, so
 * that it is read and the error shows. seek: lseek(). 0 or negative errno.
 */
int tgt_seek_extents(int fd, uint64_t size, const struct tgt_io *io,
		     off_t (*seek)(int fd, off_t offset, int whence));

#endif
