/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One end of a TLS 1.3 stream on a TCP socket that does not block, by a key that both ends derive from the
 * initiator's secret (specification section 6.4; NVMe hosts do it in their own way). OpenSSL does TLS. Used by
 * fabric_tcp, which makes a stream of a socket where its caller has given it a context. A stream is one thread's at a
 * time; a context makes its streams on one thread.
 */
#ifndef RBLK_TLS_TLS_H
#define RBLK_TLS_TLS_H

#include <sys/types.h>
#include <sys/uio.h>
#include "proto/wire/wire.h"

#define RBLK_TLS_WORDS_BYTES 160
#define RBLK_TLS_CHANNEL_BYTES 32
#define RBLK_TLS_KEY_BYTES 32
/* The first byte of a stream that begins with TLS; a hello of fabric_tcp begins with another. */
#define RBLK_TLS_FIRST_BYTE 22

struct rblk_secrets;
struct rblk_tls_context; /* which end one is, and with which secrets */
struct rblk_tls;	 /* a stream */

/* The secrets of that name, with a reference; NULL: it has none. Any thread. */
typedef struct rblk_secrets *(*rblk_tls_find_fn)(void *arg, const char *name);

/* Connects as `name`, with the first of the secrets, to which it takes a reference. NULL: no memory. */
struct rblk_tls_context *rblk_tls_client(const char name[RBLK_NAME_BYTES], struct rblk_secrets *secrets);
/* Is connected to. NULL: no memory. */
struct rblk_tls_context *rblk_tls_server(rblk_tls_find_fn find, void *arg);

/* How clients that are none of rblk's name themselves, and derive keys. Pure. */
struct rblk_tls_dialect {
	/* Whose identity it is. NULL, or words for what is wrong with it. */
	const char *(*parse)(const char *identity, char name[RBLK_NAME_BYTES]);
	/* A key that the n-th secret may be with this identity; there are `forms`. False: not in this one. */
	bool (*derive)(const struct rblk_secrets *secrets, unsigned int n, unsigned int form, const char *identity,
		       u8 key[RBLK_TLS_KEY_BYTES]);
	unsigned int forms;
};
/* Is connected to by such (NULL: by rblk's). They get no new key: kernels that have theirs cannot change it. */
struct rblk_tls_context *rblk_tls_server_of(const struct rblk_tls_dialect *dialect, rblk_tls_find_fn find, void *arg);
/* For a dialect: HKDF with SHA-256, of 32 bytes, without salt; labels are those of RFC 8446. False: no memory, or too
 * much is to go in. */
#define RBLK_TLS_INFO_BYTES 640u
bool rblk_tls_extract(const u8 input[RBLK_TLS_KEY_BYTES], u8 out[RBLK_TLS_KEY_BYTES]);
bool rblk_tls_expand(const u8 secret[RBLK_TLS_KEY_BYTES], const void *info, size_t bytes, u8 out[RBLK_TLS_KEY_BYTES]);
bool rblk_tls_expand_label(const u8 secret[RBLK_TLS_KEY_BYTES], const char *label, const void *context, size_t bytes,
			   u8 out[RBLK_TLS_KEY_BYTES]);

/* Not before the last handshake is over or destroyed. NULL: no effect. */
void rblk_tls_context_destroy(struct rblk_tls_context *context);

/* The descriptor remains the caller's, and open for the stream's life. NULL: no memory. */
struct rblk_tls *rblk_tls_create(struct rblk_tls_context *context, int fd);
void rblk_tls_destroy(struct rblk_tls *tls); /* NULL: no effect */

/*
 * 1: both ends have proven that they have the secret; 0: call again when the socket is readable.
 * -EKEYREJECTED: the other end does not take the key; -ECONNRESET: it has ended the connection; others.
 */
int rblk_tls_handshake(struct rblk_tls *tls);

/*
 * As sendmsg() and recvmsg() on a socket that does not block, -1 with errno included; but each error except
 * EAGAIN is the stream's end. The caller sends again what was not sent, from its first byte, unchanged. Less is
 * received than asked when the socket is empty, and where rblk_tls_more() says so. 0: the peer has ended the
 * stream, and has said so. ECONNABORTED: it ended without; EBADMSG: what arrived is not what the peer has sent.
 */
ssize_t rblk_tls_send(struct rblk_tls *tls, const struct iovec *iovs, size_t count);
ssize_t rblk_tls_recv(struct rblk_tls *tls, const struct iovec *iovs, size_t count);
/* As recv(MSG_PEEK) of one byte. */
ssize_t rblk_tls_peek(struct rblk_tls *tls);
/* The next call to receive has more, or says why the stream is over: the socket may never be readable again. */
bool rblk_tls_more(const struct rblk_tls *tls);
/*
 * Tells the peer that nothing more follows, as far as the socket takes it at once. Then the descriptor is not
 * used any more; name, channel and words remain.
 */
void rblk_tls_end(struct rblk_tls *tls);

/* After the handshake: the initiator's name, which it has proven; what is this connection's alone. */
const char *rblk_tls_name(const struct rblk_tls *tls);
const u8 *rblk_tls_channel(const struct rblk_tls *tls);
/* By a dialect: what the client has called itself, and the fingerprint of the secret that it has proven. */
const char *rblk_tls_identity_text(const struct rblk_tls *tls);
const u8 *rblk_tls_secret_id(const struct rblk_tls *tls);
/* The words of the failure; "" while there is none. */
const char *rblk_tls_words(const struct rblk_tls *tls);

/* Which name and key an identity means. 0 or -EINVAL. Pure; for the server and its tests. */
#define RBLK_TLS_KEY_ID_DIGITS 16
int rblk_tls_identity_parse(const unsigned char *identity, size_t bytes, char name[RBLK_NAME_BYTES],
			    char key_id[RBLK_TLS_KEY_ID_DIGITS + 1]);

#endif
