/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The context of fabric_tcp, one per fab_open(): what all its objects share. A file of fabric_tcp
 * touches only those members that are its own, which the comments say. fabric_tcp.c creates and
 * frees it.
 */
#ifndef RBLK_FABRIC_TCP_FAB_H
#define RBLK_FABRIC_TCP_FAB_H

#include "proto/fabric/fabric_impl.h"
#include "proto/fabric/fabric_tcp_framing.h"
#include "proto/fabric/fabric_tcp_mr.h"
#include "proto/fabric/fabric_tcp_queue.h"
#include "proto/fabric/fabric_tcp_source.h"

#define TCP_SCRATCH_BYTES 32768u /* read-ahead of one fab: headers and small payloads */

struct tcp_listener;
struct tcp_linger;
struct tcp_request;
TAILQ_HEAD(tcp_conns, tcp_conn);
TAILQ_HEAD(tcp_requests, tcp_request);

/* Created by fab_open(), freed by fab_close(); one thread's at a time. */
struct tcp_fab {
	struct fab head; /* first */
	const struct tcp_framing *framing; /* fixed */
	unsigned int seen_by_framing;	   /* the framing's own */
	struct fab_device device;
	struct tcp_loop loop;
	struct tcp_cq cq;
	struct tcp_rq srq;
	struct tcp_mr_table mrs;
	bool progressed; /* fab_poll() has asked epoll since the last fab_poll_event() */

	struct tcp_left *left; /* fabric_tcp_tx.c: the send that was left to the caller last; NULL: none was */

	/* fabric_tcp_conn.c */
	struct tcp_conns all;
	struct tcp_conns events;  /* those with events to be given out */
	struct tcp_conns starved; /* those that wait for a receive of the SRQ */
	/*
	 * The only source beside the loop's own: its socket is asked itself, and not epoll, which saves a system
	 * call for what arrives. NULL: there are more, or it waits for an edge that only epoll tells.
	 */
	struct tcp_conn *sole;
	uint32_t sole_rest; /* turns until there may be one again */

	/* fabric_tcp_listen.c */
	TAILQ_HEAD(, tcp_listener) listeners;
	struct tcp_requests requests; /* complete, not yet given out */
	int accept_error; /* negative errno of a listener, an event to be given out; 0: none */
	char accept_words[FAB_ERROR_BYTES];

	/* fabric_tcp_linger.c */
	TAILQ_HEAD(, tcp_linger) lingers;
	uint32_t linger_count;

	struct fab_tcp_hello event_hello; /* the private data of the last event */
	unsigned char scratch[TCP_SCRATCH_BYTES]; /* of whoever receives, within one call */
};

static inline struct tcp_fab *tcp_fab_of(const struct fab *fab)
{
	return (struct tcp_fab *)fab;
}

#endif
