/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See peer.h. */
#include "peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEPS 50 /* more than anything in flight takes */

ssize_t (*peer_takes)(int fd, const struct msghdr *message);

static socklen_t address_bytes(const struct fx *fx)
{
	return fx->addr.ss_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6);
}

int peer_socket(const struct fx *fx)
{
	int fd = socket(fx->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return fd;
}

void peer_connect(const struct fx *fx, struct peer *peer)
{
	if (peer->fd <= 0)
		peer->fd = peer_socket(fx);
	CHECK_EQ(connect(peer->fd, (const struct sockaddr *)&fx->addr, address_bytes(fx)), 0);
}

struct fab_tcp_hello peer_hello(enum fab_tcp_hello_kind kind)
{
	return (struct fab_tcp_hello){
		.magic = rblk_to_le32(FAB_TCP_MAGIC),
		.version = rblk_to_le16(FAB_TCP_VERSION),
		.kind = (__u8)kind,
		.read_in = PEER_READS,
		.read_out = PEER_READS,
	};
}

void peer_send(struct peer *peer, const void *data, size_t bytes)
{
	CHECK_EQ(send(peer->fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT), bytes);
}

void peer_attach(struct fx *fx, struct peer *peer, const struct fab_conn_options *options)
{
	struct fab_tcp_hello hello = peer_hello(FAB_TCP_REQUEST);
	struct fab_conn *own = fx->b.conn;
	int established = fx->b.events[FAB_EVENT_ESTABLISHED];
	struct fab_request *request;

	peer_connect(fx, peer);
	peer_send(peer, &hello, sizeof(hello));
	WAIT(fx, fx->b.request);
	request = fx->b.request;
	fx->b.request = NULL;
	CHECK_EQ(fab_accept(fx->b.fab, request, options ? options : &fx->conn_options,
			    &peer->victim),
		 0);
	fx->b.conn = peer->victim;
	for (uint32_t i = 0; i < PEER_RECEIVES; i++)
		fx_post_recv(&fx->b, PEER_RECV_ID + i, PEER_RECEIVE_OFFSET + i * PEER_RECEIVE_BYTES,
			     PEER_RECEIVE_BYTES);
	fx->b.conn = own;
	CHECK_EQ(fab_conn_establish(peer->victim, NULL, 0), 0);
	WAIT(fx, fx->b.events[FAB_EVENT_ESTABLISHED] > established);
	peer_receive(fx, peer, &hello, sizeof(hello));
	CHECK_EQ(hello.kind, FAB_TCP_ACCEPT);
}

void peer_receive(struct fx *fx, struct peer *peer, void *data, size_t bytes)
{
	uint64_t deadline = fx_deadline_ns();
	size_t have = 0;

	while (have < bytes) {
		ssize_t got = recv(peer->fd, (char *)data + have, bytes - have, MSG_DONTWAIT);

		if (got < 0)
			CHECK_EQ(errno, EAGAIN);
		CHECK(got != 0);
		have += got > 0 ? (size_t)got : 0;
		fx_step(fx);
		CHECK(!fx_past(deadline));
	}
}

void peer_expect_silence(struct fx *fx, struct peer *peer)
{
	char byte;

	for (int i = 0; i < STEPS; i++)
		fx_step(fx);
	CHECK_EQ(recv(peer->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	CHECK_EQ(errno, EAGAIN);
}

void peer_expect_end(struct fx *fx, struct peer *peer)
{
	uint64_t deadline = fx_deadline_ns();
	char bytes[256];

	for (;;) {
		ssize_t got = recv(peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (got == 0 || (got < 0 && errno != EAGAIN))
			return;
		fx_step(fx);
		CHECK(!fx_past(deadline));
	}
}

void peer_detach(struct fx *fx, struct peer *peer)
{
	struct fab_conn *own = fx->b.conn;

	fx->b.conn = peer->victim;
	fx_drain(fx, &fx->b);
	fx->b.conn = own;
	close(peer->fd);
	*peer = (struct peer){0};
}
