/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the content of a block, see block.h. */
#include "tests/promise/block.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static const char magic[8] = "rblkprm\n";

struct sector {
	char magic[8];
	struct promise_value value;
	uint32_t index; /* of the sector in its block */
	uint64_t filling[57];
};

static_assert(sizeof(struct sector) == PROMISE_SECTOR_BYTES, "a sector has no room to spare");

uint64_t promise_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void sector_fill(struct sector *sector, const struct promise_value *value, uint32_t index)
{
	uint64_t state = value->run ^ value->op << 20 ^ value->block << 40 ^ value->time_ns ^
			 (uint64_t)value->writer << 56 ^ index;

	memset(sector, 0, sizeof(*sector));
	memcpy(sector->magic, magic, sizeof(magic));
	sector->value.run = value->run;
	sector->value.op = value->op;
	sector->value.block = value->block;
	sector->value.time_ns = value->time_ns;
	sector->value.writer = value->writer;
	sector->index = index;
	for (unsigned int i = 0; i < sizeof(sector->filling) / sizeof(sector->filling[0]); i++)
		sector->filling[i] = promise_random(&state);
}

void promise_block_fill(void *data, uint32_t unit, const struct promise_value *value)
{
	struct sector sector;

	for (uint32_t i = 0; i < unit / PROMISE_SECTOR_BYTES; i++) {
		sector_fill(&sector, value, i);
		memcpy((char *)data + i * PROMISE_SECTOR_BYTES, &sector, sizeof(sector));
	}
}

static bool all_zero(const unsigned char *data, uint32_t bytes)
{
	return !data[0] && !memcmp(data, data + 1, bytes - 1);
}

enum promise_block_state promise_block_read(const void *data, uint32_t unit,
					    struct promise_value *value)
{
	struct sector first, expected;

	memset(value, 0, sizeof(*value));
	if (all_zero(data, unit))
		return PROMISE_BLOCK_EMPTY;
	memcpy(&first, data, sizeof(first));
	if (memcmp(first.magic, magic, sizeof(magic)) || !first.value.op)
		return PROMISE_BLOCK_TORN;
	*value = first.value;
	for (uint32_t i = 0; i < unit / PROMISE_SECTOR_BYTES; i++) {
		sector_fill(&expected, value, i);
		if (memcmp((const char *)data + i * PROMISE_SECTOR_BYTES, &expected,
			   sizeof(expected)))
			return PROMISE_BLOCK_TORN;
	}
	return PROMISE_BLOCK_WHOLE;
}
