/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The threads and eventfds of thread.h.
 */
#include "tests/sim/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include "tests/sim/coverage.h"
#include "tests/sim/rados.h"
#include "tests/sim/socket_sim.h"
#include "tests/sim/trace.h"

/* So often a thread that is to end may say that it would wait. */
#define ROUNDS_MAX 20000u

/* -- threads ------------------------------------------------------------------------------- */

static void thread_run(void *arg)
{
	struct sim_thread *thread = arg;

	thread->run(thread->argument);
	if (thread->ended)
		thread->ended(thread);
}

void sim_thread_start(struct sim_thread *thread, void *(*run)(void *argument), void *argument)
{
	thread->run = run;
	thread->argument = argument;
	thread->started = true;
	sim_fiber_start(&thread->fiber, &thread->actor, thread_run, thread);
}

void sim_threads_finish(struct sim_thread *const *threads, unsigned int count)
{
	bool all = false;

	for (unsigned int round = 0; !all; round++) {
		if (round == ROUNDS_MAX)
			sim_fail("%s: its process does not end", threads[0]->actor.name);
		all = true;
		for (unsigned int i = 0; i < count; i++) {
			struct sim_thread *thread = threads[i];

			if (!thread->started || thread->fiber.finished)
				continue;
			thread->fiber.hurried = true;
			sim_fiber_run(&thread->fiber);
			all &= thread->fiber.finished;
		}
		/* Those of librados, which others wait for. */
		if (sim_rados_process_is_dead(threads[0]->actor.machine))
			sim_rados_process_hurry(threads[0]->actor.machine);
	}
	for (unsigned int i = 0; i < count; i++) {
		if (threads[i]->started)
			sim_fiber_fini(&threads[i]->fiber);
		threads[i]->started = false;
	}
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument)
{
	struct sim_thread *thread = (struct sim_thread *)sim_actor_self();

	(void)attributes;
	memset(id, 0, sizeof(*id));
	sim_thread_start(thread, run, argument);
	return 0;
}

/* Who takes a process apart has seen to it that its threads have ended. */
int __wrap_pthread_join(pthread_t id, void **result);
int __wrap_pthread_join(pthread_t id, void **result)
{
	(void)id;
	(void)result;
	return 0;
}

int __wrap_pthread_setname_np(pthread_t id, const char *name);
int __wrap_pthread_setname_np(pthread_t id, const char *name)
{
	(void)id;
	(void)name;
	return 0;
}

/* -- eventfds ---------------------------------------------------------------------------------- */

static struct {
	bool used;
	eventfd_t count;
	struct sim_actor *reader; /* NULL: not watched */
} eventfds[SIM_EVENTFDS_MAX];

void sim_eventfds_reset(void)
{
	memset(eventfds, 0, sizeof(eventfds));
}

bool sim_eventfd_is(int fd)
{
	return fd >= SIM_EVENTFD_FIRST && fd < SIM_EVENTFD_FIRST + SIM_EVENTFDS_MAX;
}

bool sim_eventfd_ready(int fd)
{
	return eventfds[fd - SIM_EVENTFD_FIRST].count > 0;
}

void sim_eventfd_watched(int fd, struct sim_actor *actor)
{
	if (sim_eventfd_is(fd))
		eventfds[fd - SIM_EVENTFD_FIRST].reader = actor;
}

bool sim_eventfd_close(int fd)
{
	if (!sim_eventfd_is(fd))
		return false;
	memset(&eventfds[fd - SIM_EVENTFD_FIRST], 0, sizeof(eventfds[0]));
	return true;
}

int __wrap_eventfd(unsigned int count, int flags);
int __wrap_eventfd(unsigned int count, int flags)
{
	(void)flags;
	for (int i = 0; i < SIM_EVENTFDS_MAX; i++) {
		if (eventfds[i].used)
			continue;
		eventfds[i].used = true;
		eventfds[i].count = count;
		eventfds[i].reader = NULL;
		return SIM_EVENTFD_FIRST + i;
	}
	sim_fail("too many eventfds");
}

int __wrap_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_write(int fd, eventfd_t value)
{
	sim_fiber_preempt();
	sim_reached("eventfd", "is written to", NULL);
	eventfds[fd - SIM_EVENTFD_FIRST].count += value;
	sim_epoll_written(fd);
	if (eventfds[fd - SIM_EVENTFD_FIRST].reader)
		sim_actor_wake(eventfds[fd - SIM_EVENTFD_FIRST].reader);
	sim_fiber_preempt();
	return 0;
}

int __wrap_eventfd_read(int fd, eventfd_t *value);
int __wrap_eventfd_read(int fd, eventfd_t *value)
{
	sim_fiber_preempt();
	/* As a semaphore. */
	*value = eventfds[fd - SIM_EVENTFD_FIRST].count > 0;
	eventfds[fd - SIM_EVENTFD_FIRST].count -= *value;
	if (*value)
		return 0;
	errno = EAGAIN;
	return -1;
}
