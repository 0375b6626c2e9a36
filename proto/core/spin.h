/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Poll, then arm: how long a loop that found no work keeps polling before it sleeps. Waking up
 * costs tens of microseconds, so polling pays only if the next work is expected sooner than
 * `max_ns`. Learns from the gaps between work; clock readings in, a decision out.
 *
 * Polling does not pay either where other threads want the processor: a thread that polls all the
 * time has used up its share when the work comes, and waits for a time slice; a thread that slept
 * would run at once. This shows as a turn without work that lasted milliseconds. The loop then
 * sleeps instead of polling, for a time that grows as long as each new attempt ends in the same
 * way.
 */
#ifndef RBLK_CORE_SPIN_H
#define RBLK_CORE_SPIN_H

#include "proto/wire/types.h"

struct core_spin {
	u64 max_ns;	   /* longest spin; 0: never spin. (u64)-1: never sleep */
	u64 gap_ns;	   /* running average of the gaps between work */
	u64 idle_since_ns; /* of the first turn without work; 0: the last turn had some */
	u64 turn_ns;	   /* of the last turn, if it had no work and no sleep followed; else 0 */
	u64 crowded_ns;	   /* no spinning so long if the processor is taken again; 0: it was not */
	u64 sleep_until_ns; /* no spinning before */
};

void core_spin_init(struct core_spin *spin, u64 max_ns);

/* The loop's owner does something else now: the time until the next turn is not counted. */
void core_spin_leave(struct core_spin *spin);

/* After each turn: how much there was to do in it. True: sleep now, until something arrives. */
bool core_spin_turn(struct core_spin *spin, u64 now_ns, unsigned int work);

#endif
