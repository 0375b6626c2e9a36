/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Streams: the handshake, then bytes both ways, then the end. context.c and identity.c say which keys.
 *
 * OpenSSL has encrypted a record before it knows whether the socket takes it. So a record that was not
 * taken whole is held, and its bytes count as sent, except the last one: the caller then waits for the
 * socket and comes again with that byte, and what is held goes first.
 */
#include "proto/tls/tls_impl.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "proto/secret/secret.h"

#define RECORD_BYTES 16384u /* TLS has no longer ones */
#define CHANNEL_LABEL "EXPORTER-rblk-channel-1"

/* -- what went wrong --------------------------------------------------------------------------- */

static int fault(struct rblk_tls *tls, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int fault(struct rblk_tls *tls, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(tls->words, sizeof(tls->words), format, args);
	va_end(args);
	tls->failed = error;
	ERR_clear_error();
	return -error;
}

/* OpenSSL's reason, without its library's name; never has a key in it. */
static const char *reason_text(void)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	return reason ? reason : "no reason";
}

/* This side's callback in a handshake may have said more already. */
static int handshake_fault(struct rblk_tls *tls)
{
	unsigned int reason = (unsigned int)ERR_GET_REASON(ERR_peek_last_error());
	const char *name = tls->context->name;

	if (!tls->context->find)
		switch (reason) {
		case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
		case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
		case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
		case SSL_R_TLSV1_ALERT_UNKNOWN_PSK_IDENTITY:
			return fault(tls, EKEYREJECTED,
				     "TLS: the target has another secret for initiator \"%s\", or none", name);
		case SSL_R_CERTIFICATE_VERIFY_FAILED:
		case SSL_R_BAD_PSK:
			return fault(tls, EKEYREJECTED, "TLS: the target does not prove that it has the secret");
		case SSL_R_WRONG_VERSION_NUMBER:
		case SSL_R_UNSUPPORTED_PROTOCOL:
			return fault(tls, EPROTO, "TLS: what answers there does not speak TLS 1.3");
		default:
			return fault(tls, EPROTO, "TLS handshake failed: %s", reason_text());
		}
	if (!tls->words[0])
		return fault(tls, EPROTO, "TLS handshake failed: %s", reason_text());
	tls->failed = EKEYREJECTED;
	ERR_clear_error();
	return -EKEYREJECTED;
}

/* After a call that failed: 0 if the socket is to blame and will be ready, else negative errno. */
static int stream_fault(struct rblk_tls *tls, int result)
{
	int error = errno;

	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return 0;
	case SSL_ERROR_SYSCALL:
		if (error)
			return fault(tls, error, "%s", strerror(error));
		break;
	default:
		if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
			break;
		if (!tls->ready)
			return handshake_fault(tls);
		return fault(tls, EBADMSG, "TLS: %s", reason_text());
	}
	if (tls->ready)
		return fault(tls, ECONNABORTED, "TLS: cut off: the peer has not ended it");
	return fault(tls, ECONNRESET, "TLS: the peer has closed it without an answer: %s",
		     tls->context->find ? "it is no initiator of rblk" : "it has no TLS, or ended");
}

/* -- making, handshake --------------------------------------------------------------------------- */

struct rblk_tls *rblk_tls_create(struct rblk_tls_context *context, int fd)
{
	struct rblk_tls *tls = rblk_tls_context_begin(context) ? calloc(1, sizeof(*tls)) : NULL;
	BIO *bio = tls ? rblk_tls_socket(tls) : NULL;

	if (bio)
		tls->ssl = SSL_new(context->ssl);
	if (!tls || !tls->ssl) {
		BIO_free(bio);
		free(tls);
		ERR_clear_error();
		return NULL;
	}
	tls->context = context;
	tls->keeps_key = context->dialect;
	tls->fd = fd;
	SSL_set_bio(tls->ssl, bio, bio);
	SSL_set_app_data(tls->ssl, tls);
	if (context->find)
		SSL_set_accept_state(tls->ssl);
	else
		SSL_set_connect_state(tls->ssl);
	return tls;
}

void rblk_tls_destroy(struct rblk_tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	free(tls->held);
	free(tls->identity);
	free(tls);
}

