/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The thread of discovery_rdma.h. */
#include "target/watch/discovery_rdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "proto/fabric/fabric_group.h"
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/poll.h"
#include "target/watch/discovery_address.h"
#include "target/watch/discovery_interfaces.h"
#include "target/watch/discovery_window.h"

/* A device may come without a change of addresses: so often is looked at least, and so often at most. */
#define SCAN_IDLE_NS 10000000000ull
#define SCAN_NS 1000000000ull

/* An interface with an address of an RDMA device. */
struct rdma_group {
	char interface[IFNAMSIZ];
	struct sockaddr_storage local;
	uint8_t address[16]; /* local: IPv4 as IPv6 maps it */
	unsigned int prefix; /* bits of it that others on the link have, too */
	struct fab_group *group; /* NULL: not joined */
	struct rblk_wire_discover answer;
	char refused[FAB_ERROR_BYTES]; /* the reason that was last warned of */
	bool seen;		       /* in the scan that is under way */
};

struct tgt_discovery_rdma {
	struct tgt_discovery_responder *responder;
	struct rdma_group groups[TGT_DISCOVERY_GROUPS];
	unsigned int group_count, next; /* whose turn it is: of group_count, modulo */
	bool left_out; /* an interface, which was warned of, until there is room */
	struct tgt_discovery_window window;
	bool unread; /* there may be queries that polling does not tell */
	uint64_t scanned_ns;
	bool scan_due;
	int changes; /* -1: nobody tells */
	int stop;    /* eventfd: readable at the end */
	pthread_t thread;
};

/* -- interfaces -------------------------------------------------------------------------------- */

static bool usable(const struct sockaddr *address)
{
	if (!address)
		return false;
	if (address->sa_family == AF_INET)
		return true;
	return address->sa_family == AF_INET6 &&
	       !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* The interface's address that the group is joined by: IPv4 if there is one, for RoCE v2 has no groups of IPv6. */
static const struct ifaddrs *address_choose(const struct tgt_discovery_self *self, const struct ifaddrs *at,
					    const char *interface)
{
	const struct ifaddrs *found = NULL;

	for (; at; at = at->ifa_next) {
		if (strcmp(at->ifa_name, interface) != 0 || !usable(at->ifa_addr) ||
		    (found && at->ifa_addr->sa_family == AF_INET6) || !self->rdma_address(at->ifa_addr))
			continue;
		if (at->ifa_addr->sa_family == AF_INET)
			return at;
		found = at;
	}
	return found;
}

static void group_set_local(struct rdma_group *group, const struct ifaddrs *at)
{
	bool v6 = at->ifa_addr->sa_family == AF_INET6;

	memcpy(&group->local, at->ifa_addr, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	tgt_discovery_address(at->ifa_addr, group->address);
	group->prefix = at->ifa_netmask ? tgt_discovery_prefix(at->ifa_netmask) : 128;
}

static void group_leave(struct rdma_group *group)
{
	fab_group_leave(group->group);
	group->group = NULL;
}

static void group_join(struct tgt_discovery_rdma *rdma, struct rdma_group *group)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct fab_group_options options = {
		.local = (struct sockaddr *)&group->local, .group = (struct sockaddr *)&v4, .listen = true};
	char error[FAB_ERROR_BYTES];
	int err;

	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &v4.sin_addr);
	inet_pton(AF_INET6, RBLK_DISCOVER_GROUP_IPV6, &v6.sin6_addr);
	if (group->local.ss_family == AF_INET6)
		options.group = (struct sockaddr *)&v6;
	err = fab_group_join(&options, &group->group, error);
	if (!err) {
		group->refused[0] = 0;
		tgt_log(TGT_LOG_INFO, "discovery: queries over RDMA on %s, device %s, are answered as %s",
			group->interface, fab_group_device(group->group), rdma->responder->self.name);
	} else if (strcmp(error, group->refused) != 0) {
		/* Once for each cause: it is tried again with every scan. */
		memcpy(group->refused, error, sizeof(error));
		tgt_log(err == -EOPNOTSUPP ? TGT_LOG_INFO : TGT_LOG_WARNING,
			"discovery: %s is not found over RDMA: %s", group->interface, error);
	}
}

static struct rdma_group *group_find(struct tgt_discovery_rdma *rdma, const char *interface)
{
	for (unsigned int i = 0; i < rdma->group_count; i++)
		if (!strcmp(rdma->groups[i].interface, interface))
			return &rdma->groups[i];
	return NULL;
}

