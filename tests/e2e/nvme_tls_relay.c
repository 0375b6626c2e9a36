/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See nvme_tls_relay.h. */
#include "tests/e2e/nvme_tls_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tests/e2e/nvme_host.h"
#include "tests/unit/unit.h"

#define PIECE 16384

struct link {
	const struct nvme_tls_relay *relay;
	struct nvme_tls_key key;
	int host;
};

/* All of it, on a socket that blocks. False: it has ended. */
static bool to_host(int fd, const char *data, int bytes)
{
	while (bytes > 0) {
		ssize_t sent = send(fd, data, (size_t)bytes, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		data += sent;
		bytes -= (int)sent;
	}
	return true;
}

/* One piece in each direction that has some. False: an end has come. */
static bool turn(SSL *ssl, int host)
{
	struct pollfd polled[2] = {{.fd = host, .events = POLLIN}, {.fd = SSL_get_fd(ssl), .events = POLLIN}};
	char data[PIECE];
	int got;

	if (!SSL_pending(ssl))
		poll(polled, 2, -1);
	if (polled[0].revents) {
		got = (int)recv(host, data, sizeof(data), 0);
		if (got <= 0 || SSL_write(ssl, data, got) != got)
			return false;
	}
	if (polled[1].revents || SSL_pending(ssl)) {
		got = SSL_read(ssl, data, sizeof(data));
		return got > 0 && to_host(host, data, got);
	}
	return true;
}

static void *link_run(void *arg)
{
	struct link *link = arg;
	int fd = nvme_host_dial(link->relay->target);
	SSL *ssl = nvme_tls_client(&link->key, fd, TLS1_3_VERSION);

	if (SSL_do_handshake(ssl) == 1)
		while (turn(ssl, link->host))
			;
	SSL_free(ssl);
	close(fd);
	close(link->host);
	free(link);
	return NULL;
}

static void *relay_run(void *arg)
{
	struct nvme_tls_relay *relay = arg;

	for (;;) {
		struct link *link = calloc(1, sizeof(*link));
		pthread_t thread;

		link->relay = relay;
		link->host = accept(relay->fd, NULL, NULL);
		link->key = relay->key;
		if (link->host < 0 || pthread_create(&thread, NULL, link_run, link))
			abort();
		pthread_detach(thread);
	}
	return NULL;
}

void nvme_tls_relay_start(struct nvme_tls_relay *relay, const char *target)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(at);
	pthread_t thread;

	signal(SIGPIPE, SIG_IGN);
	snprintf(relay->target, sizeof(relay->target), "%s", target);
	relay->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(relay->fd, (struct sockaddr *)&at, bytes), 0);
	assert_int_equal(listen(relay->fd, 16), 0);
	assert_int_equal(getsockname(relay->fd, (struct sockaddr *)&at, &bytes), 0);
	snprintf(relay->address, sizeof(relay->address), "127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(pthread_create(&thread, NULL, relay_run, relay), 0);
	pthread_detach(thread);
}

bool nvme_tls_try(const char *target, const struct nvme_tls_key *key, int version)
{
	int fd = nvme_host_dial(target);
	SSL *ssl = nvme_tls_client(key, fd, version);
	bool well = SSL_do_handshake(ssl) == 1;

	SSL_free(ssl);
	close(fd);
	return well;
}
