/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Around target/store/pool.c, to which the linker leads the calls that end up here: memory that nobody
 * has is zeroed, as it was when it was mapped, and whatever has changed it when it is given out
 * again is a device or a store that was not waited for. What a posted work request uses is not given
 * back.
 */
#include "target/store/pool.h"

#include <string.h>
#include "tests/sim/actor.h"
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

void *__real_tgt_pool_alloc(struct tgt_pool *pool, size_t bytes);
void __real_tgt_pool_free(struct tgt_pool *pool, void *block, size_t bytes);

void *__wrap_tgt_pool_alloc(struct tgt_pool *pool, size_t bytes);
void *__wrap_tgt_pool_alloc(struct tgt_pool *pool, size_t bytes)
{
	uint8_t *block = __real_tgt_pool_alloc(pool, bytes);

	if (block && (block[0] || memcmp(block, block + 1, bytes - 1)))
		sim_fail("%s: memory of the pool has changed while nobody had it",
			 sim_actor_self()->name);
	return block;
}

void __wrap_tgt_pool_free(struct tgt_pool *pool, void *block, size_t bytes);
void __wrap_tgt_pool_free(struct tgt_pool *pool, void *block, size_t bytes)
{
	sim_rules_memory_free(sim_actor_self(), block, bytes);
	memset(block, 0, bytes);
	__real_tgt_pool_free(pool, block, bytes);
}
