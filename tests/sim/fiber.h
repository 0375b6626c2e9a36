/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Simulated threads: a function with a stack of its own that runs until it waits, and goes on when
 * its event comes up. Applications are such, because librblk's blocking calls (opening a volume,
 * closing a session) wait in the middle: their poll(2) is this file's. So are a target's threads
 * (thread.c). Wherever the code under test calls the simulated kernel or device its thread may lose
 * the processor (sim_fiber_preempt), and the world goes on without it.
 */
#ifndef RBLK_TESTS_SIM_FIBER_H
#define RBLK_TESTS_SIM_FIBER_H

#include <setjmp.h>
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
	ucontext_t context; /* as which it begins; and the jump by which it goes on */
	jmp_buf jump;
	void (*run)(void *arg);
	void *arg;
	void *stack;
	bool begun, finished;
	bool waiting; /* for a wake */
	bool hurried; /* its process is dead or ends: no time passes for it any more */
	uint32_t preempt; /* of a million calls: how often it loses the processor */
	uint64_t preempt_ns;
	uint64_t held_ns; /* until then it does not run */
};

/* Begins to run at once, from the agenda. */
void sim_fiber_start(struct sim_fiber *fiber, struct sim_actor *actor, void (*run)(void *arg),
		     void *arg);
void sim_fiber_fini(struct sim_fiber *fiber);
/* Something happened: if it waits, it goes on after `delay_ns`. */
void sim_fiber_wake(struct sim_fiber *fiber, uint64_t delay_ns);
/* It has no processor for so long, whatever happens. */
void sim_fiber_hold(struct sim_fiber *fiber, uint64_t ns);
/* Let a hurried one run, now, until it would wait. */
void sim_fiber_run(struct sim_fiber *fiber);
/* Of the fiber that runs: wait for a wake, at most so long (UINT64_MAX: no limit). The caller itself
 * looks at what has happened before. */
void sim_fiber_wait(uint64_t limit_ns);
/* The same, until a descriptor is readable, which somebody must have armed. */
void sim_fiber_wait_fd(int fd, uint64_t limit_ns);
/* Nothing wakes it. */
void sim_fiber_sleep(uint64_t ns);
/* Until as many unpins: whoever runs keeps its processor, and does not wait. */
void sim_fiber_pin(void);
void sim_fiber_unpin(void);
bool sim_fiber_pinned(void);
/* The processor is taken from it, perhaps. In the agenda's own time: nothing. */
void sim_fiber_preempt(void);
/* The one that runs; NULL in the agenda's own time. */
struct sim_fiber *sim_fiber_self(void);

#endif