/* NULL after a warning: there is no room. */
static struct rdma_group *group_add(struct tgt_discovery_rdma *rdma, const char *interface)
{
	struct rdma_group *group;

	if (rdma->group_count == TGT_DISCOVERY_GROUPS) {
		if (!rdma->left_out)
			tgt_log(TGT_LOG_WARNING,
				"discovery: %s is left out: more than %d network interfaces with RDMA", interface,
				TGT_DISCOVERY_GROUPS);
		rdma->left_out = true;
		return NULL;
	}
	group = &rdma->groups[rdma->group_count++];
	*group = (struct rdma_group){.seen = false};
	snprintf(group->interface, sizeof(group->interface), "%s", interface);
	return group;
}

/* One entry for each interface and address; the first of an interface is enough. */
static void scan_one(struct tgt_discovery_rdma *rdma, const struct ifaddrs *addresses, const char *interface)
{
	struct rdma_group *group = group_find(rdma, interface);
	const struct ifaddrs *at;
	uint8_t before[16];

	if (group && group->seen)
		return;
	at = address_choose(&rdma->responder->self, addresses, interface);
	if (!at)
		return;
	if (!group)
		group = group_add(rdma, interface);
	if (!group)
		return;
	group->seen = true;
	memcpy(before, group->address, sizeof(before));
	group_set_local(group, at);
	if (memcmp(before, group->address, sizeof(before)) != 0)
		group_leave(group);
	if (!group->group)
		group_join(rdma, group);
	tgt_discovery_answer(&rdma->responder->self, addresses, interface, &group->answer);
}

static void scan(struct tgt_discovery_rdma *rdma, uint64_t now_ns)
{
	struct ifaddrs *addresses;

	rdma->scan_due = false;
	rdma->scanned_ns = now_ns;
	if (getifaddrs(&addresses))
		return; /* the other thread has told */
	for (unsigned int i = 0; i < rdma->group_count; i++)
		rdma->groups[i].seen = false;
	for (const struct ifaddrs *at = addresses; at; at = at->ifa_next)
		if (tgt_discovery_interface_wanted(rdma->responder->interfaces, at))
			scan_one(rdma, addresses, at->ifa_name);
	for (unsigned int i = 0; i < rdma->group_count;) {
		struct rdma_group *group = &rdma->groups[i];

		if (group->seen) {
			i++;
			continue;
		}
		if (group->group)
			tgt_log(TGT_LOG_INFO, "discovery: %s is not found over RDMA any more: it is down, or has no device",
				group->interface);
		group_leave(group);
		*group = rdma->groups[--rdma->group_count];
		rdma->left_out = false;
	}
	freeifaddrs(addresses);
}

/* -- queries ----------------------------------------------------------------------------------- */

/*
 * An answer to another network would leave the link: its hop limit is the kernel's choice. InfiniBand's go to a LID,
 * which is of this link.
 */
static bool on_link(const struct rdma_group *group, const uint8_t address[16])
{
	return !fab_group_ethernet(group->group) ||
	       tgt_discovery_on_link(address, group->address, group->prefix);
}

/* True: there was one. */
static bool query_take(struct tgt_discovery_rdma *rdma, struct rdma_group *group, uint64_t now_ns)
{
	struct tgt_discovery_question question = {.interface = group->interface};
	struct fab_group_message message;
	struct rblk_wire_discover answer = group->answer;

	if (!fab_group_receive(group->group, &message))
		return false;
	rdma->window.reads++;
	question.discover = message.data;
	question.length = message.length;
	memcpy(question.address, message.from, sizeof(question.address));
	if (on_link(group, message.from) && tgt_discovery_responder_take(rdma->responder, &question, &answer, now_ns) &&
	    !fab_group_answer(group->group, &message, &answer, sizeof(answer)))
		tgt_discovery_responder_answered(rdma->responder);
	return true;
}

/*
 * All groups in turn, so that none keeps the others waiting. The way to one who asks may take the kernel a second: the rest
 * is the next turn's, which looks for the end first.
 */
static void queries_take(struct tgt_discovery_rdma *rdma, uint64_t now_ns)
{
	uint64_t end_ns = now_ns + TGT_DISCOVERY_WINDOW_NS;
	bool more = true;

	rdma->unread = false;
	while (more && tgt_discovery_window_open(&rdma->window, now_ns)) {
		more = false;
		for (unsigned int i = 0; i < rdma->group_count && !rdma->unread; i++) {
			struct rdma_group *group = &rdma->groups[rdma->next++ % rdma->group_count];

			if (!group->group)
				continue;
			more |= query_take(rdma, group, now_ns);
			rdma->unread = env_now_ns() >= end_ns;
		}
		more &= !rdma->unread;
	}
}

