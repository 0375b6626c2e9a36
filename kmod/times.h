/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a disk's requests have taken, in buckets (proto/core/buckets.h), and how many have failed: for each processor,
 * so that counting shares nothing. A request's time is the block layer's, from its making to its end, with all waiting;
 * where the block layer takes none (queue/iostats is 0, and nothing else asks for it), only failures are counted.
 */
#ifndef RBLK_KMOD_TIMES_H
#define RBLK_KMOD_TIMES_H

#include <linux/percpu.h>

#include "proto/core/buckets.h"

struct request;
struct rblk_disk;

struct rblk_times {
	u64 buckets[CORE_BUCKETS], failures;
};

/* Of a disk; may sleep. -ENOMEM. */
int rblk_times_create(struct rblk_disk *disk);
void rblk_times_destroy(struct rblk_disk *disk);
/* The request ends now. Any context. */
void rblk_times_count(struct request *rq, bool failed);
/* All processors together; not at one moment. */
void rblk_times_sum(const struct rblk_disk *disk, struct rblk_times *sum);

#endif
