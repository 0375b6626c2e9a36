/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of counts, for those who look at them. */
#include "target/io/counts.h"

#include <stddef.h>

static_assert(sizeof(struct tgt_counts) % sizeof(uint64_t) == 0, "nothing but 64-bit counts");

void tgt_counts_sum(struct tgt_counts *total, const struct tgt_counts *one)
{
	uint64_t *to = (uint64_t *)total;
	const uint64_t *from = (const uint64_t *)one;

	for (size_t i = 0; i < sizeof(*total) / sizeof(*to); i++)
		to[i] += from[i];
}

uint64_t tgt_counts_of_kind(const struct tgt_counts *counts, enum tgt_count_kind kind)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < CORE_BUCKETS; i++)
		sum += counts->latency[kind][TGT_STAGE_QUEUED][i];
	return sum;
}
