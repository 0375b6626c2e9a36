/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The files of identity.h. Each is replaced as a whole, so that several daemons can have one folder, and there is the old
 * one or the new one after a crash. Blocks; configuring thread.
 */
#ifndef RBLK_TARGET_STORE_IDENTITY_FILE_H
#define RBLK_TARGET_STORE_IDENTITY_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include "proto/wire/payload.h"
#include "target/store/store_key.h"

struct tgt_identity_record {
	char key[TGT_STORE_KEY_BYTES]; /* of the store that was last served so */
	char name[RBLK_NAME_BYTES];    /* of the volume */
	uint32_t block_bytes;
};

/* The UUID of the volume that the store has been served as; false: none. */
bool tgt_identity_file_find(const char *folder, const char *key, uint8_t uuid[16]);
/* 0; -ENOENT: there is none, or it is no such file; another negative errno, and error (TGT_ERROR_BYTES): it may not be read. */
int tgt_identity_file_read(const char *folder, const uint8_t uuid[16], struct tgt_identity_record *record, char *error);
/* 0: it is on disk; or negative errno, and error (TGT_ERROR_BYTES). */
int tgt_identity_file_write(const char *folder, const uint8_t uuid[16], const struct tgt_identity_record *record,
			    char *error);

#endif
