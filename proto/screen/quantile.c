/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "proto/screen/quantile.h"

double screen_quantile(const double *buckets, const double *ends, size_t count, double part)
{
	double sum = 0, rank, begin = 0;
	size_t i;

	for (i = 0; i < count; i++)
		sum += buckets[i];
	if (sum <= 0)
		return 0;
	rank = sum * part;
	for (i = 0; i < count; begin = ends[i++]) {
		if (rank <= buckets[i] && buckets[i] > 0)
			return begin + (ends[i] - begin) * rank / buckets[i];
		rank -= buckets[i];
	}
	return begin; /* rounding */
}
