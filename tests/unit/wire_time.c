/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a time packed into a byte is unpacked correctly: small times exactly, others within one
 * eighth, never more than the original, and in order. Method: all 256 codes; and every time up to a
 * million, then times around every power of two.
 */
#include "tests/unit/unit.h"
#include "proto/wire/wire.h"

#define CODE_MAX 239 /* 15 << 28; codes above it are never made */

static void check_time(u32 us)
{
	u32 back = rblk_time_decode(rblk_time_encode(us));

	assert_true(back <= us);
	assert_true(us - back <= us / 8);
	if (us < 16)
		assert_int_equal(back, us);
}

static void times_round_trip(void **state)
{
	u32 us, bit;

	for (us = 0; us < 1000000; us++)
		check_time(us);
	for (bit = 20; bit < 32; bit++) {
		check_time((1u << bit) - 1);
		check_time(1u << bit);
		check_time((1u << bit) + 1);
	}
	check_time(~0u);
}

static void codes_round_trip_in_order(void **state)
{
	u32 code;

	for (code = 0; code <= CODE_MAX; code++) {
		assert_int_equal(rblk_time_encode(rblk_time_decode((u8)code)), code);
		if (code)
			assert_true(rblk_time_decode((u8)code) > rblk_time_decode((u8)(code - 1)));
	}
	/* But a peer may send them. */
	for (; code < 256; code++)
		assert_int_equal(rblk_time_decode((u8)code), ~0u);
}

static void times_in_order(void **state)
{
	u32 us;
	u8 last = 0, code;

	for (us = 0; us < 1000000; us++) {
		code = rblk_time_encode(us);
		assert_true(code >= last);
		last = code;
	}
	assert_int_equal(rblk_time_encode(~0u), CODE_MAX);
}

static void immediates(void **state)
{
	assert_int_equal(rblk_immediate(0xabcd, 0x12, 0x34), 0xabcd1234);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_round_trip),
		cmocka_unit_test(codes_round_trip_in_order),
		cmocka_unit_test(times_in_order),
		cmocka_unit_test(immediates),
	};

	return cmocka_run_group_tests_name("wire time", tests, NULL, NULL);
}
