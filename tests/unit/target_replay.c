/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session's reply cache (F8): an operation number is done once, a retry gets the same
 * answer, and a number that breaks the rules is refused. Method: numbers in every order that the
 * specification mentions.
 */
#include "tests/unit/unit.h"
#include "target/io/replay.h"

#define MANY RBLK_OPERATIONS_MAX

static enum tgt_operation begin(struct tgt_replay *answers, uint64_t number, bool retry)
{
	struct tgt_answer answer;

	return tgt_replay_begin(answers, number, retry, &answer);
}

static void do_one(struct tgt_replay *answers, uint64_t number)
{
	assert_int_equal(begin(answers, number, false), TGT_OPERATION_NEW);
	tgt_replay_end(answers, number, RBLK_E_COMPARE, number * 512);
}

static void a_retry_gets_the_answer_and_nothing_is_done_again(void **state)
{
	struct tgt_replay answers = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct tgt_answer answer = {.number = 0};

	(void)state;
	for (uint64_t n = 1; n <= MANY; n++)
		do_one(&answers, n);
	for (uint64_t n = 1; n <= MANY; n++) {
		/* Every retry gets the answer. */
		for (int i = 0; i < 2; i++) {
			assert_int_equal(tgt_replay_begin(&answers, n, true, &answer),
					 TGT_OPERATION_KNOWN);
			assert_int_equal(answer.status, RBLK_E_COMPARE);
			assert_int_equal(answer.result, n * 512);
		}
		assert_int_equal(begin(&answers, n, false), TGT_OPERATION_INVALID);
	}
}

static void a_retry_that_is_not_known_is_done(void **state)
{
	struct tgt_replay answers = {.lock = PTHREAD_MUTEX_INITIALIZER};

	(void)state;
	assert_int_equal(begin(&answers, 7, true), TGT_OPERATION_NEW);
	tgt_replay_end(&answers, 7, RBLK_OK, 0);
	/* Numbers arrive in any order, over several queues. */
	assert_int_equal(begin(&answers, 3, false), TGT_OPERATION_NEW);
	assert_int_equal(begin(&answers, 7, true), TGT_OPERATION_KNOWN);
}

static void what_is_under_way_is_not_done_beside_itself(void **state)
{
	struct tgt_replay answers = {.lock = PTHREAD_MUTEX_INITIALIZER};

	(void)state;
	assert_int_equal(begin(&answers, 5, false), TGT_OPERATION_NEW);
	assert_int_equal(begin(&answers, 5, false), TGT_OPERATION_INVALID);
	assert_int_equal(begin(&answers, 5, true), TGT_OPERATION_LATER);
	/* A number that needs the same place does not replace it, either. */
	assert_int_equal(begin(&answers, 5 + MANY, false), TGT_OPERATION_INVALID);
	assert_int_equal(begin(&answers, 5 + MANY, true), TGT_OPERATION_INVALID);
	tgt_replay_end(&answers, 5, RBLK_OK, 0);
	assert_int_equal(begin(&answers, 5 + MANY, false), TGT_OPERATION_NEW);
}

static void what_was_not_done_may_come_again(void **state)
{
	struct tgt_replay answers = {.lock = PTHREAD_MUTEX_INITIALIZER};

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(begin(&answers, 1, i == 2), TGT_OPERATION_NEW);
		tgt_replay_end(&answers, 1, RBLK_E_BUSY, 0);
	}
	do_one(&answers, 1);
	/* Another number had the place before; its answer does not come back. */
	assert_int_equal(begin(&answers, 1 + MANY, false), TGT_OPERATION_NEW);
	tgt_replay_end(&answers, 1 + MANY, RBLK_E_BUSY, 0);
	assert_int_equal(begin(&answers, 1, true), TGT_OPERATION_INVALID);
	assert_int_equal(begin(&answers, 1 + MANY, false), TGT_OPERATION_NEW);
}

static void a_number_whose_place_was_taken_is_refused(void **state)
{
	struct tgt_replay answers = {.lock = PTHREAD_MUTEX_INITIALIZER};

	(void)state;
	for (uint64_t n = 1; n <= MANY + 1; n++)
		do_one(&answers, n);
	assert_int_equal(begin(&answers, 1, true), TGT_OPERATION_INVALID);
	assert_int_equal(begin(&answers, 1, false), TGT_OPERATION_INVALID);
	assert_int_equal(begin(&answers, 2, true), TGT_OPERATION_KNOWN);
	assert_int_equal(begin(&answers, UINT64_MAX, false), TGT_OPERATION_NEW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_retry_gets_the_answer_and_nothing_is_done_again),
		cmocka_unit_test(a_retry_that_is_not_known_is_done),
		cmocka_unit_test(what_is_under_way_is_not_done_beside_itself),
		cmocka_unit_test(what_was_not_done_may_come_again),
		cmocka_unit_test(a_number_whose_place_was_taken_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
