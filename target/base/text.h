/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Times of the clock in messages; proto/words/units.h has how long something takes. Any thread. */
#ifndef RBLK_TARGET_TEXT_H
#define RBLK_TARGET_TEXT_H

#include <stdint.h>

/* "%u volume%s": 1 volume, 2 volumes. */
#define TGT_S(count) ((count) == 1 ? "" : "s")

#define TGT_TIME_BYTES 40

/* CLOCK_REALTIME. */
uint64_t tgt_time_now_ns(void);
/* "02:13:07 UTC" of the last 24 hours, "2026-01-31 02:13:07 UTC" of others, of a time by
 * CLOCK_REALTIME. Returns `words`. */
const char *tgt_time_words(uint64_t time_ns, char words[TGT_TIME_BYTES]);

#endif
