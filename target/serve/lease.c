/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The leases of lease.h: a list that only the control thread touches. Reactors lower the count of
 * users; the control thread alone raises it from 0, by a new lease, and frees what has reached 0.
 */
#include "target/serve/lease.h"

#include <stdlib.h>
#include <string.h>
#include "target/base/settings.h"
#include "target/serve/reactor_impl.h"

/* Logins of hostile or broken peers must not fill the memory: above this limit they are refused. */
#define LEASES_MAX 65536u

TAILQ_HEAD(lease_list, tgt_lease);

struct tgt_leases {
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
	struct lease_list list;
	unsigned int count;
};

struct tgt_leases *tgt_leases_create(struct tgt_reactor **reactors, unsigned int count)
{
	struct tgt_leases *leases = calloc(1, sizeof(*leases));

	if (!leases)
		return NULL;
	leases->reactors = reactors;
	leases->reactor_count = count;
	TAILQ_INIT(&leases->list);
	return leases;
}

static void lease_free(struct tgt_leases *leases, struct tgt_lease *lease)
{
	TAILQ_REMOVE(&leases->list, lease, link);
	leases->count--;
	free(lease);
}

void tgt_leases_destroy(struct tgt_leases *leases)
{
	while (leases && !TAILQ_EMPTY(&leases->list))
		lease_free(leases, TAILQ_FIRST(&leases->list));
	free(leases);
}

/* Acquire pairs with the release of the last user: no thread uses the lease any more. */
static void leases_reap(struct tgt_leases *leases)
{
	struct tgt_lease *lease, *following;

	TAILQ_FOREACH_SAFE(lease, &leases->list, link, following)
		if (!atomic_load_explicit(&lease->users, memory_order_acquire))
			lease_free(leases, lease);
}

static unsigned int reactor_choose(const struct tgt_leases *leases, const struct fab *only)
{
	unsigned int load[TGT_REACTORS_MAX] = {0};
	const struct tgt_lease *lease;
	unsigned int best = 0;

	for (unsigned int i = 0; only && i < leases->reactor_count; i++)
		if (tgt_reactor_has_fab(leases->reactors[i], only))
			return i;
	TAILQ_FOREACH(lease, &leases->list, link)
		load[lease->index]++;
	for (unsigned int i = 1; i < leases->reactor_count; i++)
		if (load[i] < load[best])
			best = i;
	return best;
}

struct tgt_lease *tgt_lease_get(struct tgt_leases *leases, const uint8_t session_id[16], const struct fab *only)
{
	struct tgt_lease *lease;

	leases_reap(leases);
	TAILQ_FOREACH(lease, &leases->list, link)
		if (!memcmp(lease->session_id, session_id, sizeof(lease->session_id))) {
			tgt_lease_share(lease);
			return lease;
		}
	lease = leases->count < LEASES_MAX ? calloc(1, sizeof(*lease)) : NULL;
	if (!lease)
		return NULL;
	memcpy(lease->session_id, session_id, sizeof(lease->session_id));
	lease->index = reactor_choose(leases, only);
	lease->reactor = leases->reactors[lease->index];
	atomic_init(&lease->users, 1);
	TAILQ_INSERT_TAIL(&leases->list, lease, link);
	leases->count++;
	return lease;
}
