/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Combining the CRC32Cs of pieces equals computing that of the whole (unit.digest: it is the standard one). Method: every
 * split of a buffer.
 */
#include "tests/unit/unit.h"
#include "proto/digest/combine.h"
#include "proto/digest/digest.h"

static void combine_equals_whole(void **state)
{
	uint8_t data[600];
	uint32_t whole;
	size_t i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * i + 7 * i + 3);
	whole = rblk_digest(0, data, sizeof(data));
	for (i = 0; i <= sizeof(data); i++)
		assert_int_equal(rblk_digest_combine(rblk_digest(0, data, i), rblk_digest(0, data + i, sizeof(data) - i),
						sizeof(data) - i),
				 whole);
}

static void zeroes_equal_zeroes(void **state)
{
	static const uint8_t zeroes[5000];
	uint64_t bytes;

	for (bytes = 0; bytes <= sizeof(zeroes); bytes++)
		assert_int_equal(rblk_digest_zeroes(bytes), rblk_digest(0, zeroes, (size_t)bytes));
	/* Longer than memory can hold: combined from two. */
	assert_int_equal(rblk_digest_zeroes(20ull << 30),
			 rblk_digest_combine(rblk_digest_zeroes(13ull << 30), rblk_digest_zeroes(7ull << 30),
					7ull << 30));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(combine_equals_whole),
		cmocka_unit_test(zeroes_equal_zeroes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
