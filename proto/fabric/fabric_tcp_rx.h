/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiving half of a connection of fabric_tcp.
 */
#ifndef RBLK_FABRIC_TCP_RX_H
#define RBLK_FABRIC_TCP_RX_H

#include "proto/fabric/fabric_tcp_conn.h"

/* For the table of rblk's own framing. */
int tcp_rx_begin(struct tcp_conn *conn);
int tcp_rx_iov(struct tcp_conn *conn, struct iovec *iovs);
int tcp_rx_no_memory(struct tcp_conn *conn);
int tcp_rx_finish(struct tcp_conn *conn);

/* Receive and execute, within a budget per turn. Of any framing. */
void tcp_rx_run(struct tcp_conn *conn);

#endif
