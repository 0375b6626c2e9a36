/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Print how many thousand times a second this machine's time-stamp counter counts, for boot: an
 * emulated guest has the same counter. Prints nothing if there is none.
 *
 * The guest's kernel would measure it against an emulated timer. While other programs have the
 * machine's processors, the result is wrong by up to a factor of ten, and so are all of the guest's
 * clocks. Here each time is read between two reads of the counter, the closest of many, so that a
 * pause in between does not matter.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>

struct sample {
	uint64_t ticks, ns;
};

static struct sample sample_take(void)
{
	struct sample best = { 0 };
	uint64_t closest = UINT64_MAX;

	for (int i = 0; i < 2000; i++) {
		struct timespec now;
		uint64_t before = __rdtsc(), after;

		clock_gettime(CLOCK_MONOTONIC, &now);
		after = __rdtsc();
		if (after - before >= closest)
			continue;
		closest = after - before;
		best.ticks = before + closest / 2;
		best.ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	}
	return best;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 200000000 };
	struct sample first = sample_take(), last;

	nanosleep(&pause, NULL);
	last = sample_take();
	printf("%.0f\n", (double)(last.ticks - first.ticks) * 1e6 / (double)(last.ns - first.ns));
	return 0;
}
#else
int main(void)
{
	return 0;
}
#endif
