/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* See env_shift.h. */
#include "env_shift.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "proto/core/env.h"

static uint64_t shift_ns;

void env_shift_ms(uint32_t ms)
{
	shift_ns += ms * 1000000ull;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t env_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC) + shift_ns;
}

uint64_t env_thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void env_random(void *buffer, size_t bytes)
{
	/* Never short: keys are 4 bytes. */
	if (getrandom(buffer, bytes, 0) != (ssize_t)bytes)
		abort();
}

void env_yield(void)
{
}
