/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Round trip times, collected one by one and summed up once: all of them are kept, so that
 * percentiles are exact.
 */
#ifndef RBLK_CMD_LATENCY_H
#define RBLK_CMD_LATENCY_H

#include <stddef.h>
#include <stdint.h>

struct latency_summary {
	uint64_t min_ns, max_ns, p50_ns, p99_ns;
	double average_ns;
};

/* Sorts samples. count: at least one. */
void latency_summarize(uint64_t *samples_ns, size_t count, struct latency_summary *summary);

#endif
