/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A text that tells a file or device from all others for good, whatever path leads to it and
 * whenever the machine has started. A file's has the UUID of its file system, its inode and birth;
 * a device's has its own name (device_name.h). Blocks; configuring thread.
 */
#ifndef RBLK_TARGET_STORE_STORE_KEY_H
#define RBLK_TARGET_STORE_STORE_KEY_H

#include "target/store/device_name.h"

#define TGT_STORE_KEY_BYTES TGT_DEVICE_NAME_BYTES

/* 0, or negative errno: there is nothing at that path. An empty key: it has none, and only its path tells it from others. */
int tgt_store_key(const char *path, char key[TGT_STORE_KEY_BYTES]);

#endif
