/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What target/store/pool.c gives out and takes back (seen.h): memory that nobody
 * has is zeroed, as it was when it was mapped, and whatever has changed it when it is given out
 * again is a device or a store that was not waited for. Memory that a posted work request uses is not
 * given back.
 */
#include "tests/sim/seen.h"

#include <stdint.h>
#include <string.h>
#include "tests/sim/actor.h"
#include "tests/sim/coverage.h"
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

void sim_seen_pool_alloc(const void *block, unsigned long bytes)
{
	const uint8_t *byte = block;

	sim_reached("point", "pool_alloc", NULL);
	if (byte[0] || memcmp(byte, byte + 1, bytes - 1))
		sim_fail("%s: memory of the pool has changed while nobody had it",
			 sim_actor_self()->name);
}

void sim_seen_pool_free(void *block, unsigned long bytes)
{
	sim_reached("point", "pool_free", NULL);
	sim_rules_memory_free(sim_actor_self(), block, bytes);
	memset(block, 0, bytes);
}
