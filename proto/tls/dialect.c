/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clients that are no initiators of rblk's, and have another way to name themselves and to derive keys (struct
 * rblk_tls_dialect). An identity may leave open which of several keys is meant: then the client's binder says it, the
 * HMAC by its key over its message (RFC 8446, section 4.2.11.2). OpenSSL checks the binder of the key that is
 * chosen here, so a wrong choice lets nobody in.
 */
#include "proto/tls/tls_impl.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/secret/secret.h"

#define CONTEXT_MAX 255u
#define IDENTITY_MAX 512u /* it is kept with the connection */

/* -- HKDF (RFC 5869, RFC 8446), SHA-256, 32 bytes ------------------------------------------------ */

static bool hmac(const u8 key[RBLK_SECRET_BYTES], const void *data, size_t bytes, u8 out[RBLK_SECRET_BYTES])
{
	return HMAC(EVP_sha256(), key, RBLK_SECRET_BYTES, data, bytes, out, NULL) != NULL;
}

bool rblk_tls_extract(const u8 input[RBLK_SECRET_BYTES], u8 out[RBLK_SECRET_BYTES])
{
	static const u8 salt[RBLK_SECRET_BYTES];

	return hmac(salt, input, RBLK_SECRET_BYTES, out);
}

bool rblk_tls_expand(const u8 secret[RBLK_SECRET_BYTES], const void *info, size_t bytes, u8 out[RBLK_SECRET_BYTES])
{
	u8 block[RBLK_TLS_INFO_BYTES + 1];

	if (bytes > RBLK_TLS_INFO_BYTES)
		return false;
	memcpy(block, info, bytes);
	block[bytes] = 1; /* the first block, and all of it */
	return hmac(secret, block, bytes + 1, out);
}

bool rblk_tls_expand_label(const u8 secret[RBLK_SECRET_BYTES], const char *label, const void *context, size_t bytes,
			   u8 out[RBLK_SECRET_BYTES])
{
	u8 info[RBLK_TLS_INFO_BYTES];
	int at = snprintf((char *)info, sizeof(info), "%c%c%ctls13 %s", 0, RBLK_SECRET_BYTES, (int)strlen(label) + 6,
			  label);

	if (bytes > CONTEXT_MAX || (size_t)at + 1 + bytes > sizeof(info))
		return false;
	info[at] = (u8)bytes;
	memcpy(info + at + 1, context, bytes);
	return rblk_tls_expand(secret, info, (size_t)at + 1 + bytes, out);
}

/* -- binders ------------------------------------------------------------------------------------- */

#define BINDER_BYTES (1u + SHA256_DIGEST_LENGTH) /* with its length */

/* They end the message, one for each identity, behind their length. 0: some are of another hash, or there are more. */
static unsigned int binders_count(const u8 *hello, size_t bytes)
{
	for (unsigned int count = RBLK_TLS_IDENTITIES_MAX; count; count--) {
		const size_t list = count * BINDER_BYTES;
		unsigned int right = 0;

		if (bytes < 2 + list || hello[bytes - list - 2] || hello[bytes - list - 1] != list)
			continue;
		while (right < count && hello[bytes - list + right * BINDER_BYTES] == SHA256_DIGEST_LENGTH)
			right++;
		if (right == count)
			return count;
	}
	return 0;
}

/* Binders are over this message without them and, if it is the second, over those in front of it. */
static bool hello_hash(struct rblk_tls *tls, const u8 *hello, size_t bytes)
{
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	bool well = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) &&
		    EVP_DigestUpdate(hash, tls->retry, tls->retry_bytes) && EVP_DigestUpdate(hash, hello, bytes) &&
		    EVP_DigestFinal_ex(hash, tls->hello_hash, NULL);

	EVP_MD_CTX_free(hash);
	return well;
}

/* In front of a second ClientHello, the first one's hash stands for it (RFC 8446, section 4.4.1). */
static void hello_keep(struct rblk_tls *tls, const u8 *hello, size_t bytes)
{
	static const u8 head[] = {SSL3_MT_MESSAGE_HASH, 0, 0, SHA256_DIGEST_LENGTH};

	memcpy(tls->retry, head, sizeof(head));
	SHA256(hello, bytes, tls->retry + sizeof(head));
	tls->retry_bytes = sizeof(head) + SHA256_DIGEST_LENGTH;
}

