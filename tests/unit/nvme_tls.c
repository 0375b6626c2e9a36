/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an NVMe host's identity for TLS says whose it is, or is refused; its key is the specification's, or that of
 * hosts with an older libnvme, of each secret and in each form; no other gets in. Method: keys that Python's hmac has
 * computed by the formulas of the specification and of libnvme, with which the digests of libnvme's own test vectors
 * (libnvme/test/psk.c) were met; handshakes of the server with OpenSSL's client; identities with each part wrong.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/tls/tls_impl.h"
#include "target/nvme/fabric.h"
#include "tests/unit/nvme_tls_client.h"

#define HOST "nqn.psk-test-host"
#define NAMES HOST " nqn.psk-test-subsys"
#define KEY "VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ"
#define OTHER "rblk1:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

static struct rblk_secrets *secrets; /* another one and the key */

static int start(void **state)
{
	static const char text[] = OTHER "NVMeTLSkey-1:01:" KEY ":\n";
	char error[RBLK_SECRET_ERROR_BYTES] = "", path[] = "unit-nvme-tls-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	secrets = rblk_secrets_read(path, error);
	unlink(path);
	assert_string_equal(error, "");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	rblk_secrets_put(secrets);
	return 0;
}

/* -- keys ---------------------------------------------------------------------------------------- */

static const struct {
	unsigned int form;
	const char *identity, *key;
} vectors[] = {
	{0, "NVMe0R01 " NAMES, "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68"},
	{0, "NVMe1R01 " NAMES " iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
	 "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca"},
	{NVME_TLS_PLAIN, "NVMe0R01 " NAMES, "ec85300ba827726bd3bc4fc07f3a34aec5fe7c8ccac05fefc2f021c74e0df9ef"},
	{NVME_TLS_PLAIN, "NVMe1R01 " NAMES " quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
	 "a45d08ee4639c7570729bb3e57e905e466a49a15ece5401af906830c4d3bdb0b"},
	{NVME_TLS_OLD, "NVMe0R01 " NAMES, "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb"},
	{NVME_TLS_OLD, "NVMe1R01 " NAMES " 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
	 "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2"},
	{NVME_TLS_OLD | NVME_TLS_PLAIN, "NVMe0R01 " NAMES,
	 "e2b16189378b34adba9fec995ab479040cedec0bc7c6b47728ee4d8de6ff52ba"},
	{NVME_TLS_OLD | NVME_TLS_PLAIN, "NVMe1R01 " NAMES " quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
	 "d50f6d3dd79345b6e8217744524df5ac0dc66964ff70cc5fd18e1b9d57ce7fcf"},
};

static void assert_key(const uint8_t *key, const char *hex)
{
	char text[2 * RBLK_TLS_KEY_BYTES + 1];

	for (unsigned int i = 0; i < RBLK_TLS_KEY_BYTES; i++)
		sprintf(text + 2 * i, "%02x", key[i]);
	assert_string_equal(text, hex);
}

static void keys_are_the_known_ones(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(vectors); i++) {
		struct nvme_tls_key own;
		uint8_t key[RBLK_TLS_KEY_BYTES];

		assert_true(tgt_nvme_tls()->derive(secrets, 1, vectors[i].form, vectors[i].identity, key));
		assert_key(key, vectors[i].key);
		nvme_tls_key_make(&own, rblk_secrets_bytes(secrets, 1), HOST, "nqn.psk-test-subsys", i & 1,
				  vectors[i].form);
		assert_string_equal(own.identity, vectors[i].identity);
		assert_key(own.psk, vectors[i].key);
	}
}

/* -- identities ---------------------------------------------------------------------------------- */

#define UUID "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a"
#define NINE "nqn456789"
#define FIVE NINE NINE NINE NINE NINE
#define LONG FIVE FIVE FIVE FIVE FIVE

