/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * splitmix64: small, fast, and every 64-bit seed is as good as any other.
 */
#include "tests/sim/random.h"

static uint64_t state;

void sim_random_seed(uint64_t seed)
{
	state = seed * 0x2545f4914f6cdd1du + 0x9e3779b97f4a7c15u;
}

uint64_t sim_random(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

uint64_t sim_below(uint64_t bound)
{
	return bound ? sim_random() % bound : 0;
}

uint64_t sim_between(uint64_t low, uint64_t high)
{
	return low + sim_below(high - low + 1);
}

bool sim_chance(uint32_t parts)
{
	return parts && sim_random() % 1000000 < parts;
}

uint64_t sim_random_aside(uint64_t seed)
{
	uint64_t was = state;

	sim_random_seed(~seed);
	return was;
}

void sim_random_back(uint64_t was)
{
	state = was;
}
