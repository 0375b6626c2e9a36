/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The answer of discovery_portals.h. */
#include "target/watch/discovery_portals.h"

#include <ctype.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "target/watch/discovery_address.h"

void tgt_discovery_name(const char *host, char name[RBLK_NAME_BYTES])
{
	memset(name, 0, RBLK_NAME_BYTES);
	for (size_t i = 0; host[i] && i < RBLK_NAME_BYTES - 1; i++)
		name[i] = isalnum((unsigned char)host[i]) || strchr("._:+-", host[i]) ? host[i] : '-';
	if (!rblk_name_valid(name))
		strcpy(name, "rblkd");
}

static bool address_any(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

static bool address_loopback(const struct in6_addr *in6)
{
	return IN6_IS_ADDR_LOOPBACK(in6) ||
	       (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == IN_LOOPBACKNET);
}

static void portal_add(struct rblk_wire_discover *answer, enum fab_kind kind,
		       const struct sockaddr *address, in_port_t port, bool loopback)
{
	uint16_t count = rblk_le16(answer->portal_count);
	struct rblk_wire_portal portal = {
		.port = rblk_to_le16(ntohs(port)),
		.kind = kind == FAB_VERBS ? RBLK_PORTAL_RDMA : RBLK_PORTAL_TCP,
	};
	struct in6_addr in6;

	/* NVMe has a discovery of its own. */
	if (kind == FAB_NVME || kind == FAB_NVME_RDMA || count == RBLK_DISCOVER_PORTALS_MAX ||
	    !tgt_discovery_address(address, in6.s6_addr) || IN6_IS_ADDR_LINKLOCAL(&in6) ||
	    address_loopback(&in6) != loopback)
		return;
	memcpy(portal.address, &in6, sizeof(portal.address));
	for (uint16_t i = 0; i < count; i++)
		if (!memcmp(&answer->portals[i], &portal, sizeof(portal)))
			return;
	answer->portals[count] = portal;
	answer->portal_count = rblk_to_le16(count + 1u);
}

/* The interface's addresses that listening on "any" takes in: [::] takes those of IPv4, too. */
static void portals_add(const struct tgt_discovery_self *self, struct rblk_wire_discover *answer,
			const struct tgt_discovery_listen *listen, const struct ifaddrs *at,
			const char *interface, bool loopback)
{
	/* It is in the same place in both families' addresses. */
	in_port_t port = ((const struct sockaddr_in *)&listen->address)->sin_port;
	sa_family_t family = listen->address.ss_family;

	for (; at; at = at->ifa_next) {
		if (!at->ifa_addr || strcmp(at->ifa_name, interface) != 0 ||
		    (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) ||
		    (family == AF_INET && at->ifa_addr->sa_family != AF_INET) ||
		    listen->kind == FAB_NVME || listen->kind == FAB_NVME_RDMA /* NVMe has a discovery of its own */ ||
		    (listen->kind == FAB_VERBS && !self->rdma_address(at->ifa_addr)))
			continue;
		portal_add(answer, listen->kind, at->ifa_addr, port, loopback);
	}
}

static bool interface_loopback(const struct ifaddrs *at, const char *interface)
{
	for (; at; at = at->ifa_next)
		if (!strcmp(at->ifa_name, interface))
			return at->ifa_flags & IFF_LOOPBACK;
	return false;
}

void tgt_discovery_answer(const struct tgt_discovery_self *self, const struct ifaddrs *addresses,
			  const char *interface, struct rblk_wire_discover *answer)
{
	bool loopback = interface_loopback(addresses, interface);

	*answer = (struct rblk_wire_discover){
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_DISCOVER_VERSION),
		.type = rblk_to_le16(RBLK_DISCOVER_ANSWER),
		.protocol = rblk_to_le16(RBLK_PROTOCOL_VERSION),
	};
	memcpy(answer->name, self->name, sizeof(answer->name));
	memcpy(answer->instance, self->instance, sizeof(answer->instance));
	for (unsigned int i = 0; i < self->listen_count; i++) {
		const struct tgt_discovery_listen *listen = &self->listens[i];
		const struct sockaddr *address = (const struct sockaddr *)&listen->address;

		if (address_any(address))
			portals_add(self, answer, listen, addresses, interface, loopback);
		else
			portal_add(answer, listen->kind, address,
				   ((const struct sockaddr_in *)address)->sin_port, loopback);
	}
}
