/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The turns of inflight.h. Only waiting costs: an owner's place is looked up by its number. */
#include "target/store/inflight.h"

#include <assert.h>

void tgt_inflight_init(struct tgt_inflight *inflight, unsigned int most)
{
	inflight->most = most;
	inflight->count = 0;
	TAILQ_INIT(&inflight->waiting);
	inflight->weights = 0;
	inflight->begun = 0;
	inflight->jumps = 0;
	for (unsigned int i = 0; i < TGT_INFLIGHT_BUCKETS; i++) {
		LIST_INIT(&inflight->firsts[i]);
		inflight->begun_last[i] = UINT32_MAX / 2; /* long ago */
	}
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

static enum tgt_waiter_kind kind_of(const struct tgt_waiter *waiter)
{
	return waiter->priority ? TGT_WAITER_PRIORITY : waiter->read ? TGT_WAITER_READ : TGT_WAITER_OTHER;
}

static uint32_t owner_weight(uint64_t owner)
{
	return owner >> 32 ? (uint32_t)(owner >> 32) : 1;
}

/* `next` is its owner's first in place of `waiter`, with all that are behind that one. */
static void inflight_replace(struct tgt_inflight *inflight, struct tgt_waiter *waiter, struct tgt_waiter *next)
{
	LIST_REMOVE(waiter, owner_link);
	LIST_INSERT_HEAD(inflight_bucket(inflight, next->owner), next, owner_link);
	for (unsigned int i = 0; i < TGT_WAITER_KINDS; i++) {
		TAILQ_INIT(&next->followers[i]);
		TAILQ_CONCAT(&next->followers[i], &waiter->followers[i], link);
	}
	next->taken = waiter->taken;
	next->passed = waiter->passed;
	next->read_last = waiter->read_last;
}

/* Behind an owner's first: the next without priority, or NULL. */
static struct tgt_waiter *inflight_plain(const struct tgt_waiter *first)
{
	struct tgt_waiter *read = TAILQ_FIRST(&first->followers[TGT_WAITER_READ]);
	struct tgt_waiter *other = TAILQ_FIRST(&first->followers[TGT_WAITER_OTHER]);

	return read && (!other || !first->read_last) ? read : other;
}

/* Takes `waiter`, its owner's first, out of the lists; one of its followers is the first now, and belongs there next.
 * NULL: there is none. */
static struct tgt_waiter *inflight_succeed(struct tgt_inflight *inflight, struct tgt_waiter *waiter)
{
	struct tgt_waiter *plain = inflight_plain(waiter), *next = TAILQ_FIRST(&waiter->followers[TGT_WAITER_PRIORITY]);

	if (!next || (plain && waiter->passed >= TGT_PRIORITY_MOST))
		next = plain;
	if (!next) {
		LIST_REMOVE(waiter, owner_link);
		inflight->weights -= owner_weight(waiter->owner);
		return NULL;
	}
	TAILQ_REMOVE(&waiter->followers[kind_of(next)], next, link);
	inflight_replace(inflight, waiter, next);
	return next;
}

/* It is its owner's first: may it go before all others? Only if the owner has had no turn for a round. */
static bool inflight_may_jump(const struct tgt_inflight *inflight, const struct tgt_waiter *waiter)
{
	uint32_t since = inflight->begun - inflight->begun_last[waiter->owner % TGT_INFLIGHT_BUCKETS];

	return waiter->priority && inflight->jumps < TGT_PRIORITY_MOST &&
	       since >= inflight->weights / owner_weight(waiter->owner);
}

/* Behind those of its owner that go before it. */
void tgt_inflight_wait(struct tgt_inflight *inflight, struct tgt_waiter *waiter)
{
	struct tgt_waiter *first = inflight_first(inflight, waiter->owner);

	if (first && (!waiter->priority || first->priority || first->passed >= TGT_PRIORITY_MOST)) {
		TAILQ_INSERT_TAIL(&first->followers[kind_of(waiter)], waiter, link);
		return;
	}
	if (first) {
		inflight_replace(inflight, first, waiter);
		TAILQ_INSERT_BEFORE(first, waiter, link);
		TAILQ_REMOVE(&inflight->waiting, first, link);
		TAILQ_INSERT_HEAD(&waiter->followers[kind_of(first)], first, link);
	} else {
		waiter->taken = 0;
		waiter->passed = 0;
		waiter->read_last = false;
		for (unsigned int i = 0; i < TGT_WAITER_KINDS; i++)
			TAILQ_INIT(&waiter->followers[i]);
		TAILQ_INSERT_TAIL(&inflight->waiting, waiter, link);
		LIST_INSERT_HEAD(inflight_bucket(inflight, waiter->owner), waiter, owner_link);
		inflight->weights += owner_weight(waiter->owner);
	}
	if (inflight_may_jump(inflight, waiter)) {
		inflight->jumps++;
		TAILQ_REMOVE(&inflight->waiting, waiter, link);
		TAILQ_INSERT_HEAD(&inflight->waiting, waiter, link);
	}
}

struct tgt_waiter *tgt_inflight_next(struct tgt_inflight *inflight)
{
	struct tgt_waiter *waiter = TAILQ_FIRST(&inflight->waiting), *next;

	if (!waiter || inflight->count >= inflight->most)
		return NULL;
	inflight->count++;
	waiter->waiting = false;
	TAILQ_REMOVE(&inflight->waiting, waiter, link);
	inflight->begun_last[waiter->owner % TGT_INFLIGHT_BUCKETS] = ++inflight->begun;
	waiter->passed = waiter->priority && inflight_plain(waiter) ? waiter->passed + 1 : 0;
	if (!waiter->priority) {
		waiter->read_last = waiter->read;
		inflight->jumps = 0;
	}
	/* The owner's next is its first now, and goes behind the other owners when its turn is over. */
	next = inflight_succeed(inflight, waiter);
	if (!next)
		return waiter;
	next->taken++;
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
		TAILQ_REMOVE(&first->followers[kind_of(waiter)], waiter, link);
		return;
	}
	next = inflight_succeed(inflight, waiter);
	if (next)
		TAILQ_INSERT_BEFORE(waiter, next, link);
	TAILQ_REMOVE(&inflight->waiting, waiter, link);
}
