/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The UUID of a volume for which the configuration has none. Configuring thread.
 */
#ifndef RBLK_TARGET_STORE_IDENTITY_H
#define RBLK_TARGET_STORE_IDENTITY_H

#include <stdint.h>
#include "target/base/settings.h"

/*
 * The same volume has the same UUID after every restart: it is a hash of machine, path and name.
 * The path is made absolute, but links are not resolved: /dev/disk/by-id/... is stable, /dev/sdb is
 * not.
 */
void tgt_volume_uuid(const struct tgt_volume_config *config, uint8_t uuid[16]);

#endif
