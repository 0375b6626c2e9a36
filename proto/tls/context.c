/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Contexts: what OpenSSL may agree on, and which key it takes. TLS 1.3 alone, pre-shared keys alone, always
 * with an exchange of new keys besides (so that a secret that is stolen later opens nothing that was
 * recorded), no tickets, no early data, no certificates.
 */
#include "proto/tls/tls_impl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/secret/secret.h"

/* Both have the hash of the keys, SHA-256. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define READ_BUFFER_BYTES 34000 /* two records of the longest kind in one system call */

/* The client's key. 0 ends the handshake. */
static int key_use(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *identity_bytes,
		   SSL_SESSION **session)
{
	const struct rblk_tls *tls = SSL_get_app_data(ssl);
	const struct rblk_tls_context *context = tls->context;

	*session = NULL;
	/* Asked once more, the target wants another hash: there is no such key. */
	if (md && EVP_MD_get_type(md) != NID_sha256)
		return 1;
	*session = rblk_tls_key(ssl, context->secrets, 0, context->name);
	*identity_bytes = strlen(context->identity);
	*identity = (const unsigned char *)context->identity;
	return *session != NULL;
}

bool rblk_tls_identity_counts(struct rblk_tls *tls)
{
	if (++tls->identities <= RBLK_TLS_IDENTITIES_MAX)
		return true;
	snprintf(tls->words, sizeof(tls->words), "it names more than %u initiators", RBLK_TLS_IDENTITIES_MAX);
	return false;
}

/* The server's. *session NULL: it has none; without certificates that ends the handshake. */
static int key_find(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **session)
{
	struct rblk_tls *tls = SSL_get_app_data(ssl);
	const struct rblk_tls_context *context = tls->context;
	char name[RBLK_NAME_BYTES], id[RBLK_TLS_KEY_ID_DIGITS + 1], own[RBLK_TLS_KEY_ID_DIGITS + 1];
	struct rblk_secrets *secrets;

	*session = NULL;
	if (!rblk_tls_identity_counts(tls))
		return 0;
	if (rblk_tls_identity_parse(identity, bytes, name, id)) {
		snprintf(tls->words, sizeof(tls->words), "it names no initiator as rblk does");
		return 1;
	}
	secrets = context->find(context->arg, name);
	for (unsigned int i = 0; i < rblk_secrets_count(secrets) && !*session; i++) {
		rblk_tls_key_id(secrets, i, name, own);
		if (CRYPTO_memcmp(own, id, sizeof(own)) == 0)
			*session = rblk_tls_key(ssl, secrets, i, name);
	}
	tls->words[0] = '\0'; /* of an identity before this one */
	if (*session)
		memcpy(tls->name, name, sizeof(tls->name));
	else
		snprintf(tls->words, sizeof(tls->words), "initiator \"%s\" has %s here", name,
			 secrets ? "another secret" : "no secret");
	rblk_secrets_put(secrets);
	return 1;
}

/*
 * Messages of TLS itself. Those that follow the handshake: the peer changes its key. socket.c has the bound. Before, a
 * client's hello tells which key it has, to a server with a dialect.
 */
static void message_seen(int sent, int version, int type, const void *data, size_t bytes, SSL *ssl, void *arg)
{
	struct rblk_tls *tls = SSL_get_app_data(ssl);

	(void)version;
	(void)arg;
	if (type != SSL3_RT_HANDSHAKE || !bytes)
		return;
	if (tls->ready)
		tls->updates += !sent;
	else if (tls->context->dialect && *(const u8 *)data == SSL3_MT_CLIENT_HELLO)
		rblk_tls_hello_seen(tls, data, bytes);
	else if (tls->context->dialect && *(const u8 *)data == SSL3_MT_SERVER_HELLO)
		rblk_tls_hello_answered(tls, data, bytes);
}

bool rblk_tls_context_begin(struct rblk_tls_context *context)
{
	SSL_CTX *ssl;

	if (context->ssl)
		return true;
	ssl = SSL_CTX_new(context->find ? TLS_server_method() : TLS_client_method());
	if (!ssl || !SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) ||
	    !SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) || !SSL_CTX_set_ciphersuites(ssl, CIPHERS) ||
	    !SSL_CTX_set_num_tickets(ssl, 0)) {
		SSL_CTX_free(ssl);
		ERR_clear_error();
		return false;
	}
	SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	/* The machine's configuration of OpenSSL may have set these for other programs. */
	SSL_CTX_clear_options(ssl, SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_msg_callback(ssl, message_seen);
	SSL_CTX_set_read_ahead(ssl, 1);
	SSL_CTX_set_default_read_buffer_len(ssl, READ_BUFFER_BYTES);
	if (context->find) {
		SSL_CTX_set_psk_find_session_callback(ssl, context->dialect ? rblk_tls_dialect_find : key_find);
	} else {
		SSL_CTX_set_psk_use_session_callback(ssl, key_use);
		/* A target that has a certificate instead of the key: there is nobody who could vouch for it. */
		SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
	}
	context->ssl = ssl;
	return true;
}

struct rblk_tls_context *rblk_tls_client(const char name[RBLK_NAME_BYTES], struct rblk_secrets *secrets)
{
	struct rblk_tls_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	memcpy(context->name, name, sizeof(context->name));
	context->secrets = rblk_secrets_ref(secrets);
	rblk_tls_identity(secrets, name, context->identity);
	return context;
}

struct rblk_tls_context *rblk_tls_server(rblk_tls_find_fn find, void *arg)
{
	struct rblk_tls_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->find = find;
	context->arg = arg;
	return context;
}

void rblk_tls_context_destroy(struct rblk_tls_context *context)
{
	if (!context)
		return;
	SSL_CTX_free(context->ssl);
	rblk_secrets_put(context->secrets);
	free(context);
}
