/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the keys of a TLS stream change in time, and when the peer asks for it, without a byte lost, also
 * while the socket is full, and not for ever; short records take turns; a stranger may not try many names at a time; and what the machine's OpenSSL is
 * configured to do weakens nothing. Method: both ends over a pair of sockets; a ClientHello of the test's
 * own; a configuration that was made for weaker programs.
 */
#include "tests/unit/tls_pair.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/tls/tls_impl.h"

#define CONFIGURATION "unit-tls-keys.cnf"
#define PIECE 3000u

/* -- changes of keys ----------------------------------------------------------------------------- */

static unsigned char byte_at(size_t at)
{
	return (unsigned char)((at * 2654435761u) >> 13);
}

struct flow {
	size_t sent, got;
};

/* Sends once; false: the socket was full. */
static bool flow_send(struct rblk_tls *from, struct flow *flow)
{
	unsigned char data[PIECE];
	struct iovec iov = {data, sizeof(data)};
	ssize_t sent;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = byte_at(flow->sent + i);
	sent = rblk_tls_send(from, &iov, 1);
	if (sent < 0 && errno != EAGAIN)
		fail_msg("send: %s", rblk_tls_words(from));
	flow->sent += sent < 0 ? 0 : (size_t)sent;
	return sent == (ssize_t)sizeof(data);
}

