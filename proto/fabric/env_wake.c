/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The time that a wake-up takes on this machine (env_wake_ns()): two threads wake each other in
 * turn. An archive member of its own, as env_posix.c is.
 */
#include "proto/core/env.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WAKE_ROUNDS 16u
/* For an answer: its processor may belong to a thread of a higher class, for ever. */
#define WAKE_WAIT_MS 20
/* For all rounds: on a busy machine they are fewer. */
#define WAKE_ALL_NS 10000000ull

/* The value that env_wake_ns() returns; written once. */
static uint64_t wake_ns;

/* Static, because a thread that has not answered in time may do so later. */
static struct wake_pair {
	int asked, answered;
} pair;

static void *wake_answer(void *argument)
{
	eventfd_t value;

	(void)argument;
	while (eventfd_read(pair.asked, &value) == 0 && value == 1)
		eventfd_write(pair.answered, 1);
	return NULL;
}

/* One wake-up: half of a round, in which each thread wakes the other. EINTR: a signal's handler ran. 0: no answer in time. */
static uint64_t wake_round(void)
{
	struct pollfd answer = {.fd = pair.answered, .events = POLLIN};
	uint64_t begin_ns = env_now_ns(), took_ns = 0;
	eventfd_t value;
	int count;

	if (eventfd_write(pair.asked, 1) < 0)
		return 0;
	do {
		count = poll(&answer, 1, WAKE_WAIT_MS);
		took_ns = env_now_ns() - begin_ns;
	} while (count < 0 && errno == EINTR && took_ns < WAKE_WAIT_MS * 1000000ull);
	return count > 0 && eventfd_read(pair.answered, &value) == 0 ? took_ns / 2 : 0;
}

/*
 * Other programs that want the processors make rounds longer, never shorter: the lower quartile. 0:
 * an answer did not come.
 */
static uint64_t wake_quartile(void)
{
	uint64_t sorted[WAKE_ROUNDS], all_ns = 0;
	unsigned int count, at;

	for (count = 0; count < WAKE_ROUNDS && all_ns < WAKE_ALL_NS; count++) {
		uint64_t round_ns = wake_round();

		if (!round_ns)
			return 0;
		all_ns += 2 * round_ns;
		for (at = count; at > 0 && sorted[at - 1] > round_ns; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = round_ns;
	}
	return sorted[count / 4];
}

/*
 * Other processors than the caller's, because mostly one end of a connection wakes the other on another one; the
 * caller's own if there is no other. None: not known.
 */
static void wake_elsewhere(cpu_set_t *cpus)
{
	int here = sched_getcpu();

	CPU_ZERO(cpus);
	if (sched_getaffinity(0, sizeof(*cpus), cpus) < 0 || here < 0)
		return;
	if (CPU_COUNT(cpus) > 1)
		CPU_CLR(here, cpus);
}

/* All signals are blocked in it: they are for the program's threads. 0 or errno. */
static int wake_start(pthread_t *thread)
{
	sigset_t all, before;
	cpu_set_t cpus;
	int err;

	wake_elsewhere(&cpus);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, wake_answer, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err && CPU_COUNT(&cpus))
		pthread_setaffinity_np(*thread, sizeof(cpus), &cpus);
	return err;
}

/* False: the thread has not answered, and may still do so; the descriptors are its own from now on. */
static bool wake_run(void)
{
	pthread_t thread;

	if (wake_start(&thread))
		return true;
	wake_ns = wake_quartile();
	eventfd_write(pair.asked, 2);
	if (wake_ns) {
		pthread_join(thread, NULL);
		return true;
	}
	pthread_detach(thread);
	return false;
}

static void wake_measure(void)
{
	bool over = true;
	int before;

	/* Cancelled here, the caller would leave the thread and the descriptors behind. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pair.asked = eventfd(0, EFD_CLOEXEC);
	pair.answered = eventfd(0, EFD_CLOEXEC);
	if (pair.asked >= 0 && pair.answered >= 0)
		over = wake_run();
	if (over && pair.asked >= 0)
		close(pair.asked);
	if (over && pair.answered >= 0)
		close(pair.answered);
	pthread_setcancelstate(before, NULL);
}

uint64_t env_wake_ns(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, wake_measure);
	return wake_ns;
}
