/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Times for people. */
#include "target/base/text.h"

#include <time.h>

#define DAY_NS 86400000000000ull

uint64_t tgt_time_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *tgt_time_words(uint64_t time_ns, char words[TGT_TIME_BYTES])
{
	time_t seconds = (time_t)(time_ns / 1000000000u);
	uint64_t now_ns = tgt_time_now_ns();
	struct tm utc;

	gmtime_r(&seconds, &utc);
	strftime(words, TGT_TIME_BYTES,
		 now_ns >= time_ns && now_ns - time_ns < DAY_NS ? "%H:%M:%S UTC"
								: "%Y-%m-%d %H:%M:%S UTC",
		 &utc);
	return words;
}
