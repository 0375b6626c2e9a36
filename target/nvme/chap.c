/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The cryptography of DH-HMAC-CHAP: its formulas, put together of OpenSSL's parts. */
#include "target/nvme/chap.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/dh.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <stdlib.h>
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

struct nvme_dh {
	EVP_PKEY *key;
	uint8_t group;
};

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

static bool public_put(const EVP_PKEY *key, uint8_t group, uint8_t *public)
{
	BIGNUM *number = NULL;
	bool well = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_PUB_KEY, &number) == 1 &&
		    BN_bn2binpad(number, public, (int)groups[group].bytes) == (int)groups[group].bytes;

	BN_free(number);
	return well;
}

struct nvme_dh *nvme_dh_create(uint8_t group, uint8_t *public)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)groups[group].name, 0),
		OSSL_PARAM_construct_end()};
	struct nvme_dh *own = calloc(1, sizeof(*own));
	bool well = context && own && EVP_PKEY_keygen_init(context) == 1 &&
		    EVP_PKEY_CTX_set_params(context, params) == 1 && EVP_PKEY_generate(context, &own->key) == 1 &&
		    public_put(own->key, group, public);

	EVP_PKEY_CTX_free(context);
	if (own)
		own->group = group;
	if (well)
		return own;
	nvme_dh_free(own);
	return NULL;
}

/* The peer's value as a key. NULL: no memory. */
static EVP_PKEY *peer_key(const struct nvme_dh *own, const uint8_t *peer)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	BIGNUM *number = BN_bin2bn(peer, (int)groups[own->group].bytes, NULL);
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;

	if (context && number && build &&
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, groups[own->group].name, 0) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PUB_KEY, number) == 1)
		params = OSSL_PARAM_BLD_to_param(build);
	if (params && EVP_PKEY_fromdata_init(context) == 1)
		(void)EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	BN_free(number);
	EVP_PKEY_CTX_free(context);
	return key;
}

/* 2 to p - 2: enough, because p is a safe prime. The whole check takes ten times as long as all else. */
static bool peer_is_right(EVP_PKEY *peer)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, peer, NULL);
	bool right = context && EVP_PKEY_public_check_quick(context) == 1;

	EVP_PKEY_CTX_free(context);
	return right;
}

bool nvme_dh_agree(const struct nvme_dh *own, const uint8_t *peer, uint8_t *shared)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, own->key, NULL);
	EVP_PKEY *other = peer_key(own, peer);
	size_t length = groups[own->group].bytes;
	bool well = context && other && peer_is_right(other) && EVP_PKEY_derive_init(context) == 1 &&
		    EVP_PKEY_CTX_set_dh_pad(context, 1) == 1 &&
		    EVP_PKEY_derive_set_peer_ex(context, other, 0) == 1 &&
		    EVP_PKEY_derive(context, shared, &length) == 1 && length == groups[own->group].bytes;

	EVP_PKEY_free(other);
	EVP_PKEY_CTX_free(context);
	return well;
}

void nvme_dh_free(struct nvme_dh *own)
{
	if (!own)
		return;
	EVP_PKEY_free(own->key);
	free(own);
}
