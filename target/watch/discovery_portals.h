/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The content of an answer to a query of discovery: the target's name, and the addresses by which
 * whoever asked on this network interface may connect. Made when addresses change, not when someone
 * asks.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_PORTALS_H
#define RBLK_TARGET_WATCH_DISCOVERY_PORTALS_H

#include <net/if.h>
#include <sys/socket.h>
#include "proto/fabric/fabric.h"
#include "proto/wire/discover.h"
#include "target/base/settings.h"

struct ifaddrs;

/* The addresses that the daemon listens on, as bound. */
struct tgt_discovery_listen {
	enum fab_kind kind;
	struct sockaddr_storage address;
};

/* Fixed. */
struct tgt_discovery_self {
	char name[RBLK_NAME_BYTES]; /* valid, zero filled */
	uint8_t instance[16];
	struct tgt_discovery_listen listens[TGT_LISTEN_MAX];
	unsigned int listen_count;
	bool (*rdma_address)(const struct sockaddr *address); /* fab_rdma_address() */
};

/* A valid name, made of what the machine is called: other characters become '-'. */
void tgt_discovery_name(const char *host, char name[RBLK_NAME_BYTES]);
/*
 * The answer on this interface, without a nonce. An address that is listened on is told as it is; if it
 * stands for any, those of the interface are, for RDMA if they are a device's. A loopback address is
 * told on the loopback interface only, one of IPv6 that is valid on one link is not told. The rest is
 * left out when RBLK_DISCOVER_PORTALS_MAX are found.
 */
void tgt_discovery_answer(const struct tgt_discovery_self *self, const struct ifaddrs *addresses,
			  const char *interface, struct rblk_wire_discover *answer);

#endif
