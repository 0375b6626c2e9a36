/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A file or block device as the uring store finds it: opened, locked against other servers (F6),
 * and probed. Blocks; configuring thread. uring.c does the I/O.
 */
#ifndef RBLK_TARGET_STORE_PATH_H
#define RBLK_TARGET_STORE_PATH_H

#include "target/base/settings.h"
#include "target/store/probe.h"
#include "target/store/store.h"

/*
 * Opens config->path and fills *path and *info (all but `direct`). error: TGT_ERROR_BYTES,
 * "path: reason". Waits at most config->lock_wait_ms for another holder, or until a signal that
 * ends the program is pending (-EINTR).
 */
int tgt_path_open(const struct tgt_volume_config *config, struct tgt_path *path,
		  struct tgt_store_info *info, char *error);
/*
 * Whether it could be opened, for --check: the same without the lock, so also while another process serves it. Logs what a
 * start would warn of.
 */
int tgt_path_look(const struct tgt_volume_config *config, char *error);
/*
 * Opens config->path with these flags and locks it, as tgt_path_open() does; a block device (`device`) exclusively, unless
 * it is only read. Returns the descriptor or negative errno.
 */
int tgt_path_claim(const struct tgt_volume_config *config, int flags, bool device, char *error);
/* Waits for a lock end with -EINTR, from now until it is called with false. Any thread. */
void tgt_path_interrupt(bool interrupt);
/* It does now. */
bool tgt_path_interrupted(void);
/* The file or device at the path now; 0 or negative errno. An NVMe namespace's generic device is its block device. */
int tgt_path_identify(const char *path, struct tgt_store_id *id);

#endif