int rblk_tls_handshake(struct rblk_tls *tls)
{
	int result, err;

	if (tls->failed || tls->ready)
		return tls->ready ? 1 : -tls->failed;
	ERR_clear_error();
	errno = 0;
	result = SSL_do_handshake(tls->ssl);
	if (result != 1) {
		err = stream_fault(tls, result);
		/* The flights of a handshake fit into the buffer of a fresh socket: or never. */
		if (!err && SSL_want_write(tls->ssl))
			return fault(tls, ENOBUFS, "TLS: %s", strerror(ENOBUFS));
		return err;
	}
	/* Nothing but the key has vouched for the peer. */
	if (!SSL_session_reused(tls->ssl) || SSL_version(tls->ssl) != TLS1_3_VERSION)
		return fault(tls, EKEYREJECTED, "TLS: the peer does not prove that it has the secret");
	if (SSL_export_keying_material(tls->ssl, tls->channel, sizeof(tls->channel), CHANNEL_LABEL,
				       sizeof(CHANNEL_LABEL) - 1, NULL, 0, 0) != 1)
		return fault(tls, ENOMEM, "TLS: %s", strerror(ENOMEM));
	if (!tls->context->find)
		memcpy(tls->name, tls->context->name, sizeof(tls->name));
	tls->words[0] = '\0';
	rblk_tls_key_forget(tls->ssl);
	tls->ready = true;
	tls->context = NULL;
	return 1;
}

const char *rblk_tls_name(const struct rblk_tls *tls)
{
	return tls->name;
}

const u8 *rblk_tls_channel(const struct rblk_tls *tls)
{
	return tls->channel;
}

const char *rblk_tls_words(const struct rblk_tls *tls)
{
	return tls->words;
}

/* -- sending ----------------------------------------------------------------------------------- */

/* Where in the caller's memory the next byte is. */
struct cursor {
	const struct iovec *iovs;
	size_t count, at; /* `at` bytes of the first one are behind it */
};

static void cursor_move(struct cursor *cursor, size_t bytes)
{
	cursor->at += bytes;
	while (cursor->count && cursor->at >= cursor->iovs->iov_len) {
		cursor->at -= cursor->iovs->iov_len;
		cursor->iovs++;
		cursor->count--;
	}
}

/* The next record's bytes: in the caller's memory if they lie there in one piece, else copied. */
static const void *cursor_piece(const struct cursor *cursor, unsigned char *copy, size_t *bytes)
{
	struct cursor from = *cursor;

	*bytes = 0;
	if (!from.count)
		return NULL;
	if (from.iovs->iov_len - from.at >= RECORD_BYTES || from.count == 1) {
		*bytes = from.iovs->iov_len - from.at;
		if (*bytes > RECORD_BYTES)
			*bytes = RECORD_BYTES;
		return (const char *)from.iovs->iov_base + from.at;
	}
	while (from.count && *bytes < RECORD_BYTES) {
		size_t part = from.iovs->iov_len - from.at;

		if (part > RECORD_BYTES - *bytes)
			part = RECORD_BYTES - *bytes;
		memcpy(copy + *bytes, (const char *)from.iovs->iov_base + from.at, part);
		*bytes += part;
		cursor_move(&from, part);
	}
	return copy;
}

/*
 * A new key, in time, before the next record. Only where its message goes at once: OpenSSL receives nothing
 * while it is half sent, and what waits in the socket would have no edge any more. 0 or negative errno.
 */
static int key_change(struct rblk_tls *tls)
{
	int result;

	if (tls->keeps_key || ++tls->records < RBLK_TLS_KEY_RECORDS ||
	    (tls->records < 2 * RBLK_TLS_KEY_RECORDS && !rblk_tls_socket_has_room(tls->fd)))
		return 0;
	tls->records = 0;
	result = SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
	if (result == 1)
		result = SSL_do_handshake(tls->ssl);
	if (result == 1)
		return 0;
	result = stream_fault(tls, result);
	return result ? result : fault(tls, ENOBUFS, "TLS: %s", strerror(ENOBUFS));
}

/* 1: it is in the socket; 0: the socket is full; negative errno. */
static int record_send(struct rblk_tls *tls, const void *piece, size_t bytes)
{
	size_t written;
	int result;

	ERR_clear_error();
	errno = 0;
	/* Not in front of what OpenSSL has in part. */
	result = tls->held ? 0 : key_change(tls);
	if (result)
		return result;
	result = SSL_write_ex(tls->ssl, piece, bytes, &written);
	return result == 1 ? 1 : stream_fault(tls, result);
}

/* Sends the bytes that are held, before any others. */
static int held_send(struct rblk_tls *tls)
{
	int sent = record_send(tls, tls->held, tls->held_bytes);

	if (sent == 1) {
		free(tls->held);
		tls->held = NULL;
	}
	return sent;
}

static int held_keep(struct rblk_tls *tls, const void *piece, size_t bytes)
{
	tls->held = malloc(bytes);
	if (!tls->held)
		return fault(tls, ENOMEM, "TLS: %s", strerror(ENOMEM));
	memcpy(tls->held, piece, bytes);
	tls->held_bytes = bytes;
	return 0;
}

