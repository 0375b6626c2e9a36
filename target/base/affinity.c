/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The CPUs of threads that are not reactors; see affinity.h. Written once, before there are other threads. */
#include "target/base/affinity.h"

#include <sched.h>
#include <stdbool.h>

static cpu_set_t kept;
static bool is_kept;

void tgt_affinity_keep(void)
{
	is_kept = sched_getaffinity(0, sizeof(kept), &kept) == 0;
}

void tgt_affinity_roam(void)
{
	if (is_kept)
		sched_setaffinity(0, sizeof(kept), &kept);
}
