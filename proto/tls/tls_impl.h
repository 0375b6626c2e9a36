/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The inside of contexts and streams, for the files of this room. */
#ifndef RBLK_TLS_TLS_IMPL_H
#define RBLK_TLS_TLS_IMPL_H

#include <openssl/ssl.h>
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"

/* A key sends fewer: AES-GCM is good for 2^24.5 full records with one key (RFC 8446, section 5.5). */
#define RBLK_TLS_KEY_RECORDS (1u << 23)
/* That a client may name: rblk's names one, and each costs the target a search and some HMACs. */
#define RBLK_TLS_IDENTITIES_MAX 4u
/* Changes of its key, within so many bytes, after which a peer only keeps this end busy. */
#define RBLK_TLS_UPDATES_MAX 32u
#define RBLK_TLS_UPDATES_BYTES (1u << 20)
/* One call receives no more: a short record takes much more time than its bytes say. */
#define RBLK_TLS_RECORDS_PER_CALL 128u
#define RBLK_TLS_IDENTITY_BYTES (6 + RBLK_NAME_BYTES + 1 + RBLK_TLS_KEY_ID_DIGITS + 1)

/* Fixed once made, but for ssl. */
struct rblk_tls_context {
	SSL_CTX *ssl; /* NULL until the first stream: a process without TLS does not pay for it */
	char name[RBLK_NAME_BYTES]; /* the client's */
	char identity[RBLK_TLS_IDENTITY_BYTES];
	struct rblk_secrets *secrets;
	rblk_tls_find_fn find; /* NULL: this is the client */
	void *arg;
	const struct rblk_tls_dialect *dialect; /* NULL: the clients are rblk's */
};

struct rblk_tls {
	struct rblk_tls_context *context; /* during the handshake */
	SSL *ssl;	/* NULL: it was ended */
	int fd;		/* the caller's */
	bool ready;	/* the handshake is over */
	int failed;	/* an errno, from when on nothing works any more */
	unsigned int identities; /* that the client has named */
	/*
	 * A record that the socket has not taken whole. Its bytes count as sent but for the last one,
	 * so that the caller comes again; see rblk_tls_send().
	 */
	unsigned char *held;
	size_t held_bytes;
	bool keeps_key; /* for the stream's life */
	u64 records; /* sent with the key in use */
	unsigned int updates; /* of the peer's key, within the last `update_bytes` */
	size_t update_bytes;
	bool more; /* the last call to receive stopped before the socket was empty */
	char name[RBLK_NAME_BYTES];
	u8 channel[RBLK_TLS_CHANNEL_BYTES];
	char words[RBLK_TLS_WORDS_BYTES];

	/* dialect.c: of the client's messages, and of what it has named. */
	unsigned int binders;
	u8 hello_hash[RBLK_TLS_KEY_BYTES], binder[RBLK_TLS_IDENTITIES_MAX][RBLK_TLS_KEY_BYTES];
	u8 retry[256]; /* what a second one's binders are over besides: the first one's hash, and the answer */
	size_t retry_bytes;
	char *identity; /* owned; NULL: none yet */
	u8 secret_id[RBLK_SECRET_FINGERPRINT];
};
static_assert(RBLK_TLS_KEY_BYTES == RBLK_SECRET_BYTES, "keys are of the length of secrets");

/* context.c: before a stream is made. False: no memory. */
bool rblk_tls_context_begin(struct rblk_tls_context *context);
/* One more identity: false, with words, if there are too many. */
bool rblk_tls_identity_counts(struct rblk_tls *tls);
/* dialect.c: for OpenSSL; and before, a client's ClientHello, and this end's ServerHello or HelloRetryRequest. */
int rblk_tls_dialect_find(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **session);
void rblk_tls_hello_seen(struct rblk_tls *tls, const u8 *hello, size_t bytes);
void rblk_tls_hello_answered(struct rblk_tls *tls, const u8 *message, size_t bytes);
/* identity.c: what OpenSSL takes a key as. NULL: no memory. */
SSL_SESSION *rblk_tls_session(SSL *ssl, const u8 key[RBLK_TLS_KEY_BYTES]);
/* KEY of the n-th secret, for this name; the identity; the key. */
void rblk_tls_key_id(const struct rblk_secrets *secrets, unsigned int n, const char name[RBLK_NAME_BYTES],
		     char text[RBLK_TLS_KEY_ID_DIGITS + 1]);
void rblk_tls_identity(const struct rblk_secrets *secrets, const char name[RBLK_NAME_BYTES],
		       char text[RBLK_TLS_IDENTITY_BYTES]);
SSL_SESSION *rblk_tls_key(SSL *ssl, const struct rblk_secrets *secrets, unsigned int n,
			  const char name[RBLK_NAME_BYTES]);
/*
 * After the handshake: OpenSSL keeps the key with the connection and needs it no more. It is as good as the secret, for as
 * long as that is valid, and a core would have it.
 */
void rblk_tls_key_forget(SSL *ssl);
/* socket.c: a BIO of its socket, that raises no SIGPIPE. NULL: no memory. */
BIO *rblk_tls_socket(struct rblk_tls *tls);
/* For some hundred bytes at once. */
bool rblk_tls_socket_has_room(int fd);

#endif
