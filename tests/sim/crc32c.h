/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC32C by its definition, bit by bit: slow, and not the code under test.
 */
#ifndef RBLK_TESTS_SIM_CRC32C_H
#define RBLK_TESTS_SIM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: of what stands before, or 0. */
static inline uint32_t sim_crc32c(uint32_t crc, const uint8_t *data, size_t bytes)
{
	crc = ~crc;
	while (bytes--) {
		crc ^= *data++;
		for (unsigned int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

#endif
