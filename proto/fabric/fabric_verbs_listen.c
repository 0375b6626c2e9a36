/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listeners of rdma_cm: one id for each, two for [::], until the device of its address is removed. The
 * connection requests that come to them are fabric_verbs_cm.c's.
 */
#include "proto/fabric/fabric_verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool verbs_any_device(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (list)
		ibv_free_device_list(list);
	return count > 0;
}

static const char *verbs_listen_cause(int err)
{
	switch (err) {
	case ENODEV:
	case EADDRNOTAVAIL:
		return verbs_any_device() ? "no RDMA device has this address"
					  : "no RDMA device; add Soft-RoCE: "
					    "rdma link add rxe0 type rxe netdev <dev>";
	default:
		return strerror(err);
	}
}

/* An id that listens, for its own family only where `alone`. NULL and errno on failure. */
static struct rdma_cm_id *verbs_listen_id(struct verbs_fab *fab, const struct sockaddr *addr,
					  bool alone, int backlog)
{
	struct rdma_cm_id *id;
	int one = 1;
	int err;

	if (rdma_create_id(fab->channel, &id, fab, RDMA_PS_TCP))
		return NULL;
	if ((!alone ||
	     !rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one))) &&
	    !rdma_bind_addr(id, (struct sockaddr *)addr) && !rdma_listen(id, backlog))
		return id;
	err = errno;
	rdma_destroy_id(id);
	errno = err;
	return NULL;
}

/*
 * [::] takes IPv4, too, whatever the machine's net.ipv6.bindv6only says. Each family has an id of
 * its own: the kernel gives up an IPv4 connection that Soft-iWARP has accepted on an IPv6 socket.
 */
static int verbs_listen_ids(struct verbs_fab *fab, struct verbs_listener *listener,
			    const struct sockaddr *addr, int backlog)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	bool both = addr->sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
	struct sockaddr_in in = {.sin_family = AF_INET};
	int err;

	listener->id = verbs_listen_id(fab, addr, both, backlog);
	if (!listener->id)
		return -errno;
	if (!both)
		return 0;
	in.sin_port = rdma_get_src_port(listener->id);
	listener->id4 = verbs_listen_id(fab, (struct sockaddr *)&in, true, backlog);
	if (listener->id4)
		return 0;
	err = errno;
	rdma_destroy_id(listener->id);
	return -err;
}

int verbs_listen(struct fab *head, const struct sockaddr *addr, int backlog,
		 struct fab_listener **out)
{
	struct verbs_fab *fab = verbs_fab(head);
	struct verbs_listener *listener = calloc(1, sizeof(*listener));
	struct sockaddr_storage bound = {0};
	char text[80], words[FAB_ERROR_BYTES];
	int opened, err = -ENODEV;

	fab_format_address(addr, text, sizeof(text));
	if (!listener)
		return fab_fail(head, -ENOMEM, "listen on %s: out of memory", text);
	memcpy(&bound, addr,
	       addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in));
	listener->head.fab = head;
	if (fab->listener_lost)
		verbs_devices_sync();
	opened = verbs_channel_open(fab);
	if (opened) {
		free(listener);
		verbs_open_words(-opened, words);
		return fab_fail(head, opened, "%s", words);
	}
	/* A wildcard address binds without any device, and would wait forever. */
	if (verbs_any_device())
		err = verbs_listen_ids(fab, listener, (struct sockaddr *)&bound, backlog);
	if (err) {
		free(listener);
		return fab_fail(head, err, "listen on %s: %s", text, verbs_listen_cause(-err));
	}
	TAILQ_INSERT_TAIL(&fab->listeners, listener, entry);
	*out = &listener->head;
	return 0;
}

void verbs_listener_destroy(struct fab_listener *head)
{
	struct verbs_listener *listener = (struct verbs_listener *)head;

	TAILQ_REMOVE(&verbs_fab(head->fab)->listeners, listener, entry);
	if (listener->id)
		rdma_destroy_id(listener->id);
	if (listener->id4)
		rdma_destroy_id(listener->id4);
	free(listener);
}

/* A listener on a wildcard address belongs to no device and stays. */
void verbs_listener_lost(struct verbs_fab *fab, const struct rdma_cm_id *id)
{
	struct verbs_listener *listener;

	TAILQ_FOREACH(listener, &fab->listeners, entry) {
		if (listener->id != id)
			continue;
		rdma_destroy_id(listener->id);
		listener->id = NULL;
		fab->listener_gone = true;
		fab->listener_lost = true;
	}
}

int verbs_listener_address(const struct fab_listener *head, struct sockaddr_storage *addr)
{
	const struct verbs_listener *listener = (const struct verbs_listener *)head;
	const struct sockaddr *local;

	if (!listener->id)
		return -ENODEV;
	local = rdma_get_local_addr(listener->id);
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, local,
	       local->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					    : sizeof(struct sockaddr_in));
	return 0;
}
