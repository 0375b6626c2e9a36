/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The turns of window.h. Only waiting costs: an owner's place is found by a search through all. */
#include "target/store/window.h"

#include <assert.h>

void tgt_window_init(struct tgt_window *window, unsigned int most)
{
	window->most = most;
	window->inflight = 0;
	TAILQ_INIT(&window->waiting);
}

/* The owner's first that waits, or NULL. */
static struct tgt_waiter *window_first(struct tgt_window *window, uint64_t owner)
{
	struct tgt_waiter *first;

	TAILQ_FOREACH(first, &window->waiting, link)
		if (first->owner == owner)
			return first;
	return NULL;
}

/* Takes the first follower out of `waiter`, and the others behind it; NULL: there is none. */
static struct tgt_waiter *waiter_next(struct tgt_waiter *waiter)
{
	struct tgt_waiter *next = TAILQ_FIRST(&waiter->followers);

	if (!next)
		return NULL;
	TAILQ_REMOVE(&waiter->followers, next, link);
	TAILQ_INIT(&next->followers);
	TAILQ_CONCAT(&next->followers, &waiter->followers, link);
	return next;
}

bool tgt_window_enter(struct tgt_window *window, struct tgt_waiter *waiter)
{
	struct tgt_waiter *first;

	/* While one waits there is no room: each that ends starts the next. */
	waiter->waiting = window->inflight >= window->most;
	if (!waiter->waiting) {
		window->inflight++;
		return true;
	}
	TAILQ_INIT(&waiter->followers);
	waiter->taken = 0;
	first = window_first(window, waiter->owner);
	if (first)
		TAILQ_INSERT_TAIL(&first->followers, waiter, link);
	else
		TAILQ_INSERT_TAIL(&window->waiting, waiter, link);
	return false;
}

struct tgt_waiter *tgt_window_leave(struct tgt_window *window)
{
	struct tgt_waiter *waiter = TAILQ_FIRST(&window->waiting), *next;

	assert(window->inflight);
	if (!waiter) {
		window->inflight--;
		return NULL;
	}
	waiter->waiting = false;
	TAILQ_REMOVE(&window->waiting, waiter, link);
	/* The owner's next is its first now, and goes behind the other owners when its turn is over. */
	next = waiter_next(waiter);
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
	next = waiter_next(waiter);
	if (next) {
		next->taken = waiter->taken;
		TAILQ_INSERT_BEFORE(waiter, next, link);
	}
	TAILQ_REMOVE(&window->waiting, waiter, link);
}
