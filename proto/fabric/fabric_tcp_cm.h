/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How connections of fabric_tcp come to be READY. Calls that take struct fab heads are of struct
 * fab_ops.
 */
#ifndef RBLK_FABRIC_TCP_CM_H
#define RBLK_FABRIC_TCP_CM_H

#include "proto/fabric/fabric_tcp_conn.h"

int tcp_accept(struct fab *fab, struct fab_request *request,
	       const struct fab_conn_options *options, struct fab_conn **conn);
int tcp_connect(struct fab *fab, const struct sockaddr *addr,
		const struct fab_conn_options *options, fab_prepare_fn prepare,
		struct fab_conn **conn);
int tcp_conn_establish(struct fab_conn *conn, const void *private_data, uint8_t bytes);
void tcp_conn_refuse(struct fab_conn *conn, const void *private_data, uint8_t bytes);
/* Before READY. */
void tcp_cm_run(struct tcp_conn *conn, uint8_t work);

#endif
