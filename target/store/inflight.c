/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The turns of inflight.h. Only waiting costs: an owner's place is looked up by its number. */
#include "target/store/inflight.h"

#include <assert.h>

void tgt_inflight_init(struct tgt_inflight *inflight, unsigned int most)
{
	inflight->most = most;
	inflight->count = 0;
	TAILQ_INIT(&inflight->waiting);
	for (unsigned int i = 0; i < TGT_INFLIGHT_BUCKETS; i++)
		LIST_INIT(&inflight->firsts[i]);
}

static struct tgt_first_list *inflight_bucket(struct tgt_inflight *inflight, uint64_t owner)
{
	return &inflight->firsts[owner % TGT_INFLIGHT_BUCKETS];
}

/* The owner's first that waits, or NULL. */
static struct tgt_waiter *inflight_first(struct tgt_inflight *inflight, uint64_t owner)
{
	struct tgt_waiter *first;

	LIST_FOREACH(first, inflight_bucket(inflight, owner), owner_link)
	if (first->owner == owner)
		return first;
	return NULL;
}

/* Takes `waiter`, its owner's first, out of the lists; its first follower is the first now, and belongs there next.
 * NULL: there is none. */
static struct tgt_waiter *inflight_succeed(struct tgt_inflight *inflight, struct tgt_waiter *waiter)
{
	struct tgt_waiter *next = TAILQ_FIRST(&waiter->followers);

	LIST_REMOVE(waiter, owner_link);
	if (!next)
		return NULL;
	TAILQ_REMOVE(&waiter->followers, next, link);
	TAILQ_INIT(&next->followers);
	TAILQ_CONCAT(&next->followers, &waiter->followers, link);
	LIST_INSERT_HEAD(inflight_bucket(inflight, next->owner), next, owner_link);
	return next;
}

bool tgt_inflight_enter(struct tgt_inflight *inflight, struct tgt_waiter *waiter)
{
	struct tgt_waiter *first;

	/* Those that wait come before it. */
	waiter->waiting = inflight->count >= inflight->most || !TAILQ_EMPTY(&inflight->waiting);
	if (!waiter->waiting) {
		inflight->count++;
		return true;
	}
	TAILQ_INIT(&waiter->followers);
	waiter->taken = 0;
	first = inflight_first(inflight, waiter->owner);
	if (first) {
		TAILQ_INSERT_TAIL(&first->followers, waiter, link);
	} else {
		TAILQ_INSERT_TAIL(&inflight->waiting, waiter, link);
		LIST_INSERT_HEAD(inflight_bucket(inflight, waiter->owner), waiter, owner_link);
	}
	return false;
}

void tgt_inflight_leave(struct tgt_inflight *inflight)
{
	assert(inflight->count);
	inflight->count--;
}

struct tgt_waiter *tgt_inflight_next(struct tgt_inflight *inflight)
{
	struct tgt_waiter *waiter = TAILQ_FIRST(&inflight->waiting), *next;

	if (!waiter || inflight->count >= inflight->most)
		return NULL;
	inflight->count++;
	waiter->waiting = false;
	TAILQ_REMOVE(&inflight->waiting, waiter, link);
	/* The owner's next is its first now, and goes behind the other owners when its turn is over. */
	next = inflight_succeed(inflight, waiter);
	if (!next)
		return waiter;
	next->taken = waiter->taken + 1;
	if (next->taken < waiter->owner >> 32) {
		TAILQ_INSERT_HEAD(&inflight->waiting, next, link);
		return waiter;
	}
	next->taken = 0;
	TAILQ_INSERT_TAIL(&inflight->waiting, next, link);
	return waiter;
}

void tgt_inflight_withdraw(struct tgt_inflight *inflight, struct tgt_waiter *waiter)
{
	struct tgt_waiter *first = inflight_first(inflight, waiter->owner), *next;

	assert(waiter->waiting && first);
	waiter->waiting = false;
	if (first != waiter) {
		TAILQ_REMOVE(&first->followers, waiter, link);
		return;
	}
	next = inflight_succeed(inflight, waiter);
	if (next) {
		next->taken = waiter->taken;
		TAILQ_INSERT_BEFORE(waiter, next, link);
	}
	TAILQ_REMOVE(&inflight->waiting, waiter, link);
}
