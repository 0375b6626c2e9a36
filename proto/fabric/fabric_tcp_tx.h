/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sending half of a connection of fabric_tcp.
 */
#ifndef RBLK_FABRIC_TCP_TX_H
#define RBLK_FABRIC_TCP_TX_H

#include "proto/fabric/fabric_tcp_conn.h"

/* Send what may be sent, until nothing is left, the socket is full, or this connection's share of the turn is used up. */
void tcp_tx_run(struct tcp_conn *conn);
/*
 * Leaves all that the connection has to send to the fab's caller, as fab_arm_to_send() says. False: it leaves nothing,
 * because that would take more than one sendmsg(). tcp_tx_sent() is fab_sent().
 */
bool tcp_tx_leave(struct tcp_conn *conn, struct fab_send *send);
void tcp_tx_sent(struct tcp_fab *fab, int sent);
/* The request being received has failed: NAK it behind the responses due, then end. */
void tcp_tx_nak(struct tcp_conn *conn, enum fab_tcp_nak nak, uint32_t sequence);

#endif
