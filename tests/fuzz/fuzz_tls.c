/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: nothing that a stranger says before the key is checked breaks an end or gets in. Method: the
 * first byte of the input chooses. Odd: the rest is an identity, and what is taken for a name is one, from
 * the place where it stands. Even: the rest is what a client sends to a target that knows one name, or (by
 * bit 2) what answers a client's first flight, in two pieces; the handshake must not end well, and its
 * words are text.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "proto/secret/secret.h"
#include "proto/tls/tls.h"
#include "proto/wire/wire_check.h"

static struct rblk_tls_context *server, *client;
static struct rblk_secrets *secrets;

static struct rblk_secrets *find(void *arg, const char *name)
{
	(void)arg;
	FUZZ_ASSERT(rblk_name_valid(name));
	return strcmp(name, "db1") ? NULL : rblk_secrets_ref(secrets);
}

static void begin(void)
{
	char error[RBLK_SECRET_ERROR_BYTES], path[] = "/tmp/fuzz-tls-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	FUZZ_ASSERT(file && !rblk_secret_write_new(file) && !fclose(file));
	secrets = rblk_secrets_read(path, error);
	unlink(path);
	FUZZ_ASSERT(secrets);
	server = rblk_tls_server(find, NULL);
	client = rblk_tls_client((const char[RBLK_NAME_BYTES]){"db1"}, secrets);
	FUZZ_ASSERT(server && client);
}

static void identity(const uint8_t *data, size_t size)
{
	char name[RBLK_NAME_BYTES], id[RBLK_TLS_KEY_ID_DIGITS + 1];
	uint8_t *copy = fuzz_copy(data, size);

	if (!rblk_tls_identity_parse(copy, size, name, id)) {
		size_t length = strlen(name);

		FUZZ_ASSERT(rblk_name_valid(name) && length < RBLK_NAME_BYTES);
		FUZZ_ASSERT(size == 6 + length + 1 + RBLK_TLS_KEY_ID_DIGITS);
		FUZZ_ASSERT(!memcmp(copy + 6, name, length) && !memcmp(copy + 7 + length, id, strlen(id)));
		FUZZ_ASSERT(strlen(id) == RBLK_TLS_KEY_ID_DIGITS);
	}
	free(copy);
}

static void handshake(struct rblk_tls_context *context, const uint8_t *data, size_t size)
{
	size_t half = size / 2;
	struct rblk_tls *tls;
	int fd[2], result;

	FUZZ_ASSERT(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	FUZZ_ASSERT(!fcntl(fd[0], F_SETFL, O_NONBLOCK));
	tls = rblk_tls_create(context, fd[0]);
	FUZZ_ASSERT(tls);
	FUZZ_ASSERT(context == server || rblk_tls_handshake(tls) == 0);
	FUZZ_ASSERT(send(fd[1], data, half, 0) == (ssize_t)half);
	result = rblk_tls_handshake(tls);
	FUZZ_ASSERT(result <= 0);
	FUZZ_ASSERT(send(fd[1], data + half, size - half, 0) == (ssize_t)(size - half));
	shutdown(fd[1], SHUT_WR);
	if (!result)
		result = rblk_tls_handshake(tls);
	FUZZ_ASSERT(result < 0);
	for (const char *word = rblk_tls_words(tls); *word; word++)
		FUZZ_ASSERT(*word >= ' ' && *word <= '~');
	rblk_tls_destroy(tls);
	close(fd[0]);
	close(fd[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!server)
		begin();
	if (!size)
		return 0;
	if (data[0] & 1)
		identity(data + 1, size - 1);
	else
		handshake(data[0] & 4 ? client : server, data + 1, size - 1);
	return 0;
}
