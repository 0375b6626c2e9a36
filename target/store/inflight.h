/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many operations may be in flight at once, and whose turn it is when more want to be: owners
 * that wait are served in turn, as many operations each as they have weight, however many wait. None
 * waits while there is room. submit.c has one for each kind of work of a channel; its reactor's thread only.
 */
#ifndef RBLK_TARGET_STORE_INFLIGHT_H
#define RBLK_TARGET_STORE_INFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Owners' firsts are found by so many short lists. */
#define TGT_INFLIGHT_BUCKETS 64u

TAILQ_HEAD(tgt_waiter_list, tgt_waiter);
LIST_HEAD(tgt_first_list, tgt_waiter);

/*
 * An operation's place while it waits; a member of it. The first of each owner is in the
 * list `waiting` and keeps the owner's others behind it, in the order in which they came.
 */
struct tgt_waiter {
	uint64_t owner;	    /* the owner whose share it takes: tgt_inflight_owner() */
	unsigned int taken; /* of an owner's first: operations of the owner's present turn */
	TAILQ_ENTRY(tgt_waiter) link;
	struct tgt_waiter_list followers;    /* of an owner's first */
	LIST_ENTRY(tgt_waiter) owner_link; /* likewise: in `firsts` */
	bool waiting;
};

struct tgt_inflight {
	unsigned int most; /* may change: it holds for those that begin from then on */
	unsigned int count;
	struct tgt_waiter_list waiting;			  /* each owner's first, in turn */
	struct tgt_first_list firsts[TGT_INFLIGHT_BUCKETS]; /* the same, by owner */
};

/* Any distinct number, and the owner's weight; 0 is 1. */
static inline uint64_t tgt_inflight_owner(uint32_t number, uint32_t weight)
{
	return (uint64_t)weight << 32 | number;
}

void tgt_inflight_init(struct tgt_inflight *inflight, unsigned int most);
/* True: it may begin, and is counted. False: it waits. waiter->owner is set. */
bool tgt_inflight_enter(struct tgt_inflight *inflight, struct tgt_waiter *waiter);
/* One has ended. */
void tgt_inflight_leave(struct tgt_inflight *inflight);
/* Then, until it is NULL: one that may begin, and is counted. */
struct tgt_waiter *tgt_inflight_next(struct tgt_inflight *inflight);
/* Cancels one that waits; the turns of others do not change. */
void tgt_inflight_withdraw(struct tgt_inflight *inflight, struct tgt_waiter *waiter);

#endif
