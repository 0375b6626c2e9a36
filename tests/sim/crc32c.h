/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC32C by its definition, from a table that is made bit by bit: not the code under test.
 */
#ifndef RBLK_TESTS_SIM_CRC32C_H
#define RBLK_TESTS_SIM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: of what stands before, or 0. */
static inline uint32_t sim_crc32c(uint32_t crc, const uint8_t *data, size_t bytes)
{
	static uint32_t table[256];

	for (uint32_t byte = 0; byte < 256 && !table[255]; byte++) {
		table[byte] = byte;
		for (unsigned int bit = 0; bit < 8; bit++)
			table[byte] = table[byte] >> 1 ^ (table[byte] & 1 ? 0x82f63b78u : 0);
	}
	crc = ~crc;
	while (bytes--)
		crc = crc >> 8 ^ table[(crc ^ *data++) & 0xff];
	return ~crc;
}

#endif
