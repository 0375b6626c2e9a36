/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cryptography of DH-HMAC-CHAP: its formulas, put together of OpenSSL's parts. */
#include "target/nvme/chap.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/dh.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>
#include <string.h>

/* -- hashes -------------------------------------------------------------------------------------- */

static const EVP_MD *digest_of(uint8_t hash)
{
	switch (hash) {
	case NVME_HASH_SHA256:
		return EVP_sha256();
	case NVME_HASH_SHA384:
		return EVP_sha384();
	case NVME_HASH_SHA512:
		return EVP_sha512();
	default:
		return NULL;
	}
}

uint32_t nvme_chap_hash_bytes(uint8_t hash)
{
	const EVP_MD *digest = digest_of(hash);

	return digest ? (uint32_t)EVP_MD_get_size(digest) : 0;
}

static bool hmac(uint8_t hash, const uint8_t *key, uint32_t key_bytes, const void *data, size_t bytes, uint8_t *out)
{
	return HMAC(digest_of(hash), key, (int)key_bytes, data, bytes, out, NULL);
}

bool nvme_chap_transform(const uint8_t key[NVME_CHAP_KEY_BYTES], const char *nqn, uint8_t out[NVME_CHAP_KEY_BYTES])
{
	static const char purpose[] = "NVMe-over-Fabrics";
	uint8_t message[256 + sizeof(purpose)];
	size_t length = strnlen(nqn, 255);

	memcpy(message, nqn, length);
	memcpy(message + length, purpose, sizeof(purpose) - 1);
	return hmac(NVME_HASH_SHA256, key, NVME_CHAP_KEY_BYTES, message, length + sizeof(purpose) - 1, out);
}

bool nvme_chap_augment(uint8_t hash, const void *shared, uint32_t shared_bytes, const uint8_t *challenge, uint8_t *out)
{
	uint8_t key[NVME_HASH_MAX];
	bool well = EVP_Digest(shared, shared_bytes, key, NULL, digest_of(hash), NULL) == 1 &&
		    hmac(hash, key, nvme_chap_hash_bytes(hash), challenge, nvme_chap_hash_bytes(hash), out);

	OPENSSL_cleanse(key, sizeof(key));
	return well;
}

/* C, the sequence number, the transaction, SC_C, which is 0, the role, NQN, 0, NQN. */
bool nvme_chap_respond(const struct nvme_chap_terms *terms, const uint8_t key[NVME_CHAP_KEY_BYTES], uint8_t *out)
{
	const char *role = terms->of_target ? "Controller" : "HostHost";
	uint8_t message[NVME_HASH_MAX + 32 + 2 * 256];
	size_t own = strnlen(terms->own, 255), peer = strnlen(terms->peer, 255);
	size_t length = nvme_chap_hash_bytes(terms->hash);
	__le16 transaction = rblk_to_le16(terms->transaction);
	__le32 sequence = rblk_to_le32(terms->sequence);

	memcpy(message, terms->challenge, length);
	memcpy(message + length, &sequence, sizeof(sequence));
	length += sizeof(sequence);
	memcpy(message + length, &transaction, sizeof(transaction));
	length += sizeof(transaction);
	message[length++] = 0;
	memcpy(message + length, role, strlen(role));
	length += strlen(role);
	memcpy(message + length, terms->own, own);
	length += own;
	message[length++] = 0;
	memcpy(message + length, terms->peer, peer);
	length += peer;
	return hmac(terms->hash, key, NVME_CHAP_KEY_BYTES, message, length, out);
}

/* -- groups -------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t bytes;
} groups[NVME_DH_GROUPS] = {
	[NVME_DH_2048] = {"ffdhe2048", 256}, [NVME_DH_3072] = {"ffdhe3072", 384},  [NVME_DH_4096] = {"ffdhe4096", 512},
	[NVME_DH_6144] = {"ffdhe6144", 768}, [NVME_DH_8192] = {"ffdhe8192", 1024},
};

uint32_t nvme_dh_bytes(uint8_t group)
{
	return group < NVME_DH_GROUPS ? groups[group].bytes : 0;
}

/* As long as the group's prime, padded. */
static bool public_put(EVP_PKEY *key, uint8_t group, uint8_t *public)
{
	unsigned char *encoded = NULL;
	bool well = EVP_PKEY_get1_encoded_public_key(key, &encoded) == groups[group].bytes;

	if (well)
		memcpy(public, encoded, groups[group].bytes);
	OPENSSL_free(encoded);
	return well;
}

EVP_PKEY *nvme_dh_create(uint8_t group, uint8_t *public)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)groups[group].name, 0),
		OSSL_PARAM_construct_end()};
	EVP_PKEY *own = NULL;
	bool well = context && EVP_PKEY_keygen_init(context) == 1 && EVP_PKEY_CTX_set_params(context, params) == 1 &&
		    EVP_PKEY_generate(context, &own) == 1 && public_put(own, group, public);

	EVP_PKEY_CTX_free(context);
	if (well)
		return own;
	EVP_PKEY_free(own);
	return NULL;
}

/* 2 to p - 2: enough, because p is a safe prime. The whole check takes ten times as long as all else. */
static bool peer_is_right(EVP_PKEY *peer)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, peer, NULL);
	bool right = context && EVP_PKEY_public_check_quick(context) == 1;

	EVP_PKEY_CTX_free(context);
	return right;
}

bool nvme_dh_agree(EVP_PKEY *own, const uint8_t *value, uint8_t *shared)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, own, NULL);
	size_t bytes = (size_t)EVP_PKEY_get_size(own), length = bytes;
	EVP_PKEY *peer = EVP_PKEY_new();
	bool well = context && peer && EVP_PKEY_copy_parameters(peer, own) == 1 &&
		    EVP_PKEY_set1_encoded_public_key(peer, value, bytes) == 1 && peer_is_right(peer) &&
		    EVP_PKEY_derive_init(context) == 1 && EVP_PKEY_CTX_set_dh_pad(context, 1) == 1 &&
		    EVP_PKEY_derive_set_peer_ex(context, peer, 0) == 1 &&
		    EVP_PKEY_derive(context, shared, &length) == 1 && length == bytes;

	EVP_PKEY_free(peer);
	EVP_PKEY_CTX_free(context);
	return well;
}
