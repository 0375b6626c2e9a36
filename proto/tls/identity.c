/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which pre-shared key is meant: the identity that a client sends in the clear, "rblk1/NAME/KEY", and the key
 * that both ends derive. KEY tells the secrets of a name apart while they are changed.
 */
#include "proto/tls/tls_impl.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include "proto/secret/secret.h"
#include "proto/wire/wire_check.h"

#define PREFIX "rblk1/"
#define LABEL_KEY "rblk tls key 1"
#define LABEL_ID "rblk tls id 1"

void rblk_tls_key_id(const struct rblk_secrets *secrets, unsigned int n, const char name[RBLK_NAME_BYTES],
		     char text[RBLK_TLS_KEY_ID_DIGITS + 1])
{
	u8 id[RBLK_SECRET_BYTES];

	rblk_derive(secrets, n, LABEL_ID, name, id);
	for (unsigned int i = 0; i < RBLK_TLS_KEY_ID_DIGITS / 2; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

void rblk_tls_identity(const struct rblk_secrets *secrets, const char name[RBLK_NAME_BYTES],
		       char text[RBLK_TLS_IDENTITY_BYTES])
{
	char id[RBLK_TLS_KEY_ID_DIGITS + 1];

	rblk_tls_key_id(secrets, 0, name, id);
	snprintf(text, RBLK_TLS_IDENTITY_BYTES, PREFIX "%s/%s", name, id);
}

int rblk_tls_identity_parse(const unsigned char *identity, size_t bytes, char name[RBLK_NAME_BYTES],
			    char key_id[RBLK_TLS_KEY_ID_DIGITS + 1])
{
	const size_t prefix = sizeof(PREFIX) - 1;
	const size_t around = prefix + 1 + RBLK_TLS_KEY_ID_DIGITS;
	size_t length;

	memset(name, 0, RBLK_NAME_BYTES);
	memset(key_id, 0, RBLK_TLS_KEY_ID_DIGITS + 1);
	if (bytes <= around || memcmp(identity, PREFIX, prefix))
		return -EINVAL;
	length = bytes - around;
	if (length >= RBLK_NAME_BYTES || identity[prefix + length] != '/')
		return -EINVAL;
	memcpy(name, identity + prefix, length);
	memcpy(key_id, identity + prefix + length + 1, RBLK_TLS_KEY_ID_DIGITS);
	for (unsigned int i = 0; i < RBLK_TLS_KEY_ID_DIGITS; i++)
		if (!strchr("0123456789abcdef", key_id[i]) || !key_id[i])
			return -EINVAL;
	/* A name has no zero within. */
	return strlen(name) == length && rblk_name_valid(name) ? 0 : -EINVAL;
}

SSL_SESSION *rblk_tls_session(SSL *ssl, const u8 key[RBLK_TLS_KEY_BYTES])
{
	static const unsigned char aes128[] = {0x13, 0x01}; /* of the key's hash, SHA-256 */
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && (!SSL_SESSION_set1_master_key(session, key, RBLK_TLS_KEY_BYTES) ||
			!SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, aes128)) ||
			!SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))) {
		SSL_SESSION_free(session);
		session = NULL;
	}
	return session;
}

SSL_SESSION *rblk_tls_key(SSL *ssl, const struct rblk_secrets *secrets, unsigned int n,
			  const char name[RBLK_NAME_BYTES])
{
	SSL_SESSION *session;
	u8 key[RBLK_SECRET_BYTES];

	rblk_derive(secrets, n, LABEL_KEY, name, key);
	session = rblk_tls_session(ssl, key);
	OPENSSL_cleanse(key, sizeof(key));
	return session;
}

void rblk_tls_key_forget(SSL *ssl)
{
	static const u8 none[RBLK_SECRET_BYTES];
	SSL_SESSION *session = SSL_get_session(ssl);

	if (session)
		SSL_SESSION_set1_master_key(session, none, sizeof(none));
}
