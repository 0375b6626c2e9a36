// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a disk's requests have taken; see times.h. */
#include <linux/blk-mq.h>
#include <linux/ktime.h>

#include "kmod/times.h"
#include "kmod/disk.h"

int rblk_times_create(struct rblk_disk *disk)
{
	disk->times = alloc_percpu(struct rblk_times);
	return disk->times ? 0 : -ENOMEM;
}

void rblk_times_destroy(struct rblk_disk *disk)
{
	free_percpu(disk->times);
}

void rblk_times_count(struct request *rq, bool failed)
{
	struct rblk_disk *disk = rblk_disk_of(rq);
	u64 us;

	if (failed)
		this_cpu_inc(disk->times->failures);
	if (!rq->start_time_ns)
		return;
	us = div_u64(ktime_get_ns() - rq->start_time_ns, NSEC_PER_USEC);
	this_cpu_inc(disk->times->buckets[core_bucket((u32)min_t(u64, us, U32_MAX))]);
}

void rblk_times_sum(const struct rblk_disk *disk, struct rblk_times *sum)
{
	unsigned int cpu, i;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct rblk_times *times = per_cpu_ptr(disk->times, cpu);

		for (i = 0; i < CORE_BUCKETS; i++)
			sum->buckets[i] += READ_ONCE(times->buckets[i]);
		sum->failures += READ_ONCE(times->failures);
	}
}
