/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rule by which nobody takes all of what is shared. Each quota stands beside what it bounds; memory for data, which is
 * divided by what is free, has its own rule (io/share.h).
 */
#ifndef RBLK_TARGET_QUOTA_H
#define RBLK_TARGET_QUOTA_H

#include <stdbool.h>

/* 0: no such bound. */
struct tgt_quota {
	unsigned int most; /* that there are, for all */
	unsigned int each; /* for one: a host, a session, a queue's place */
	unsigned int kept; /* of `most`, for those that hold fewer than so many: the next one always gets in */
};

/* Places of which every eighth is kept: one host alone gets no more than seven eighths. */
static inline struct tgt_quota tgt_quota_places(unsigned int most)
{
	return (struct tgt_quota){.most = most, .kept = most / 8};
}

/* May one that holds `own` take one more, of which all together hold `used`? */
static inline bool tgt_quota_allows(const struct tgt_quota *quota, unsigned int used, unsigned int own)
{
	if ((quota->most && used >= quota->most) || (quota->each && own >= quota->each))
		return false;
	return own < quota->kept || used < quota->most - quota->kept || !quota->most;
}

#endif
