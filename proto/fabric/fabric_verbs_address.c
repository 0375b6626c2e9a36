/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which addresses of this machine are RDMA devices': the connection manager knows, whatever kind of device it is. For
 * those who tell others by which addresses they can be reached, and for who is to connect by one device. Keeps nothing.
 */
#include "proto/fabric/fabric_verbs.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

static bool address_copy(struct sockaddr_storage *to, const struct sockaddr *addr)
{
	memset(to, 0, sizeof(*to));
	if (addr->sa_family == AF_INET)
		memcpy(to, addr, sizeof(struct sockaddr_in));
	else if (addr->sa_family == AF_INET6)
		memcpy(to, addr, sizeof(struct sockaddr_in6));
	else
		return false;
	return true;
}

/* An id that is bound to this address and so to its device. NULL: it is no RDMA device's. */
static struct rdma_cm_id *address_bind(const struct sockaddr *addr)
{
	struct sockaddr_storage copy;
	struct rdma_cm_id *id;

	if (!address_copy(&copy, addr))
		return NULL;
	((struct sockaddr_in *)&copy)->sin_port = 0; /* it lies there in both families */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return NULL;
	if (rdma_bind_addr(id, (struct sockaddr *)&copy) == 0 && id->verbs)
		return id;
	rdma_destroy_id(id);
	return NULL;
}

bool fab_rdma_address(const struct sockaddr *addr)
{
	struct rdma_cm_id *id = address_bind(addr);

	if (!id)
		return false;
	rdma_destroy_id(id);
	return true;
}

static bool address_of_device(const struct sockaddr *addr, const char *device)
{
	struct rdma_cm_id *id = address_bind(addr);
	bool same;

	if (!id)
		return false;
	same = strcmp(ibv_get_device_name(id->verbs->device), device) == 0;
	rdma_destroy_id(id);
	return same;
}

static socklen_t address_length(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Do the routes lead to the peer from this device? No packet is sent. */
static bool routed_by(const char *device, const struct sockaddr *peer)
{
	struct sockaddr_storage from = {0};
	socklen_t length = sizeof(from);
	int fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool routed = fd >= 0 && !connect(fd, peer, address_length(peer)) &&
		      !getsockname(fd, (struct sockaddr *)&from, &length);

	if (fd >= 0)
		close(fd);
	return routed && address_of_device((struct sockaddr *)&from, device);
}

/* The bytes of an address, and how many. */
static const uint8_t *address_bytes(const struct sockaddr *addr, size_t *bytes)
{
	const struct sockaddr_in *in = (const void *)addr;
	const struct sockaddr_in6 *in6 = (const void *)addr;

	*bytes = addr->sa_family == AF_INET ? sizeof(in->sin_addr) : sizeof(in6->sin6_addr);
	return addr->sa_family == AF_INET ? (const uint8_t *)&in->sin_addr : in6->sin6_addr.s6_addr;
}

static bool address_link_local(const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;

	return addr->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

static bool in_subnet(const struct ifaddrs *own, const struct sockaddr *peer)
{
	const uint8_t *a, *b, *mask;
	size_t bytes;

	if (!own->ifa_netmask)
		return false;
	a = address_bytes(own->ifa_addr, &bytes);
	b = address_bytes(peer, &bytes);
	mask = address_bytes(own->ifa_netmask, &bytes);
	for (size_t i = 0; i < bytes; i++)
		if ((a[i] ^ b[i]) & mask[i])
			return false;
	return true;
}

/* A link-local address reaches its link only, and which one the peer's zone says. */
static bool may_reach(const struct ifaddrs *own, const struct sockaddr *peer)
{
	const struct sockaddr_in6 *from = (const void *)own->ifa_addr, *to = (const void *)peer;

	if (!own->ifa_addr || own->ifa_addr->sa_family != peer->sa_family || !(own->ifa_flags & IFF_UP) ||
	    address_link_local(own->ifa_addr) != address_link_local(peer))
		return false;
	return !address_link_local(peer) || from->sin6_scope_id == to->sin6_scope_id;
}

bool verbs_source_find(const char *device, const struct sockaddr *peer, struct sockaddr_storage *source)
{
	struct ifaddrs *list;
	bool found = false, near = false;

	if (routed_by(device, peer) || getifaddrs(&list))
		return false;
	/* The first one in the peer's subnet, else the first. */
	for (const struct ifaddrs *own = list; own && !near; own = own->ifa_next) {
		if (!may_reach(own, peer) || (found && !in_subnet(own, peer)) ||
		    !address_of_device(own->ifa_addr, device))
			continue;
		found = address_copy(source, own->ifa_addr);
		near = in_subnet(own, peer);
	}
	freeifaddrs(list);
	return found;
}
