/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Quantiles of times that were counted in buckets. */
#ifndef RBLK_PROTO_SCREEN_QUANTILE_H
#define RBLK_PROTO_SCREEN_QUANTILE_H

#include <stddef.h>

/*
 * `part` (0 to 1) of what was counted is at most this: as far into its bucket as its rank is. Bucket i
 * has buckets[i] and goes from ends[i - 1] (0 for the first) to ends[i]; one without an end has that of
 * the bucket before it. 0: nothing was counted.
 */
double screen_quantile(const double *buckets, const double *ends, size_t count, double part);

#endif
