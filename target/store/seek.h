/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which parts of a file's range are data and which are holes, asked of the file system by SEEK_DATA
 * and SEEK_HOLE. Blocks: called by a store's worker (uring.c), and by tests with a seek of their
 * own.
 */
#ifndef RBLK_TARGET_STORE_SEEK_H
#define RBLK_TARGET_STORE_SEEK_H

#include <sys/types.h>
#include "target/store/store.h"

/*
 * Fills io's buffer for the range of io on fd. `size` is the file's: what is beyond it is data, so
 * that it is read and the error shows. seek: lseek(). 0 or negative errno.
 */
int tgt_seek_extents(int fd, uint64_t size, const struct tgt_io *io,
		     off_t (*seek)(int fd, off_t offset, int whence));

#endif
