/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The list of hosts: as long as there are sessions and logins of different addresses and proven names.
 */
#include "target/serve/host.h"

#include <assert.h>
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

/* FNV-1a. For a key it is the name by which reactors, each with its own record of the host, call it. */
static uint64_t number_of(const void *data, size_t size)
{
	const uint8_t *bytes = data;
	uint64_t number = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < size; i++)
		number = (number ^ bytes[i]) * 0x100000001b3ull;
	return number;
}

static struct tgt_host *host_get(struct tgt_reactor *reactor, const struct tgt_host_key *key,
				 const char name[RBLK_NAME_BYTES])
{
	struct tgt_host *host;

	TAILQ_FOREACH(host, &reactor->hosts, link) {
		if (memcmp(&host->key, key, sizeof(*key)) || memcmp(host->name, name, RBLK_NAME_BYTES))
			continue;
		tgt_host_ref(host);
		return host;
	}
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->key = *key;
	memcpy(host->name, name, RBLK_NAME_BYTES);
	host->share.number = number_of(key, sizeof(*key));
	host->users = 1;
	TAILQ_INSERT_TAIL(&reactor->hosts, host, link);
	return host;
}

struct tgt_host *tgt_host_get(struct tgt_reactor *reactor, const struct sockaddr *address)
{
	static const char none[RBLK_NAME_BYTES];
	struct tgt_host_key key;

	tgt_host_key_of(address, &key);
	return host_get(reactor, &key, none);
}

struct tgt_host *tgt_host_get_named(struct tgt_reactor *reactor, const char name[RBLK_NAME_BYTES])
{
	struct tgt_host_key key = {.family = TGT_HOST_NAMED};
	uint64_t digest;

	/* The rest of the key is what two names differ in, almost always; the list compares the names. */
	digest = number_of(name, RBLK_NAME_BYTES);
	memcpy(key.address, &digest, sizeof(digest));
	return host_get(reactor, &key, name);
}

void tgt_host_put(struct tgt_reactor *reactor, struct tgt_host *host)
{
	if (--host->users)
		return;
	/* Whatever was counted for it has been given back, also by a session that was another host's before. */
	assert(!host->sessions && !host->queues && !host->logins && !host->share.data_bytes &&
	       !host->share.report_bytes && !host->share.credits);
	TAILQ_REMOVE(&reactor->hosts, host, link);
	free(host);
}
