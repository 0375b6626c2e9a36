/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an open file or block device can do: sizes, alignments, cache, zeroing. Asked, never
 * assumed; what cannot be found out counts as not there. Control thread.
 */
#ifndef RBLK_TARGET_STORE_PROBE_H
#define RBLK_TARGET_STORE_PROBE_H

#include "target/store/path.h"

/* path->fd, path->device and path->direct are given; fills the rest and *info. error: "path:
 * reason"; -EOPNOTSUPP: the file system has no O_DIRECT. */
int tgt_path_probe(const struct tgt_volume_config *config, struct tgt_path *path,
		   struct tgt_store_info *info, char *error);

#endif
