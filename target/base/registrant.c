/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "target/base/registrant.h"

#include <endian.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

void (*tgt_notice_tell)(const uint8_t volume[16], const char *registrant, enum tgt_notice notice);

const struct tgt_paths *tgt_paths;

void tgt_registrant_digest(const char registrant[RBLK_NAME_BYTES], uint8_t digest[16])
{
	uint8_t hash[SHA256_DIGEST_LENGTH];

	SHA256((const uint8_t *)registrant, RBLK_NAME_BYTES, hash);
	memcpy(digest, hash, 16);
}

/* Sessions' ids are random. */
uint64_t tgt_registrant_rank(const uint8_t session[16])
{
	uint64_t rank;

	memcpy(&rank, session, sizeof(rank));
	return rank;
}

void tgt_registrant_name(const uint8_t host_id[16], const char initiator[RBLK_NAME_BYTES], char out[RBLK_NAME_BYTES])
{
	uint8_t hash[SHA256_DIGEST_LENGTH];
	char id[UUID_STR_LEN];
	uint64_t digest;

	memset(out, 0, RBLK_NAME_BYTES);
	uuid_unparse_lower(host_id, id);
	SHA256((const uint8_t *)initiator, RBLK_NAME_BYTES, hash);
	memcpy(&digest, hash, sizeof(digest));
	snprintf(out, RBLK_NAME_BYTES, TGT_REGISTRANT_HOST "%s:%016" PRIx64, id, be64toh(digest));
}