/* Those whose device has gone, or whose queue pair has failed, are joined anew by a scan. */
static void groups_check(struct tgt_discovery_rdma *rdma)
{
	for (unsigned int i = 0; i < rdma->group_count; i++) {
		struct rdma_group *group = &rdma->groups[i];
		const char *lost = group->group ? fab_group_lost(group->group) : NULL;

		if (!lost)
			continue;
		tgt_log(TGT_LOG_INFO, "discovery: %s is not found over RDMA for now: %s", group->interface, lost);
		group_leave(group);
		rdma->scan_due = true;
	}
}

/* -- the thread -------------------------------------------------------------------------------- */

static uint64_t scan_at_ns(const struct tgt_discovery_rdma *rdma)
{
	return rdma->scanned_ns + (rdma->scan_due ? SCAN_NS : SCAN_IDLE_NS);
}

/* False: the end. */
static bool turn(struct tgt_discovery_rdma *rdma)
{
	struct pollfd polled[2 + FAB_GROUP_FDS * TGT_DISCOVERY_GROUPS] = {
		{.fd = rdma->stop, .events = POLLIN},
		{.fd = rdma->scan_due ? -1 : rdma->changes, .events = POLLIN},
	};
	uint64_t now_ns = env_now_ns();
	bool open = tgt_discovery_window_open(&rdma->window, now_ns);
	nfds_t count = 2;
	int wait_ms = tgt_discovery_window_wait_ms(&rdma->window, scan_at_ns(rdma), now_ns);

	for (unsigned int i = 0; i < rdma->group_count; i++) {
		if (!rdma->groups[i].group)
			continue;
		fab_group_polled(rdma->groups[i].group, &polled[count]);
		if (!open)
			polled[count + 1].fd = -1;
		count += FAB_GROUP_FDS;
	}
	if (tgt_poll(polled, count, rdma->unread && open ? 0 : wait_ms) < 0)
		return true;
	if (polled[0].revents)
		return false;
	now_ns = env_now_ns();
	if (polled[1].revents)
		rdma->scan_due |= tgt_discovery_changes_read(rdma->changes);
	groups_check(rdma);
	if (now_ns >= scan_at_ns(rdma))
		scan(rdma, now_ns);
	queries_take(rdma, now_ns);
	return true;
}

static void *rdma_thread(void *argument)
{
	struct tgt_discovery_rdma *rdma = argument;

	/* Asks for the first events. */
	queries_take(rdma, env_now_ns());
	while (turn(rdma))
		;
	return NULL;
}

/* -- begin and end ----------------------------------------------------------------------------- */

static bool listens(const struct tgt_discovery_self *self)
{
	for (unsigned int i = 0; i < self->listen_count; i++)
		if (self->listens[i].kind == FAB_VERBS)
			return true;
	return false;
}

static void rdma_free(struct tgt_discovery_rdma *rdma)
{
	for (unsigned int i = 0; i < rdma->group_count; i++)
		group_leave(&rdma->groups[i]);
	if (rdma->changes >= 0)
		close(rdma->changes);
	if (rdma->stop >= 0)
		close(rdma->stop);
	free(rdma);
}

int tgt_discovery_rdma_create(struct tgt_discovery_responder *responder, struct tgt_discovery_rdma **out, char *error)
{
	struct tgt_discovery_rdma *rdma;
	int err;

	*out = NULL;
	if (!listens(&responder->self))
		return 0;
	rdma = calloc(1, sizeof(*rdma));
	if (!rdma)
		return tgt_error(error, -ENOMEM, "discovery: out of memory");
	rdma->responder = responder;
	rdma->changes = tgt_discovery_changes_open();
	/* The first here: who asks when the daemon has said that it is ready is answered. */
	scan(rdma, env_now_ns());
	rdma->stop = eventfd(0, EFD_CLOEXEC);
	err = rdma->stop < 0 ? errno : pthread_create(&rdma->thread, NULL, rdma_thread, rdma);
	if (err) {
		rdma_free(rdma);
		return tgt_error(error, -err, "discovery: %s", strerror(err));
	}
	pthread_setname_np(rdma->thread, "discovery-rdma");
	*out = rdma;
	return 0;
}

void tgt_discovery_rdma_destroy(struct tgt_discovery_rdma *rdma)
{
	if (!rdma)
		return;
	eventfd_write(rdma->stop, 1);
	pthread_join(rdma->thread, NULL);
	rdma_free(rdma);
}