static void identities_have_a_name(void **state)
{
	static const struct {
		const char *identity, *name; /* or words, if it has a blank */
	} all[] = {
		{"NVMe0R01 " UUID " nqn.x", "uuid:00000000-0000-0000-0000-00000000000a"},
		{"NVMe1R01 " UUID " nqn.x abc=", "uuid:00000000-0000-0000-0000-00000000000a"},
		{"NVMe0R01 a b", "a"},
		{"", "it does not name itself as NVMe hosts do"},
		{"NVMe", "it does not name itself as NVMe hosts do"},
		{"NVMe0", "its key is none of SHA-256, of 32 bytes"},
		{"NVMe2R01 a b", "it does not name itself as NVMe hosts do"},
		{"rblk1/a/0123456789abcdef", "it does not name itself as NVMe hosts do"},
		{"NVMe0R02 a b", "its key is none of SHA-256, of 32 bytes"},
		{"NVMe1G01 a b c", "its key is none of SHA-256, of 32 bytes"},
		{"NVMe0R01", "its key is none of SHA-256, of 32 bytes"},
		{"NVMe0R01 ", "it does not name itself as NVMe hosts do"},
		{"NVMe0R01 a", "it does not name itself as NVMe hosts do"},
		{"NVMe0R01 a ", "it does not name itself as NVMe hosts do"},
		{"NVMe0R01  b", "it does not name itself as NVMe hosts do"},
		{"NVMe0R01 a b c", "it does not name itself as NVMe hosts do"},
		{"NVMe1R01 a b", "it does not name itself as NVMe hosts do"},
		{"NVMe1R01 a b ", "it does not name itself as NVMe hosts do"},
		{"NVMe1R01 a b c d", "it does not name itself as NVMe hosts do"},
		{"NVMe0R01 a " LONG, "it does not name itself as NVMe hosts do"},
		{"NVMe0R01 " LONG " b", "it does not name itself as NVMe hosts do"},
		{"NVMe0R01 a/b c", "its name is no initiator's"},
		{"NVMe0R01 " NINE NINE NINE NINE NINE NINE NINE NINE " b", "its name is no initiator's"},
	};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(all); i++) {
		char name[RBLK_NAME_BYTES];
		const char *words = tgt_nvme_tls()->parse(all[i].identity, name);

		if (strchr(all[i].name, ' '))
			assert_string_equal(words, all[i].name);
		else if (words)
			fail_msg("%s: %s", all[i].identity, words);
		else
			assert_string_equal(name, all[i].name);
	}
}

/* -- handshakes ---------------------------------------------------------------------------------- */

static struct rblk_secrets *find(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, HOST) ? NULL : rblk_secrets_ref(secrets);
}

static void changes_counted(int sent, int version, int type, const void *data, size_t bytes, SSL *ssl, void *count)
{
	if (!sent && type == SSL3_RT_HANDSHAKE)
		++*(unsigned int *)count;
}

/* However much it has sent, without a new key. */
static void says_one_byte(struct rblk_tls *tls, SSL *ssl)
{
	const struct iovec iov = {(void *)"x", 1};
	unsigned int changes = 0;
	char got;

	SSL_set_msg_callback(ssl, changes_counted);
	SSL_set_msg_callback_arg(ssl, &changes);
	tls->records = 2 * RBLK_TLS_KEY_RECORDS;
	assert_int_equal(rblk_tls_send(tls, &iov, 1), 1);
	assert_int_equal(SSL_read(ssl, &got, 1), 1);
	assert_int_equal(got, 'x');
	assert_int_equal(changes, 0);
}

/* A session with a ticket, which is text, as OpenSSL stores it: short fields, in the order of their tags. */
static SSL_SESSION *ticket_of(const struct nvme_tls_key *key, SSL *ssl, const char *text)
{
	const uint8_t length = (uint8_t)strlen(text);
	const uint8_t ticket[] = {0xa9, 4, 0x02, 2, 1, 0, 0xaa, (uint8_t)(2 + length), 0x04, length};
	SSL_SESSION *session = nvme_tls_session(key, ssl);
	uint8_t plain[128], der[512] = {0x30, 0x81}, *end = plain, *to = der + 3;
	const uint8_t *from = plain + 2, *start = der;

	assert_true(i2d_SSL_SESSION(session, &end) < 0x80);
	SSL_SESSION_free(session);
	for (; from[0] < ticket[0]; from += 2 + from[1])
		to = mempcpy(to, from, 2u + from[1]);
	to = mempcpy(mempcpy(to, ticket, sizeof(ticket)), text, length);
	to = mempcpy(to, from, (size_t)(end - from));
	der[2] = (uint8_t)(to - der - 3);
	session = d2i_SSL_SESSION(NULL, &start, to - der);
	assert_non_null(session);
	return session;
}

static const char *first_identity; /* of the client, in front of its key's; NULL: none */
static bool asks_again; /* the server, for a key of a group that the client has not begun with */

/* The server's result, its words, and whose secret it has seen. */
static int shake(const struct nvme_tls_key *key, int version, char words[RBLK_TLS_WORDS_BYTES],
		 u8 id[RBLK_SECRET_FINGERPRINT])
{
	struct rblk_tls_context *context = rblk_tls_server_of(tgt_nvme_tls(), find, NULL);
	struct rblk_tls *tls;
	int fd[2], result = 0;
	SSL *ssl;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_true(rblk_tls_context_begin(context));
	if (asks_again)
		assert_int_equal(SSL_CTX_set1_groups_list(context->ssl, "P-384"), 1);
	tls = rblk_tls_create(context, fd[1]);
	ssl = nvme_tls_client(key, fd[0], version);
	assert_non_null(tls);
	if (first_identity) {
		SSL_SESSION *session = ticket_of(key, ssl, first_identity);

		assert_int_equal(SSL_set_session(ssl, session), 1);
		SSL_SESSION_free(session);
	}
	for (int turn = 0; turn < 20 && !result; turn++) {
		SSL_do_handshake(ssl);
		result = rblk_tls_handshake(tls);
	}
	assert_true(result <= 0 || SSL_do_handshake(ssl) == 1);
	strcpy(words, rblk_tls_words(tls));
	if (result == 1) {
		assert_string_equal(rblk_tls_name(tls), HOST);
		assert_string_equal(rblk_tls_identity_text(tls), key->identity);
		memcpy(id, rblk_tls_secret_id(tls), RBLK_SECRET_FINGERPRINT);
		says_one_byte(tls, ssl);
	}
	SSL_free(ssl);
	rblk_tls_destroy(tls);
	rblk_tls_context_destroy(context);
	close(fd[0]);
	close(fd[1]);
	return result;
}

