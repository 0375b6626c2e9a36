/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a TLS stream brings what was sent, unchanged and whole, whatever the socket takes at a time, and
 * says what is wrong: another secret, another name, bytes changed or cut off, a peer that speaks no
 * TLS, or an older one. Method: both ends over a pair of sockets, with small buffers, or with the test
 * between them; the keys are those of the specification's test vector.
 */
#include "tests/unit/tls_pair.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"

#define BYTES 1000000u

/* -- data -------------------------------------------------------------------------------------- */

/* The byte that belongs at this place. */
static unsigned char byte_at(size_t at)
{
	return (unsigned char)((at * 2654435761u) >> 13);
}

/* From `at` on, in segments that begin anywhere and have any length, long ones as well. */
static size_t segments(unsigned char *data, size_t at, struct iovec iovs[8])
{
	static unsigned int seed = 1;
	size_t count = 0;

	while (count < 8 && at < BYTES) {
		size_t bytes = (size_t)(rand_r(&seed) % 7 ? rand_r(&seed) % 700 : rand_r(&seed) % 90000);

		if (bytes > BYTES - at)
			bytes = BYTES - at;
		iovs[count++] = (struct iovec){data + at, bytes};
		at += bytes;
	}
	return count;
}

/* Sends and receives all of it in this direction; how often the socket was full. */
static unsigned int transfer(struct tls_pair *pair, int from, unsigned char *data, unsigned char *got)
{
	size_t sent = 0, received = 0;
	unsigned int full = 0;

	while (received < BYTES) {
		struct iovec iovs[8];
		size_t asked = 0, count = segments(data, sent, iovs);
		ssize_t result = 0;

		for (size_t i = 0; i < count; i++)
			asked += iovs[i].iov_len;
		if (asked) {
			result = rblk_tls_send(pair->tls[from], iovs, count);
			if (result < 0)
				assert_int_equal(errno, EAGAIN);
			full += result < (ssize_t)asked;
			sent += result < 0 ? 0 : (size_t)result;
		}
		/* What comes is read only now and then, so that the socket fills. */
		if (result >= 0 && result == (ssize_t)asked && sent < BYTES)
			continue;
		count = segments(got, received, iovs);
		result = rblk_tls_recv(pair->tls[!from], iovs, count);
		if (result < 0)
			assert_int_equal(errno, EAGAIN);
		received += result < 0 ? 0 : (size_t)result;
		assert_true(received <= sent + 1);
	}
	assert_int_equal(sent, BYTES);
	return full;
}

static void brings_what_was_sent(void **state)
{
	unsigned char *data = malloc(BYTES), *got = calloc(1, BYTES);
	struct tls_pair pair;

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		data[i] = byte_at(i);
	tls_pair_open(&pair, tls_db1, tls_first, tls_both);
	tls_pair_ready(&pair);
	for (int from = 0; from < 2; from++) {
		memset(got, 0, BYTES);
		/* Without it nothing was held. */
		assert_true(transfer(&pair, from, data, got) > 10);
		assert_memory_equal(data, got, BYTES);
	}
	tls_pair_close(&pair);
	free(data);
	free(got);
}

static void ends_only_when_told(void **state)
{
	struct tls_pair pair;
	char text[16];

	(void)state;
	/* Told. */
	tls_pair_open(&pair, tls_db1, tls_first, tls_first);
	tls_pair_ready(&pair);
	assert_int_equal(tls_say(pair.tls[0], "all"), 3);
	rblk_tls_end(pair.tls[0]);
	assert_int_equal(rblk_tls_peek(pair.tls[1]), 1);
	assert_int_equal(tls_hear(pair.tls[1], text), 3);
	assert_string_equal(text, "all");
	assert_int_equal(tls_hear(pair.tls[1], text), 0);
	assert_int_equal(rblk_tls_peek(pair.tls[1]), 0);
	tls_pair_close(&pair);
	/* Cut off, behind a whole record. */
	tls_pair_open(&pair, tls_db1, tls_first, tls_first);
	tls_pair_ready(&pair);
	assert_int_equal(tls_say(pair.tls[0], "half"), 4);
	shutdown(pair.fd[0], SHUT_WR);
	assert_int_equal(tls_hear(pair.tls[1], text), 4);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tls_hear(pair.tls[1], text), -1);
		assert_int_equal(errno, ECONNABORTED);
	}
	assert_string_equal(rblk_tls_words(pair.tls[1]), "TLS: cut off: the peer has not ended it");
	/* Nobody is there any more: an error, not a signal. */
	close(pair.fd[1]);
	pair.fd[1] = -1;
	assert_int_equal(tls_say(pair.tls[0], "more"), -1);
	assert_int_equal(errno, EPIPE);
	tls_pair_close(&pair);
}

