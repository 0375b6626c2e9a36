/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer of the TCP fabric made of a bare socket, which can send anything. It talks to end b of a
 * fixture; its connection there is `victim`. A failed expectation ends the case.
 */
#ifndef RBLK_TESTS_FABRIC_PEER_H
#define RBLK_TESTS_FABRIC_PEER_H

#include <sys/socket.h>

#include "fixture.h"
#include "proto/fabric/fabric_tcp_wire.h"

#define PEER_RECEIVES 4        /* posted to the victim, wr_id PEER_RECV_ID and up, */
#define PEER_RECEIVE_BYTES 256 /* of so much each, from PEER_RECEIVE_OFFSET on */
#define PEER_RECEIVE_OFFSET (1u << 20)
#define PEER_RECV_ID 300
#define PEER_READS 2 /* each way, says its hello */

struct peer {
	int fd;
	struct fab_conn *victim;
};

/* Not NULL: takes what the fabric sends, instead of the socket. */
extern ssize_t (*peer_takes)(int fd, const struct msghdr *message);

int peer_socket(const struct fx *fx); /* not yet connected */
void peer_connect(const struct fx *fx, struct peer *peer);
struct fab_tcp_hello peer_hello(enum fab_tcp_hello_kind kind);
void peer_send(struct peer *peer, const void *data, size_t bytes);
/* Connected, accepted by b with `options` (NULL: the fixture's), receives posted. */
void peer_attach(struct fx *fx, struct peer *peer, const struct fab_conn_options *options);
/* Step the fixture until so many bytes have arrived. */
void peer_receive(struct fx *fx, struct peer *peer, void *data, size_t bytes);
/* After some steps nothing has arrived. */
void peer_expect_silence(struct fx *fx, struct peer *peer);
/* Wait for the end of the stream or a reset, and ignore what comes before it. */
void peer_expect_end(struct fx *fx, struct peer *peer);
/* Close the victim, drain and destroy it; and the socket. */
void peer_detach(struct fx *fx, struct peer *peer);

#endif
