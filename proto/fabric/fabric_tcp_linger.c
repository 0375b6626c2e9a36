/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sockets of closed connections of fabric_tcp. Closing a socket with unread bytes in it makes
 * TCP reset the connection, which may overtake what was sent last: a NAK, an answer. So our
 * direction is ended, what the peer still sends is discarded, and the socket is closed at its end
 * of stream or after a short time. fabric_tcp_conn.c hands them over; turns drive them.
 */
#include "proto/fabric/fabric_tcp_linger.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TCP_LINGER_MS 1000u
#define TCP_LINGERS_MAX 256u

void tcp_linger_start(struct tcp_fab *fab, int fd)
{
	struct tcp_linger *linger;

	if (shutdown(fd, SHUT_WR) < 0) {
		close(fd); /* the peer has closed it already */
		return;
	}
	linger = calloc(1, sizeof(*linger));
	if (!linger) {
		close(fd);
		return;
	}
	if (fab->linger_count == TCP_LINGERS_MAX)
		tcp_linger_stop(fab, TAILQ_FIRST(&fab->lingers));
	tcp_source_init(&linger->source, TCP_SOURCE_LINGER, fd);
	TAILQ_INSERT_TAIL(&fab->lingers, linger, link);
	fab->linger_count++;
	if (tcp_source_watch(&fab->loop, &linger->source, EPOLLIN | EPOLLRDHUP)) {
		tcp_linger_stop(fab, linger);
		return;
	}
	tcp_source_set_timer(&fab->loop, &linger->source, TCP_LINGER_MS);
	tcp_source_mark(&fab->loop, &linger->source, TCP_WORK_RX);
}

void tcp_linger_stop(struct tcp_fab *fab, struct tcp_linger *linger)
{
	tcp_source_fini(&fab->loop, &linger->source);
	TAILQ_REMOVE(&fab->lingers, linger, link);
	fab->linger_count--;
	tcp_source_close(&fab->loop, &linger->source);
	free(linger);
}

void tcp_linger_run(struct tcp_fab *fab, struct tcp_linger *linger, uint8_t work)
{
	ssize_t got;

	if (work & TCP_WORK_TIMEOUT) {
		tcp_linger_stop(fab, linger);
		return;
	}
	got = recv(linger->source.fd, fab->scratch, sizeof(fab->scratch), MSG_DONTWAIT);
	if (got > 0)
		tcp_source_mark(&fab->loop, &linger->source, TCP_WORK_RX);
	else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		tcp_linger_stop(fab, linger);
}
