/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the grammar of options.source, see source.h. Asks no resolver. */
#include "initiator/source.h"

#include <netdb.h>
#include <string.h>

static bool source_add(const char *from, size_t length, struct ini_addresses *found)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
	struct addrinfo *list;
	char text[64]; /* an IPv6 address with its zone fits */

	if (length >= sizeof(text) || found->count == INI_ADDRESSES_MAX)
		return false;
	memcpy(text, from, length);
	text[length] = '\0';
	if (getaddrinfo(text, NULL, &hints, &list))
		return false;
	memcpy(&found->of[found->count++], list->ai_addr, list->ai_addrlen);
	freeaddrinfo(list);
	return true;
}

const char *ini_source_parse(const char *text, u16 hosts, struct ini_addresses *found)
{
	memset(found, 0, sizeof(*found));
	for (;;) {
		size_t length = strcspn(text, ",");

		if (!length || !source_add(text, length, found))
			return "is no address, nor several by commas";
		if (found->count > hosts)
			return "has more addresses than there are hosts";
		if (!text[length])
			return NULL;
		text += length + 1;
	}
}

const struct sockaddr *ini_source_of(const struct ini_addresses *sources, u16 host)
{
	return sources->count ? (const struct sockaddr *)&sources->of[host % sources->count] : NULL;
}
