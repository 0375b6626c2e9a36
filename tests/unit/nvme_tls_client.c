/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See nvme_tls_client.h. */
#include "tests/unit/nvme_tls_client.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/unit.h"

#define HASH_BYTES 32

/* HKDF-Extract without salt, then HKDF-Expand-Label, or what libnvme took for it. */
static void hkdf(unsigned int form, const uint8_t in[HASH_BYTES], const char *label, const char *context,
		 uint8_t out[HASH_BYTES])
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *run = EVP_KDF_CTX_new(kdf);
	uint8_t info[1024], salt[HASH_BYTES] = {0};
	size_t at = 0;

	info[at++] = form & NVME_TLS_OLD ? HASH_BYTES : 0;
	info[at++] = form & NVME_TLS_OLD ? 0 : HASH_BYTES;
	if (!(form & NVME_TLS_OLD))
		info[at++] = (uint8_t)(strlen("tls13 ") + strlen(label));
	at += (size_t)sprintf((char *)info + at, "tls13 %s", label);
	if (!(form & NVME_TLS_OLD))
		info[at++] = (uint8_t)strlen(context);
	at += (size_t)sprintf((char *)info + at, "%s", context);
	{
		OSSL_PARAM params[] = {
			OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)in, HASH_BYTES),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof(salt)),
			OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, at),
			OSSL_PARAM_construct_end(),
		};

		assert_int_equal(EVP_KDF_derive(run, out, HASH_BYTES, params), 1);
	}
	EVP_KDF_CTX_free(run);
	EVP_KDF_free(kdf);
}

void nvme_tls_key_make(struct nvme_tls_key *key, const uint8_t secret[32], const char *host, const char *subsystem,
		       unsigned int version, unsigned int form)
{
	char text[512], digest[48] = "", context[64];
	uint8_t retained[HASH_BYTES], hash[HASH_BYTES];

	memcpy(retained, secret, sizeof(retained));
	if (!(form & NVME_TLS_PLAIN))
		hkdf(form, secret, "HostNQN", host, retained);
	if (version) {
		snprintf(text, sizeof(text), "%s %s NVMe-over-Fabrics", host, subsystem);
		HMAC(EVP_sha256(), retained, sizeof(retained), (uint8_t *)text, strlen(text), hash, NULL);
		digest[0] = ' ';
		EVP_EncodeBlock((uint8_t *)digest + 1, hash, sizeof(hash));
	}
	snprintf(key->identity, sizeof(key->identity), "NVMe%uR01 %s %s%s", version, host, subsystem, digest);
	snprintf(context, sizeof(context), "01%s", digest);
	hkdf(form, retained, "nvme-tls-psk", version ? context : key->identity, key->psk);
}

SSL_SESSION *nvme_tls_session(const struct nvme_tls_key *key, SSL *ssl)
{
	static const unsigned char aes128[] = {0x13, 0x01};
	SSL_SESSION *session = SSL_SESSION_new();

	assert_true(SSL_SESSION_set1_master_key(session, key->psk, sizeof(key->psk)) &&
		    SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, aes128)) &&
		    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION));
	return session;
}

static int use(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *bytes, SSL_SESSION **session)
{
	const struct nvme_tls_key *key = SSL_get_app_data(ssl);

	*identity = (const unsigned char *)key->identity;
	*bytes = strlen(key->identity);
	*session = nvme_tls_session(key, ssl);
	return 1;
}

SSL *nvme_tls_client(const struct nvme_tls_key *key, int fd, int version)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl;

	assert_non_null(context);
	SSL_CTX_set_min_proto_version(context, version);
	SSL_CTX_set_max_proto_version(context, version);
	if (version == TLS1_3_VERSION)
		SSL_CTX_set_psk_use_session_callback(context, use);
	ssl = SSL_new(context);
	SSL_CTX_free(context);
	assert_non_null(ssl);
	SSL_set_app_data(ssl, (void *)key);
	SSL_set_fd(ssl, fd);
	SSL_set_connect_state(ssl);
	return ssl;
}
