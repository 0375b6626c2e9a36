/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listeners of fabric_tcp, and connection requests until they are accepted or rejected. Calls that
 * take struct fab heads are of struct fab_ops.
 */
#ifndef RBLK_FABRIC_TCP_LISTEN_H
#define RBLK_FABRIC_TCP_LISTEN_H

#include "proto/fabric/fabric_tcp_fab.h"

#define TCP_HANDSHAKE_MS 5000u  /* for a peer that connects and sends nothing */
#define TCP_HANDSHAKES_MAX 256u /* per listener; beyond, the oldest is dropped */
#define TCP_HANDSHAKES_HOST_MAX 64u /* of them from one address; likewise */

/*
 * A socket from accept4() until fab_accept() or fab_reject(). While it is a source it belongs to
 * its listener; once delivered, to the owner of the request, on any thread.
 */
struct tcp_request {
	struct tcp_source source;
	struct fab_request head;
	struct tcp_listener *listener; /* until delivered */
	TAILQ_ENTRY(tcp_request) link; /* listener->pending, then fab->requests */
	const struct tcp_framing *framing; /* fixed */
	void *state;			   /* the framing's, until it is the connection's */
	struct fab_tcp_hello hello; /* as it came, or what the framing has made of what came */
	uint32_t hello_bytes;
	bool begun;	/* the first byte has said whether head.tls has to be */
	bool securing;	/* the TLS handshake is not over */
};

struct tcp_listener {
	struct tcp_source source;
	struct fab_listener head;
	struct tcp_requests pending; /* oldest first */
	uint32_t pending_count;
	bool exhausted; /* could not accept the last time; reported once, until it can again */
	TAILQ_ENTRY(tcp_listener) link; /* fab->listeners */
};

int tcp_listen(struct fab *fab, const struct sockaddr *addr, int backlog,
	       struct fab_listener **listener);
void tcp_listener_destroy(struct fab_listener *listener);
int tcp_listener_address(const struct fab_listener *listener, struct sockaddr_storage *addr);
void tcp_listener_run(struct tcp_fab *fab, struct tcp_listener *listener);
void tcp_request_run(struct tcp_fab *fab, struct tcp_request *request, uint8_t work);
void tcp_request_free(struct tcp_request *request); /* closes its socket */
void tcp_reject(struct fab_request *request, const void *private_data, uint8_t bytes);
struct fab_device *tcp_request_device(struct fab *fab, struct fab_request *request);

#endif
