/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reactor of a session. All logins of a session go to one reactor, its home; the lease says to
 * which, as long as a login of the session is pending or the session exists. The control thread takes leases,
 * for the connection requests that it hands out; logins and sessions give them back, on their
 * reactor's thread.
 */
#ifndef RBLK_TARGET_LEASE_H
#define RBLK_TARGET_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "target/base/list.h"

struct fab;
struct tgt_reactor;
struct tgt_leases;

struct tgt_lease {
	TAILQ_ENTRY(tgt_lease) link; /* the control thread's */
	uint8_t session_id[16];
	struct tgt_reactor *reactor;
	unsigned int index;	    /* of the reactor */
	_Atomic unsigned int users; /* pending logins and sessions; never raised from 0 */
};

/* -- control thread ---------------------------------------------------------------------------- */

/* NULL: no memory. The array of reactors is the caller's, and outlives the leases. */
struct tgt_leases *tgt_leases_create(struct tgt_reactor **reactors, unsigned int count);
void tgt_leases_destroy(struct tgt_leases *leases); /* nobody uses one; NULL: nothing */

/*
 * The session's lease with one more user; a new one, on the reactor with the fewest, or the one that
 * has the only fab that can accept its first request, if it has none. NULL: out of memory, or there are too many.
 */
struct tgt_lease *tgt_lease_get(struct tgt_leases *leases, const uint8_t session_id[16], const struct fab *only);

/* -- the lease's reactor ----------------------------------------------------------------------- */

/* A session begins, from a login that has the lease. NULL: nothing, as below. */
static inline void tgt_lease_share(struct tgt_lease *lease)
{
	if (lease)
		atomic_fetch_add_explicit(&lease->users, 1, memory_order_relaxed);
}

static inline void tgt_lease_put(struct tgt_lease *lease)
{
	if (lease)
		atomic_fetch_sub_explicit(&lease->users, 1, memory_order_release);
}

#endif
