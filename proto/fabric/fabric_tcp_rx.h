/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiving half of a connection of fabric_tcp.
 */
#ifndef RBLK_FABRIC_TCP_RX_H
#define RBLK_FABRIC_TCP_RX_H

#include "proto/fabric/fabric_tcp_conn.h"

/* Receive and execute, within a budget per turn. */
void tcp_rx_run(struct tcp_conn *conn);

#endif
