/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fibers on ucontext. Also poll(2) as librblk's sync.c calls it (the linker leads it here): the
 * descriptor is a simulated fabric's, whose activity wakes the fiber.
 */
#include "tests/sim/fiber.h"

#include <poll.h>
#include <stdlib.h>
#include "proto/core/env.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/trace.h"

#define STACKS_MAX 32

static struct sim_fiber *running;
static ucontext_t agenda_context;
static void *stacks[STACKS_MAX];
static unsigned int stacks_free;

struct sim_fiber *sim_fiber_self(void)
{
	return running;
}

static void fiber_entry(unsigned int high, unsigned int low)
{
	struct sim_fiber *fiber = (struct sim_fiber *)((uintptr_t)high << 32 | low);

	fiber->run(fiber->arg);
	fiber->finished = true;
	swapcontext(&fiber->context, &agenda_context);
}

static void fiber_resume(void *arg)
{
	struct sim_fiber *fiber = arg;
	struct sim_actor *before;

	if (fiber->finished)
		return;
	running = fiber;
	before = sim_actor_become(fiber->actor);
	swapcontext(&agenda_context, &fiber->context);
	sim_actor_become(before);
	running = NULL;
}

void sim_fiber_start(struct sim_fiber *fiber, struct sim_actor *actor, void (*run)(void *arg),
		     void *arg)
{
	uintptr_t self = (uintptr_t)fiber;

	fiber->actor = actor;
	fiber->run = run;
	fiber->arg = arg;
	fiber->finished = false;
	fiber->ready = false;
	fiber->resume = (struct sim_event){.run = fiber_resume, .arg = fiber};
	fiber->stack = stacks_free ? stacks[--stacks_free] : malloc(SIM_FIBER_STACK);
	if (!fiber->stack || getcontext(&fiber->context))
		sim_fail("no stack for a fiber");
	fiber->context.uc_stack.ss_sp = fiber->stack;
	fiber->context.uc_stack.ss_size = SIM_FIBER_STACK;
	fiber->context.uc_link = NULL;
	makecontext(&fiber->context, (void (*)(void))fiber_entry, 2, (unsigned int)(self >> 32),
		    (unsigned int)self);
	sim_event_in(&fiber->resume, 0);
}

void sim_fiber_fini(struct sim_fiber *fiber)
{
	sim_event_cancel(&fiber->resume);
	if (fiber->stack && stacks_free < STACKS_MAX)
		stacks[stacks_free++] = fiber->stack;
	else
		free(fiber->stack);
	fiber->stack = NULL;
}

void sim_fiber_wake(struct sim_fiber *fiber, uint64_t delay_ns)
{
	fiber->ready = true;
	if (running != fiber && !fiber->finished)
		sim_event_by(&fiber->resume, sim_now_ns() + delay_ns);
}

void sim_fiber_wait(uint64_t limit_ns)
{
	struct sim_fiber *fiber = running;

	if (fiber->ready) {
		/* It came in between: go round once more, a little later. */
		limit_ns = limit_ns < SIM_US ? limit_ns : SIM_US;
	}
	fiber->ready = false;
	if (limit_ns != UINT64_MAX)
		sim_event_in(&fiber->resume, limit_ns);
	swapcontext(&fiber->context, &agenda_context);
}

void sim_fiber_sleep(uint64_t ns)
{
	uint64_t until_ns = sim_now_ns() + ns;

	while (sim_now_ns() < until_ns) {
		running->ready = false;
		sim_fiber_wait(until_ns - sim_now_ns());
	}
}

/* Who spins lets time pass; proto/core/env.h. */
void env_yield(void)
{
	if (running)
		sim_fiber_sleep(SIM_US);
}

/* -- poll(2) ------------------------------------------------------------------------------- */

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (!running || count != 1 || fds[0].fd < SIM_FD_FIRST)
		sim_fail("poll(2) where nothing may wait");
	sim_fiber_wait(timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * SIM_MS);
	fds[0].revents = POLLIN;
	return 1;
}
