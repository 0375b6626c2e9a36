/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC32C (Castagnoli, as iSCSI and the specification's CHECKSUM have it: 0xe3069283 over
 * "123456789"). Computing is ISA-L's; combining the CRCs of neighbours is done here.
 */
#ifndef RBLK_CMD_CRC32C_H
#define RBLK_CMD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *data, size_t bytes);
/* The CRC of two pieces together from each one's own; second_bytes is the second's length. */
uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes);
/* The CRC of that many zeroes, in logarithmic time. */
uint32_t crc32c_zeroes(uint64_t bytes);

#endif
