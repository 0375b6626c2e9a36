/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC32Cs of neighbours, of which each is known (proto/digest/digest.h computes one from its bytes).
 */
#ifndef RBLK_DIGEST_COMBINE_H
#define RBLK_DIGEST_COMBINE_H

#include <stdint.h>

/* The CRC of two pieces together from each one's own; second_bytes is the second's length. */
uint32_t rblk_digest_combine(uint32_t first, uint32_t second, uint64_t second_bytes);
/* The CRC of that many zeroes, in logarithmic time. */
uint32_t rblk_digest_zeroes(uint64_t bytes);

#endif
