/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The engine's counts, summed over all jobs of one run of fio, in a JSON file. Jobs are threads or
 * processes, so they share the file: each adds its numbers when it ends, under the file's lock.
 * Nothing here knows fio.
 */
#ifndef RBLK_FIO_ENGINE_STATS_H
#define RBLK_FIO_ENGINE_STATS_H

#include <stddef.h>
#include <stdint.h>
#include "initiator/rblk.h"

/* One job's share. Its owner is the job's thread. */
struct engine_stats {
	uint64_t ios;              /* completed, with and without error */
	uint64_t latency_us_total; /* from the engine's queue() to the completion's callback */
	struct rblk_stats session; /* since the volume is open: login and OPEN are not counted */
};

/* later - earlier, field by field. */
void engine_stats_subtract(struct rblk_stats *later, const struct rblk_stats *earlier);

/*
 * Add to the file at `path`, which is begun anew if another run of fio wrote it. Any thread or
 * process. Returns 0 or a negative errno with `error` (RBLK_ERROR_BYTES) "path: reason".
 */
int engine_stats_add(const char *path, const struct engine_stats *stats, char *error);

#endif
