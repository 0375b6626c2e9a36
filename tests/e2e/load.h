/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A load that checks its own data: one thread with a session of its own does random operations at
 * depth in a range of a volume that no other thread uses, against an array in this process. Any
 * difference, any error and any lost session aborts the test with a message. Nothing else that the
 * test does to the target meanwhile may affect it.
 */
#ifndef RBLK_TESTS_E2E_LOAD_H
#define RBLK_TESTS_E2E_LOAD_H

#include <stdint.h>

struct load;

struct load_options {
	const char *uri; /* with the volume; copied */
	uint32_t queues;
	uint32_t depth; /* at most LOAD_DEPTH_MAX */
	uint64_t offset, bytes; /* the range, in whole blocks of 4096 */
	unsigned int seed;
	unsigned int policy; /* enum rblk_policy */
};
#define LOAD_DEPTH_MAX 64u

struct load *load_start(const struct load_options *options);
/* Operations completed so far. Any thread. */
unsigned long load_count(const struct load *load);
/* Waits until that many more were completed; aborts the test if that does not happen. */
void load_wait(const struct load *load, unsigned long more);
/* The longest time without a completion, since the start or the last call. Any thread. */
uint64_t load_pause_us(struct load *load);
/* Ends the load: reads back the whole range and compares, once more in another session, and
 * frees it. Returns load_count(). */
unsigned long load_stop(struct load *load);

#endif