void rblk_tls_hello_seen(struct rblk_tls *tls, const u8 *hello, size_t bytes)
{
	unsigned int count = binders_count(hello, bytes);

	tls->identities = 0;
	tls->binders = count && hello_hash(tls, hello, bytes - 2 - count * BINDER_BYTES) ? count : 0;
	for (unsigned int i = 0; i < tls->binders; i++)
		memcpy(tls->binder[i], hello + bytes - (count - i) * BINDER_BYTES + 1, SHA256_DIGEST_LENGTH);
	hello_keep(tls, hello, bytes);
}

void rblk_tls_hello_answered(struct rblk_tls *tls, const u8 *message, size_t bytes)
{
	if (bytes > sizeof(tls->retry) - tls->retry_bytes)
		return; /* it is no HelloRetryRequest, then: that is shorter */
	memcpy(tls->retry + tls->retry_bytes, message, bytes);
	tls->retry_bytes += bytes;
}

/* The binder is that of the identity that is looked at. */
static bool is_key(const struct rblk_tls *tls, const u8 key[RBLK_SECRET_BYTES])
{
	u8 early[RBLK_SECRET_BYTES], base[RBLK_SECRET_BYTES], right[RBLK_SECRET_BYTES], empty[SHA256_DIGEST_LENGTH];
	bool is;

	SHA256(NULL, 0, empty);
	is = rblk_tls_extract(key, early) && rblk_tls_expand_label(early, "ext binder", empty, sizeof(empty), base) &&
	     rblk_tls_expand_label(base, "finished", "", 0, early) &&
	     hmac(early, tls->hello_hash, sizeof(tls->hello_hash), right) &&
	     !CRYPTO_memcmp(right, tls->binder[tls->identities - 1], sizeof(right));
	OPENSSL_cleanse(early, sizeof(early));
	OPENSSL_cleanse(base, sizeof(base));
	OPENSSL_cleanse(right, sizeof(right));
	return is;
}

/* -- the key ------------------------------------------------------------------------------------- */

/* Which secret it is of; -1: none. Without a binder that can be checked here, the first one. */
static int choose(const struct rblk_tls *tls, const struct rblk_secrets *secrets, u8 key[RBLK_SECRET_BYTES])
{
	const struct rblk_tls_dialect *dialect = tls->context->dialect;

	for (unsigned int i = 0; i < rblk_secrets_count(secrets); i++)
		for (unsigned int form = 0; form < dialect->forms; form++)
			if (dialect->derive(secrets, i, form, tls->identity, key) &&
			    (tls->identities > tls->binders || is_key(tls, key)))
				return (int)i;
	return -1;
}

int rblk_tls_dialect_find(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **session)
{
	struct rblk_tls *tls = SSL_get_app_data(ssl);
	const struct rblk_tls_context *context = tls->context;
	struct rblk_secrets *secrets;
	u8 key[RBLK_SECRET_BYTES];
	const char *wrong = "its identity is too long, or no text";
	int chosen;

	*session = NULL;
	if (!rblk_tls_identity_counts(tls))
		return 0;
	free(tls->identity);
	tls->identity = strndup((const char *)identity, bytes < IDENTITY_MAX ? bytes : IDENTITY_MAX);
	if (!tls->identity)
		return 0;
	if (strlen(tls->identity) == bytes)
		wrong = context->dialect->parse(tls->identity, tls->name);
	if (wrong) {
		snprintf(tls->words, sizeof(tls->words), "%s", wrong);
		return 1;
	}
	secrets = context->find(context->arg, tls->name);
	chosen = choose(tls, secrets, key);
	tls->words[0] = '\0'; /* of an identity before this one */
	if (chosen >= 0) {
		rblk_secrets_fingerprint(secrets, (unsigned int)chosen, tls->secret_id);
		*session = rblk_tls_session(ssl, key);
	} else {
		snprintf(tls->words, sizeof(tls->words), "host \"%s\" has %s here", tls->name,
			 secrets ? "another secret" : "no secret");
	}
	OPENSSL_cleanse(key, sizeof(key));
	rblk_secrets_put(secrets);
	return 1;
}

struct rblk_tls_context *rblk_tls_server_of(const struct rblk_tls_dialect *dialect, rblk_tls_find_fn find, void *arg)
{
	struct rblk_tls_context *context = rblk_tls_server(find, arg);

	if (context)
		context->dialect = dialect;
	return context;
}

const char *rblk_tls_identity_text(const struct rblk_tls *tls)
{
	return tls->identity;
}

const u8 *rblk_tls_secret_id(const struct rblk_tls *tls)
{
	return tls->secret_id;
}
