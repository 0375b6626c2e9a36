/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: blocks of the data pool never overlap, lie inside, are aligned to their size, and all of
 * the memory comes back together. Method: random allocation and freeing against a map of bytes.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include "target/store/pool.h"

#define PAGE TGT_POOL_PAGE
#define PAGES 100u /* not a power of two, on purpose */

static char *base;

static int setup(void **state)
{
	(void)state;
	base = aligned_alloc(PAGE, PAGES * PAGE);
	return base ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(base);
	return 0;
}

static size_t block_of(size_t bytes)
{
	size_t block = PAGE;

	while (block < bytes)
		block *= 2;
	return block;
}

static void blocks_do_not_overlap(void **state)
{
	struct tgt_pool *pool = tgt_pool_create(base, PAGES * PAGE, 16 * PAGE);
	struct {
		char *at;
		size_t bytes;
	} held[PAGES] = {{NULL, 0}};
	unsigned int seed = 1, refused = 0;

	(void)state;
	assert_non_null(pool);
	for (unsigned int round = 0; round < 20000; round++) {
		unsigned int slot = (unsigned int)rand_r(&seed) % PAGES;
		size_t bytes = 1 + (size_t)rand_r(&seed) % (16 * PAGE);

		if (held[slot].at) {
			/* No other owner has written there. */
			for (size_t i = 0; i < held[slot].bytes; i += 512)
				assert_int_equal(held[slot].at[i], (char)slot);
			tgt_pool_free(pool, held[slot].at, held[slot].bytes);
			held[slot].at = NULL;
			continue;
		}
		held[slot].at = tgt_pool_alloc(pool, bytes);
		held[slot].bytes = bytes;
		if (!held[slot].at) {
			refused++;
			continue;
		}
		assert_true(tgt_pool_owns(pool, held[slot].at));
		assert_true(tgt_pool_owns(pool, held[slot].at + block_of(bytes) - 1));
		assert_int_equal((size_t)(held[slot].at - base) % block_of(bytes), 0);
		memset(held[slot].at, (int)slot, bytes);
	}
	assert_true(refused > 0);
	for (unsigned int slot = 0; slot < PAGES; slot++)
		if (held[slot].at)
			tgt_pool_free(pool, held[slot].at, held[slot].bytes);
	assert_int_equal(tgt_pool_free_bytes(pool), PAGES * PAGE);
	/* All free blocks are joined again. */
	assert_non_null(tgt_pool_alloc(pool, 16 * PAGE));
	tgt_pool_destroy(pool);
}

static void larger_than_the_largest_is_refused(void **state)
{
	struct tgt_pool *pool = tgt_pool_create(base, PAGES * PAGE, 16 * PAGE);

	(void)state;
	assert_int_equal(tgt_pool_largest(pool), 16 * PAGE);
	assert_null(tgt_pool_alloc(pool, 16 * PAGE + 1));
	tgt_pool_destroy(pool);
	pool = tgt_pool_create(base, 3 * PAGE, 16 * PAGE);
	assert_int_equal(tgt_pool_largest(pool), 2 * PAGE);
	tgt_pool_destroy(pool);
}

static void every_page_can_be_had(void **state)
{
	struct tgt_pool *pool = tgt_pool_create(base, PAGES * PAGE, 16 * PAGE);

	(void)state;
	for (unsigned int i = 0; i < PAGES; i++)
		assert_non_null(tgt_pool_alloc(pool, 1));
	assert_null(tgt_pool_alloc(pool, 1));
	assert_int_equal(tgt_pool_free_bytes(pool), 0);
	tgt_pool_destroy(pool);
}

/* What was freed in small blocks, and is kept so, is had in large ones again; then in small ones.
 */
static void small_blocks_become_large_ones(void **state)
{
	struct tgt_pool *pool = tgt_pool_create(base, PAGES * PAGE, 16 * PAGE);
	char *small[PAGES], *large[PAGES / 16];

	(void)state;
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < PAGES; i++)
			assert_non_null(small[i] = tgt_pool_alloc(pool, PAGE));
		assert_null(tgt_pool_alloc(pool, PAGE));
		for (unsigned int i = 0; i < PAGES; i++)
			tgt_pool_free(pool, small[i], PAGE);
		assert_int_equal(tgt_pool_free_bytes(pool), PAGES * PAGE);
		for (unsigned int i = 0; i < PAGES / 16; i++)
			assert_non_null(large[i] = tgt_pool_alloc(pool, 16 * PAGE));
		assert_non_null(small[0] = tgt_pool_alloc(pool, PAGES % 16 * PAGE));
		assert_null(tgt_pool_alloc(pool, PAGE));
		tgt_pool_free(pool, small[0], PAGES % 16 * PAGE);
		for (unsigned int i = 0; i < PAGES / 16; i++)
			tgt_pool_free(pool, large[i], 16 * PAGE);
	}
	tgt_pool_destroy(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_do_not_overlap),
		cmocka_unit_test(larger_than_the_largest_is_refused),
		cmocka_unit_test(every_page_can_be_had),
		cmocka_unit_test(small_blocks_become_large_ones),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
