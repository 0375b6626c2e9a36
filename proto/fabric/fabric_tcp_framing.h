/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The meaning of the bytes of a connection of fabric_tcp: a table that each framing gives. fabric_tcp.c has that of
 * rblk's own (fabric_tcp_wire.h). Sockets, turns, queues, completions and the end of connections are the same for all.
 */
#ifndef RBLK_FABRIC_TCP_FRAMING_H
#define RBLK_FABRIC_TCP_FRAMING_H

#include "proto/fabric/fabric_impl.h"

struct iovec;
struct tcp_conn;
struct tcp_request;

/* The results of the steps of receiving. Negative errno: the connection ends. */
enum rx_step {
	RX_GO_ON = 0,
	RX_WAIT = 1, /* for a receive, or for room in the completion queue */
};

struct tcp_framing {
	/* More of what a peer begins with. 1: request->hello is complete and right, 0: not yet, negative errno. */
	int (*greet)(struct tcp_request *request);
	void (*reject)(struct tcp_request *request, const void *private_data, uint8_t bytes); /* any thread */
	/* Answers an accepted connection; bytes are checked. 0 or negative errno. */
	int (*answer)(struct tcp_conn *conn, bool accepts, const void *private_data, uint8_t bytes);

	/* Receiving: the header is complete; where the rest of its payload belongs (how many vectors); there is no such
	 * memory; the payload is there. begin and finish may be called again, after RX_WAIT. */
	int (*begin)(struct tcp_conn *conn);
	int (*iov)(struct tcp_conn *conn, struct iovec *iovs);
	int (*no_memory)(struct tcp_conn *conn);
	int (*finish)(struct tcp_conn *conn);

	void (*send)(struct tcp_conn *conn); /* what may be sent */
	uint32_t header_bytes;		     /* of a frame, before `begin` is called first */

	/* NULL where a framing has nothing of its own: */
	void (*timeout)(struct tcp_conn *conn); /* of a connection that is READY */
	void (*forget_hello)(void *state);	/* tcp_request.state; any thread */
	void (*forget)(struct tcp_conn *conn);	/* it is freed */
};

/* As fab_open(), with this table of operations, which begins as fab_tcp_ops does. */
struct fab *tcp_fab_open(const struct fab_ops *ops, const struct tcp_framing *framing,
			 const struct fab_options *options, char *error);

#endif
