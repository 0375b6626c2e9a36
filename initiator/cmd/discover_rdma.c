/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asks over RDMA: a queue pair of unreliable datagrams on the RDMA device of each network interface, which
 * sends into the multicast group, and gets the answers that are sent to itself. discover_ask.c says what
 * is asked, when, and which answers are right.
 */
#include "initiator/cmd/discover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include "initiator/cmd/cmd.h"

/* A turn takes at most so many datagrams from a group: others have a turn, too. */
#define RECEIVES_MAX 64u

void discover_rdma_join(struct discover_rdma *rdma, const char *interface, const struct sockaddr *local)
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

bool discover_rdma_has(const struct discover_rdma *rdma, const char *interface)
{
	for (unsigned int i = 0; i < rdma->count; i++)
		if (!strcmp(rdma->groups[i].interface, interface))
			return true;
	return false;
}

void discover_rdma_leave(struct discover_rdma *rdma)
{
	while (rdma->count)
		fab_group_leave(rdma->groups[--rdma->count].group);
}

unsigned int discover_rdma_send(struct discover_rdma *rdma, const struct rblk_wire_discover *query)
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

unsigned int discover_rdma_polled(const struct discover_rdma *rdma, struct pollfd *polled)
{
	for (unsigned int i = 0; i < rdma->count; i++)
		fab_group_polled(rdma->groups[i].group, polled + i * FAB_GROUP_FDS);
	return rdma->count * FAB_GROUP_FDS;
}

int discover_rdma_receive(struct discover_rdma *rdma, discover_take_fn *take, void *context)
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
