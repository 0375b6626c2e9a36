/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Closed connections' sockets of fabric_tcp that wait for the peer's end of stream.
 */
#ifndef RBLK_FABRIC_TCP_LINGER_H
#define RBLK_FABRIC_TCP_LINGER_H

#include "proto/fabric/fabric_tcp_fab.h"

struct tcp_linger {
	struct tcp_source source;
	TAILQ_ENTRY(tcp_linger) link; /* fab->lingers, oldest first */
};

/* Takes the descriptor: ends our direction, waits a while for the peer's end, closes. */
void tcp_linger_start(struct tcp_fab *fab, int fd);
void tcp_linger_run(struct tcp_fab *fab, struct tcp_linger *linger, uint8_t work);
void tcp_linger_stop(struct tcp_fab *fab, struct tcp_linger *linger);

#endif
