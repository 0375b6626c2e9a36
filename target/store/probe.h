/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The abilities of an open file or block device: sizes, alignments, cache, zeroing. Probed, never
 * assumed; what cannot be found out counts as missing. Configuring thread.
 */
#ifndef RBLK_TARGET_STORE_PROBE_H
#define RBLK_TARGET_STORE_PROBE_H

#include <sys/types.h>
#include <stdatomic.h>
#include "target/base/settings.h"
#include "target/store/store.h"

/* An open file or block device. */
struct tgt_path {
	int fd;	      /* the caller closes it; the lock goes with its last I/O */
	bool device;  /* block device, else regular file */
	bool direct;  /* O_DIRECT, else through the page cache */
	/* FALLOC_FL_PUNCH_HOLE: zeroes and gives the space back; without, a device's BLKDISCARD gives it back. A device may find
	 * out late that it cannot (uring.c); any thread. */
	_Atomic bool punch;
};

/* path->fd, path->device and path->direct are given; fills the rest and *info. error: "path:
 * reason"; -EOPNOTSUPP: the file system has no O_DIRECT. */
int tgt_path_probe(const struct tgt_volume_config *config, struct tgt_path *path,
		   struct tgt_store_info *info, char *error);
/* A number of the block device's (or its disk's) queue in sysfs. */
uint64_t tgt_probe_queue(dev_t device, const char *name, uint64_t otherwise);
/* Its size now, in bytes; 0 or negative errno. */
int tgt_path_size(const struct tgt_path *path, uint64_t *bytes);

#endif
