/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The answers to one question, put together: a target answers on each network, each time with the
 * portals of that network. Pure; the validator has checked every answer.
 */
#include "initiator/cmd/discover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct discovered *list_find(const struct discover_list *list,
				    const struct rblk_wire_discover *answer)
{
	for (unsigned int i = 0; i < list->count; i++)
		if (!memcmp(list->targets[i].instance, answer->instance, sizeof(answer->instance)) &&
		    !memcmp(list->targets[i].name, answer->name, sizeof(answer->name)))
			return &list->targets[i];
	return NULL;
}

static void portal_add(struct discover_list *list, struct discovered *target,
		       const struct rblk_wire_portal *wire)
{
	struct discover_portal portal = { .port = rblk_le16(wire->port), .kind = wire->kind };

	memcpy(portal.address, wire->address, sizeof(portal.address));
	if (portal.kind != RBLK_PORTAL_RDMA && portal.kind != RBLK_PORTAL_TCP)
		return; /* of a later version */
	for (unsigned int i = 0; i < target->portal_count; i++) {
		const struct discover_portal *known = &target->portals[i];

		if (known->port == portal.port && known->kind == portal.kind &&
		    !memcmp(known->address, portal.address, sizeof(portal.address)))
			return;
	}
	if (target->portal_count == DISCOVER_PORTALS_MAX)
		list->left_out++;
	else
		target->portals[target->portal_count++] = portal;
}

int discover_list_add(struct discover_list *list, const struct rblk_wire_discover *answer,
		      const char *interface, enum discover_over over)
{
	struct discovered *target = list_find(list, answer);
	uint16_t count = rblk_le16(answer->portal_count);

	if (!target) {
		if (list->count == DISCOVER_TARGETS_MAX) {
			list->left_out++;
			return 0;
		}
		target = realloc(list->targets, (list->count + 1) * sizeof(*target));
		if (!target)
			return -ENOMEM;
		list->targets = target;
		target = &list->targets[list->count++];
		*target = (struct discovered){ .protocol = rblk_le16(answer->protocol) };
		memcpy(target->name, answer->name, sizeof(target->name));
		memcpy(target->instance, answer->instance, sizeof(target->instance));
		snprintf(target->interface, sizeof(target->interface), "%s", interface);
	}
	target->over |= over;
	for (uint16_t i = 0; i < count; i++)
		portal_add(list, target, &answer->portals[i]);
	return 0;
}

static int list_compare(const void *a, const void *b)
{
	const struct discovered *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : memcmp(x->instance, y->instance, sizeof(x->instance));
}

void discover_list_sort(struct discover_list *list)
{
	if (list->count)
		qsort(list->targets, list->count, sizeof(*list->targets), list_compare);
}

void discover_list_free(struct discover_list *list)
{
	free(list->targets);
	*list = (struct discover_list){ 0 };
}

const char *discover_portal_format(const struct discover_portal *portal, char *text)
{
	const char *scheme = portal->kind == RBLK_PORTAL_RDMA ? "rblk" : "rblk+tcp";
	char host[INET6_ADDRSTRLEN] = "";
	struct in6_addr in6;
	bool v4;

	memcpy(&in6, portal->address, sizeof(in6));
	v4 = IN6_IS_ADDR_V4MAPPED(&in6);
	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? portal->address + 12 : portal->address, host, sizeof(host));
	snprintf(text, DISCOVER_PORTAL_BYTES, v4 ? "%s://%s:%u" : "%s://[%s]:%u", scheme, host, portal->port);
	return text;
}
