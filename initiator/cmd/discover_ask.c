/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asks over UDP: a socket for each family, a query into the group on each network interface, sent
 * several times because datagrams are lost, and every answer until the time is over. The answers to
 * other questions, and what is malformed, are dropped.
 */
#include "initiator/cmd/discover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "initiator/cmd/cmd.h"
#include "proto/wire/wire_check.h"

#define ASK_TIMES 3u
#define ASK_INTERFACES_MAX 64
#define V4 0u
#define V6 1u

struct ask_interface {
	unsigned int index;
	char name[IFNAMSIZ];
	bool has[2]; /* an address of this family */
	bool asked;
};

struct ask {
	const struct discover_question *question;
	struct rblk_wire_discover query;
	int fds[2]; /* -1: the machine lacks the family */
	struct ask_interface interfaces[ASK_INTERFACES_MAX];
	unsigned int interface_count;
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
		if (interface && at->ifa_addr->sa_family == AF_INET)
			interface->has[V4] = true;
		if (interface && at->ifa_addr->sa_family == AF_INET6)
			interface->has[V6] = true;
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

static void ask_all(struct ask *ask)
{
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

/* One datagram. 0, 1: there is none, or -ENOMEM. */
static int ask_receive(const struct ask *ask, int fd, struct discover_list *list)
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
	if (rblk_check_discover(&answer, (size_t)length + !!(message.msg_flags & MSG_TRUNC),
				RBLK_DISCOVER_ANSWER) ||
	    memcmp(answer.nonce, ask->query.nonce, sizeof(answer.nonce)) ||
	    (ask->question->name &&
	     memcmp(answer.name, ask->query.name, sizeof(answer.name))))
		return 0;
	return discover_list_add(list, &answer, ask_came_by(ask, &message));
}

/* Until this time. 0 or -ENOMEM. */
static int ask_listen(const struct ask *ask, uint64_t until_ns, struct discover_list *list)
{
	struct pollfd polled[2] = { { .fd = ask->fds[V4], .events = POLLIN },
				    { .fd = ask->fds[V6], .events = POLLIN } };
	uint64_t now_ns;
	int err = 0;

	while (err >= 0 && (now_ns = ask_now_ns()) < until_ns) {
		if (poll(polled, 2, (int)((until_ns - now_ns) / 1000000) + 1) <= 0)
			continue;
		for (unsigned int family = 0; family < 2 && err >= 0; family++)
			if (polled[family].revents)
				err = ask_receive(ask, ask->fds[family], list);
	}
	return err < 0 ? err : 0;
}

/* -- all of it --------------------------------------------------------------------------------- */

static bool ask_asked(const struct ask *ask)
{
	for (unsigned int i = 0; i < ask->interface_count; i++)
		if (ask->interfaces[i].asked)
			return true;
	if (!ask->interface_count)
		cmd_error("discover: no network interface is up that can multicast");
	else
		cmd_error("discover: no query could be sent on %s%s: %s", ask->interfaces[0].name,
			  ask->interface_count > 1 ? " and others" : "",
			  ask->error ? strerror(ask->error) : "it has no address");
	return false;
}

static int ask_run(struct ask *ask, struct discover_list *list)
{
	uint64_t began_ns = ask_now_ns();
	int err = 0;

	if (ask_interfaces(ask))
		return -1;
	for (unsigned int i = 0; i < ASK_TIMES && !err; i++) {
		ask_all(ask);
		if (!ask_asked(ask))
			return -1;
		err = ask_listen(ask, began_ns + ask->question->time_ms * 1000000 / ASK_TIMES * (i + 1), list);
	}
	if (err)
		cmd_error("out of memory");
	return err ? -1 : 0;
}

int discover_ask(const struct discover_question *question, struct discover_list *list)
{
	struct ask ask = {
		.question = question,
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
	ask.fds[V4] = ask_open(V4);
	ask.fds[V6] = ask_open(V6);
	if (question->name)
		snprintf(ask.query.name, sizeof(ask.query.name), "%s", question->name);
	status = ask_run(&ask, list);
	for (unsigned int family = 0; family < 2; family++)
		if (ask.fds[family] >= 0)
			close(ask.fds[family]);
	if (status)
		discover_list_free(list);
	else
		discover_list_sort(list);
	return status;
}
