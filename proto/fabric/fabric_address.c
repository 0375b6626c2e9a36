/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Addresses of peers: as text, and as what bounds are counted by. No state; any thread. */
#include "proto/fabric/fabric_impl.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

void fab_format_address(const struct sockaddr *addr, char *text, size_t bytes)
{
	char host[INET6_ADDRSTRLEN];

	if (bytes == 0)
		return;
	if (addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(text, bytes, "%s:%u", host, ntohs(in->sin_port));
	} else if (addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
		bool v4 = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);

		/* A socket for all addresses has those of IPv4 as IPv6 maps them. */
		inet_ntop(v4 ? AF_INET : AF_INET6, in6->sin6_addr.s6_addr + (v4 ? 12 : 0), host, sizeof(host));
		snprintf(text, bytes, v4 ? "%s:%u" : "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		snprintf(text, bytes, "(address family %d)", addr->sa_family);
	}
}

void fab_network_of(const struct sockaddr *addr, uint8_t network[FAB_NETWORK_BYTES])
{
	const struct in6_addr *in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;

	memset(network, 0, FAB_NETWORK_BYTES);
	if (addr->sa_family == AF_INET6) {
		memcpy(network, in6, IN6_IS_ADDR_V4MAPPED(in6) ? 16 : 8);
	} else if (addr->sa_family == AF_INET) {
		network[10] = network[11] = 0xff; /* as IPv6 maps it */
		memcpy(network + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	}
}

bool fab_same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}
