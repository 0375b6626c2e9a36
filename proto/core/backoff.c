// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Delays between attempts: they grow, and vary by chance. */
#include "proto/core/backoff.h"

void core_backoff_init(struct core_backoff *backoff, u32 min_ms, u32 max_ms, u32 random)
{
	backoff->min_ms = min_ms;
	backoff->max_ms = max_ms;
	backoff->delay_ms = 0;
	backoff->random = random ? random : 1;
}

/* xorshift32. */
static u32 next_random(struct core_backoff *backoff)
{
	u32 x = backoff->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	backoff->random = x;
	return x;
}

u64 core_backoff_next_ns(struct core_backoff *backoff)
{
	u32 ms = backoff->delay_ms;

	if (ms < backoff->min_ms)
		ms = backoff->min_ms;
	backoff->delay_ms = ms < backoff->max_ms - backoff->max_ms / 5 ? ms + ms / 4 : backoff->max_ms;
	return (ms - ms / 4 + next_random(backoff) % (ms / 2 + 1)) * 1000000ull;
}

u64 core_backoff_longest_ns(struct core_backoff *backoff)
{
	backoff->delay_ms = backoff->max_ms;
	return core_backoff_next_ns(backoff);
}

void core_backoff_reset(struct core_backoff *backoff)
{
	backoff->delay_ms = 0;
}

void core_backoff_shorten(struct core_backoff *backoff)
{
	if (backoff->delay_ms > backoff->min_ms)
		backoff->delay_ms = backoff->min_ms;
}
