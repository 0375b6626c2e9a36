/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * F7, F9: the cache epoch of a volume from one process to the next. It stays the same only where something vouches
 * that nothing acknowledged was lost in between: a failed-sync file of this boot (failed_sync_file.h), left by a
 * process that made everything durable when it ended, or that was killed while the kernel's cache of the file lived
 * on. Configuring thread, and the one that closes the store; with the store's lock held (F6).
 */
#ifndef RBLK_TARGET_STORE_EPOCH_H
#define RBLK_TARGET_STORE_EPOCH_H

#include "target/store/volume.h"

/* The store is open. folder: of failed-sync files, or NULL. Sets volume->trouble. */
void tgt_epoch_begin(struct tgt_volume *volume, const char *folder);
/* No reactor uses the store any more. Makes what was written durable, which may block for as long as the disk does. */
void tgt_epoch_end(struct tgt_volume *volume);
/* The cache epoch that initiators are told. Any thread. */
void tgt_epoch_get(const struct tgt_volume *volume, uint8_t epoch[16]);

#endif
