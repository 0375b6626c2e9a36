/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The bytes of a connection of fabric_tcp: of its socket, or of the TLS stream on it (tls is not NULL).
 * Nothing above this knows which. As sendmsg() and recvmsg() with MSG_DONTWAIT.
 */
#ifndef RBLK_FABRIC_TCP_STREAM_H
#define RBLK_FABRIC_TCP_STREAM_H

#include <sys/socket.h>

#include "proto/tls/tls.h"

static inline ssize_t tcp_stream_send(int fd, struct rblk_tls *tls, const struct msghdr *message)
{
	if (__builtin_expect(tls != NULL, 0))
		return rblk_tls_send(tls, message->msg_iov, message->msg_iovlen);
	return sendmsg(fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static inline ssize_t tcp_stream_recv(int fd, struct rblk_tls *tls, struct msghdr *message)
{
	if (__builtin_expect(tls != NULL, 0))
		return rblk_tls_recv(tls, message->msg_iov, message->msg_iovlen);
	return recvmsg(fd, message, MSG_DONTWAIT);
}

/* One byte, which stays there. */
static inline ssize_t tcp_stream_peek(int fd, struct rblk_tls *tls)
{
	char byte;

	return tls ? rblk_tls_peek(tls) : recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* There is more to receive than the socket will tell: data, an end, or an error. */
static inline bool tcp_stream_more(const struct rblk_tls *tls)
{
	return tls && rblk_tls_more(tls);
}

/* Before the socket is closed. What TLS has proven is known until the stream is destroyed. */
static inline void tcp_stream_end(struct rblk_tls *tls)
{
	if (tls)
		rblk_tls_end(tls);
}

#endif
