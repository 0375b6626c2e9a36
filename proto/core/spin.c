/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The adaptive decision between polling and sleeping.
 */
#include "proto/core/spin.h"

/* The average follows a change of load within some 8 gaps. */
#define SPIN_GAP_SHIFT 3
/* Gaps scatter: one that is no longer than this many averages is still worth waiting for. */
#define SPIN_GAPS 4
/* One long silence counts as no more than this many spins, so that bursts are found again soon. */
#define SPIN_GAP_CAP 8

/* A turn without work takes this long only if another thread had the processor. */
#define SPIN_TAKEN_NS 1000000ull
#define SPIN_CROWDED_MIN_NS 10000000ull
#define SPIN_CROWDED_MAX_NS 640000000ull

void core_spin_init(struct core_spin *spin, u64 max_ns)
{
	spin->max_ns = max_ns;
	spin->gap_ns = max_ns;
	spin->idle_since_ns = 0;
	spin->turn_ns = 0;
	spin->crowded_ns = 0;
	spin->sleep_until_ns = 0;
}

/* Did another thread take the processor since the last call? Each time in a row, sleep longer. */
static void spin_watch(struct core_spin *spin, u64 now_ns)
{
	if (spin->turn_ns && now_ns - spin->turn_ns >= SPIN_TAKEN_NS) {
		spin->crowded_ns *= 2;
		if (spin->crowded_ns < SPIN_CROWDED_MIN_NS)
			spin->crowded_ns = SPIN_CROWDED_MIN_NS;
		if (spin->crowded_ns > SPIN_CROWDED_MAX_NS)
			spin->crowded_ns = SPIN_CROWDED_MAX_NS;
		spin->sleep_until_ns = now_ns + spin->crowded_ns;
		/* It is not known when the work came. */
		spin->idle_since_ns = 0;
	} else if (spin->crowded_ns && now_ns >= spin->sleep_until_ns &&
		   now_ns - spin->sleep_until_ns >= spin->crowded_ns) {
		/* It has not happened for as long again: it has ended. */
		spin->crowded_ns = 0;
	}
}

static void spin_learn(struct core_spin *spin, u64 gap_ns)
{
	u64 cap = spin->max_ns * SPIN_GAP_CAP;

	if (gap_ns > cap)
		gap_ns = cap;
	spin->gap_ns += gap_ns >> SPIN_GAP_SHIFT;
	spin->gap_ns -= spin->gap_ns >> SPIN_GAP_SHIFT;
}

void core_spin_leave(struct core_spin *spin)
{
	spin->turn_ns = 0;
	spin->idle_since_ns = 0;
}

bool core_spin_turn(struct core_spin *spin, u64 now_ns, unsigned int work)
{
	u64 limit_ns;

	if (spin->max_ns == (u64)-1)
		return false;
	if (spin->max_ns)
		spin_watch(spin, now_ns);
	spin->turn_ns = 0;
	if (work) {
		if (spin->max_ns && spin->idle_since_ns)
			spin_learn(spin, now_ns - spin->idle_since_ns);
		spin->idle_since_ns = 0;
		return false;
	}
	if (!spin->idle_since_ns)
		spin->idle_since_ns = now_ns ? now_ns : 1;
	if (!spin->max_ns || spin->gap_ns > spin->max_ns || now_ns < spin->sleep_until_ns)
		return true;
	limit_ns = spin->gap_ns * SPIN_GAPS;
	if (limit_ns > spin->max_ns)
		limit_ns = spin->max_ns;
	if (now_ns - spin->idle_since_ns >= limit_ns)
		return true;
	spin->turn_ns = now_ns ? now_ns : 1;
	return false;
}