static void each_form_of_each_secret_gets_in(void **state)
{
	u8 id[RBLK_SECRET_FINGERPRINT], right[RBLK_SECRET_FINGERPRINT];
	char words[RBLK_TLS_WORDS_BYTES];
	struct nvme_tls_key key;

	(void)state;
	for (unsigned int i = 0; i < 32; i++) {
		nvme_tls_key_make(&key, rblk_secrets_bytes(secrets, i & 1), HOST, "nqn.psk-test-subsys", i >> 1 & 1,
				  i >> 2 & 3);
		asks_again = i >> 4;
		if (shake(&key, TLS1_3_VERSION, words, id) != 1)
			fail_msg("%u: %s", i, words);
		rblk_secrets_fingerprint(secrets, i & 1, right);
		assert_memory_equal(id, right, sizeof(id));
	}
	asks_again = false;
}

/* Another one in front of it is nobody's: each has its own proof. */
static void a_second_identity_gets_in(void **state)
{
	u8 id[RBLK_SECRET_FINGERPRINT], right[RBLK_SECRET_FINGERPRINT];
	char words[RBLK_TLS_WORDS_BYTES];
	struct nvme_tls_key key;

	(void)state;
	first_identity = "NVMe0R01 nqn.nobody nqn.psk-test-subsys";
	for (unsigned int i = 0; i < 4; i++) {
		nvme_tls_key_make(&key, rblk_secrets_bytes(secrets, i & 1), HOST, "nqn.psk-test-subsys", 1, 0);
		asks_again = i >> 1;
		if (shake(&key, TLS1_3_VERSION, words, id) != 1)
			fail_msg("%u: %s", i, words);
		rblk_secrets_fingerprint(secrets, i & 1, right);
		assert_memory_equal(id, right, sizeof(id));
	}
	first_identity = NULL;
	asks_again = false;
}

static void nobody_else_does(void **state)
{
	u8 id[RBLK_SECRET_FINGERPRINT], secret[RBLK_SECRET_BYTES];
	char words[RBLK_TLS_WORDS_BYTES];
	struct nvme_tls_key key, other;

	(void)state;
	memcpy(secret, rblk_secrets_bytes(secrets, 1), sizeof(secret));
	nvme_tls_key_make(&key, secret, "nqn.other", "nqn.s", 0, 0);
	assert_true(shake(&key, TLS1_3_VERSION, words, id) < 0);
	assert_string_equal(words, "host \"nqn.other\" has no secret here");
	/* The key of one name or subsystem with the identity of another. */
	nvme_tls_key_make(&other, secret, HOST, "nqn.s", 0, 0);
	memcpy(key.identity, other.identity, sizeof(key.identity));
	assert_true(shake(&key, TLS1_3_VERSION, words, id) < 0);
	assert_string_equal(words, "host \"" HOST "\" has another secret here");
	nvme_tls_key_make(&key, secret, HOST, "nqn.t", 1, 0);
	snprintf(key.identity, sizeof(key.identity), "%s", other.identity);
	assert_true(shake(&key, TLS1_3_VERSION, words, id) < 0);
	assert_string_equal(words, "host \"" HOST "\" has another secret here");
	secret[31] ^= 1;
	nvme_tls_key_make(&key, secret, HOST, "nqn.s", 1, 0);
	assert_true(shake(&key, TLS1_3_VERSION, words, id) < 0);
	assert_string_equal(words, "host \"" HOST "\" has another secret here");
	/* No text, or not this one. */
	snprintf(key.identity, sizeof(key.identity), "nobody");
	assert_true(shake(&key, TLS1_3_VERSION, words, id) < 0);
	assert_string_equal(words, "it does not name itself as NVMe hosts do");
	memset(key.identity, 'x', sizeof(key.identity) - 1);
	memcpy(key.identity, "NVMe0R01 ", 9);
	assert_true(shake(&key, TLS1_3_VERSION, words, id) < 0);
	assert_true(shake(&other, TLS1_2_VERSION, words, id) < 0);
	assert_int_equal(strncmp(words, "TLS handshake failed: ", 22), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_the_known_ones),
		cmocka_unit_test(identities_have_a_name),
		cmocka_unit_test(each_form_of_each_secret_gets_in),
		cmocka_unit_test(a_second_identity_gets_in),
		cmocka_unit_test(nobody_else_does),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
