/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Poll, then arm: how long a loop that found no work keeps polling before it sleeps. Waking up
 * costs some to hundreds of microseconds, so polling pays only if the next work is expected sooner than
 * `max_ns`. Learns from the gaps between work; clock readings in, a decision out. Only the loop's own thread
 * calls these: after a slow turn they read its processor time (env.h).
 *
 * Polling does not pay either where other threads want the processor: a thread that polls all the
 * time has used up its share when the work comes, and waits for a time slice; a thread that slept
 * would run at once. This shows as slow turns: turns without work that last milliseconds, in which the
 * thread did not run, one soon after another. The loop then sleeps instead of polling, for a time that
 * grows as long as each new attempt ends in the same way.
 *
 * If the thread's own time says that it ran, a hypervisor had stopped the processor. That costs a
 * sleeping thread as much time as a polling one, and the sleeping one has to be woken besides: the
 * loop goes on polling.
 *
 * How long the work takes to come can depend on the polling itself. Where a hypervisor has more to run than processors, a
 * thread that sleeps gives its processor back, and waits milliseconds for it when it is woken; one that polls may also take
 * it from the very thread that the work comes from. So gaps that were polled and gaps that were slept through are averaged
 * apart, and while it sleeps the loop polls through a gap now and then.
 */
#ifndef RBLK_CORE_SPIN_H
#define RBLK_CORE_SPIN_H

#include "proto/wire/types.h"

struct core_spin {
	u64 max_ns;	   /* longest spin, but for attempts after slow wake-ups; 0: never spin. (u64)-1: never sleep */
	u64 gap_ns;	   /* running average of the gaps between work that were polled, in whole or in part */
	u64 slept_ns;	   /* the same of those that were slept through at once */
	u64 idle_since_ns; /* of the first turn without work; 0: the last turn had some */
	u64 turn_ns;	   /* of the last turn, if it had no work and no sleep followed; else 0 */
	u64 crowded_ns;	   /* no spinning so long if the processor is taken again; 0: it was not */
	u64 sleep_until_ns; /* no spinning before */
	u64 slow_ns;	   /* end of the last slow turn (milliseconds, no work), if no sleep followed; else 0 */
	u64 slow_cpu_ns;   /* processor time that the thread had used by then */
	u32 lost_turns;	   /* slow turns in a row that another thread took */
	bool polled;	   /* there was a turn since the last work that no sleep followed */
	bool slept_long;   /* gaps that are slept through are longer than the longest spin */
	u32 rest;	   /* so many gaps more are slept through before one is polled */
	u32 last_rest;	   /* what `rest` was set to the last time */
	u32 gains;	   /* gaps since then for which polling paid */
	u32 doubts;	   /* those that were longer than the longest spin: slept_ns speaks for polling, and may be old */
};

/*
 * The longest spin where a wake-up takes wake_ns (env_wake_ns()): some times that, because a sleep costs a wake-up at
 * each end, and the time that the peer waits. Not less than least_ns. 0, which
 * could not be measured, counts as slow: the longest that there is.
 */
u64 core_spin_max_ns(u64 wake_ns, u64 least_ns);

void core_spin_init(struct core_spin *spin, u64 max_ns);

/* The loop's owner does something else now: the time until the next turn is not counted. */
void core_spin_leave(struct core_spin *spin);

/* After each turn: how much there was to do in it. True: sleep now, until something arrives. */
bool core_spin_turn(struct core_spin *spin, u64 now_ns, unsigned int work);

/* After a turn with work: would the next one without any end in sleep? Then a loop that can sleep at once, because what
 * arrives wakes it, saves that turn, and calls core_spin_turn() in its place. */
bool core_spin_sleeps(const struct core_spin *spin, u64 now_ns);

#endif
