/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the question of discovery on the networks of this machine, over UDP and over RDMA. */
#include "initiator/cmd/discover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "initiator/cmd/cmd.h"
#include "initiator/uri.h"
#include "proto/fabric/fabric_group.h"
#include "proto/wire/wire_check.h"

/* -- over RDMA --------------------------------------------------------------------------------- */

/*
 * Asks over RDMA: a queue pair of unreliable datagrams on the RDMA device of each network interface, which
 * sends into the multicast group, and gets the answers that are sent to itself.
 */

#define DISCOVER_GROUPS_MAX 16 /* network interfaces with RDMA */

/* All zero at first. The groups are left, and freed, by discover_rdma_leave(). */
struct discover_rdma {
	struct discover_group {
		struct fab_group *group;
		char interface[IFNAMSIZ];
	} groups[DISCOVER_GROUPS_MAX];
	unsigned int count;
	bool wanted; /* an error message also for devices that have no multicast */
	bool failed; /* an error message was written */
};

/* A turn takes at most so many datagrams from a group: others have a turn, too. */
#define RECEIVES_MAX 64u

/*
 * One more group, if `local` is an RDMA device's address and there is room. An error message if joining fails; without
 * `wanted` none for a device that has no multicast.
 */
static void discover_rdma_join(struct discover_rdma *rdma, const char *interface, const struct sockaddr *local)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct fab_group_options options = {
		.local = local,
		.group = local->sa_family == AF_INET6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
	};
	struct discover_group *group = &rdma->groups[rdma->count];
	char error[FAB_ERROR_BYTES];
	int err;

	if (rdma->count == DISCOVER_GROUPS_MAX)
		return;
	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &v4.sin_addr);
	inet_pton(AF_INET6, RBLK_DISCOVER_GROUP_IPV6, &v6.sin6_addr);
	err = fab_group_join(&options, &group->group, error);
	if (!err) {
		snprintf(group->interface, sizeof(group->interface), "%s", interface);
		rdma->count++;
	} else if (err != -ENODEV && (rdma->wanted || err != -EOPNOTSUPP)) {
		rdma->failed = true;
		cmd_error("discover: %s: no query over RDMA: %s", interface, error);
	}
}

static bool discover_rdma_has(const struct discover_rdma *rdma, const char *interface)
{
	for (unsigned int i = 0; i < rdma->count; i++)
		if (!strcmp(rdma->groups[i].interface, interface))
			return true;
	return false;
}

static void discover_rdma_leave(struct discover_rdma *rdma)
{
	while (rdma->count)
		fab_group_leave(rdma->groups[--rdma->count].group);
}

/* Returns by how many groups it was sent. An error message for each of the others. */
static unsigned int discover_rdma_send(struct discover_rdma *rdma, const struct rblk_wire_discover *query)
{
	unsigned int sent = 0;

	for (unsigned int i = 0; i < rdma->count; i++) {
		struct discover_group *group = &rdma->groups[i];
		int err = fab_group_send(group->group, query, sizeof(*query));

		if (!err)
			sent++;
		else
			cmd_error("discover: %s: no query over RDMA: %s: %s", group->interface,
				  fab_group_device(group->group), strerror(-err));
	}
	return sent;
}

/* Fills entries, DISCOVER_GROUPS_MAX * FAB_GROUP_FDS at most; returns how many. */
static unsigned int discover_rdma_polled(const struct discover_rdma *rdma, struct pollfd *polled)
{
	for (unsigned int i = 0; i < rdma->count; i++)
		fab_group_polled(rdma->groups[i].group, polled + i * FAB_GROUP_FDS);
	return rdma->count * FAB_GROUP_FDS;
}

/* Is given a datagram, not checked, which is valid until it returns. 0, or a negative errno: no more of them. */
typedef int discover_take_fn(void *context, const void *data, size_t length, const char *interface);

/*
 * 0: that was all; 1: there may be more, which polling does not tell; or the -errno of `take`. A lost group is left, after an
 * error message.
 */
static int discover_rdma_receive(struct discover_rdma *rdma, discover_take_fn *take, void *context)
{
	struct fab_group_message message;
	const char *lost;
	bool more = false;
	int err = 0;

	for (unsigned int i = 0; i < rdma->count && !err; i++) {
		struct discover_group *group = &rdma->groups[i];
		unsigned int j = 0;

		for (; j < RECEIVES_MAX && !err && fab_group_receive(group->group, &message); j++)
			err = take(context, message.data, message.length, group->interface);
		more |= j == RECEIVES_MAX;
		lost = fab_group_lost(group->group);
		if (!lost || err)
			continue;
		cmd_error("discover: %s: no more answers over RDMA: %s", group->interface, lost);
		fab_group_leave(group->group);
		*group = rdma->groups[--rdma->count];
		i--;
	}
	return err ? err : more;
}

