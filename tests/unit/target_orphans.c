/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an OPEN waits for the orphans that existed when it came, for all of them and for no others.
 * Method: orphans that come and go around it, as an initiator causes them whose connections break
 * again and again.
 */
#include "tests/unit/unit.h"
#include "target/store/orphans.h"

static void none_is_waited_for_where_there_are_none(void **state)
{
	struct tgt_orphans orphans = {0};

	(void)state;
	assert_int_equal(tgt_orphans_now(&orphans), 0);
	tgt_orphans_end(&orphans, tgt_orphans_begin(&orphans));
	assert_int_equal(tgt_orphans_now(&orphans), 0);
}

static void all_that_were_there_are_waited_for(void **state)
{
	struct tgt_orphans orphans = {0};
	uint8_t first = tgt_orphans_begin(&orphans), second = tgt_orphans_begin(&orphans);
	uint64_t then = tgt_orphans_now(&orphans);

	(void)state;
	assert_int_not_equal(then, 0);
	tgt_orphans_end(&orphans, second);
	then = tgt_orphans_left(&orphans, then);
	assert_int_not_equal(then, 0);
	tgt_orphans_end(&orphans, first);
	assert_int_equal(tgt_orphans_left(&orphans, then), 0);
}

/* There is always an orphan, but none lasts long. */
static void later_ones_are_not_waited_for(void **state)
{
	struct tgt_orphans orphans = {0};
	uint8_t last = tgt_orphans_begin(&orphans);
	uint64_t then = tgt_orphans_now(&orphans);

	(void)state;
	for (unsigned int i = 0; i < 1000; i++) {
		uint8_t next = tgt_orphans_begin(&orphans);

		tgt_orphans_end(&orphans, last);
		last = next;
		then = tgt_orphans_left(&orphans, then);
		assert_int_equal(then, 0);
	}
}

/* More OPENs than buckets, each after an orphan that stays: late ones may wait too long, none
 * too short. */
static void full_buckets_are_waited_for_entirely(void **state)
{
	struct tgt_orphans orphans = {0};
	uint8_t numbers[2 * TGT_ORPHAN_BUCKETS];
	uint64_t then = 0;

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(numbers); i++) {
		numbers[i] = tgt_orphans_begin(&orphans);
		then = tgt_orphans_now(&orphans);
	}
	for (unsigned int i = 0; i < UNIT_LENGTH(numbers); i++) {
		assert_int_not_equal(tgt_orphans_left(&orphans, then), 0);
		tgt_orphans_end(&orphans, numbers[i]);
	}
	assert_int_equal(tgt_orphans_left(&orphans, then), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_waited_for_where_there_are_none),
		cmocka_unit_test(all_that_were_there_are_waited_for),
		cmocka_unit_test(later_ones_are_not_waited_for),
		cmocka_unit_test(full_buckets_are_waited_for_entirely),
	};

	return cmocka_run_group_tests_name("target orphans", tests, NULL, NULL);
}
