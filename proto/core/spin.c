/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The adaptive decision between polling and sleeping.
 */
#include "proto/core/spin.h"

#include "proto/core/env.h"

/* The average follows a change of load within some 8 gaps. */
#define SPIN_GAP_SHIFT 3
/* Gaps scatter: one that is no longer than this many averages is still worth waiting for. */
#define SPIN_GAPS 4
/* One long silence counts as no more than this many spins, so that bursts are found again soon. */
#define SPIN_GAP_CAP 4

/* A slow turn: one without work takes this long only if somebody else had the processor. */
#define SPIN_SLOW_NS 1000000ull
/* It is lost only if it is this part of the time since the last slow one at least. A fair share is one half, and scatters. */
#define SPIN_LOST_PART 3
/* So many in a row that another thread took are no coincidence. */
#define SPIN_LOST_TURNS 3
/* Longer than so many turns take: after as long without them the processor counts as free again. */
#define SPIN_CROWDED_MIN_NS 40000000ull
#define SPIN_CROWDED_MAX_NS 640000000ull

/*
 * So many gaps are slept through before one is polled again: twice as many each time that it was no use, so that soon
 * attempts cost a five-hundredth of the gaps' time at most.
 */
#define SPIN_REST_MIN 8
#define SPIN_REST_MAX 512
/* Nothing is polled if gaps are longer: so few events are not worth it, and a hypervisor's time slices are shorter. */
#define SPIN_TRY_NS 10000000ull
/* So many of the longest spins such an attempt lasts at most; with the longest spin that there is, SPIN_TRY_NS. */
#define SPIN_TRY_SPINS 5
/* After so many gaps that only slept_ns speaks for, some are slept through, to measure it again. */
#define SPIN_DOUBTS 64

/*
 * The longest spin: so many wake-ups, but not more than that time. With fixed times, 50 us in rblkd and 200 us in librblk,
 * neither polled at depth 1 in an emulated machine whose wake-ups take 120 to 160 us.
 */
#define SPIN_WAKE_UPS 16
#define SPIN_MAX_MOST_NS 2000000ull

u64 core_spin_max_ns(u64 wake_ns, u64 least_ns)
{
	u64 max_ns = wake_ns * SPIN_WAKE_UPS;

	if (!wake_ns || wake_ns > SPIN_MAX_MOST_NS / SPIN_WAKE_UPS)
		max_ns = SPIN_MAX_MOST_NS;
	return max_ns > least_ns ? max_ns : least_ns;
}

void core_spin_init(struct core_spin *spin, u64 max_ns)
{
	spin->max_ns = max_ns;
	spin->gap_ns = max_ns;
	spin->slept_ns = 0;
	spin->idle_since_ns = 0;
	spin->turn_ns = 0;
	spin->crowded_ns = 0;
	spin->sleep_until_ns = 0;
	spin->slow_ns = 0;
	spin->slow_cpu_ns = 0;
	spin->lost_turns = 0;
	spin->polled = false;
	spin->slept_long = false;
	spin->rest = 0;
	spin->last_rest = 0;
	spin->gains = 0;
	spin->doubts = 0;
}

/*
 * After a slow turn: does another thread take the processor again and again, each time for about as long as it leaves
 * it to this one? The thread's time is read after slow turns alone, because that is a system call. Two loops that poll share
 * a processor, too, but yield to each other: a slow turn is a hypervisor's then, and short beside the time since the
 * last one.
 */
static bool spin_lost(struct core_spin *spin, u64 now_ns)
{
	u64 cpu_ns = env_thread_cpu_ns();
	u64 ran_ns = cpu_ns - spin->slow_cpu_ns;
	u64 wall_ns = now_ns - spin->slow_ns, turn_ns = now_ns - spin->turn_ns;
	u64 lost_ns = wall_ns > ran_ns ? wall_ns - ran_ns : 0;

	if (spin->slow_ns && lost_ns >= turn_ns / 2 && turn_ns >= wall_ns / SPIN_LOST_PART)
		spin->lost_turns++;
	else
		spin->lost_turns = 0;
	spin->slow_ns = now_ns;
	spin->slow_cpu_ns = cpu_ns;
	return spin->lost_turns >= SPIN_LOST_TURNS;
}

/*
 * Did another thread take the processor since the last call? Each time in a row, sleep longer. True: the turn was slow, and
 * it is not known when in it the work came.
 */
static bool spin_watch(struct core_spin *spin, u64 now_ns)
{
	if (spin->turn_ns && now_ns - spin->turn_ns >= SPIN_SLOW_NS) {
		/* It was no polling. But the spin does not begin anew: with many slow turns it would never end. */
		if (spin->idle_since_ns)
			spin->idle_since_ns += now_ns - spin->turn_ns;
		if (!spin_lost(spin, now_ns))
			return true;
		spin->crowded_ns *= 2;
		if (spin->crowded_ns < SPIN_CROWDED_MIN_NS)
			spin->crowded_ns = SPIN_CROWDED_MIN_NS;
		if (spin->crowded_ns > SPIN_CROWDED_MAX_NS)
			spin->crowded_ns = SPIN_CROWDED_MAX_NS;
		spin->sleep_until_ns = now_ns + spin->crowded_ns;
		return true;
	}
	/* It has not happened for as long again: it has ended. */
	if (spin->crowded_ns && now_ns >= spin->sleep_until_ns &&
	    now_ns - spin->sleep_until_ns >= spin->crowded_ns)
		spin->crowded_ns = 0;
	return false;
}