/* -- on all interfaces ------------------------------------------------------------------------- */

/*
 * Asks: over UDP, by a socket for each family, and over RDMA, a query into the group on each
 * network interface, sent several times because datagrams are lost, and every answer until the time is over. The
 * answers to other questions, and what is malformed, are dropped.
 */

#define ASK_TIMES 3u
#define ASK_INTERFACES_MAX 64
#define V4 0u
#define V6 1u

struct ask_interface {
	unsigned int index;
	char name[IFNAMSIZ];
	bool has[2]; /* an address of this family */
	struct sockaddr_storage first[2]; /* which: not one of IPv6 that is valid on one link */
	bool asked;
};

struct ask {
	const struct discover_question *question;
	struct rblk_wire_discover query;
	int fds[2]; /* -1: not asked over UDP, or the machine lacks the family */
	struct discover_rdma rdma;
	struct discover_list *list;
	struct ask_interface interfaces[ASK_INTERFACES_MAX];
	unsigned int interface_count;
	bool rdma_asked;
	int error; /* of the last query that could not be sent */
};

static uint64_t ask_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- interfaces -------------------------------------------------------------------------------- */

static bool ask_named(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (; *list; list += strspn(list, ",")) {
		size_t this = strcspn(list, ",");

		if (this == length && !memcmp(list, name, length))
			return true;
		list += this;
	}
	return false;
}

static bool ask_wanted(const struct ask *ask, const struct ifaddrs *at)
{
	if (!(at->ifa_flags & IFF_UP) || !at->ifa_addr)
		return false;
	if (ask->question->interfaces)
		return ask_named(ask->question->interfaces, at->ifa_name);
	return (at->ifa_flags & IFF_MULTICAST) && !(at->ifa_flags & IFF_LOOPBACK);
}

static struct ask_interface *ask_interface(struct ask *ask, const char *name)
{
	struct ask_interface *interface;
	unsigned int i, index = if_nametoindex(name);

	for (i = 0; i < ask->interface_count; i++)
		if (ask->interfaces[i].index == index)
			return &ask->interfaces[i];
	if (!index || ask->interface_count == ASK_INTERFACES_MAX)
		return NULL;
	interface = &ask->interfaces[ask->interface_count++];
	*interface = (struct ask_interface){ .index = index };
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	return interface;
}

static void ask_address(struct ask_interface *interface, const struct sockaddr *address)
{
	unsigned int family = address->sa_family == AF_INET6 ? V6 : V4;

	if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
		return;
	interface->has[family] = true;
	if (interface->first[family].ss_family)
		return;
	if (family == V4)
		memcpy(&interface->first[V4], address, sizeof(struct sockaddr_in));
	else if (!IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr))
		memcpy(&interface->first[V6], address, sizeof(struct sockaddr_in6));
}

/* 0, or -1 after an error message. */
static int ask_interfaces(struct ask *ask)
{
	struct ask_interface *interface;
	const char *name = ask->question->interfaces;
	struct ifaddrs *list;
	char word[IFNAMSIZ];
	int status = 0;

	if (getifaddrs(&list)) {
		cmd_error("network interfaces: %s", strerror(errno));
		return -1;
	}
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		interface = ask_wanted(ask, at) ? ask_interface(ask, at->ifa_name) : NULL;
		if (interface)
			ask_address(interface, at->ifa_addr);
	}
	freeifaddrs(list);
	for (; name && *name && !status; name += strspn(name, ",")) {
		size_t length = strcspn(name, ",");

		snprintf(word, sizeof(word), "%.*s", (int)length, name);
		name += length;
		status = -1;
		for (unsigned int i = 0; i < ask->interface_count; i++)
			if (length < IFNAMSIZ && !strcmp(ask->interfaces[i].name, word))
				status = 0;
		if (status)
			cmd_error("%.*s: no such network interface, or it is down", (int)length,
				  name - length);
	}
	return status;
}

/* -- sending ----------------------------------------------------------------------------------- */

static bool ask_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

/* Nobody behind a router is asked. -1: without this family. */
static int ask_open(unsigned int family)
{
	int fd = socket(family == V4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (family == V4 ? ask_set(fd, IPPROTO_IP, IP_MULTICAST_TTL, 1) &&
				   ask_set(fd, IPPROTO_IP, IP_PKTINFO, 1) :
			   ask_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
				   ask_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 1) &&
				   ask_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1))
		return fd;
	close(fd);
	return -1;
}

