/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sockets of discovery_net.h. */
#include "target/watch/discovery_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/watch/discovery_address.h"
#include "target/watch/discovery_interfaces.h"

#define V4 0u
#define V6 1u
/* The most bytes that wait while the thread does not read, the kernel's own part included. */
#define RECEIVE_BYTES (64 << 10)

/* -- sockets ----------------------------------------------------------------------------------- */

static bool set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

/*
 * The answers' time to live is 1: who asks in the name of someone behind a router makes nobody send
 * there. SO_REUSEADDR: several daemons of one machine are all asked.
 */
static bool socket_set_v4(int fd, uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &address.sin_addr);
	/* Bound to the group: what comes to the machine's own addresses is not taken. */
	return set_int(fd, IPPROTO_IP, IP_TTL, 1) && set_int(fd, IPPROTO_IP, IP_PKTINFO, 1) &&
	       set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0) &&
	       bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool socket_set_v6(int fd, uint16_t port)
{
	struct sockaddr_in6 address = {
		.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};

	/* A group of one link cannot be bound on all links. */
	return set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
	       set_int(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 1) &&
	       set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
	       set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0) &&
	       bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

/* -1 with errno. */
static int socket_open(unsigned int family, uint16_t port)
{
	int fd = socket(family == V4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return -1;
	if (set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
	    set_int(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BYTES) &&
	    (family == V4 ? socket_set_v4 : socket_set_v6)(fd, port))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

int tgt_discovery_net_open(struct tgt_discovery_net *net, char *error)
{
	int err = EAFNOSUPPORT;

	for (unsigned int family = 0; family < TGT_DISCOVERY_FAMILIES; family++) {
		net->fds[family] = socket_open(family, net->port);
		if (net->fds[family] < 0)
			err = errno;
	}
	if (net->fds[V4] < 0 && net->fds[V6] < 0)
		return tgt_error(error, -err, "discovery: UDP port %u: %s", net->port, strerror(err));
	return 0;
}

void tgt_discovery_net_close(struct tgt_discovery_net *net)
{
	for (unsigned int family = 0; family < TGT_DISCOVERY_FAMILIES; family++)
		if (net->fds[family] >= 0)
			close(net->fds[family]);
}

/* -- interfaces -------------------------------------------------------------------------------- */

static struct tgt_discovery_interface *interface_find(struct tgt_discovery_net *net,
						      unsigned int index)
{
	for (unsigned int i = 0; i < net->interface_count; i++)
		if (net->interfaces[i].index == index)
			return &net->interfaces[i];
	return NULL;
}

/* That one has joined already is no error: it was down meanwhile, and has another name. */
static bool group_change(const struct tgt_discovery_net *net, unsigned int family, unsigned int index,
			 bool join)
{
	struct ip_mreqn v4 = {.imr_ifindex = (int)index};
	struct ipv6_mreq v6 = {.ipv6mr_interface = index};

	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &v4.imr_multiaddr);
	inet_pton(AF_INET6, RBLK_DISCOVER_GROUP_IPV6, &v6.ipv6mr_multiaddr);
	errno = EAFNOSUPPORT;
	if (net->fds[family] < 0)
		return false;
	if (family == V4)
		return !setsockopt(net->fds[V4], IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &v4,
				   sizeof(v4)) ||
		       errno == EADDRINUSE;
	return !setsockopt(net->fds[V6], IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &v6,
			   sizeof(v6)) ||
	       errno == EADDRINUSE;
}

static void interface_join(struct tgt_discovery_net *net, struct tgt_discovery_interface *interface)
{
	bool before = interface->joined[V4] || interface->joined[V6];
	int err = 0;

	for (unsigned int family = 0; family < TGT_DISCOVERY_FAMILIES; family++)
		if (!interface->joined[family]) {
			interface->joined[family] = group_change(net, family, interface->index, true);
			if (!interface->joined[family] && !err)
				err = errno;
		}
	if (interface->joined[V4] || interface->joined[V6]) {
		interface->refused = 0;
		if (!before)
			tgt_log(TGT_LOG_INFO, "discovery: queries on %s are answered as %s", interface->name,
				net->self->name);
	} else if (err != interface->refused) {
		/* Once for each cause: it is tried again with every scan. */
		interface->refused = err;
		tgt_log(TGT_LOG_WARNING, "discovery: %s: cannot join the multicast group: %s",
			interface->name, strerror(err));
	}
}

/* One entry for each interface and address; the first of an interface makes it known. */
static void scan_one(struct tgt_discovery_net *net, const struct ifaddrs *addresses,
		     const struct ifaddrs *at)
{
	unsigned int index = if_nametoindex(at->ifa_name);
	struct tgt_discovery_interface *interface = interface_find(net, index);

	if (!index || (interface && interface->seen))
		return;
	if (!interface) {
		if (net->interface_count == TGT_DISCOVERY_INTERFACES) {
			if (!net->left_out)
				tgt_log(TGT_LOG_WARNING, "discovery: %s is left out: more than %d network interfaces",
					at->ifa_name, TGT_DISCOVERY_INTERFACES);
			net->left_out = true;
			return;
		}
		interface = &net->interfaces[net->interface_count++];
		*interface = (struct tgt_discovery_interface){.index = index};
	}
	snprintf(interface->name, sizeof(interface->name), "%s", at->ifa_name);
	interface->seen = true;
	interface_join(net, interface);
	tgt_discovery_answer(net->self, addresses, interface->name, &interface->answer);
}

void tgt_discovery_net_scan(struct tgt_discovery_net *net)
{
	struct ifaddrs *addresses;

	if (getifaddrs(&addresses)) {
		int err = errno;

		if (err != net->unscanned)
			tgt_log(TGT_LOG_WARNING, "discovery: network interfaces: %s", strerror(err));
		net->unscanned = err;
		return;
	}
	net->unscanned = 0;
	for (unsigned int i = 0; i < net->interface_count; i++)
		net->interfaces[i].seen = false;
	for (const struct ifaddrs *at = addresses; at; at = at->ifa_next)
		if (tgt_discovery_interface_wanted(net->wanted, at))
			scan_one(net, addresses, at);
	for (unsigned int i = 0; i < net->interface_count;) {
		struct tgt_discovery_interface *interface = &net->interfaces[i];

		if (interface->seen) {
			i++;
			continue;
		}
		/* Down, or gone: then the kernel has left the groups already. */
		for (unsigned int family = 0; family < TGT_DISCOVERY_FAMILIES; family++)
			if (interface->joined[family])
				group_change(net, family, interface->index, false);
		tgt_log(TGT_LOG_INFO, "discovery: %s is down or gone", interface->name);
		*interface = net->interfaces[--net->interface_count];
		net->left_out = false;
	}
	freeifaddrs(addresses);
}

/* -- datagrams --------------------------------------------------------------------------------- */

union control {
	struct cmsghdr header; /* aligns */
	char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* The interface's index, 0: it did not come to the group. */
static unsigned int control_index(struct msghdr *message, unsigned int family)
{
	struct in6_addr group6;
	struct in_addr group4;

	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &group4);
	inet_pton(AF_INET6, RBLK_DISCOVER_GROUP_IPV6, &group6);
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
		if (family == V4 && at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(at), sizeof(info));
			return info.ipi_addr.s_addr == group4.s_addr ? (unsigned int)info.ipi_ifindex : 0;
		}
		if (family == V6 && at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(at), sizeof(info));
			return IN6_ARE_ADDR_EQUAL(&info.ipi6_addr, &group6) ? info.ipi6_ifindex : 0;
		}
	}
	return 0;
}

