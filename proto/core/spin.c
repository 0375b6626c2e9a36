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

void core_spin_init(struct core_spin *spin, u64 max_ns)
{
	spin->max_ns = max_ns;
	spin->gap_ns = max_ns;
	spin->idle_since_ns = 0;
}

static void spin_learn(struct core_spin *spin, u64 gap_ns)
{
	u64 cap = spin->max_ns * SPIN_GAP_CAP;

	if (gap_ns > cap)
		gap_ns = cap;
	spin->gap_ns += gap_ns >> SPIN_GAP_SHIFT;
	spin->gap_ns -= spin->gap_ns >> SPIN_GAP_SHIFT;
}

bool core_spin_turn(struct core_spin *spin, u64 now_ns, unsigned int work)
{
	u64 limit_ns;

	if (spin->max_ns == (u64)-1)
		return false;
	if (work) {
		if (spin->max_ns && spin->idle_since_ns)
			spin_learn(spin, now_ns - spin->idle_since_ns);
		spin->idle_since_ns = 0;
		return false;
	}
	if (!spin->idle_since_ns)
		spin->idle_since_ns = now_ns ? now_ns : 1;
	if (!spin->max_ns || spin->gap_ns > spin->max_ns)
		return true;
	limit_ns = spin->gap_ns * SPIN_GAPS;
	if (limit_ns > spin->max_ns)
		limit_ns = spin->max_ns;
	return now_ns - spin->idle_since_ns >= limit_ns;
}