static bool ask_send(struct ask *ask, unsigned int family, unsigned int index)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(ask->question->port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(ask->question->port),
				   .sin6_scope_id = index };
	struct ip_mreqn by = { .imr_ifindex = (int)index };
	bool sent;

	inet_pton(AF_INET, RBLK_DISCOVER_GROUP_IPV4, &v4.sin_addr);
	inet_pton(AF_INET6, RBLK_DISCOVER_GROUP_IPV6, &v6.sin6_addr);
	if (family == V4)
		sent = !setsockopt(ask->fds[V4], IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by)) &&
		       sendto(ask->fds[V4], &ask->query, sizeof(ask->query), 0, (struct sockaddr *)&v4,
			      sizeof(v4)) >= 0;
	else
		sent = sendto(ask->fds[V6], &ask->query, sizeof(ask->query), 0, (struct sockaddr *)&v6,
			      sizeof(v6)) >= 0;
	if (!sent)
		ask->error = errno;
	return sent;
}

/* By IPv4 if there is one, for RoCE v2 has no groups of IPv6. */
static void ask_join(struct ask *ask)
{
	for (unsigned int i = 0; i < ask->interface_count; i++) {
		const struct ask_interface *interface = &ask->interfaces[i];

		for (unsigned int family = 0; family < 2; family++)
			if (interface->first[family].ss_family && !discover_rdma_has(&ask->rdma, interface->name))
				discover_rdma_join(&ask->rdma, interface->name,
						   (const struct sockaddr *)&interface->first[family]);
	}
}

static void ask_all(struct ask *ask)
{
	ask->rdma_asked |= discover_rdma_send(&ask->rdma, &ask->query) > 0;
	for (unsigned int i = 0; i < ask->interface_count; i++)
		for (unsigned int family = 0; family < 2; family++)
			if (ask->fds[family] >= 0 && ask->interfaces[i].has[family])
				ask->interfaces[i].asked |= ask_send(ask, family, ask->interfaces[i].index);
}

/* -- answers ----------------------------------------------------------------------------------- */

union ask_control {
	struct cmsghdr header; /* aligns */
	char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* The interface that the answer came by; "" where the kernel does not say. */
static const char *ask_came_by(const struct ask *ask, struct msghdr *message)
{
	unsigned int index = 0;

	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
		if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO)
			index = (unsigned int)((struct in_pktinfo *)CMSG_DATA(at))->ipi_ifindex;
		if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO)
			index = ((struct in6_pktinfo *)CMSG_DATA(at))->ipi6_ifindex;
	}
	for (unsigned int i = 0; i < ask->interface_count; i++)
		if (ask->interfaces[i].index == index)
			return ask->interfaces[i].name;
	return "";
}

/* 0 or -ENOMEM. */
static int ask_take(const struct ask *ask, const void *data, size_t length, const char *interface,
		    enum discover_over over)
{
	const struct rblk_wire_discover *answer = data;

	if (rblk_check_discover(answer, length, RBLK_DISCOVER_ANSWER) ||
	    memcmp(answer->nonce, ask->query.nonce, sizeof(answer->nonce)) ||
	    (ask->question->name && memcmp(answer->name, ask->query.name, sizeof(answer->name))))
		return 0;
	return discover_list_add(ask->list, answer, interface, over);
}

static int ask_take_rdma(void *context, const void *data, size_t length, const char *interface)
{
	return ask_take(context, data, length, interface, DISCOVER_OVER_RDMA);
}

/* One datagram. 0, 1: there is none, or -ENOMEM. */
static int ask_receive(const struct ask *ask, int fd)
{
	struct rblk_wire_discover answer;
	struct iovec data = { .iov_base = &answer, .iov_len = sizeof(answer) };
	union ask_control control;
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT);

	if (length < 0)
		return 1;
	return ask_take(ask, &answer, (size_t)length + !!(message.msg_flags & MSG_TRUNC),
			ask_came_by(ask, &message), DISCOVER_OVER_UDP);
}

/* Until this time. 0 or -ENOMEM. */
static int ask_listen(struct ask *ask, uint64_t until_ns)
{
	struct pollfd polled[2 + DISCOVER_GROUPS_MAX * FAB_GROUP_FDS] = {
		{ .fd = ask->fds[V4], .events = POLLIN }, { .fd = ask->fds[V6], .events = POLLIN } };
	uint64_t now_ns;
	nfds_t count;
	int err = 0, more;

	while (err >= 0 && (now_ns = ask_now_ns()) < until_ns) {
		more = err = discover_rdma_receive(&ask->rdma, ask_take_rdma, ask);
		count = 2 + discover_rdma_polled(&ask->rdma, polled + 2);
		if (err < 0 || poll(polled, count, more ? 0 : (int)((until_ns - now_ns) / 1000000) + 1) <= 0)
			continue;
		for (unsigned int family = 0; family < 2 && err >= 0; family++)
			if (polled[family].revents)
				err = ask_receive(ask, ask->fds[family]);
	}
	return err < 0 ? err : 0;
}