bool tgt_discovery_net_receive(struct tgt_discovery_net *net, unsigned int family,
			       struct tgt_discovery_query *query)
{
	struct iovec data = {.iov_base = &query->discover, .iov_len = sizeof(query->discover)};
	union control control;
	struct msghdr message = {
		.msg_name = &query->from,
		.msg_namelen = sizeof(query->from),
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t length = recvmsg(net->fds[family], &message, 0);

	if (length < 0)
		return false;
	query->length = (size_t)length + !!(message.msg_flags & MSG_TRUNC);
	query->interface = interface_find(net, control_index(&message, family));
	tgt_discovery_address((const struct sockaddr *)&query->from, query->address);
	return true;
}

bool tgt_discovery_net_answer(struct tgt_discovery_net *net, unsigned int family,
			      const struct tgt_discovery_query *query, const struct rblk_wire_discover *answer)
{
	struct iovec data = {.iov_base = (void *)answer, .iov_len = sizeof(*answer)};
	union control control = {.bytes = {0}};
	struct msghdr message = {
		.msg_name = (void *)&query->from,
		.msg_namelen = family == V4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6),
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *at = CMSG_FIRSTHDR(&message);
	struct in_pktinfo v4 = {.ipi_ifindex = (int)query->interface->index};
	struct in6_pktinfo v6 = {.ipi6_ifindex = query->interface->index};

	at->cmsg_level = family == V4 ? IPPROTO_IP : IPPROTO_IPV6;
	at->cmsg_type = family == V4 ? IP_PKTINFO : IPV6_PKTINFO;
	at->cmsg_len = CMSG_LEN(family == V4 ? sizeof(v4) : sizeof(v6));
	memcpy(CMSG_DATA(at), family == V4 ? (void *)&v4 : (void *)&v6, family == V4 ? sizeof(v4) : sizeof(v6));
	message.msg_controllen = family == V4 ? CMSG_SPACE(sizeof(v4)) : CMSG_SPACE(sizeof(v6));
	return sendmsg(net->fds[family], &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}
