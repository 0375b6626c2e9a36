/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The socket below a stream, as OpenSSL sees it. OpenSSL's own would raise SIGPIPE when the peer has gone,
 * which a library has no right to.
 */
#include "proto/tls/tls_impl.h"

#include <errno.h>
#include <openssl/bio.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

static int socket_fd(BIO *bio)
{
	const struct rblk_tls *tls = BIO_get_data(bio);

	return tls->fd;
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK;
}

static int socket_write(BIO *bio, const char *data, int bytes)
{
	ssize_t sent;

	do
		sent = send(socket_fd(bio), data, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	BIO_clear_retry_flags(bio);
	if (sent < 0 && would_block())
		BIO_set_retry_write(bio);
	return (int)sent;
}

static int socket_read(BIO *bio, char *data, int bytes)
{
	const struct rblk_tls *tls = BIO_get_data(bio);
	ssize_t got;

	/* OpenSSL would follow the peer's changes of keys for as long as there are any. */
	if (tls->updates > RBLK_TLS_UPDATES_MAX) {
		BIO_clear_retry_flags(bio);
		errno = EPROTO;
		return -1;
	}
	do
		got = recv(socket_fd(bio), data, (size_t)bytes, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	BIO_clear_retry_flags(bio);
	if (got < 0 && would_block())
		BIO_set_retry_read(bio);
	if (got == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)got;
}

static long socket_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH; /* nothing is kept here */
}

static int socket_create(BIO *bio)
{
	BIO_set_init(bio, 1);
	return 1;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

/* For the life of the process, as OpenSSL's own. */
static void method_make(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rblk socket");
	if (!method)
		return;
	BIO_meth_set_write(method, socket_write);
	BIO_meth_set_read(method, socket_read);
	BIO_meth_set_ctrl(method, socket_ctrl);
	BIO_meth_set_create(method, socket_create);
}

BIO *rblk_tls_socket(struct rblk_tls *tls)
{
	BIO *bio;

	pthread_once(&method_once, method_make);
	bio = method ? BIO_new(method) : NULL;
	if (bio)
		BIO_set_data(bio, tls);
	return bio;
}

bool rblk_tls_socket_has_room(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLOUT};

	return poll(&polled, 1, 0) == 1 && polled.revents & POLLOUT;
}
