/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DH-HMAC-CHAP (NVM Express Base Specification 2.0, 8.13.5): its messages, and its cryptography, which is OpenSSL's.
 * No state and no I/O; authenticate.c has the exchange, dh.c the thread on which Diffie-Hellman is computed.
 */
#ifndef RBLK_TARGET_NVME_CHAP_H
#define RBLK_TARGET_NVME_CHAP_H

#include <openssl/types.h>
#include "proto/wire/types.h"

/* -- messages ------------------------------------------------------------------------------------ */

#define NVME_AUTH_PROTOCOL 0xe9u /* SECP, NVMe's */
#define NVME_AUTH_SPECIFIC 1u	 /* SPSP0 and SPSP1 */

enum nvme_auth_message {
	NVME_AUTH_NEGOTIATE = 0x00,
	NVME_AUTH_CHALLENGE = 0x01,
	NVME_AUTH_REPLY = 0x02,
	NVME_AUTH_SUCCESS1 = 0x03,
	NVME_AUTH_SUCCESS2 = 0x04,
	NVME_AUTH_FAILURE2 = 0xf0,
	NVME_AUTH_FAILURE1 = 0xf1,
};

/* Why it fails: the explanation; the reason is always 1. */
enum nvme_auth_failure {
	NVME_AUTH_FAILED = 1,
	NVME_AUTH_NO_PROTOCOL = 2,
	NVME_AUTH_NO_SECURE_CHANNEL = 3,
	NVME_AUTH_NO_HASH = 4,
	NVME_AUTH_NO_GROUP = 5,
	NVME_AUTH_BAD_PAYLOAD = 6,
	NVME_AUTH_BAD_MESSAGE = 7,
};

#define NVME_AUTH_COMMON 0u /* types: negotiate, failures */
#define NVME_AUTH_DHCHAP 1u /* the others */

/* All messages begin so. */
struct nvme_auth_head {
	__u8 type, id;
	__u8 reserved[2];
	__le16 transaction;
};
RBLK_ASSERT_SIZE(struct nvme_auth_head, 6);

struct nvme_auth_protocol {
	__u8 id; /* 1: DH-HMAC-CHAP */
	__u8 reserved;
	__u8 hashes, groups;
	__u8 list[60]; /* hashes, and from 30 on groups */
};
RBLK_ASSERT_SIZE(struct nvme_auth_protocol, 64);
#define NVME_AUTH_LIST_GROUPS 30u

struct nvme_auth_negotiate {
	struct nvme_auth_head head;
	__u8 secure_channel;
	__u8 protocols; /* that follow */
};
RBLK_ASSERT_SIZE(struct nvme_auth_negotiate, 8);

/* Behind it: the challenge, and the public value. */
struct nvme_auth_challenge {
	struct nvme_auth_head head;
	__u8 hash_bytes, reserved;
	__u8 hash, group;
	__le16 public_bytes;
	__le32 sequence;
};
RBLK_ASSERT_SIZE(struct nvme_auth_challenge, 16);

/* Behind it: the response, the host's challenge, and the public value. */
struct nvme_auth_reply {
	struct nvme_auth_head head;
	__u8 hash_bytes, reserved0;
	__u8 challenges, reserved1; /* 1: the target has to prove itself */
	__le16 public_bytes;
	__le32 sequence;
};
RBLK_ASSERT_SIZE(struct nvme_auth_reply, 16);

/* Behind it: the response. */
struct nvme_auth_success1 {
	struct nvme_auth_head head;
	__u8 hash_bytes, reserved0;
	__u8 responds;
	__u8 reserved1[7];
};
RBLK_ASSERT_SIZE(struct nvme_auth_success1, 16);

struct nvme_auth_success2 {
	struct nvme_auth_head head;
	__u8 reserved[10];
};
RBLK_ASSERT_SIZE(struct nvme_auth_success2, 16);

struct nvme_auth_fail {
	struct nvme_auth_head head;
	__u8 reason, explanation;
};
RBLK_ASSERT_SIZE(struct nvme_auth_fail, 8);

/* -- hashes -------------------------------------------------------------------------------------- */

enum nvme_auth_hash { NVME_HASH_SHA256 = 1, NVME_HASH_SHA384 = 2, NVME_HASH_SHA512 = 3 };
#define NVME_HASH_MAX 64u
#define NVME_CHAP_KEY_BYTES 32u /* of rblk's secrets */

/* 0: there is no such one. */
uint32_t nvme_chap_hash_bytes(uint8_t hash);
/* The key as the side of this NQN uses it, with "DHHC-1:01:". These return false for want of memory alone. */
bool nvme_chap_transform(const uint8_t key[NVME_CHAP_KEY_BYTES], const char *nqn, uint8_t out[NVME_CHAP_KEY_BYTES]);
/* With a group: the challenge that is responded to, of that which was sent. */
bool nvme_chap_augment(uint8_t hash, const void *shared, uint32_t shared_bytes, const uint8_t *challenge, uint8_t *out);

/* A response is to this. */
struct nvme_chap_terms {
	uint8_t hash;
	uint8_t challenge[NVME_HASH_MAX]; /* augmented */
	uint32_t sequence;
	uint16_t transaction;
	bool of_target;		/* or the host's */
	const char *own, *peer; /* NQNs of whom responds, and of the other */
};
bool nvme_chap_respond(const struct nvme_chap_terms *terms, const uint8_t key[NVME_CHAP_KEY_BYTES], uint8_t *out);

/* -- groups -------------------------------------------------------------------------------------- */

enum nvme_dh_group {
	NVME_DH_NULL,
	NVME_DH_2048,
	NVME_DH_3072,
	NVME_DH_4096,
	NVME_DH_6144,
	NVME_DH_8192,
	NVME_DH_GROUPS
};
#define NVME_DH_MAX 1024u

uint32_t nvme_dh_bytes(uint8_t group); /* of a public value; 0: none */

/* A private key, the caller's. NULL: no memory. public: nvme_dh_bytes(). Takes milliseconds, as does the next. */
EVP_PKEY *nvme_dh_create(uint8_t group, uint8_t *public);
/* False: the peer's value, of as many bytes, is none of the group's. shared: likewise. */
bool nvme_dh_agree(EVP_PKEY *own, const uint8_t *value, uint8_t *shared);

#endif
