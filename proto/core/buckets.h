/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Times in buckets, as both ends count them. Two to an octave of microseconds: 0, 1, 2, 3, 4-5, 6-7, 8-11,
 * 12-15, ... The last one has all from 12.6 s on.
 */
#ifndef RBLK_CORE_BUCKETS_H
#define RBLK_CORE_BUCKETS_H

#include "proto/wire/types.h"

#define CORE_BUCKETS 48u

static inline unsigned int core_bucket(u32 us)
{
	unsigned int octave, bucket;

	if (us < 2)
		return us;
	octave = 31u - (unsigned int)__builtin_clz(us);
	bucket = 2 * octave + (us >> (octave - 1) & 1);
	return bucket < CORE_BUCKETS ? bucket : CORE_BUCKETS - 1;
}

/* The first time that is beyond the bucket, in microseconds; UINT64_MAX for the last bucket. */
static inline u64 core_bucket_end(unsigned int bucket)
{
	if (bucket >= CORE_BUCKETS - 1)
		return ~0ull;
	if (bucket < 2)
		return bucket + 1;
	return bucket & 1 ? 2ull << bucket / 2 : 3ull << (bucket / 2 - 1);
}

#endif
