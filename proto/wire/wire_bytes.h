/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Small tests that the validators share. Private to proto/wire/wire_check*.c.
 */
#ifndef RBLK_WIRE_BYTES_H
#define RBLK_WIRE_BYTES_H

#include "proto/wire/types.h"

static inline bool rblk_bytes_zero(const void *data, size_t length)
{
	const u8 *bytes = data;
	size_t i;

	for (i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

#define RBLK_FIELD_ZERO(s, field) rblk_bytes_zero((s)->field, sizeof((s)->field))

static inline bool rblk_between(u32 value, u32 least, u32 most)
{
	return value >= least && value <= most;
}

#endif
