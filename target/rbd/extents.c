/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which parts of an image hold data: what has been written since there was nothing, object by object, its parent's
 * included. Asks the cluster, and blocks: the store's worker calls it.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include "target/store/seek.h"

/* Each object is asked about, ten at a time. The list ends there; the initiator asks for the rest. */
#define OBJECTS_MAX 256u

struct look {
	struct tgt_walk walk; /* its end is where this look ends */
	uint32_t unit;
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* In the order of their offsets. A piece that is not there was discarded. */
static int look_found(uint64_t offset, size_t bytes, int exists, void *arg)
{
	struct look *look = arg;
	uint64_t from = offset - offset % look->unit;
	uint64_t to = (offset + bytes + look->unit - 1) / look->unit * look->unit;

	if (!exists)
		return 0;
	if (tgt_walk_on(&look->walk, least(from, look->walk.end), true) &&
	    tgt_walk_on(&look->walk, least(to, look->walk.end), false))
		return 0;
	return -ECANCELED;
}

int tgt_rbd_extents(struct rbd_image *image, const struct tgt_io *io)
{
	struct look look = {.walk = tgt_walk_begin(io), .unit = io->extent_unit};
	uint64_t now = atomic_load(&image->bytes), most = (uint64_t)image->object_bytes * OBJECTS_MAX;
	int err;

	look.walk.end = least(least(look.walk.end, now - now % look.unit), look.walk.offset + most);
	/* It has shrunk: as data, so that it is read, and the error shows. */
	if (look.walk.offset >= look.walk.end) {
		tgt_walk_on(&look.walk, io->offset + io->bytes, false);
		return 0;
	}
	err = rbd_diff_iterate2(image->image, NULL, look.walk.offset, look.walk.end - look.walk.offset, true, false,
				look_found, &look);
	if (!err)
		tgt_walk_on(&look.walk, look.walk.end, true);
	return err == -ECANCELED ? 0 : err;
}
