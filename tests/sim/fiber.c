/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fibers on ucontext, which begins them; from then on they are switched by _setjmp() and _longjmp(),
 * because swapcontext(3) is two system calls each time. Sanitizers know only the latter. Also poll(2) as
 * librblk's sync.c calls it (the linker leads it here): the descriptor is a simulated fabric's, whose activity
 * wakes the fiber.
 */
/* A fortified longjmp() takes another stack for a mistake. */
#undef _FORTIFY_SOURCE
#include "tests/sim/fiber.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include "proto/core/env.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

#define STACKS_MAX 32

static struct sim_fiber *running;
static ucontext_t agenda_context;
static jmp_buf agenda_jump;
static void *stacks[STACKS_MAX];
static unsigned int stacks_free;
static unsigned int locks; /* that the running fiber holds: another would wait for it for ever */

struct sim_fiber *sim_fiber_self(void)
{
	return running;
}

/* -- switching ----------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JUMPS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
	__has_feature(thread_sanitizer)
#define JUMPS 0
#endif
#endif
#ifndef JUMPS
#define JUMPS 1
#endif

/* From the agenda. */
static void fiber_enter(struct sim_fiber *fiber)
{
	bool begun = fiber->begun;

	fiber->begun = true;
	if (JUMPS && _setjmp(agenda_jump))
		return;
	if (JUMPS && begun)
		_longjmp(fiber->jump, 1);
	swapcontext(&agenda_context, &fiber->context);
}

/* To the agenda. */
static void fiber_leave(struct sim_fiber *fiber)
{
	if (locks)
		sim_fail("%s waits, and holds a lock", fiber->actor->name);
	if (!JUMPS)
		swapcontext(&fiber->context, &agenda_context);
	else if (!_setjmp(fiber->jump))
		_longjmp(agenda_jump, 1);
}

static void fiber_entry(unsigned int high, unsigned int low)
{
	struct sim_fiber *fiber = (struct sim_fiber *)((uintptr_t)high << 32 | low);

	fiber->run(fiber->arg);
	fiber->finished = true;
	fiber_leave(fiber);
}

static void fiber_resume(void *arg)
{
	struct sim_fiber *fiber = arg;
	struct sim_actor *before;

	if (fiber->finished)
		return;
	if (!fiber->hurried && sim_now_ns() < fiber->held_ns) {
		sim_event_at(&fiber->resume, fiber->held_ns);
		return;
	}
	running = fiber;
	before = sim_actor_become(fiber->actor);
	fiber_enter(fiber);
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
	fiber->held_ns = 0;
	fiber->finished = fiber->waiting = fiber->hurried = fiber->begun = false;
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
	if (fiber->waiting)
		sim_event_by(&fiber->resume, sim_now_ns() + delay_ns);
}

void sim_fiber_hold(struct sim_fiber *fiber, uint64_t ns)
{
	fiber->held_ns = sim_now_ns() + ns;
}

void sim_fiber_run(struct sim_fiber *fiber)
{
	sim_event_cancel(&fiber->resume);
	fiber_resume(fiber);
}

void sim_fiber_wait(uint64_t limit_ns)
{
	struct sim_fiber *fiber = running;

	fiber->waiting = !fiber->hurried;
	if (limit_ns != UINT64_MAX && !fiber->hurried)
		sim_event_in(&fiber->resume, limit_ns);
	fiber_leave(fiber);
	fiber->waiting = false;
}

void sim_fiber_wait_fd(int fd, uint64_t limit_ns)
{
	if (!sim_fd_ready(fd))
		sim_fiber_wait(limit_ns);
}

void sim_fiber_sleep(uint64_t ns)
{
	if (running->hurried)
		return;
	sim_event_in(&running->resume, ns);
	fiber_leave(running);
}

void sim_fiber_preempt(void)
{
	if (!running || running->hurried || locks || !sim_chance(running->preempt))
		return;
	sim_reached("thread", "loses its processor", NULL);
	sim_fiber_sleep(sim_below(sim_chance(900000) ? running->preempt_ns
						      : 100 * running->preempt_ns));
}

void sim_fiber_pin(void)
{
	locks++;
}

void sim_fiber_unpin(void)
{
	locks--;
}

bool sim_fiber_pinned(void)
{
	return locks > 0;
}

/* -- locks --------------------------------------------------------------------------------- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if (pthread_mutex_trylock(mutex))
		sim_fail("a lock is taken that is held");
	locks++;
	return 0;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	locks--;
	return __real_pthread_mutex_unlock(mutex);
}

/* Who spins lets time pass; proto/core/env.h. */
void env_yield(void)
{
	if (!running)
		return;
	if (running->hurried)
		sim_fiber_wait(0);
	else
		sim_fiber_sleep(SIM_US);
}

/* -- poll(2) ------------------------------------------------------------------------------- */

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (!running || count != 1 || fds[0].fd < SIM_FD_FIRST)
		sim_fail("poll(2) where nothing may wait");
	sim_fiber_wait_fd(fds[0].fd, timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * SIM_MS);
	fds[0].revents = POLLIN;
	return 1;
}
