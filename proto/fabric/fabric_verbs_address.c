/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether an address of this machine is an RDMA device's: the connection manager knows. For those who
 * tell others by which addresses they can be reached.
 */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "proto/fabric/fabric.h"

bool fab_rdma_address(const struct sockaddr *addr)
{
	struct sockaddr_storage copy = {.ss_family = addr->sa_family};
	struct rdma_cm_id *id;
	bool found;

	if (addr->sa_family == AF_INET)
		memcpy(&copy, addr, sizeof(struct sockaddr_in));
	else if (addr->sa_family == AF_INET6)
		memcpy(&copy, addr, sizeof(struct sockaddr_in6));
	else
		return false;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return false;
	found = rdma_bind_addr(id, (struct sockaddr *)&copy) == 0 && id->verbs;
	rdma_destroy_id(id);
	return found;
}
