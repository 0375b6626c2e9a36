/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sums of counts, for those who look at them. */
#include "target/io/counts.h"

void tgt_counts_sum(void *total, const void *one, size_t bytes)
{
	const uint64_t *from = one;
	uint64_t *to = total;

	for (size_t i = 0; i < bytes / sizeof(*to); i++)
		to[i] += from[i];
}

uint64_t tgt_counts_of_kind(const struct tgt_counts *counts, enum tgt_count_kind kind)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < CORE_BUCKETS; i++)
		sum += counts->latency[kind][TGT_STAGE_QUEUED][i];
	return sum;
}
