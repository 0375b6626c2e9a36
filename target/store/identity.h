/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The identity of a volume: its UUID and the size of its blocks, made once and kept beside the reservations. It is found
 * again by the store itself (store_key.h), so that another path to it, another name of the machine or another file system
 * below it changes nothing. Two files in `folder`: "volume-UUID", a text with what is kept; and "store-HASH", a link to the
 * one of the volume that the store has. They may be removed by hand. Blocks; configuring thread.
 */
#ifndef RBLK_TARGET_STORE_IDENTITY_H
#define RBLK_TARGET_STORE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include "target/base/settings.h"
#include "target/store/store_key.h"

struct tgt_identity {
	char key[TGT_STORE_KEY_BYTES]; /* of the store; empty: nothing is kept (it is in memory) */
	uint8_t uuid[16];
	uint32_t block_bytes; /* with which it was served before; 0: it was not */
	bool kept;	      /* that is in the folder, of this store and name */
	bool passing;	      /* the UUID follows from the machine's host name, as it has no id */
};

/*
 * folder: NULL, or where identities are kept. *identity: what it is now, whether the volume can be opened or not;
 * nothing is written. A configured UUID comes first, then the one that is kept, then a hash of machine, path and name.
 * 0; or -EEXIST and error (TGT_ERROR_BYTES): the store has another UUID, for which reservations are kept, which would
 * not be in force.
 */
int tgt_identity_find(const struct tgt_volume_config *config, const char *folder, struct tgt_identity *identity,
		      char *error);
/*
 * The volume is served so from now on. 0, also where it cannot be kept, but follows from what lasts (that is logged); or
 * negative errno, and error (TGT_ERROR_BYTES): it would change with the machine's host name.
 */
int tgt_identity_keep(const struct tgt_volume_config *config, const char *folder, const struct tgt_identity *identity,
		      uint32_t block_bytes, char *error);
/*
 * The hash of machine, path and name; the same in every version. False: the machine has no id but its host name. The path
 * is made absolute, but links are not resolved: /dev/disk/by-id/... is stable, /dev/sdb is not.
 */
bool tgt_identity_derive(const struct tgt_volume_config *config, uint8_t uuid[16]);

#endif
