/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Quantiles of buckets: exact at their ends, in proportion within one; and what has no end, or nothing in it. */
#include "tests/unit/unit.h"

#include "proto/screen/quantile.h"

static const double ends[] = {1, 2, 4, 8, 8};
#define COUNT UNIT_LENGTH(ends)

static void nothing_is_zero(void **state)
{
	const double none[COUNT] = {0};

	assert_true(screen_quantile(none, ends, COUNT, 0.5) == 0);
	assert_true(screen_quantile(none, ends, 0, 0.5) == 0);
}

static void one_bucket_is_divided(void **state)
{
	const double one[COUNT] = {0, 0, 10, 0, 0};

	assert_true(screen_quantile(one, ends, COUNT, 0.5) == 3);
	assert_true(screen_quantile(one, ends, COUNT, 1) == 4);
}

static void ranks_go_over_buckets(void **state)
{
	const double some[COUNT] = {50, 0, 48, 2, 0};

	assert_true(screen_quantile(some, ends, COUNT, 0.25) == 0.5);
	assert_true(screen_quantile(some, ends, COUNT, 0.5) == 1);
	assert_true(screen_quantile(some, ends, COUNT, 0.99) == 6);
}

static void the_last_bucket_has_no_end(void **state)
{
	const double slow[COUNT] = {1, 0, 0, 0, 99};

	assert_true(screen_quantile(slow, ends, COUNT, 0.99) == 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_zero),
		cmocka_unit_test(one_bucket_is_divided),
		cmocka_unit_test(ranks_go_over_buckets),
		cmocka_unit_test(the_last_bucket_has_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