static ssize_t failed(int error)
{
	errno = -error;
	return -1;
}

ssize_t rblk_tls_send(struct rblk_tls *tls, const struct iovec *iovs, size_t count)
{
	struct cursor cursor = {.iovs = iovs, .count = count};
	unsigned char copy[RECORD_BYTES];
	ssize_t total = 0;
	int sent = 1;

	if (tls->failed)
		return failed(-tls->failed);
	cursor_move(&cursor, 0);
	if (tls->held) {
		sent = held_send(tls);
		if (sent < 1)
			return failed(sent ? sent : -EAGAIN);
		cursor_move(&cursor, 1);
		total = 1;
	}
	while (cursor.count) {
		size_t bytes;
		const void *piece = cursor_piece(&cursor, copy, &bytes);

		sent = record_send(tls, piece, bytes);
		if (sent == 0)
			sent = held_keep(tls, piece, bytes);
		if (sent < 0)
			break;
		total += (ssize_t)bytes;
		if (tls->held) {
			total--;
			break;
		}
		cursor_move(&cursor, bytes);
	}
	/* Bytes that went before an error do not matter: nothing follows it. */
	if (sent < 0)
		return failed(sent);
	return total > 0 ? total : failed(-EAGAIN);
}

/* -- receiving --------------------------------------------------------------------------------- */

/* 1: some; 0: nothing for now; negative errno: -ENODATA at the stream's end. */
static int some_recv(struct rblk_tls *tls, void *data, size_t bytes, size_t *got, bool peek)
{
	int result;

	*got = 0;
	if (tls->failed)
		return -tls->failed;
	ERR_clear_error();
	errno = 0;
	result = peek ? SSL_peek_ex(tls->ssl, data, bytes, got) : SSL_read_ex(tls->ssl, data, bytes, got);
	if (result == 1)
		return 1;
	if (SSL_get_error(tls->ssl, result) == SSL_ERROR_ZERO_RETURN)
		return -ENODATA;
	if (tls->updates > RBLK_TLS_UPDATES_MAX)
		return fault(tls, EPROTO, "TLS: the peer changes its key over and over");
	result = stream_fault(tls, result);
	/* Its answer to a request for new keys, which rblk never makes, is half sent: see key_change(). */
	if (!result && SSL_want_write(tls->ssl))
		return fault(tls, ENOBUFS, "TLS: the peer asks for new keys, and takes no answer");
	return result;
}

static ssize_t recv_result(size_t total, int step)
{
	if (total)
		return (ssize_t)total;
	if (step == -ENODATA)
		return 0;
	return failed(step ? step : -EAGAIN);
}

/* Counts data that was received: after enough of it, changes of keys begin to count anew. */
static void updates_forget(struct rblk_tls *tls, size_t bytes)
{
	tls->update_bytes += bytes;
	if (tls->update_bytes < RBLK_TLS_UPDATES_BYTES)
		return;
	tls->update_bytes = 0;
	tls->updates = 0;
}

ssize_t rblk_tls_recv(struct rblk_tls *tls, const struct iovec *iovs, size_t count)
{
	struct cursor cursor = {.iovs = iovs, .count = count};
	unsigned int records = 0;
	size_t total = 0;
	int step = 1;

	cursor_move(&cursor, 0);
	while (cursor.count && step == 1 && records++ < RBLK_TLS_RECORDS_PER_CALL) {
		size_t got;

		step = some_recv(tls, (char *)cursor.iovs->iov_base + cursor.at,
				 cursor.iovs->iov_len - cursor.at, &got, false);
		cursor_move(&cursor, got);
		total += got;
	}
	tls->more = step == 1;
	updates_forget(tls, total);
	return recv_result(total, step);
}

ssize_t rblk_tls_peek(struct rblk_tls *tls)
{
	size_t got;
	char byte;
	int step = some_recv(tls, &byte, 1, &got, true);

	return recv_result(got, step);
}

/* -- the end ------------------------------------------------------------------------------------- */

bool rblk_tls_more(const struct rblk_tls *tls)
{
	return tls->more || tls->failed || SSL_get_shutdown(tls->ssl) & SSL_RECEIVED_SHUTDOWN;
}

void rblk_tls_end(struct rblk_tls *tls)
{
	if (!tls->ssl)
		return;
	/* Half a record followed by the end is no end. */
	if (tls->ready && !tls->failed && (!tls->held || held_send(tls) == 1)) {
		ERR_clear_error();
		SSL_shutdown(tls->ssl);
		ERR_clear_error();
	}
	SSL_free(tls->ssl);
	tls->ssl = NULL;
	free(tls->held);
	tls->held = NULL;
	if (!tls->failed)
		tls->failed = ENOTCONN;
}
