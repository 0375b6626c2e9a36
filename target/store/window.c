/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The turns of window.h. Only waiting costs: an owner's place is looked up by its number. */
#include "target/store/window.h"

#include <assert.h>

void tgt_window_init(struct tgt_window *window, unsigned int most)
{
	window->most = most;
	window->inflight = 0;
	TAILQ_INIT(&window->waiting);
	for (unsigned int i = 0; i < TGT_WINDOW_BUCKETS; i++)
		LIST_INIT(&window->firsts[i]);
}

static struct tgt_first_list *window_bucket(struct tgt_window *window, uint64_t owner)
{
	return &window->firsts[owner % TGT_WINDOW_BUCKETS];
}

/* The owner's first that waits, or NULL. */
static struct tgt_waiter *window_first(struct tgt_window *window, uint64_t owner)
{
	struct tgt_waiter *first;

	LIST_FOREACH(first, window_bucket(window, owner), owner_link)
		if (first->owner == owner)
			return first;
	return NULL;
}

/* Takes `waiter`, its owner's first, out of the window's lists; its first follower is the first now, and belongs there next.
 * NULL: there is none. */
static struct tgt_waiter *window_succeed(struct tgt_window *window, struct tgt_waiter *waiter)
{
	struct tgt_waiter *next = TAILQ_FIRST(&waiter->followers);

	LIST_REMOVE(waiter, owner_link);
	if (!next)
		return NULL;
	TAILQ_REMOVE(&waiter->followers, next, link);
	TAILQ_INIT(&next->followers);
	TAILQ_CONCAT(&next->followers, &waiter->followers, link);
	LIST_INSERT_HEAD(window_bucket(window, next->owner), next, owner_link);
	return next;
}

bool tgt_window_enter(struct tgt_window *window, struct tgt_waiter *waiter)
{
	struct tgt_waiter *first;

	/* Those that wait come before it. */
	waiter->waiting = window->inflight >= window->most || !TAILQ_EMPTY(&window->waiting);
	if (!waiter->waiting) {
		window->inflight++;
		return true;
	}
	TAILQ_INIT(&waiter->followers);
	waiter->taken = 0;
	first = window_first(window, waiter->owner);
	if (first) {
		TAILQ_INSERT_TAIL(&first->followers, waiter, link);
	} else {
		TAILQ_INSERT_TAIL(&window->waiting, waiter, link);
		LIST_INSERT_HEAD(window_bucket(window, waiter->owner), waiter, owner_link);
	}
	return false;
}

void tgt_window_leave(struct tgt_window *window)
{
	assert(window->inflight);
	window->inflight--;
}

struct tgt_waiter *tgt_window_next(struct tgt_window *window)
{
	struct tgt_waiter *waiter = TAILQ_FIRST(&window->waiting), *next;

	if (!waiter || window->inflight >= window->most)
		return NULL;
	window->inflight++;
	waiter->waiting = false;
	TAILQ_REMOVE(&window->waiting, waiter, link);
	/* The owner's next is its first now, and goes behind the other owners when its turn is over. */
	next = window_succeed(window, waiter);
	if (!next)
		return waiter;
	next->taken = waiter->taken + 1;
	if (next->taken < waiter->owner >> 32) {
		TAILQ_INSERT_HEAD(&window->waiting, next, link);
		return waiter;
	}
	next->taken = 0;
	TAILQ_INSERT_TAIL(&window->waiting, next, link);
	return waiter;
}

void tgt_window_withdraw(struct tgt_window *window, struct tgt_waiter *waiter)
{
	struct tgt_waiter *first = window_first(window, waiter->owner), *next;

	assert(waiter->waiting && first);
	waiter->waiting = false;
	if (first != waiter) {
		TAILQ_REMOVE(&first->followers, waiter, link);
		return;
	}
	next = window_succeed(window, waiter);
	if (next) {
		next->taken = waiter->taken;
		TAILQ_INSERT_BEFORE(waiter, next, link);
	}
	TAILQ_REMOVE(&window->waiting, waiter, link);
}
