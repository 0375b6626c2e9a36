/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a slot of the kernel module has the size that was asked for, also if a page is larger; no
 * two slots share memory or a place in a region. Method: the arithmetic of kmod/slots.h for
 * machines with pages of 4, 16 and 64 KiB.
 */
#include "tests/unit/unit.h"

#include "kmod/slots.h"

static const u32 pages[] = { 4096, 16384, 65536 };
static const u32 sizes[] = { 4096, 8192, 65536 };
static const u32 tag_counts[] = { 8, 132, 1028 };

static void slots_are_as_large_as_asked(void **state)
{
	struct rblk_chunks c = rblk_chunks_lay_out(65536, 4096, 132);
	struct rblk_slots s = rblk_slots_lay_out(4096, 512, 132);

	assert_int_equal(c.entry_bytes, 4096);
	/* 132 slots of 4 KiB take 9 pages of 64 KiB, not 132. */
	assert_int_equal(c.per_chunk, 16);
	assert_int_equal(c.chunks, 9);
	assert_int_equal(c.chunk_bytes, 65536);
	assert_int_equal(s.slot_bytes, 4096);
	assert_int_equal(s.per_mr, 132);
	assert_int_equal(s.mrs, 1);
}

static void check_layout(u32 page, u32 size, u32 units, u32 tags)
{
	struct rblk_chunks c = rblk_chunks_lay_out(page, size, tags);
	struct rblk_slots s = rblk_slots_lay_out(size, units, tags);

	assert_true(c.chunk_bytes >= page && c.chunk_bytes % page == 0);
	assert_true(c.chunks * c.chunk_bytes < tags * size + c.chunk_bytes);
	assert_true(s.per_mr * (size / RBLK_SLOT_UNIT) <= units);
	/* One after the other, and whole in their chunk: none overlaps. */
	assert_int_equal(c.per_chunk * size, c.chunk_bytes);
	assert_true(c.chunks * c.per_chunk >= tags);
	for (u32 tag = 0; tag < tags; tag++) {
		assert_true(rblk_slots_mr(&s, tag) < s.mrs);
		assert_int_equal(rblk_slots_mr(&s, tag) * s.per_mr * size +
					 rblk_slots_mr_offset(&s, tag),
				 tag * size);
	}
}

static void slots_do_not_overlap(void **state)
{
	for (size_t p = 0; p < UNIT_LENGTH(pages); p++)
		for (size_t s = 0; s < UNIT_LENGTH(sizes); s++)
			for (size_t t = 0; t < UNIT_LENGTH(tag_counts); t++)
				for (u32 units = 16; units <= 512; units *= 2)
					check_layout(pages[p], sizes[s], units, tag_counts[t]);
}

static void a_region_too_small_for_a_slot_holds_none(void **state)
{
	struct rblk_slots s = rblk_slots_lay_out(65536, 8, 12);

	assert_int_equal(s.per_mr, 0);
	assert_int_equal(s.mrs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_as_large_as_asked),
		cmocka_unit_test(slots_do_not_overlap),
		cmocka_unit_test(a_region_too_small_for_a_slot_holds_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
