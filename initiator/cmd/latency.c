/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "initiator/cmd/latency.h"

#include <stdlib.h>

static int latency_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* The smallest sample that at least `percent` percent of all do not exceed. */
static uint64_t latency_percentile(const uint64_t *sorted, size_t count, unsigned int percent)
{
	size_t rank = (count * percent + 99) / 100;

	return sorted[rank ? rank - 1 : 0];
}

void latency_summarize(uint64_t *samples_ns, size_t count, struct latency_summary *summary)
{
	double sum = 0;
	size_t i;

	qsort(samples_ns, count, sizeof(*samples_ns), latency_compare);
	for (i = 0; i < count; i++)
		sum += (double)samples_ns[i];
	summary->min_ns = samples_ns[0];
	summary->max_ns = samples_ns[count - 1];
	summary->average_ns = sum / (double)count;
	summary->p50_ns = latency_percentile(samples_ns, count, 50);
	summary->p99_ns = latency_percentile(samples_ns, count, 99);
}