/* Each bit of a record counts. */
static void changed_bytes_are_found(void **state)
{
	unsigned char record[256];
	struct tls_pair pair;
	char text[16];
	ssize_t bytes;

	(void)state;
	for (unsigned int bit = 0; bit < 32 * 8; bit += 5) {
		tls_pair_open(&pair, tls_db1, tls_first, tls_first);
		tls_pair_ready(&pair);
		assert_int_equal(tls_say(pair.tls[0], "the data"), 8);
		bytes = recv(pair.fd[1], record, sizeof(record), 0);
		assert_true(bytes >= 30);
		assert_null(memmem(record, (size_t)bytes, "the data", 8));
		/* Not the length: it would only be waited for. */
		if (bit / 8 == 3 || bit / 8 == 4 || bit / 8 >= (unsigned int)bytes) {
			tls_pair_close(&pair);
			continue;
		}
		record[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_int_equal(send(pair.fd[0], record, (size_t)bytes, 0), bytes);
		assert_int_equal(tls_hear(pair.tls[1], text), -1);
		assert_int_equal(errno, EBADMSG);
		assert_true(strncmp(rblk_tls_words(pair.tls[1]), "TLS: ", 5) == 0);
		tls_pair_close(&pair);
	}
}

/* -- keys --------------------------------------------------------------------------------------- */

static void refused(const char name[RBLK_NAME_BYTES], struct rblk_secrets *client,
		    struct rblk_secrets *server, const char *at_client, const char *at_server)
{
	struct tls_pair pair;
	int result[2];

	tls_pair_open(&pair, name, client, server);
	tls_pair_shake(&pair, result);
	assert_int_equal(result[0], -EKEYREJECTED);
	assert_int_equal(result[1], -EKEYREJECTED);
	assert_string_equal(rblk_tls_words(pair.tls[0]), at_client);
	assert_string_equal(rblk_tls_words(pair.tls[1]), at_server);
	assert_int_equal(tls_say(pair.tls[0], "no"), -1);
	assert_int_equal(rblk_tls_handshake(pair.tls[1]), -EKEYREJECTED);
	tls_pair_close(&pair);
}

static void only_the_key_opens(void **state)
{
	struct tls_pair pair;

	(void)state;
	refused(tls_db1, tls_second, tls_first, "TLS: the target has another secret for initiator \"db1\", or none",
		"initiator \"db1\" has another secret here");
	refused(tls_db1, tls_first, NULL, "TLS: the target has another secret for initiator \"db1\", or none",
		"initiator \"db1\" has no secret here");
	/* The secret is db1's: nobody else has a name by it. */
	refused(tls_db2, tls_first, tls_first, "TLS: the target has another secret for initiator \"db2\", or none",
		"initiator \"db2\" has no secret here");
	/* While it is changed, the target has two; the initiator uses its first. */
	tls_pair_open(&pair, tls_db1, tls_first, tls_both);
	tls_pair_ready(&pair);
	tls_pair_close(&pair);
	tls_pair_open(&pair, tls_db1, tls_both, tls_second);
	tls_pair_ready(&pair);
	tls_pair_close(&pair);
}

/* Two connections by one secret have nothing in common. */
static void channels_differ(void **state)
{
	struct tls_pair a, b;

	(void)state;
	tls_pair_open(&a, tls_db1, tls_first, tls_first);
	tls_pair_open(&b, tls_db1, tls_first, tls_first);
	tls_pair_ready(&a);
	tls_pair_ready(&b);
	assert_memory_not_equal(rblk_tls_channel(a.tls[0]), rblk_tls_channel(b.tls[0]),
				RBLK_TLS_CHANNEL_BYTES);
	tls_pair_close(&a);
	tls_pair_close(&b);
}

/* What the other end says instead of TLS. */
static void answered(const char *bytes, size_t count, bool at_server, int error, const char *words)
{
	struct tls_pair pair;
	unsigned int one = at_server ? 1 : 0;

	tls_pair_open(&pair, tls_db1, tls_first, tls_first);
	if (!at_server)
		assert_int_equal(rblk_tls_handshake(pair.tls[0]), 0);
	if (count)
		assert_int_equal(send(pair.fd[!one], bytes, count, 0), count);
	else
		shutdown(pair.fd[!one], SHUT_WR);
	assert_int_equal(rblk_tls_handshake(pair.tls[one]), error);
	assert_true(strstr(rblk_tls_words(pair.tls[one]), words) != NULL);
	tls_pair_close(&pair);
}

static void others_are_told(void **state)
{
	static const char plain[256] = "RTCP\1";

	(void)state;
	answered(plain, sizeof(plain), false, -EPROTO, "TLS: what answers there does not speak TLS 1.3");
	answered("\x15\x03\x03\0\2\2\x28", 7, false, -EKEYREJECTED, "another secret");
	answered("", 0, false, -ECONNRESET, "TLS: the peer has closed it without an answer: it has no TLS");
	answered(plain, sizeof(plain), true, -EPROTO, "TLS handshake failed");
	answered("", 0, true, -ECONNRESET, "it is no initiator of rblk");
}

/* Another TLS 1.3 or older client, without the key or with a certificate's rights. */
static void only_pre_shared_keys(void **state)
{
	(void)state;
	for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
		SSL_CTX *context = SSL_CTX_new(TLS_client_method());
		SSL *ssl = SSL_new(context);
		struct tls_pair pair;

		tls_pair_open(&pair, tls_db1, tls_first, tls_first);
		SSL_set_max_proto_version(ssl, version);
		SSL_set_fd(ssl, pair.fd[0]);
		SSL_set_connect_state(ssl);
		assert_int_equal(SSL_do_handshake(ssl), -1);
		assert_int_equal(rblk_tls_handshake(pair.tls[1]), -EPROTO);
		assert_int_equal(SSL_do_handshake(ssl), -1);
		SSL_free(ssl);
		SSL_CTX_free(context);
		tls_pair_close(&pair);
	}
}

