/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A block device's own name, the same by every path to it and whenever the machine has started: its WWN, NVMe's UUID or EUI,
 * device mapper's UUID, md's or a serial number, and the partition. The one list of them: a volume's identity (store_key.h), its
 * fence domain (domain.h) and two paths to one disk (path.h) follow from it. Blocks; configuring thread.
 */
#ifndef RBLK_TARGET_STORE_DEVICE_NAME_H
#define RBLK_TARGET_STORE_DEVICE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define TGT_DEVICE_NAME_BYTES 256

/* "device NAME", or "device NAME partition NUMBER". False, and empty: it has none. `root` is put before each path: empty but
 * for tests. */
bool tgt_device_name(const char *root, uint64_t device, char name[TGT_DEVICE_NAME_BYTES]);

#endif
