/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small tests that the validators share. Private to proto/wire/wire_check*.c.
 */
#ifndef RBLK_WIRE_BYTES_H
#define RBLK_WIRE_BYTES_H

#include "proto/wire/types.h"

/* Fields of a known length are compared as words: each command has two. */
static inline bool rblk_bytes_zero(const void *data, size_t length)
{
	static const u8 zeroes[16];
	const u8 *bytes = data;

	for (; length > sizeof(zeroes); length -= sizeof(zeroes), bytes += sizeof(zeroes))
		if (memcmp(bytes, zeroes, sizeof(zeroes)))
			return false;
	return !memcmp(bytes, zeroes, length);
}

#define RBLK_FIELD_ZERO(s, field) rblk_bytes_zero((s)->field, sizeof((s)->field))

static inline bool rblk_between(u32 value, u32 least, u32 most)
{
	return value >= least && value <= most;
}

#endif
