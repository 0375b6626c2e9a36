/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sending half of a connection of fabric_tcp.
 */
#ifndef RBLK_FABRIC_TCP_TX_H
#define RBLK_FABRIC_TCP_TX_H

#include "proto/fabric/fabric_tcp_conn.h"

/* Send what may be sent, until nothing is left, the socket is full, or this connection's share of the turn is used up. */
void tcp_tx_run(struct tcp_conn *conn);
/* The request being received has failed: NAK it behind the responses due, then end. */
void tcp_tx_nak(struct tcp_conn *conn, enum fab_tcp_nak nak, uint32_t sequence);

#endif
