/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The interfaces of discovery_interfaces.h. */
#include "target/watch/discovery_interfaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "target/base/log.h"

/* Is the word in the list, which blanks or commas separate? */
static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (list += strspn(list, " ,"); *list; list += strspn(list, " ,")) {
		size_t this = strcspn(list, " ,");

		if (this == length && !memcmp(list, word, length))
			return true;
		list += this;
	}
	return false;
}

bool tgt_discovery_interface_wanted(const char *wanted, const struct ifaddrs *at)
{
	if (!(at->ifa_flags & IFF_UP))
		return false;
	if (!strcmp(wanted, "all"))
		return (at->ifa_flags & IFF_MULTICAST) && !(at->ifa_flags & IFF_LOOPBACK);
	return list_has(wanted, at->ifa_name);
}

int tgt_discovery_changes_open(void)
{
	struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int err = errno;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		err = errno;
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		tgt_log(TGT_LOG_WARNING, "discovery: network interfaces that come later are noticed late: %s",
			strerror(err));
	return fd;
}

bool tgt_discovery_changes_read(int changes)
{
	char buffer[4096];
	bool changed = false;
	ssize_t length;

	/* Bounded: what comes meanwhile is read the next time. Lost notices are a change, too. */
	for (unsigned int i = 0; i < 64; i++) {
		length = recv(changes, buffer, sizeof(buffer), 0);
		if (length < 0 && errno != ENOBUFS)
			break;
		changed = true;
	}
	return changed;
}
