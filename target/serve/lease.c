/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The leases of lease.h: an array that only the control thread touches. Reactors lower the count of
 * users; the control thread alone raises it from 0, by a new lease, and frees what has reached 0.
 */
#include "target/serve/lease.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/settings.h"

/* Logins of hostile or broken peers must not fill the memory: above this limit they are refused. */
#define LEASES_MAX 65536u
#define LEASES_FIRST 16u

struct tgt_leases {
	struct tgt_reactor **reactors;
	unsigned int reactor_count;
	struct tgt_lease **leases;
	unsigned int count, room;
};

int tgt_leases_create(struct tgt_reactor **reactors, unsigned int count, struct tgt_leases **out)
{
	struct tgt_leases *leases = calloc(1, sizeof(*leases));

	if (!leases)
		return -ENOMEM;
	leases->reactors = reactors;
	leases->reactor_count = count;
	*out = leases;
	return 0;
}

void tgt_leases_destroy(struct tgt_leases *leases)
{
	if (!leases)
		return;
	for (unsigned int i = 0; i < leases->count; i++)
		free(leases->leases[i]);
	free(leases->leases);
	free(leases);
}

/* Acquire pairs with the release of the last user: no thread uses the lease any more. */
static void leases_reap(struct tgt_leases *leases)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < leases->count; i++) {
		struct tgt_lease *lease = leases->leases[i];

		if (atomic_load_explicit(&lease->users, memory_order_acquire))
			leases->leases[kept++] = lease;
		else
			free(lease);
	}
	leases->count = kept;
}

static unsigned int reactor_least_loaded(const struct tgt_leases *leases)
{
	unsigned int load[TGT_REACTORS_MAX] = {0};
	unsigned int best = 0;

	for (unsigned int i = 0; i < leases->count; i++)
		load[leases->leases[i]->index]++;
	for (unsigned int i = 1; i < leases->reactor_count; i++)
		if (load[i] < load[best])
			best = i;
	return best;
}

static bool leases_grow(struct tgt_leases *leases)
{
	unsigned int room = leases->room ? leases->room * 2 : LEASES_FIRST;
	struct tgt_lease **grown;

	if (leases->count < leases->room)
		return true;
	if (room > LEASES_MAX)
		return false;
	grown = reallocarray(leases->leases, room, sizeof(*grown));
	if (!grown)
		return false;
	leases->leases = grown;
	leases->room = room;
	return true;
}

struct tgt_lease *tgt_lease_get(struct tgt_leases *leases, const uint8_t session_id[16])
{
	struct tgt_lease *lease;

	leases_reap(leases);
	for (unsigned int i = 0; i < leases->count; i++) {
		lease = leases->leases[i];
		if (memcmp(lease->session_id, session_id, sizeof(lease->session_id)))
			continue;
		tgt_lease_share(lease);
		return lease;
	}
	if (!leases_grow(leases))
		return NULL;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return NULL;
	memcpy(lease->session_id, session_id, sizeof(lease->session_id));
	lease->index = reactor_least_loaded(leases);
	lease->reactor = leases->reactors[lease->index];
	atomic_init(&lease->users, 1);
	leases->leases[leases->count++] = lease;
	return lease;
}
