/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sizes, times and counts as people write them: "64K", "1.5" is not one, "30s", "500us", "12".
 * Pure; any thread. All return 0, or -EINVAL when the text is not one from end to end.
 */
#ifndef RBLK_TARGET_UNITS_H
#define RBLK_TARGET_UNITS_H

#include <stdbool.h>
#include <stdint.h>

int tgt_units_count(const char *text, uint64_t *count);
int tgt_units_size(const char *text, uint64_t *bytes);  /* K, M, G, T: powers of 1024 */
int tgt_units_time(const char *text, uint64_t *time_us); /* us, ms, s, m or min, h; the unit is required */
int tgt_units_bool(const char *text, bool *value);       /* yes, no, on, off, true, false, 1, 0 */

#endif
