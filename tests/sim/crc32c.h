/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC32C by its definition, from tables that are made bit by bit: not the code under test. tables[n] has what a byte
 * becomes behind which n more have come, so that eight at a time are looked up beside each other.
 */
#ifndef RBLK_TESTS_SIM_CRC32C_H
#define RBLK_TESTS_SIM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: of what stands before, or 0. */
static inline uint32_t sim_crc32c(uint32_t crc, const uint8_t *data, size_t bytes)
{
	static uint32_t tables[8][256];

	for (uint32_t i = 0; i < 8 * 256 && !tables[7][255]; i++) {
		uint32_t *entry = &tables[i / 256][i % 256], bits = i < 256 ? 8 : 0;

		*entry = i < 256 ? i : tables[i / 256 - 1][i % 256];
		if (i >= 256)
			*entry = *entry >> 8 ^ tables[0][*entry & 0xff];
		while (bits--)
			*entry = *entry >> 1 ^ (*entry & 1 ? 0x82f63b78u : 0);
	}
	crc = ~crc;
	for (; bytes >= 8; bytes -= 8, data += 8) {
		uint32_t next = 0;

		for (unsigned int i = 0; i < 8; i++)
			next ^= tables[7 - i][data[i] ^ (i < 4 ? crc >> 8 * i & 0xff : 0)];
		crc = next;
	}
	while (bytes--)
		crc = crc >> 8 ^ tables[0][(crc ^ *data++) & 0xff];
	return ~crc;
}

#endif
