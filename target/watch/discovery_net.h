/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sockets of discovery: a socket for each family in its multicast group on the configured network
 * interfaces, which come and go, and the answer on each of them. The discovery thread's only.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_NET_H
#define RBLK_TARGET_WATCH_DISCOVERY_NET_H

#include "target/watch/discovery_portals.h"

#define TGT_DISCOVERY_INTERFACES 64 /* the rest is left out, and logged */
#define TGT_DISCOVERY_FAMILIES 2

struct tgt_discovery_interface {
	unsigned int index;
	char name[IFNAMSIZ];
	bool joined[TGT_DISCOVERY_FAMILIES]; /* its group: IPv4, IPv6 */
	bool seen;			     /* in the scan that is under way */
	int refused;			     /* errno of the join that was last warned of; 0: none */
	struct rblk_wire_discover answer;    /* without a nonce */
};

struct tgt_discovery_net {
	const struct tgt_discovery_self *self;
	const char *wanted; /* "eth0 eth1", or "all" */
	uint16_t port;
	int fds[TGT_DISCOVERY_FAMILIES]; /* non-blocking; -1: the machine lacks the family */
	struct tgt_discovery_interface interfaces[TGT_DISCOVERY_INTERFACES];
	unsigned int interface_count;
	bool left_out; /* an interface, which was warned of, until there is room */
	int unscanned; /* errno of the last scan */
};

/* 0, or -errno with `error` (TGT_ERROR_BYTES). */
int tgt_discovery_net_open(struct tgt_discovery_net *net, char *error);
void tgt_discovery_net_close(struct tgt_discovery_net *net);
/* Which interfaces there are, and their addresses. Joins and leaves. */
void tgt_discovery_net_scan(struct tgt_discovery_net *net);

/* A datagram that came to the group. */
struct tgt_discovery_query {
	struct rblk_wire_discover discover; /* not checked */
	size_t length;			    /* RBLK_DISCOVER_BYTES + 1: it is longer */
	struct sockaddr_storage from;
	uint8_t address[16]; /* from: IPv4 as IPv6 maps it */
	const struct tgt_discovery_interface *interface; /* NULL: not for the group, or on none that is ours */
};
/* False: there is none. */
bool tgt_discovery_net_receive(struct tgt_discovery_net *net, unsigned int family,
			       struct tgt_discovery_query *query);
/* Back by the interface by which the query came, and no farther than its link. */
bool tgt_discovery_net_answer(struct tgt_discovery_net *net, unsigned int family,
			      const struct tgt_discovery_query *query, const struct rblk_wire_discover *answer);

#endif
