/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a block of the promise journal holds: in each sector who wrote it, which write it was, where
 * it belongs and when it was made, and bytes that follow from those. A sector that was torn, moved
 * or left from another run is thus known by itself, without the journal.
 */
#ifndef RBLK_TESTS_PROMISE_BLOCK_H
#define RBLK_TESTS_PROMISE_BLOCK_H

#include <stdint.h>

#define PROMISE_SECTOR_BYTES 512u
#define PROMISE_UNIT_MAX 4096u

struct promise_value {
	uint64_t run;	  /* one for all lives of a journal */
	uint64_t op;	  /* the write, 1 and up; 0: never written, all zeroes */
	uint64_t block;	  /* where it belongs, in units */
	uint64_t time_ns; /* CLOCK_REALTIME when the write was made */
	uint32_t writer;
};

enum promise_block_state {
	PROMISE_BLOCK_EMPTY, /* all zeroes */
	PROMISE_BLOCK_WHOLE, /* of one write; whose and whether it belongs here is not checked */
	PROMISE_BLOCK_TORN,  /* sectors of different writes, or a sector that no write made */
};

/* unit: bytes of the block, a multiple of a sector. */
void promise_block_fill(void *data, uint32_t unit, const struct promise_value *value);
/* TORN: value has what the first sector says, or zeroes. */
enum promise_block_state promise_block_read(const void *data, uint32_t unit,
					    struct promise_value *value);

/* splitmix64: all the randomness of a run follows from its seed. */
uint64_t promise_random(uint64_t *state);

#endif
