/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC32C by ISA-L, which neither inverts the register at first nor at the end.
 */
#include "proto/digest/digest.h"

#include <isa-l.h>
#include <limits.h>

uint32_t rblk_digest(uint32_t before, const void *data, size_t bytes)
{
	const unsigned char *next = data;
	uint32_t crc = ~before;

	while (bytes) {
		int piece = bytes < INT_MAX ? (int)bytes : INT_MAX;

		/* The library does not write; its prototype only lacks the const. */
		crc = crc32_iscsi((unsigned char *)(uintptr_t)next, piece, crc);
		next += piece;
		bytes -= (size_t)piece;
	}
	return ~crc;
}
