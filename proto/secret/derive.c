/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Keys that are derived from secrets, so that no key is used for two purposes (specification section 6.4). */
#include "proto/secret/secret_impl.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#define LABEL_BYTES 16

void rblk_derive(const struct rblk_secrets *secrets, unsigned int n, const char *label,
		 const char name[RBLK_NAME_BYTES], u8 out[RBLK_SECRET_BYTES])
{
	u8 message[LABEL_BYTES + RBLK_NAME_BYTES] = {0};
	unsigned int length = 0;

	assert(strlen(label) < LABEL_BYTES);
	memcpy(message, label, strlen(label));
	memcpy(message + LABEL_BYTES, name, RBLK_NAME_BYTES);
	/* Fails only for want of memory: then nobody has the other half of this key. */
	if (!HMAC(EVP_sha256(), secrets->list[n], RBLK_SECRET_BYTES, message, sizeof(message), out,
		  &length))
		RAND_priv_bytes(out, RBLK_SECRET_BYTES);
	else
		assert(length == RBLK_SECRET_BYTES);
}
