/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Proofs: HMAC-SHA256 of struct rblk_wire_proof, and their comparison in constant time. */
#include "proto/secret/secret_impl.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

void rblk_prove(const struct rblk_secrets *secrets, unsigned int n, const struct rblk_wire_proof *proof,
		u8 role, u8 out[RBLK_PROOF_BYTES])
{
	struct rblk_wire_proof own = *proof;
	unsigned int length = 0;

	own.role = role;
	/* Fails only for want of memory: then nothing is proven, and no proof is right. */
	if (!HMAC(EVP_sha256(), secrets->list[n], RBLK_SECRET_BYTES, (const u8 *)&own, sizeof(own), out,
		  &length))
		memset(out, 0, RBLK_PROOF_BYTES);
	else
		assert(length == RBLK_PROOF_BYTES);
}

int rblk_proof_find(const struct rblk_secrets *secrets, const struct rblk_wire_proof *proof, u8 role,
		    const u8 told[RBLK_PROOF_BYTES])
{
	static const u8 none[RBLK_PROOF_BYTES];
	u8 right[RBLK_PROOF_BYTES];
	int found = -1;

	/* All of them, so that the time says nothing about which one it is. */
	for (unsigned int i = 0; i < rblk_secrets_count(secrets); i++) {
		rblk_prove(secrets, i, proof, role, right);
		if (!CRYPTO_memcmp(right, told, sizeof(right)))
			found = (int)i;
	}
	OPENSSL_cleanse(right, sizeof(right));
	return CRYPTO_memcmp(told, none, sizeof(none)) ? found : -1;
}
