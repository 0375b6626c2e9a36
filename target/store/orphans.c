/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume's orphans.
 */
#include "target/store/orphans.h"

#include <assert.h>

static_assert(TGT_ORPHAN_BUCKETS <= 64, "a bit for each bucket");

uint8_t tgt_orphans_begin(struct tgt_orphans *orphans)
{
	unsigned int bucket = atomic_load(&orphans->current);

	atomic_fetch_add(&orphans->buckets[bucket], 1);
	return (uint8_t)(bucket + 1);
}

void tgt_orphans_end(struct tgt_orphans *orphans, uint8_t number)
{
	atomic_fetch_sub(&orphans->buckets[number - 1], 1);
}

uint64_t tgt_orphans_now(struct tgt_orphans *orphans)
{
	uint64_t then = tgt_orphans_left(orphans, UINT64_MAX);

	/* If no bucket is empty, later ones are waited for, too: slower, but correct. */
	if (then && ~then)
		atomic_store(&orphans->current, (unsigned int)__builtin_ctzll(~then));
	return then;
}

uint64_t tgt_orphans_left(const struct tgt_orphans *orphans, uint64_t then)
{
	uint64_t left = 0;

	for (uint64_t rest = then; rest; rest &= rest - 1) {
		unsigned int bucket = (unsigned int)__builtin_ctzll(rest);

		if (atomic_load(&orphans->buckets[bucket]))
			left |= 1ull << bucket;
	}
	return left;
}
