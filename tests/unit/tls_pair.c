/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See tls_pair.h. */
#include "tests/unit/tls_pair.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/secret/secret.h"

#define FIRST "rblk1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define SECOND "rblk1:ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"

char tls_db1[RBLK_NAME_BYTES] = "db1", tls_db2[RBLK_NAME_BYTES] = "db2";
struct rblk_secrets *tls_first, *tls_second, *tls_both;

/* -- secrets ------------------------------------------------------------------------------------- */

static struct rblk_secrets *secrets_of(const char *text)
{
	char error[RBLK_SECRET_ERROR_BYTES] = "", path[] = "unit-tls-XXXXXX";
	int fd = mkstemp(path);
	struct rblk_secrets *secrets;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(close(fd), 0);
	secrets = rblk_secrets_read(path, error);
	unlink(path);
	if (!secrets)
		fail_msg("%s", error);
	return secrets;
}

int tls_secrets_make(void **state)
{
	(void)state;
	tls_first = secrets_of(FIRST);
	tls_second = secrets_of(SECOND);
	tls_both = secrets_of(SECOND FIRST);
	return 0;
}

int tls_secrets_end(void **state)
{
	(void)state;
	rblk_secrets_put(tls_first);
	rblk_secrets_put(tls_second);
	rblk_secrets_put(tls_both);
	return 0;
}

/* The target knows db1 alone, by these. */
static struct rblk_secrets *find(void *arg, const char *name)
{
	return strcmp(name, "db1") ? NULL : rblk_secrets_ref(arg);
}

/* -- both ends ----------------------------------------------------------------------------------- */

void tls_pair_open(struct tls_pair *pair, const char name[RBLK_NAME_BYTES], struct rblk_secrets *client,
		   struct rblk_secrets *server)
{
	const int small = 4096;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair->fd), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(pair->fd[i], F_SETFL, O_NONBLOCK), 0);
		setsockopt(pair->fd[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	}
	pair->context[0] = rblk_tls_client(name, client);
	pair->context[1] = rblk_tls_server(find, server);
	for (int i = 0; i < 2; i++) {
		pair->tls[i] = rblk_tls_create(pair->context[i], pair->fd[i]);
		assert_non_null(pair->tls[i]);
	}
}

void tls_pair_close(struct tls_pair *pair)
{
	for (int i = 0; i < 2; i++) {
		rblk_tls_destroy(pair->tls[i]);
		rblk_tls_context_destroy(pair->context[i]);
		if (pair->fd[i] >= 0)
			close(pair->fd[i]);
	}
}

void tls_pair_shake(struct tls_pair *pair, int result[2])
{
	result[0] = result[1] = 0;
	for (int turn = 0; turn < 20 && !(result[0] && result[1]); turn++)
		for (int i = 0; i < 2; i++)
			if (!result[i])
				result[i] = rblk_tls_handshake(pair->tls[i]);
}

void tls_pair_ready(struct tls_pair *pair)
{
	int result[2];

	tls_pair_shake(pair, result);
	if (result[0] != 1 || result[1] != 1)
		fail_msg("client %d %s, server %d %s", result[0], rblk_tls_words(pair->tls[0]), result[1],
			 rblk_tls_words(pair->tls[1]));
	for (int i = 0; i < 2; i++)
		assert_string_equal(rblk_tls_name(pair->tls[i]), "db1");
	assert_memory_equal(rblk_tls_channel(pair->tls[0]), rblk_tls_channel(pair->tls[1]),
			    RBLK_TLS_CHANNEL_BYTES);
	assert_string_equal(rblk_tls_words(pair->tls[0]), "");
}

/* -- bytes ----------------------------------------------------------------------------------------- */

ssize_t tls_say(struct rblk_tls *tls, const char *text)
{
	const struct iovec iov = {(void *)text, strlen(text)};

	return rblk_tls_send(tls, &iov, 1);
}

ssize_t tls_hear(struct rblk_tls *tls, char text[16])
{
	const struct iovec iov = {text, 15};

	memset(text, 0, 16);
	return rblk_tls_recv(tls, &iov, 1);
}
