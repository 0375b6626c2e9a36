/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When to try again: a delay that grows by a quarter up to a limit, a quarter more or less by
 * chance, so that many initiators do not connect to their target in the same millisecond. It stays
 * below half of the time that has passed, so a target that is back is found soon. Specification
 * section 11, reconnect_delay_ms. Pure; the caller owns the struct.
 */
#ifndef RBLK_CORE_BACKOFF_H
#define RBLK_CORE_BACKOFF_H

#include "proto/wire/types.h"

struct core_backoff {
	u32 min_ms, max_ms;
	u32 delay_ms; /* of the next failure; 0: none yet */
	u32 random;   /* not 0 */
};

void core_backoff_init(struct core_backoff *backoff, u32 min_ms, u32 max_ms, u32 random);
/* Nanoseconds to wait after a failure. The next wait is longer. */
u64 core_backoff_next_ns(struct core_backoff *backoff);
/* The longest wait: nothing is expected to change soon. */
u64 core_backoff_longest_ns(struct core_backoff *backoff);
/* An attempt succeeded: the next failure counts as the first. */
void core_backoff_reset(struct core_backoff *backoff);
/* An attempt succeeded, but not for long: the next wait is the shortest. */
void core_backoff_shorten(struct core_backoff *backoff);

#endif
