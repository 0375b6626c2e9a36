/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Poll, then arm: how long a loop that found nothing goes on looking before it sleeps. Waking up
 * costs tens of microseconds, so looking pays while the next work is expected sooner than `max_ns`,
 * and not at all otherwise. Learns from the gaps between work; clock readings in, a decision out.
 *
 * Nor does it pay where others want the processor: who looks all the time has used up its share when
 * the work comes, and waits for a slice of time to pass, where one that slept would be let in at
 * once. That shows as a turn without work that lasted milliseconds. Then the loop sleeps instead, for
 * a while that grows as long as each new attempt ends in the same way.
 */
#ifndef RBLK_CORE_SPIN_H
#define RBLK_CORE_SPIN_H

#include "proto/wire/types.h"

struct core_spin {
	u64 max_ns;	   /* longest spin; 0: never spin. (u64)-1: never sleep */
	u64 gap_ns;	   /* running average of the gaps between work */
	u64 idle_since_ns; /* of the first turn without work; 0: the last turn had some */
	u64 turn_ns;	   /* of the last turn, if it had no work and no sleep followed; else 0 */
	u64 crowded_ns;	   /* how long not to spin when the processor was taken away again; 0: it was not */
	u64 sleep_until_ns; /* no spinning before */
};

void core_spin_init(struct core_spin *spin, u64 max_ns);

/* The loop's owner goes away to do something else: the time until the next turn says nothing. */
void core_spin_leave(struct core_spin *spin);

/* After each turn: how much there was to do in it. True: sleep now, until something arrives. */
bool core_spin_turn(struct core_spin *spin, u64 now_ns, unsigned int work);

#endif
