/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many operations may be in flight at once, and whose turn it is when more want to be: owners
 * that wait are served in turn, as many operations each as they have weight, however many wait. None
 * waits while there is room. submit.c has one for each kind of work of a channel; its reactor's thread only.
 *
 * An owner uses its turns for operations with priority first; after TGT_PRIORITY_MOST of them another one of its own
 * goes. One with priority that comes goes before all owners that wait, if its owner has had no turn in the time that
 * all turns take: so nobody gains a larger part by priority. After TGT_PRIORITY_MOST that did, one without priority has
 * to begin first: many owners that come and go would leave no turn to those that only wait. Without priority, an
 * owner's READs and its other operations take turns, so that no READ waits behind all that its machine writes.
 */
#ifndef RBLK_TARGET_STORE_INFLIGHT_H
#define RBLK_TARGET_STORE_INFLIGHT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* As above: nothing waits for ever, wherever commands wait. */
#define TGT_PRIORITY_MOST 8u
/* Owners' firsts are found by so many short lists. */
#define TGT_INFLIGHT_BUCKETS 64u

/* An owner's operations that wait; each kind is in the order in which they came. */
enum tgt_waiter_kind { TGT_WAITER_OTHER, TGT_WAITER_READ, TGT_WAITER_PRIORITY, TGT_WAITER_KINDS };

TAILQ_HEAD(tgt_waiter_list, tgt_waiter);
LIST_HEAD(tgt_first_list, tgt_waiter);

/*
 * An operation's place while it waits; a member of it. The first of each owner, which begins before its others, is in
 * the list `waiting` and keeps these behind it, each kind apart.
 */
struct tgt_waiter {
	uint64_t owner;	    /* the owner whose share it takes: tgt_inflight_owner() */
	unsigned int taken; /* of an owner's first: operations of the owner's present turn */
	uint8_t passed;	    /* likewise: operations with priority since the last one without */
	bool priority;
	bool read;
	bool read_last; /* likewise: its last one that began without priority was a READ */
	bool waiting;
	TAILQ_ENTRY(tgt_waiter) link;
	struct tgt_waiter_list followers[TGT_WAITER_KINDS]; /* of an owner's first */
	LIST_ENTRY(tgt_waiter) owner_link;		    /* likewise: in `firsts` */
};

struct tgt_inflight {
	unsigned int most; /* may change: it holds for those that begin from then on */
	unsigned int count;
	struct tgt_waiter_list waiting;			  /* each owner's first, in turn */
	struct tgt_first_list firsts[TGT_INFLIGHT_BUCKETS]; /* the same, by owner */
	uint32_t weights;				    /* of all owners that wait: operations of a round */
	uint32_t begun;					    /* counts operations that had waited */
	uint8_t jumps; /* since one without priority has begun: those that went before all owners */
	uint32_t begun_last[TGT_INFLIGHT_BUCKETS]; /* by owner: `begun` when one of its had begun last */
};

/* Any distinct number, and the owner's weight; 0 is 1. */
static inline uint64_t tgt_inflight_owner(uint32_t number, uint32_t weight)
{
	return (uint64_t)weight << 32 | number;
}

void tgt_inflight_init(struct tgt_inflight *inflight, unsigned int most);
/* It waits. The caller has set waiter->owner, priority and read. */
void tgt_inflight_wait(struct tgt_inflight *inflight, struct tgt_waiter *waiter);
/*
 * True: it may begin, and is counted. False: it waits, behind those that do already. The caller has set waiter->owner,
 * priority and read.
 */
static inline bool tgt_inflight_enter(struct tgt_inflight *inflight, struct tgt_waiter *waiter)
{
	waiter->waiting = inflight->count >= inflight->most || !TAILQ_EMPTY(&inflight->waiting);
	if (waiter->waiting)
		tgt_inflight_wait(inflight, waiter);
	else
		inflight->count++;
	return !waiter->waiting;
}
/* One has ended: tgt_inflight_next() is to be called until it returns NULL. */
static inline void tgt_inflight_leave(struct tgt_inflight *inflight)
{
	assert(inflight->count);
	inflight->count--;
}
/* One that has waited, may begin now, and is counted; NULL: there is none. */
struct tgt_waiter *tgt_inflight_next(struct tgt_inflight *inflight);
/* Cancels one that waits; the turns of others do not change. */
void tgt_inflight_withdraw(struct tgt_inflight *inflight, struct tgt_waiter *waiter);

#endif