static void flow_recv(struct rblk_tls *to, struct flow *flow)
{
	unsigned char data[PIECE];
	struct iovec iov = {data, sizeof(data)};
	ssize_t got;

	while ((got = rblk_tls_recv(to, &iov, 1)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			if (data[i] != byte_at(flow->got + (size_t)i))
				fail_msg("byte %zu", flow->got + (size_t)i);
		flow->got += (size_t)got;
	}
	if (got != -1 || errno != EAGAIN)
		fail_msg("recv: %s", rblk_tls_words(to));
}

/* Both ways, until all is there that was sent. */
static void flows_end(struct tls_pair *pair, struct flow flows[2])
{
	for (unsigned int turn = 0; turn < 100; turn++)
		for (int from = 0; from < 2; from++) {
			if (turn < 50)
				flow_send(pair->tls[from], &flows[from]);
			else if (pair->tls[from]->held)
				flow_send(pair->tls[from], &flows[from]);
			flow_recv(pair->tls[!from], &flows[from]);
		}
	for (int from = 0; from < 2; from++) {
		assert_null(pair->tls[from]->held);
		assert_int_equal(flows[from].sent, flows[from].got);
	}
}

static void keys_change_in_time(void **state)
{
	const int buffer = 65536;

	(void)state;
	for (unsigned int full = 0; full < 2; full++)
		for (int from = 0; from < 2; from++) {
			struct flow flows[2] = {{0}};
			struct tls_pair pair;

			tls_pair_open(&pair, tls_db1, tls_first, tls_first);
			tls_pair_ready(&pair);
			/* A few records leave room. */
			setsockopt(pair.fd[from], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
			pair.tls[from]->records = RBLK_TLS_KEY_RECORDS - 8;
			/* Into a full socket, or one that is emptied after each. */
			while (pair.tls[from]->records >= RBLK_TLS_KEY_RECORDS - 8) {
				if (!flow_send(pair.tls[from], &flows[from]) || !full)
					flow_recv(pair.tls[!from], &flows[from]);
			}
			assert_true(flows[from].sent > PIECE);
			flows_end(&pair, flows);
			assert_true(pair.tls[from]->records < 100);
			tls_pair_close(&pair);
		}
}

/* A peer by the protocol may ask for new keys both ways, at any time; rblk's own does not. */
static void a_peer_may_ask_for_keys(void **state)
{
	(void)state;
	for (unsigned int full = 0; full < 2; full++)
		for (int from = 0; from < 2; from++) {
			struct flow flows[2] = {{0}};
			struct tls_pair pair;

			tls_pair_open(&pair, tls_db1, tls_first, tls_first);
			tls_pair_ready(&pair);
			for (unsigned int i = 0; i < 4; i++) {
				while (full && flow_send(pair.tls[from], &flows[from]))
					;
				assert_int_equal(SSL_key_update(pair.tls[!from]->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
				flow_send(pair.tls[!from], &flows[!from]);
				flow_recv(pair.tls[from], &flows[!from]);
				flow_recv(pair.tls[!from], &flows[from]);
			}
			flows_end(&pair, flows);
			tls_pair_close(&pair);
		}
}

/* So many records of one byte each fill the socket: the first that does not go is held. */
static unsigned int fill(struct tls_pair *pair, unsigned int most)
{
	unsigned int count = 0;

	tls_pair_open(pair, tls_db1, tls_first, tls_first);
	tls_pair_ready(pair);
	while (count < most && tls_say(pair->tls[1], "x") == 1)
		count++;
	return count;
}

/* Full, and nothing is held. */
static void fill_exactly(struct tls_pair *pair)
{
	unsigned int room = fill(pair, 10000);

	assert_non_null(pair->tls[1]->held);
	tls_pair_close(pair);
	assert_int_equal(fill(pair, room), room);
	assert_null(pair->tls[1]->held);
}

/* What has arrived meanwhile has no other edge. */
static void receives_while_a_key_is_due(void **state)
{
	struct tls_pair pair;
	char text[16];

	(void)state;
	fill_exactly(&pair);
	pair.tls[1]->records = RBLK_TLS_KEY_RECORDS;
	assert_int_equal(tls_say(pair.tls[1], "x"), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(tls_say(pair.tls[0], "more"), 4);
	assert_int_equal(tls_hear(pair.tls[1], text), 4);
	while (tls_hear(pair.tls[0], text) > 0)
		assert_int_equal(text[0], 'x');
	assert_int_equal(errno, EAGAIN);
	/* What was held, then the key. */
	assert_true(pair.tls[1]->records >= RBLK_TLS_KEY_RECORDS);
	assert_int_equal(tls_say(pair.tls[1], "xyz"), 3);
	assert_int_equal(pair.tls[1]->records, 0);
	assert_int_equal(tls_hear(pair.tls[0], text), 3);
	assert_string_equal(text, "xyz");
	tls_pair_close(&pair);
}

/* One that asks for new keys and does not read the answer: the same, and it ends. */
static void who_asks_has_to_read(void **state)
{
	struct tls_pair pair;
	char text[16];

	(void)state;
	fill_exactly(&pair);
	assert_int_equal(SSL_key_update(pair.tls[0]->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
	assert_int_equal(tls_say(pair.tls[0], "more"), 4);
	assert_int_equal(tls_hear(pair.tls[1], text), 4);
	assert_int_equal(tls_say(pair.tls[1], "x"), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(tls_say(pair.tls[0], "again"), 5);
	assert_int_equal(tls_hear(pair.tls[1], text), -1);
	assert_int_equal(errno, ENOBUFS);
	assert_string_equal(rblk_tls_words(pair.tls[1]), "TLS: the peer asks for new keys, and takes no answer");
	tls_pair_close(&pair);
}

static void more_room(struct tls_pair *pair, int from)
{
	const int buffer = 100000;

	setsockopt(pair->fd[from], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
}

static void change(struct rblk_tls *tls)
{
	assert_int_equal(SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
	assert_int_equal(SSL_do_handshake(tls->ssl), 1);
}

/* Nobody needs so many: they would only keep this end from everything else. */
static void keys_do_not_change_for_ever(void **state)
{
	static unsigned char wire[65536];
	struct flow flow = {0};
	struct tls_pair pair;
	char text[16];
	size_t bytes;

	(void)state;
	for (int from = 0; from < 2; from++) {
		tls_pair_open(&pair, tls_db1, tls_first, tls_first);
		tls_pair_ready(&pair);
		more_room(&pair, from);
		flow = (struct flow){0};
		/* Each MiB may have as many. */
		for (unsigned int i = 0; i < 3; i++) {
			for (unsigned int n = 0; n < RBLK_TLS_UPDATES_MAX; n++)
				change(pair.tls[from]);
			do {
				flow_send(pair.tls[from], &flow);
				flow_recv(pair.tls[!from], &flow);
			} while (flow.got < (i + 1) * (RBLK_TLS_UPDATES_BYTES + PIECE));
		}
		/* More than OpenSSL takes from the socket at a time. */
		bytes = 0;
		while (bytes < 50000) {
			change(pair.tls[from]);
			bytes += (size_t)recv(pair.fd[!from], wire + bytes, sizeof(wire) - bytes, 0);
		}
		assert_int_equal(send(pair.fd[from], wire, bytes, 0), bytes);
		assert_int_equal(tls_hear(pair.tls[!from], text), -1);
		assert_int_equal(errno, EPROTO);
		assert_string_equal(rblk_tls_words(pair.tls[!from]), "TLS: the peer changes its key over and over");
		/* It has not even looked at the rest. */
		assert_true(recv(pair.fd[!from], wire, sizeof(wire), MSG_DONTWAIT) > 0);
		tls_pair_close(&pair);
	}
}

/* Other connections have a turn, and what is left is told of. */
static void short_records_take_turns(void **state)
{
	struct tls_pair pair;
	char data[1000];
	const struct iovec iov = {data, sizeof(data)};

	(void)state;
	tls_pair_open(&pair, tls_db1, tls_first, tls_first);
	tls_pair_ready(&pair);
	more_room(&pair, 0);
	for (unsigned int i = 0; i < RBLK_TLS_RECORDS_PER_CALL + 2; i++)
		assert_int_equal(tls_say(pair.tls[0], "x"), 1);
	assert_int_equal(rblk_tls_recv(pair.tls[1], &iov, 1), RBLK_TLS_RECORDS_PER_CALL);
	assert_true(rblk_tls_more(pair.tls[1]));
	assert_int_equal(rblk_tls_recv(pair.tls[1], &iov, 1), 2);
	assert_false(rblk_tls_more(pair.tls[1]));
	tls_pair_close(&pair);
}

/* -- strangers ------------------------------------------------------------------------------------- */

struct bytes {
	unsigned char data[65536];
	size_t count;
};

static void put(struct bytes *bytes, const void *data, size_t count)
{
	memcpy(bytes->data + bytes->count, data, count);
	bytes->count += count;
}

static void put_number(struct bytes *bytes, size_t number, unsigned int width)
{
	while (width--)
		bytes->data[bytes->count++] = (unsigned char)(number >> 8 * width);
}

/* With the length in front. */
static void put_vector(struct bytes *bytes, unsigned int width, const struct bytes *inner)
{
	put_number(bytes, inner->count, width);
	put(bytes, inner->data, inner->count);
}

/* RFC 8446, section 4.2.11: one identity, then so many of another, and wrong binders. */
static void put_keys(struct bytes *hello, const char *first, const char *others, unsigned int count)
{
	static struct bytes identities, binders, extension;

	identities.count = binders.count = extension.count = 0;
	for (unsigned int i = 0; i <= count; i++) {
		const char *identity = i ? others : first;

		put_number(&identities, strlen(identity), 2);
		put(&identities, identity, strlen(identity));
		put_number(&identities, 0, 4);
		put_number(&binders, 32, 1);
		for (unsigned int j = 0; j < 32; j++)
			put_number(&binders, 0, 1);
	}
	put_vector(&extension, 2, &identities);
	put_vector(&extension, 2, &binders);
	put_number(hello, 41, 2);
	put_vector(hello, 2, &extension);
}

/* A ClientHello in records: X25519, TLS_AES_128_GCM_SHA256, psk_dhe_ke. */
static void put_hello(struct bytes *wire, const char *first, const char *others, unsigned int count)
{
	static const unsigned char known[] = {
		0, 43, 0, 3, 2, 3, 4,	 /* TLS 1.3 */
		0, 10, 0, 4, 0, 2, 0, 29, /* groups: X25519 */
		0, 45, 0, 2, 1, 1,	 /* psk_dhe_ke */
		0, 51, 0, 38, 0, 36, 0, 29, 0, 32, /* a share of it, behind */
		9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4};
	static struct bytes extensions, body, hello;

	extensions.count = body.count = hello.count = wire->count = 0;
	put(&extensions, known, sizeof(known));
	put_keys(&extensions, first, others, count);
	put(&body, "\3\3", 2);
	for (unsigned int i = 0; i < 32; i++)
		put_number(&body, i, 1); /* the random */
	put(&body, "\0\0\2\x13\1\1\0", 7); /* no session; the cipher; no compression */
	put_vector(&body, 2, &extensions);
	put_number(&hello, 1, 1);
	put_vector(&hello, 3, &body);
	for (size_t at = 0; at < hello.count;) {
		size_t part = hello.count - at > 16384 ? 16384 : hello.count - at;

		put(wire, "\x16\3\1", 3);
		put_number(wire, part, 2);
		put(wire, hello.data + at, part);
		at += part;
	}
}

static unsigned int searches;

static struct rblk_secrets *count_find(void *arg, const char *name)
{
	(void)arg;
	assert_string_equal(name, "db1");
	searches++;
	return rblk_secrets_ref(tls_both);
}

/* The searches that these identities cost; the words. */
static unsigned int searched(const char *first, const char *others, unsigned int count, const char *words)
{
	struct rblk_tls_context *context = rblk_tls_server(count_find, NULL);
	static struct bytes wire;
	struct rblk_tls *tls;
	size_t sent = 0;
	int fd[2], result = 0;

	searches = 0;
	put_hello(&wire, first, others, count);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	tls = rblk_tls_create(context, fd[0]);
	assert_non_null(tls);
	while (result == 0 && sent < wire.count) {
		ssize_t part = send(fd[1], wire.data + sent, wire.count - sent, 0);

		sent += part < 0 ? 0 : (size_t)part;
		result = rblk_tls_handshake(tls);
	}
	assert_true(result < 0);
	assert_string_equal(rblk_tls_words(tls), words);
	rblk_tls_destroy(tls);
	rblk_tls_context_destroy(context);
	close(fd[0]);
	close(fd[1]);
	return searches;
}

static void names_are_not_tried_by_the_hundred(void **state)
{
	const char *unknown = "initiator \"db1\" has another secret here", *many = "it names more than 4 initiators";
	const char *db1 = "rblk1/db1/0123456789abcdef";

	(void)state;
	assert_int_equal(searched(db1, db1, 0, unknown), 1);
	assert_int_equal(searched(db1, db1, RBLK_TLS_IDENTITIES_MAX - 1, unknown), RBLK_TLS_IDENTITIES_MAX);
	assert_int_equal(searched(db1, db1, RBLK_TLS_IDENTITIES_MAX, many), RBLK_TLS_IDENTITIES_MAX);
	assert_int_equal(searched(db1, db1, 900, many), RBLK_TLS_IDENTITIES_MAX);
}

/* The first is none; the key of the second is known, and not had. */
static void words_are_of_the_last_name(void **state)
{
	char right[RBLK_TLS_IDENTITY_BYTES];

	(void)state;
	rblk_tls_identity(tls_both, tls_db1, right);
	assert_int_equal(searched("nobody", "rblk1/db1/0123456789abcdef", 1,
				  "initiator \"db1\" has another secret here"), 1);
	assert_int_equal(searched("nobody", right, 1, "TLS handshake failed: binder does not verify"), 1);
}

/* -- the machine's configuration ------------------------------------------------------------------ */

/* For programs that use OpenSSL, before any has begun to. */
static void configuration_write(void)
{
	FILE *file = fopen(CONFIGURATION, "w");

	if (!file || fputs("openssl_conf = init\n[init]\nssl_conf = ssl\n[ssl]\nsystem_default = weak\n[weak]\n"
			   "Options = AllowNoDHEKEX\nMinProtocol = TLSv1\nMaxProtocol = TLSv1.2\n", file) < 0 ||
	    fclose(file) || setenv("OPENSSL_CONF", CONFIGURATION, 1))
		abort();
}

static void configurations_weaken_nothing(void **state)
{
	SSL_CTX *others = SSL_CTX_new(TLS_method());
	struct tls_pair pair;

	(void)state;
	/* It is in force. */
	assert_true(SSL_CTX_get_options(others) & SSL_OP_ALLOW_NO_DHE_KEX);
	SSL_CTX_free(others);
	tls_pair_open(&pair, tls_db1, tls_first, tls_first);
	tls_pair_ready(&pair);
	for (int i = 0; i < 2; i++) {
		assert_false(SSL_get_options(pair.tls[i]->ssl) & SSL_OP_ALLOW_NO_DHE_KEX);
		assert_int_equal(SSL_version(pair.tls[i]->ssl), TLS1_3_VERSION);
	}
	tls_pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_change_in_time),
		cmocka_unit_test(a_peer_may_ask_for_keys),
		cmocka_unit_test(receives_while_a_key_is_due),
		cmocka_unit_test(who_asks_has_to_read),
		cmocka_unit_test(keys_do_not_change_for_ever),
		cmocka_unit_test(short_records_take_turns),
		cmocka_unit_test(names_are_not_tried_by_the_hundred),
		cmocka_unit_test(words_are_of_the_last_name),
		cmocka_unit_test(configurations_weaken_nothing),
	};
	int failed;

	configuration_write();
	failed = cmocka_run_group_tests(tests, tls_secrets_make, tls_secrets_end);
	unlink(CONFIGURATION);
	return failed;
}
