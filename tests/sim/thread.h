/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Threads of a simulated target process: fibers, to which the linker leads pthread_create(3) and
 * pthread_join(3) of the code under test, so that the reactor's own loop runs with its sleeping and
 * waking. Also eventfd(2), by which its eventfd wakes it.
 */
#ifndef RBLK_TESTS_SIM_THREAD_H
#define RBLK_TESTS_SIM_THREAD_H

#include <stdbool.h>
#include "tests/sim/fiber.h"

/* A descriptor of eventfd(2), of FIRST and up. */
#define SIM_EVENTFD_FIRST (1 << 22)
#define SIM_EVENTFDS_MAX 64

/* Whoever creates a thread does it as the actor that the thread is to be: embedded in this. */
struct sim_thread {
	struct sim_actor actor; /* first */
	struct sim_fiber fiber;
	bool started;
	void *(*run)(void *argument);
	void *argument;
	void (*ended)(struct sim_thread *thread); /* it has; on its own stack */
	void (*sleeps)(struct sim_thread *thread); /* it is about to: is it right to? */
};

void sim_thread_start(struct sim_thread *thread, void *(*run)(void *argument), void *argument);
/* Its process is dead, or about to end: `threads` run until they have, no time passes meanwhile. */
void sim_threads_finish(struct sim_thread *const *threads, unsigned int count);

void sim_eventfds_reset(void);
bool sim_eventfd_is(int fd);
bool sim_eventfd_ready(int fd);
/* A write wakes the actor. */
void sim_eventfd_watched(int fd, struct sim_actor *actor);
/* True: it was one, and is closed. */
bool sim_eventfd_close(int fd);

#endif
