/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets of fabric_tcp and the hellos that they begin with: how a socket is set up, what a hello
 * holds, how it is sent, received and checked. Knows sockets by their descriptor only. Used by
 * fabric_tcp_listen.c and fabric_tcp_cm.c.
 */
#ifndef RBLK_FABRIC_TCP_HELLO_H
#define RBLK_FABRIC_TCP_HELLO_H

#include <stdint.h>
#include <sys/socket.h>

#include "proto/fabric/fabric_tcp_wire.h"

struct rblk_tls;

/* 0: neither IPv4 nor IPv6. */
socklen_t tcp_address_bytes(const struct sockaddr *addr);
int tcp_socket_tune(int fd);
void tcp_hello_init(struct fab_tcp_hello *hello, enum fab_tcp_hello_kind kind,
		    const void *private_data, uint8_t bytes);
/* -EPROTO, -EPROTONOSUPPORT or 0. `kinds`: bits 1 << enum fab_tcp_hello_kind. */
int tcp_hello_check(const struct fab_tcp_hello *hello, unsigned int kinds);
/* The first bytes on a socket, or on the TLS stream there (NULL: without). */
int tcp_first_send(int fd, struct rblk_tls *tls, const void *first, uint32_t bytes);
/* Receives what is missing of `bytes`, of which `*here` are there. 1: complete, 0: not yet, negative errno. */
int tcp_first_receive(int fd, struct rblk_tls *tls, void *first, uint32_t bytes, uint32_t *here);

#endif
