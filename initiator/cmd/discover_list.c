/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns what the answers of discovery mean: the targets that there are, and which one discover://NAME names. */
#include "initiator/cmd/discover.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/uri.h"
#include "proto/wire/wire_check.h"

/* -- answers ----------------------------------------------------------------------------------- */

/*
 * The answers to one question, put together: a target answers on each network, each time with the
 * portals of that network. Pure; the validator has checked every answer.
 */

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

/* -- URIs -------------------------------------------------------------------------------------- */

/*
 * discover://NAME/VOLUME: a URI that names a target instead of its hosts. Its grammar, and the URI with
 * hosts that the answers to a question make of it.
 */

#define SCHEME "discover://"

bool discover_uri_is(const char *text)
{
	return !strncmp(text, SCHEME, strlen(SCHEME));
}

static bool uri_name(const char *from, size_t length, char name[RBLK_NAME_BYTES])
{
	memset(name, 0, RBLK_NAME_BYTES);
	if (length >= RBLK_NAME_BYTES)
		return false;
	memcpy(name, from, length);
	return rblk_name_valid(name);
}

int discover_uri_parse(const char *text, char name[RBLK_NAME_BYTES], char volume[RBLK_NAME_BYTES],
		       char *reason)
{
	const char *from = text + strlen(SCHEME);
	size_t length = strcspn(from, "/");
	const char *rest = from[length] ? from + length + 1 : "";

	memset(volume, 0, RBLK_NAME_BYTES);
	if (uri_name(from, length, name) && (!*rest || uri_name(rest, strlen(rest), volume)))
		return 0;
	snprintf(reason, DISCOVER_REASON_BYTES,
		 "%.80s: names of target and volume, as in discover://NAME/VOLUME, have 1 to %d letters, "
		 "digits and . _ : + -",
		 text, RBLK_NAME_BYTES - 1);
	return -EINVAL;
}

/* The hosts of this kind; how many. */
static unsigned int uri_hosts(const struct discovered *target, uint8_t kind, char *uri)
{
	char portal[DISCOVER_PORTAL_BYTES];
	unsigned int hosts = 0;
	size_t length = 0;

	for (unsigned int i = 0; i < target->portal_count && hosts < INI_URI_HOSTS; i++) {
		if (target->portals[i].kind != kind)
			continue;
		discover_portal_format(&target->portals[i], portal);
		/* One scheme is for all hosts behind it. */
		length += (size_t)snprintf(uri + length, RBLK_URI_BYTES - length, "%s%s", hosts ? "," : "",
					   hosts ? strstr(portal, "://") + 3 : portal);
		hosts++;
	}
	return hosts;
}

int discover_uri_compose(const struct discover_list *list, const char *name, const char *volume,
			 enum discover_fabric fabric, char uri[RBLK_URI_BYTES], char *reason)
{
	const struct discovered *target = list->targets;
	size_t length;

	if (!list->count) {
		snprintf(reason, DISCOVER_REASON_BYTES, "%s: no target of this name answered", name);
		return -ENOENT;
	}
	if (list->count > 1) {
		snprintf(reason, DISCOVER_REASON_BYTES,
			 "%s: %u targets of this name answered; see rblk discover, and give a host instead",
			 name, list->count);
		return -ENOTUNIQ;
	}
	if (!(fabric != DISCOVER_TCP && uri_hosts(target, RBLK_PORTAL_RDMA, uri)) &&
	    !(fabric != DISCOVER_RDMA && uri_hosts(target, RBLK_PORTAL_TCP, uri))) {
		snprintf(reason, DISCOVER_REASON_BYTES, "%s: it tells no address for %s", name,
			 fabric == DISCOVER_RDMA ? "RDMA" : fabric == DISCOVER_TCP ? "TCP" : "RDMA or TCP");
		return -EADDRNOTAVAIL;
	}
	length = strlen(uri);
	snprintf(uri + length, RBLK_URI_BYTES - length, "%s%s", volume[0] ? "/" : "", volume);
	return 0;
}
