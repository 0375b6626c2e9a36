// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Trials of waiting against sleeping; see await.h. */
#include "proto/core/await.h"

/* Cycles of each way in a trial. Their sums decide, not their medians: a few that take long are what waking may cost. */
#define AWAIT_TRIAL 16u
/* The winner is kept for so many cycles: twice as many each time. A trial may go wrong by chance, so not for too many. */
#define AWAIT_KEEP_MIN 128u
#define AWAIT_KEEP_MAX 1024u
/* A cycle that is longer says nothing: the submitter had something else to do. */
#define AWAIT_CYCLE_MOST_NS 20000000ull
/* So many waits in vain, one after the other, ask for a new trial: others want the processor, or the answers take longer. */
#define AWAIT_FAILURES 4u
/*
 * Where waiting is kept, one command in so many is not waited for. A submitter that does not depend on its answers then
 * submits the next one meanwhile; as long as it is made to wait, that cannot be seen.
 */
#define AWAIT_PROBE 32u

enum core_await_phase {
	AWAIT_SLEEPS, /* trial, first half: no command is waited for; slept_ns grows */
	AWAIT_WAITS,  /* trial, second half: each one is waited for; waited_ns grows */
	AWAIT_KEEPS,  /* the winner's way for `left` cycles, then a new trial */
};

static void core_await_end_trial(struct core_await *await, bool wins)
{
	await->failures = 0;
	if (wins != await->wins)
		await->keep = AWAIT_KEEP_MIN;
	await->wins = wins;
	await->phase = AWAIT_KEEPS;
	await->left = await->keep;
	if (await->keep < AWAIT_KEEP_MAX)
		await->keep *= 2;
}

static void core_await_begin_trial(struct core_await *await)
{
	await->phase = AWAIT_SLEEPS;
	await->left = AWAIT_TRIAL;
	await->slept_ns = await->waited_ns = 0;
	await->begun_ns = 0; /* the cycle that has begun is not part of it */
}

void core_await_init(struct core_await *await)
{
	*await = (struct core_await){ .keep = AWAIT_KEEP_MIN };
	core_await_begin_trial(await);
}

/* This way has had all of its cycles. */
static void core_await_end_phase(struct core_await *await)
{
	switch (await->phase) {
	case AWAIT_SLEEPS:
		await->phase = AWAIT_WAITS;
		await->left = AWAIT_TRIAL;
		break;
	case AWAIT_WAITS:
		/* It has to save an eighth: it uses a processor that could sleep. */
		core_await_end_trial(await, await->waited_ns < await->slept_ns - await->slept_ns / 8);
		break;
	default:
		core_await_begin_trial(await);
	}
}

/* A cycle has ended. */
static void core_await_cycle(struct core_await *await, u64 cycle_ns)
{
	u32 left = await->left;

	if (cycle_ns > AWAIT_CYCLE_MOST_NS) {
		if (await->phase == AWAIT_WAITS)
			core_await_begin_trial(await); /* or a trial that such cycles never end would wait for ever */
		if (await->phase != AWAIT_KEEPS)
			return;
	} else if (await->waits) {
		await->waited_ns += cycle_ns;
	} else {
		await->slept_ns += cycle_ns;
	}
	/* Two submitters may count it down at once: it is written, never decremented in place. */
	if (left > 1)
		await->left = left - 1;
	else
		core_await_end_phase(await);
}

bool core_await_submit(struct core_await *await, u64 now_ns, bool alone)
{
	if (alone && await->begun_ns)
		core_await_cycle(await, now_ns - await->begun_ns);
	/* More than one at a time: whether to wait is open again. Nor would a trial end without cycles. */
	if (!alone && (await->phase == AWAIT_WAITS || (await->phase == AWAIT_KEEPS && await->wins)))
		core_await_begin_trial(await);
	await->begun_ns = alone ? now_ns : 0;
	await->waits = alone && (await->phase == AWAIT_WAITS ||
				 (await->phase == AWAIT_KEEPS && await->wins && await->left % AWAIT_PROBE));
	return await->waits;
}

void core_await_waited(struct core_await *await, bool answered)
{
	await->failures = answered ? 0 : await->failures + 1;
	if (await->failures >= AWAIT_FAILURES && await->phase == AWAIT_KEEPS) {
		await->failures = 0;
		core_await_begin_trial(await);
	}
}
