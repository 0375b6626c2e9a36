/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The grammar of addresses to listen on: from text to struct tgt_address, back to text, and to the
 * socket addresses that it stands for. Called by options_value.c, config.c, listener.c and check_addresses.c. Any
 * thread.
 */
#ifndef RBLK_TARGET_ADDRESS_H
#define RBLK_TARGET_ADDRESS_H

#include <sys/socket.h>
#include "target/base/settings.h"

#define TGT_ADDRESS_BYTES 160

/* The form of an address, for --help. */
#define TGT_ADDRESS_GRAMMAR \
	"rblk://[HOST][:PORT] (RDMA), rblk+tcp://[HOST][:PORT], and for NVMe hosts nvme+tcp:// or nvme+rdma://"
/* The error for an unknown scheme; the simulator's is not for users. */
#define TGT_ADDRESS_UNKNOWN "it begins with none of rblk://, rblk+tcp://, nvme+tcp:// and nvme+rdma://"

/*
 * "SCHEME://[HOST][:PORT]", where an IPv6 address is in brackets. Schemes are those of initiators,
 * rblk and rblk+tcp, and the older names rdma and tcp. Returns NULL, or the error, to follow "is
 * not an address: ".
 */
const char *tgt_address_parse(const char *text, struct tgt_address *address);
/* "rblk://[::1]:4430": tgt_address_parse() understands it. */
void tgt_address_format(const struct tgt_address *address, char text[TGT_ADDRESS_BYTES]);
/* "rblk+tcp://" and the socket's own address. */
void tgt_address_format_bound(enum fab_kind kind, const struct sockaddr_storage *bound,
			      char text[TGT_ADDRESS_BYTES]);

/* Is it one that only this machine reaches? A name other than "localhost" is not looked up. */
bool tgt_address_loopback(const struct tgt_address *address);

/*
 * The socket addresses of an address: all of a name, which are all to be listened on, up to
 * TGT_ADDRESS_CANDIDATES. An empty host is [::], which takes IPv4 as well, and then 0.0.0.0, for machines without
 * IPv6: one of them is enough. Returns how many, or a negative errno with `error` (TGT_ERROR_BYTES). Asks the
 * resolver, where the host is a name.
 */
#define TGT_ADDRESS_CANDIDATES 16
int tgt_address_resolve(const struct tgt_address *address,
			struct sockaddr_storage found[TGT_ADDRESS_CANDIDATES], char *error);

/* RDMA has ports of its own. */
bool tgt_kinds_share_ports(enum fab_kind one, enum fab_kind other);
/* Where kinds share ports, these two cannot both be listened on: they have one port, and an address in common. */
bool tgt_sockets_collide(const struct sockaddr_storage *one, const struct sockaddr_storage *other);

#endif
