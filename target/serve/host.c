/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The list of hosts: as long as there are sessions and logins of different addresses.
 */
#include "target/serve/host.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

void tgt_host_key_of(const struct sockaddr *address, struct tgt_host_key *out)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	struct tgt_host_key key = {.family = 0};

	if (address->sa_family == AF_INET) {
		key.address[10] = key.address[11] = 0xff;
		memcpy(&key.address[12], &in->sin_addr, sizeof(in->sin_addr));
	} else if (address->sa_family == AF_INET6) {
		memcpy(key.address, &in6->sin6_addr, sizeof(key.address));
		key.scope = in6->sin6_scope_id;
	} else {
		key.family = address->sa_family;
	}
	*out = key;
}

/* FNV-1a: what reactors, each with its own record of the host, call it. */
static uint64_t host_number(const struct tgt_host_key *key)
{
	const uint8_t *bytes = (const uint8_t *)key;
	uint64_t number = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof(*key); i++)
		number = (number ^ bytes[i]) * 0x100000001b3ull;
	return number;
}

struct tgt_host *tgt_host_get(struct tgt_reactor *reactor, const struct sockaddr *address)
{
	struct tgt_host_key key;
	struct tgt_host *host;

	tgt_host_key_of(address, &key);
	TAILQ_FOREACH(host, &reactor->hosts, link) {
		if (memcmp(&host->key, &key, sizeof(key)))
			continue;
		tgt_host_ref(host);
		return host;
	}
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->key = key;
	host->share.number = host_number(&key);
	host->users = 1;
	TAILQ_INSERT_TAIL(&reactor->hosts, host, link);
	return host;
}

void tgt_host_put(struct tgt_reactor *reactor, struct tgt_host *host)
{
	if (--host->users)
		return;
	TAILQ_REMOVE(&reactor->hosts, host, link);
	free(host);
}
