/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Time and randomness of the machine itself, for programs and for tests that run in real time.
 * An archive member of its own: a program that defines env_now_ns() and env_random() (the
 * simulator) links those instead.
 */
#include "proto/core/env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sched.h>
#include <time.h>

uint64_t env_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t env_thread_cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

void env_random(void *buffer, size_t bytes)
{
	unsigned char *next = buffer;

	while (bytes > 0) {
		ssize_t got = getrandom(next, bytes, 0);

		if (got < 0) {
			if (errno == EINTR)
				continue;
			/*
			 * Fails only in a sandbox that forbids the call. Ids from a weaker source
			 * would not be random: abort instead.
			 */
			perror("getrandom");
			abort();
		}
		next += got;
		bytes -= (size_t)got;
	}
}

void env_yield(void)
{
	sched_yield();
}