/* -- all of it --------------------------------------------------------------------------------- */

static bool ask_asked(const struct ask *ask)
{
	if (ask->rdma_asked)
		return true;
	for (unsigned int i = 0; i < ask->interface_count; i++)
		if (ask->interfaces[i].asked)
			return true;
	if (ask->question->over == DISCOVER_OVER_RDMA) {
		if (!ask->rdma.failed)
			cmd_error("discover: no network interface is up that has an RDMA device");
	} else if (!ask->interface_count)
		cmd_error("discover: no network interface is up that can multicast");
	else
		cmd_error("discover: no query could be sent on %s%s: %s", ask->interfaces[0].name,
			  ask->interface_count > 1 ? " and others" : "",
			  ask->error ? strerror(ask->error) : "it has no address");
	return false;
}

static int ask_run(struct ask *ask)
{
	uint64_t began_ns;
	int err = 0;

	if (ask_interfaces(ask))
		return -1;
	ask->rdma.wanted = ask->question->over == DISCOVER_OVER_RDMA;
	if (ask->question->over != DISCOVER_OVER_UDP && discover_fabric_here() != DISCOVER_TCP)
		ask_join(ask);
	/* Joining may take seconds, which are not the answers'. */
	began_ns = ask_now_ns();
	for (unsigned int i = 0; i < ASK_TIMES && !err; i++) {
		ask_all(ask);
		if (!ask_asked(ask))
			return -1;
		err = ask_listen(ask, began_ns + ask->question->time_ms * 1000000 / ASK_TIMES * (i + 1));
	}
	if (err)
		cmd_error("out of memory");
	return err ? -1 : 0;
}

int discover_ask(const struct discover_question *question, struct discover_list *list)
{
	struct ask ask = {
		.question = question,
		.list = list,
		.fds = { -1, -1 },
		.query = { .magic = rblk_to_le32(RBLK_MAGIC),
			   .version = rblk_to_le16(RBLK_DISCOVER_VERSION),
			   .type = rblk_to_le16(RBLK_DISCOVER_QUERY) },
	};
	int status;

	*list = (struct discover_list){ 0 };
	if (getrandom(ask.query.nonce, sizeof(ask.query.nonce), 0) != sizeof(ask.query.nonce)) {
		cmd_error("discover: no random number: %s", strerror(errno));
		return -1;
	}
	if (question->over != DISCOVER_OVER_RDMA) {
		ask.fds[V4] = ask_open(V4);
		ask.fds[V6] = ask_open(V6);
	}
	if (question->name)
		snprintf(ask.query.name, sizeof(ask.query.name), "%s", question->name);
	status = ask_run(&ask);
	discover_rdma_leave(&ask.rdma);
	for (unsigned int family = 0; family < 2; family++)
		if (ask.fds[family] >= 0)
			close(ask.fds[family]);
	if (status)
		discover_list_free(list);
	else
		discover_list_sort(list);
	return status;
}

/* -- discover:// -------------------------------------------------------------------------------- */

/* A target that is just being started, at boot, answers a later question. */
#define URI_TIMES 3

enum discover_fabric discover_fabric_here(void)
{
	struct ibv_device **devices;
	int count = 0;

	devices = ibv_get_device_list(&count);
	if (devices)
		ibv_free_device_list(devices);
	return count > 0 ? DISCOVER_ANY : DISCOVER_TCP;
}

int discover_uri_resolve(const char *text, enum discover_fabric fabric, char uri[RBLK_URI_BYTES])
{
	char name[RBLK_NAME_BYTES], volume[RBLK_NAME_BYTES], reason[DISCOVER_REASON_BYTES];
	const struct discover_question question = {
		.name = name, .port = RBLK_DEFAULT_PORT, .time_ms = DISCOVER_TIME_MS };
	struct discover_list list;
	int err = discover_uri_parse(text, name, volume, reason);

	for (unsigned int i = 0; i < URI_TIMES && !err; i++) {
		if (discover_ask(&question, &list))
			return -1;
		err = discover_uri_compose(&list, name, volume, fabric, uri, reason);
		discover_list_free(&list);
		if (!err)
			return 0;
		if (err == -ENOENT && i + 1 < URI_TIMES)
			err = 0;
	}
	cmd_error("%s", reason);
	return -1;
}
