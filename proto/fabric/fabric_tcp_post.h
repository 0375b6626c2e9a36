/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Posting to connections of fabric_tcp: three calls of struct fab_ops.
 */
#ifndef RBLK_FABRIC_TCP_POST_H
#define RBLK_FABRIC_TCP_POST_H

#include "proto/fabric/fabric_impl.h"

int tcp_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int tcp_post_recv(struct fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int tcp_post_srq_recv(struct fab_device *device, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