static void spin_average(u64 *average_ns, u64 gap_ns, u64 cap_ns)
{
	if (gap_ns > cap_ns)
		gap_ns = cap_ns;
	*average_ns += gap_ns >> SPIN_GAP_SHIFT;
	*average_ns -= *average_ns >> SPIN_GAP_SHIFT;
}

/* Polling pays if the work comes within the longest spin, or in half the time that it takes if the loop sleeps. */
static bool spin_pays(const struct core_spin *spin)
{
	u64 slept_ns = spin->slept_ns;

	/* As long as a polled gap can be. */
	if (slept_ns > spin->max_ns * SPIN_GAP_CAP)
		slept_ns = spin->max_ns * SPIN_GAP_CAP;
	return spin->gap_ns <= spin->max_ns || spin->gap_ns <= slept_ns / 2;
}

/* As much is said for polling as against it. */
static void spin_try(struct core_spin *spin)
{
	spin->rest = 0;
	spin->gap_ns = spin->max_ns;
}

static void spin_learn_polled(struct core_spin *spin, u64 gap_ns)
{
	spin_average(&spin->gap_ns, gap_ns, spin->max_ns * SPIN_GAP_CAP);
	if (spin_pays(spin)) {
		spin->gains += spin->gains < SPIN_REST_MAX;
		spin->doubts += spin->gap_ns > spin->max_ns;
		if (spin->doubts < SPIN_DOUBTS)
			return;
		spin->doubts = 0;
		spin->rest = SPIN_REST_MIN;
		return;
	}
	spin->doubts = 0;
	spin->last_rest = spin->gains < spin->last_rest ? spin->last_rest * 2 : SPIN_REST_MIN;
	if (spin->last_rest > SPIN_REST_MAX)
		spin->last_rest = SPIN_REST_MAX;
	spin->rest = spin->last_rest;
	spin->gains = 0;
}

static void spin_learn_slept(struct core_spin *spin, u64 gap_ns)
{
	bool was_long = spin->slept_long;

	if (!spin->slept_ns)
		spin->slept_ns = gap_ns < SPIN_TRY_NS ? gap_ns : SPIN_TRY_NS;
	spin_average(&spin->slept_ns, gap_ns, 2 * SPIN_TRY_NS);
	spin->slept_long = spin->slept_ns > spin->max_ns;
	if (spin->rest > 1)
		spin->rest--;
	else if (spin->rest && spin->slept_ns <= SPIN_TRY_NS)
		spin_try(spin);
	/* It has become busy. */
	if (was_long && !spin->slept_long)
		spin_try(spin);
}

void core_spin_leave(struct core_spin *spin)
{
	spin->turn_ns = 0;
	spin->idle_since_ns = 0;
	spin->slow_ns = 0;
	spin->polled = false;
}

bool core_spin_sleeps(const struct core_spin *spin, u64 now_ns)
{
	return !spin->max_ns || spin->rest || now_ns < spin->sleep_until_ns;
}

/* After a turn without work: is it time to sleep? */
static bool spin_is_over(const struct core_spin *spin, u64 now_ns)
{
	u64 limit_ns = spin->gap_ns * SPIN_GAPS, most_ns = spin->max_ns;

	if (core_spin_sleeps(spin, now_ns))
		return true;
	/* The peer may be asleep: this attempt has to outlast its wake-up, so that the peer finds that it pays, too. */
	if (most_ns < spin->slept_ns)
		most_ns = spin->slept_ns < most_ns * SPIN_TRY_SPINS ? spin->slept_ns : most_ns * SPIN_TRY_SPINS;
	if (limit_ns > most_ns)
		limit_ns = most_ns;
	return now_ns - spin->idle_since_ns >= limit_ns;
}

/* The work has come; `slow`: it is not known when. */
static void spin_learn(struct core_spin *spin, u64 now_ns, bool slow)
{
	u64 gap_ns = now_ns - spin->idle_since_ns;

	if (spin->max_ns && spin->idle_since_ns && !slow) {
		if (spin->polled)
			spin_learn_polled(spin, gap_ns);
		else if (now_ns >= spin->sleep_until_ns)
			spin_learn_slept(spin, gap_ns);
	}
	spin->idle_since_ns = 0;
	spin->polled = false;
}

bool core_spin_turn(struct core_spin *spin, u64 now_ns, unsigned int work)
{
	bool slow;

	if (spin->max_ns == (u64)-1)
		return false;
	slow = spin->max_ns && spin_watch(spin, now_ns);
	spin->turn_ns = 0;
	if (work) {
		spin_learn(spin, now_ns, slow);
		return false;
	}
	if (!spin->idle_since_ns)
		spin->idle_since_ns = now_ns ? now_ns : 1;
	if (spin_is_over(spin, now_ns)) {
		/* That the thread does not run while it sleeps is no loss. */
		spin->slow_ns = 0;
		return true;
	}
	spin->turn_ns = now_ns ? now_ns : 1;
	spin->polled = true;
	return false;
}
