/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Simulated threads: a function with a stack of its own that runs until it waits, and goes on when
 * its event comes up. Applications are such, because librblk's blocking calls (opening a volume,
 * closing a session) wait in the middle: their poll(2) is this file's.
 */
#ifndef RBLK_TESTS_SIM_FIBER_H
#define RBLK_TESTS_SIM_FIBER_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>
#include "tests/sim/actor.h"
#include "tests/sim/clock.h"

#define SIM_FIBER_STACK (256u << 10)

/* Created by its owner, who keeps it until it has finished; the stack is reused from seed to seed.
 */
struct sim_fiber {
	struct sim_event resume;
	struct sim_actor *actor; /* as which it runs */
	ucontext_t context;
	void (*run)(void *arg);
	void *arg;
	void *stack;
	bool finished;
	bool ready; /* something happened since the fiber looked last */
};

/* Begins to run at once, from the agenda. */
void sim_fiber_start(struct sim_fiber *fiber, struct sim_actor *actor, void (*run)(void *arg),
		     void *arg);
void sim_fiber_fini(struct sim_fiber *fiber);
/* Something happened that it may wait for: it goes on after `delay_ns`. */
void sim_fiber_wake(struct sim_fiber *fiber, uint64_t delay_ns);
/* Of the fiber that runs: wait for a wake, at most so long (UINT64_MAX: no limit). */
void sim_fiber_wait(uint64_t limit_ns);
void sim_fiber_sleep(uint64_t ns);
/* The one that runs; NULL in the agenda's own time. */
struct sim_fiber *sim_fiber_self(void);

#endif