/* A server that ignores the key and has a certificate: nobody vouches for it. */
static void certificates_prove_nothing(void **state)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	X509 *certificate = X509_new();
	struct tls_pair pair;
	int result = 0;
	SSL *ssl;

	(void)state;
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
	assert_int_equal(SSL_CTX_use_certificate(context, certificate), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(context, key), 1);
	ssl = SSL_new(context);
	tls_pair_open(&pair, tls_db1, tls_first, tls_first);
	SSL_set_fd(ssl, pair.fd[1]);
	SSL_set_accept_state(ssl);
	for (int turn = 0; turn < 10 && result == 0; turn++) {
		result = rblk_tls_handshake(pair.tls[0]);
		SSL_do_handshake(ssl);
	}
	assert_int_equal(result, -EKEYREJECTED);
	assert_string_equal(rblk_tls_words(pair.tls[0]),
			    "TLS: the target does not prove that it has the secret");
	SSL_free(ssl);
	SSL_CTX_free(context);
	X509_free(certificate);
	EVP_PKEY_free(key);
	tls_pair_close(&pair);
}

/* -- identities ----------------------------------------------------------------------------------- */

static void identities(void **state)
{
	static const struct {
		const char *text;
		const char *name; /* NULL: it is none */
	} texts[] = {
		{"rblk1/db1/0123456789abcdef", "db1"},
		{"rblk1/a:b-c.d_e+f/ffffffffffffffff", "a:b-c.d_e+f"},
		{"rblk1//0123456789abcdef", NULL},
		{"rblk1/db1/0123456789abcde", NULL},
		{"rblk1/db1/0123456789abcdeF", NULL},
		{"rblk1/db 1/0123456789abcdef", NULL},
		{"rblk1/db/1/0123456789abcdef", NULL},
		{"rblk2/db1/0123456789abcdef", NULL},
		{"rblk1/0123456789012345678901234567890123456789012345678901234567890123/0123456789abcdef",
		 NULL},
		{"rblk1/012345678901234567890123456789012345678901234567890123456789012/0123456789abcdef",
		 "012345678901234567890123456789012345678901234567890123456789012"},
		{"", NULL},
	};
	char name[RBLK_NAME_BYTES], id[RBLK_TLS_KEY_ID_DIGITS + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		int err = rblk_tls_identity_parse((const unsigned char *)texts[i].text,
						  strlen(texts[i].text), name, id);

		assert_int_equal(err, texts[i].name ? 0 : -EINVAL);
		if (texts[i].name)
			assert_string_equal(name, texts[i].name);
	}
	/* A zero within a name would end it for some and not for others. */
	assert_int_equal(rblk_tls_identity_parse((const unsigned char *)"rblk1/d\0b/0123456789abcdef", 26,
						 name, id), -EINVAL);
}

/* "| rblk tls key 1 | 2c3f... |" of the specification: the secret is the first, the name "db1". */
static void derived(void **state)
{
	static const char *const labels[] = {"rblk tls key 1", "rblk tls id 1"};
	char line[2048], start[40], text[65];
	u8 key[RBLK_SECRET_BYTES];

	(void)state;
	for (unsigned int n = 0; n < 2; n++) {
		FILE *file = fopen(RBLK_SPECIFICATION, "r");
		size_t length = (size_t)snprintf(start, sizeof(start), "| %s | ", labels[n]);

		assert_non_null(file);
		rblk_derive(tls_first, 0, labels[n], tls_db1, key);
		for (unsigned int i = 0; i < sizeof(key); i++)
			sprintf(text + 2 * i, "%02x", key[i]);
		while (fgets(line, sizeof(line), file))
			if (!strncmp(line, start, length))
				break;
		if (feof(file) || strncmp(line + length, text, 64))
			fail_msg("%s: %s", labels[n], text);
		fclose(file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(brings_what_was_sent),
		cmocka_unit_test(ends_only_when_told),
		cmocka_unit_test(changed_bytes_are_found),
		cmocka_unit_test(only_the_key_opens),
		cmocka_unit_test(channels_differ),
		cmocka_unit_test(others_are_told),
		cmocka_unit_test(only_pre_shared_keys),
		cmocka_unit_test(certificates_prove_nothing),
		cmocka_unit_test(identities),
		cmocka_unit_test(derived),
	};

	return cmocka_run_group_tests(tests, tls_secrets_make, tls_secrets_end);
}
