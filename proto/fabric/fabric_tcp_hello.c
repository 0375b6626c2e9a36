/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets and hellos of fabric_tcp.
 */
#include "proto/fabric/fabric_tcp_hello.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/tls/tls.h"

/* Silence on an idle connection: probes from 10 s on, dead at 25 s. */
#define TCP_KEEPALIVE_IDLE_S 10
#define TCP_KEEPALIVE_INTERVAL_S 5
#define TCP_KEEPALIVE_PROBES 3
/*
 * Sent data that is not acknowledged for so long ends the connection. This includes a peer that
 * keeps its window closed: a well-behaved one never leaves a queue without receives for 30 s.
 */
#define TCP_USER_TIMEOUT_MS 30000

socklen_t tcp_address_bytes(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return sizeof(struct sockaddr_in);
	if (addr->sa_family == AF_INET6)
		return sizeof(struct sockaddr_in6);
	return 0;
}

static int socket_set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

int tcp_socket_tune(int fd)
{
	int err = socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	if (!err)
		err = socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEPALIVE_IDLE_S);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEPALIVE_INTERVAL_S);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEPALIVE_PROBES);
	if (!err)
		err = socket_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_USER_TIMEOUT_MS);
	return err;
}

void tcp_hello_init(struct fab_tcp_hello *hello, enum fab_tcp_hello_kind kind,
		    const void *private_data, uint8_t bytes)
{
	memset(hello, 0, sizeof(*hello));
	hello->magic = rblk_to_le32(FAB_TCP_MAGIC);
	hello->version = rblk_to_le16(FAB_TCP_VERSION);
	hello->kind = (__u8)kind;
	if (bytes > FAB_TCP_PRIVATE_MAX)
		bytes = FAB_TCP_PRIVATE_MAX;
	hello->private_bytes = bytes;
	if (bytes)
		memcpy(hello->private_data, private_data, bytes);
}

int tcp_hello_check(const struct fab_tcp_hello *hello, unsigned int kinds)
{
	if (rblk_le32(hello->magic) != FAB_TCP_MAGIC)
		return -EPROTO;
	if (rblk_le16(hello->version) != FAB_TCP_VERSION)
		return -EPROTONOSUPPORT;
	if (hello->kind > FAB_TCP_REJECT || !(kinds & (1u << hello->kind)))
		return -EPROTO;
	if (hello->private_bytes > FAB_TCP_PRIVATE_MAX)
		return -EPROTO;
	for (size_t i = 0; i < sizeof(hello->reserved); i++)
		if (hello->reserved[i])
			return -EPROTO;
	for (size_t i = hello->private_bytes; i < sizeof(hello->private_data); i++)
		if (hello->private_data[i])
			return -EPROTO;
	return 0;
}

int tcp_first_receive(int fd, struct rblk_tls *tls, void *first, uint32_t bytes, uint32_t *here)
{
	while (*here < bytes) {
		const struct iovec rest = {(char *)first + *here, bytes - *here};
		ssize_t got = tls ? rblk_tls_recv(tls, &rest, 1)
				  : recv(fd, rest.iov_base, rest.iov_len, MSG_DONTWAIT);

		if (got == 0)
			return -ECONNRESET;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
		*here += (uint32_t)got;
	}
	return 1;
}

/* The send buffer of a fresh socket is empty: a few hundred bytes go at once or never. */
int tcp_first_send(int fd, struct rblk_tls *tls, const void *first, uint32_t bytes)
{
	const struct iovec whole = {(void *)first, bytes};
	ssize_t sent = tls ? rblk_tls_send(tls, &whole, 1)
			   : send(fd, first, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0)
		return -errno;
	return sent == (ssize_t)bytes ? 0 : -ENOBUFS;
}
