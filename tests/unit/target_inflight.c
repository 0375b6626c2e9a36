/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: when a store is full, owners that wait get turns by their weights, exactly, however many operations
 * each has; nobody waits for an owner that wants nothing. Method: owners that always have operations
 * waiting, and a count of whose began.
 */
#include "target/store/inflight.h"
#include "tests/unit/unit.h"

#define OWNERS 3u
#define EACH 8u
#define ROUNDS 1200u

static struct tgt_inflight inflight;
static struct tgt_waiter waiters[OWNERS][EACH];
static unsigned int begun[OWNERS];

/* One ends, and another begins. */
static struct tgt_waiter *next(void)
{
	tgt_inflight_leave(&inflight);
	return tgt_inflight_next(&inflight);
}

/* Fills it, then keeps `waiting` operations of each owner there for so many that begin. */
static void run(const unsigned int weights[OWNERS], const unsigned int waiting[OWNERS])
{
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(99, 0)};

	tgt_inflight_init(&inflight, 1);
	assert_true(tgt_inflight_enter(&inflight, &filler));
	for (unsigned int i = 0; i < OWNERS; i++) {
		begun[i] = 0;
		for (unsigned int j = 0; j < waiting[i]; j++) {
			waiters[i][j].owner = tgt_inflight_owner(i + 1, weights[i]);
			assert_false(tgt_inflight_enter(&inflight, &waiters[i][j]));
		}
	}
	for (unsigned int n = 0; n < ROUNDS; n++) {
		struct tgt_waiter *waiter = next();
		unsigned int owner;

		assert_non_null(waiter);
		assert_false(waiter->waiting);
		owner = (unsigned int)(waiter->owner & 0xffffffff) - 1;
		begun[owner]++;
		/* Another one of that owner comes at once. */
		assert_false(tgt_inflight_enter(&inflight, waiter));
	}
}

static void turns_follow_weights(void **state)
{
	(void)state;
	run((const unsigned int[]){3, 1, 0}, (const unsigned int[]){EACH, EACH, 0});
	assert_int_equal(begun[0], ROUNDS / 4 * 3);
	assert_int_equal(begun[1], ROUNDS / 4);
	/* However many the others have waiting. */
	run((const unsigned int[]){3, 1, 0}, (const unsigned int[]){4, EACH, 0});
	assert_int_equal(begun[0], ROUNDS / 4 * 3);
	run((const unsigned int[]){5, 0, 6}, (const unsigned int[]){EACH, 2, EACH});
	assert_int_equal(begun[0], ROUNDS / 12 * 5);
	assert_int_equal(begun[1], ROUNDS / 12);
	assert_int_equal(begun[2], ROUNDS / 12 * 6);
}

static void equal_weights_are_equal(void **state)
{
	(void)state;
	run((const unsigned int[]){1, 1, 0}, (const unsigned int[]){EACH, 2, 3});
	for (unsigned int i = 0; i < OWNERS; i++)
		assert_int_equal(begun[i], ROUNDS / OWNERS);
}

/* A weight is a share of what others want, too. */
static void the_only_one_gets_all(void **state)
{
	(void)state;
	run((const unsigned int[]){0, 1, 100}, (const unsigned int[]){0, EACH, 0});
	assert_int_equal(begun[1], ROUNDS);
}

/* One that is taken back in the middle of its owner's turn neither ends nor prolongs the turn. */
static void a_withdrawal_keeps_the_turn(void **state)
{
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(99, 0)};

	(void)state;
	tgt_inflight_init(&inflight, 1);
	assert_true(tgt_inflight_enter(&inflight, &filler));
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int j = 0; j < 5; j++) {
			waiters[i][j].owner = tgt_inflight_owner(i + 1, 3);
			assert_false(tgt_inflight_enter(&inflight, &waiters[i][j]));
		}
	assert_ptr_equal(next(), &waiters[0][0]);
	tgt_inflight_withdraw(&inflight, &waiters[0][1]);
	assert_ptr_equal(next(), &waiters[0][2]);
	assert_ptr_equal(next(), &waiters[0][3]);
	assert_ptr_equal(next(), &waiters[1][0]);
}

/* A bound that has become smaller lets nobody in until it is no fuller than that; one that has become larger is filled by
 * those that wait, before those that come. */
static void the_bound_may_change(void **state)
{
	struct tgt_waiter early[4] = {0}, late = {.owner = tgt_inflight_owner(2, 0)};

	(void)state;
	tgt_inflight_init(&inflight, 2);
	for (unsigned int i = 0; i < 4; i++) {
		early[i].owner = tgt_inflight_owner(1, 0);
		assert_true(tgt_inflight_enter(&inflight, &early[i]) == (i < 2));
	}
	inflight.most = 1;
	assert_null(next());
	assert_ptr_equal(next(), &early[2]);
	inflight.most = 3;
	assert_false(tgt_inflight_enter(&inflight, &late));
	assert_ptr_equal(tgt_inflight_next(&inflight), &early[3]);
	assert_ptr_equal(tgt_inflight_next(&inflight), &late);
	assert_null(tgt_inflight_next(&inflight));
	assert_int_equal(inflight.count, 3);
}

/* An owner's operations with priority go before its others, eight at most before one of these. */
static void priority_goes_first(void **state)
{
	static struct tgt_waiter plain[4], priority[20];
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(99, 0)};
	unsigned int p = 0;

	(void)state;
	tgt_inflight_init(&inflight, 1);
	assert_true(tgt_inflight_enter(&inflight, &filler));
	for (unsigned int i = 0; i < 4; i++) {
		plain[i] = (struct tgt_waiter){.owner = tgt_inflight_owner(1, 1)};
		assert_false(tgt_inflight_enter(&inflight, &plain[i]));
	}
	for (unsigned int i = 0; i < 20; i++) {
		priority[i] = (struct tgt_waiter){.owner = tgt_inflight_owner(1, 1), .priority = true};
		assert_false(tgt_inflight_enter(&inflight, &priority[i]));
	}
	tgt_inflight_withdraw(&inflight, &priority[0]);
	tgt_inflight_withdraw(&inflight, &plain[3]);
	tgt_inflight_withdraw(&inflight, &priority[12]);
	for (unsigned int i = 0; i < 21; i++) {
		if (i % (TGT_PRIORITY_MOST + 1) == TGT_PRIORITY_MOST || p == 19) {
			assert_ptr_equal(next(), &plain[i / (TGT_PRIORITY_MOST + 1)]);
			continue;
		}
		p += p == 11 ? 2 : 1;
		assert_ptr_equal(next(), &priority[p]);
	}
	assert_null(next());
}

/* Who reads does not wait behind all that the same owner writes, nor the other way round; one withdrawn changes
 * nothing. */
static void reads_and_writes_take_turns(void **state)
{
	static struct tgt_waiter writes[EACH], reads[EACH];
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(99, 0)};
	struct tgt_waiter priority = {.owner = tgt_inflight_owner(1, 1), .priority = true};

	(void)state;
	tgt_inflight_init(&inflight, 1);
	assert_true(tgt_inflight_enter(&inflight, &filler));
	for (unsigned int i = 0; i < EACH; i++) {
		writes[i] = (struct tgt_waiter){.owner = tgt_inflight_owner(1, 1)};
		assert_false(tgt_inflight_enter(&inflight, &writes[i]));
	}
	for (unsigned int i = 0; i < EACH; i++) {
		reads[i] = (struct tgt_waiter){.owner = tgt_inflight_owner(1, 1), .read = true};
		assert_false(tgt_inflight_enter(&inflight, &reads[i]));
	}
	assert_ptr_equal(next(), &writes[0]);
	assert_ptr_equal(next(), &reads[0]);
	assert_ptr_equal(next(), &writes[1]);
	/* It takes the place of one that is the first, a READ, and leaves it what it was. */
	assert_false(tgt_inflight_enter(&inflight, &priority));
	assert_ptr_equal(next(), &priority);
	assert_ptr_equal(next(), &reads[1]);
	tgt_inflight_withdraw(&inflight, &writes[2]);
	tgt_inflight_withdraw(&inflight, &reads[3]);
	assert_ptr_equal(next(), &writes[3]);
	assert_ptr_equal(next(), &reads[2]);
	for (unsigned int i = 4; i < EACH; i++) {
		assert_ptr_equal(next(), &writes[i]);
		assert_ptr_equal(next(), &reads[i]);
	}
	assert_null(next());
}

/* Its turn comes at once for the first with priority, and not again before all turns were taken. */
static void priority_does_not_wait_for_a_turn(void **state)
{
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(99, 0)};
	struct tgt_waiter late = {.owner = tgt_inflight_owner(9, 1), .priority = true};
	static struct tgt_waiter many[OWNERS][EACH];

	(void)state;
	tgt_inflight_init(&inflight, 1);
	assert_true(tgt_inflight_enter(&inflight, &filler));
	for (unsigned int i = 0; i < OWNERS; i++)
		for (unsigned int j = 0; j < EACH; j++) {
			many[i][j] = (struct tgt_waiter){.owner = tgt_inflight_owner(i + 1, 1)};
			assert_false(tgt_inflight_enter(&inflight, &many[i][j]));
		}
	for (unsigned int round = 0; round < 4; round++) {
		assert_false(tgt_inflight_enter(&inflight, &late));
		if (round)
			for (unsigned int i = 0; i < OWNERS; i++)
				assert_ptr_not_equal(next(), &late);
		assert_ptr_equal(next(), &late);
	}
	/* After a round without it, at once again. */
	for (unsigned int i = 0; i < OWNERS; i++)
		assert_non_null(next());
	assert_non_null(next());
	assert_false(tgt_inflight_enter(&inflight, &late));
	assert_ptr_equal(next(), &late);
}

/* Who marks all of its operations has no larger part, however many it has. */
static void priority_is_no_larger_part(void **state)
{
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(99, 0)};

	(void)state;
	for (unsigned int depth = 1; depth <= EACH; depth++) {
		tgt_inflight_init(&inflight, 1);
		assert_true(tgt_inflight_enter(&inflight, &filler));
		for (unsigned int i = 0; i < OWNERS; i++) {
			begun[i] = 0;
			for (unsigned int j = 0; j < (i ? EACH : depth); j++) {
				waiters[i][j] = (struct tgt_waiter){.owner = tgt_inflight_owner(i + 1, 1),
								   .priority = !i};
				assert_false(tgt_inflight_enter(&inflight, &waiters[i][j]));
			}
		}
		for (unsigned int n = 0; n < ROUNDS; n++) {
			struct tgt_waiter *waiter = next();

			begun[(waiter->owner & 0xffffffff) - 1]++;
			assert_false(tgt_inflight_enter(&inflight, waiter));
		}
		for (unsigned int i = 0; i < OWNERS; i++)
			assert_in_range(begun[i], ROUNDS / OWNERS - 1, ROUNDS / OWNERS + 1);
	}
}

/* Each with one operation at a time, which comes when those of all the others have begun: no turn is denied to any of
 * them, and yet an owner without priority gets one. */
static void priority_of_many_leaves_turns_to_others(void **state)
{
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(99, 0)};
	struct tgt_waiter plain = {.owner = tgt_inflight_owner(9, 1)};
	static struct tgt_waiter many[OWNERS];
	unsigned int passed = 0;

	(void)state;
	tgt_inflight_init(&inflight, 1);
	assert_true(tgt_inflight_enter(&inflight, &filler));
	assert_false(tgt_inflight_enter(&inflight, &plain));
	for (unsigned int n = 0; n < ROUNDS && passed <= TGT_PRIORITY_MOST + OWNERS; n++) {
		struct tgt_waiter *late = &many[n % OWNERS];

		if (!late->waiting) {
			late->owner = tgt_inflight_owner(n % OWNERS + 1, 1);
			late->priority = true;
			assert_false(tgt_inflight_enter(&inflight, late));
		}
		passed = next() == &plain ? 0 : passed + 1;
		if (!passed)
			assert_false(tgt_inflight_enter(&inflight, &plain));
	}
	assert_in_range(passed, 0, TGT_PRIORITY_MOST + OWNERS); /* those wait, too */
}

#define CROWD 3000u /* owners, each with one operation that waits, or two */

/* Each is found again among very many, and nobody's place is lost. */
static void a_crowd_is_served_in_turn(void **state)
{
	static struct tgt_waiter crowd[2][CROWD];
	struct tgt_waiter filler = {.owner = tgt_inflight_owner(0, 0)};

	(void)state;
	tgt_inflight_init(&inflight, 1);
	assert_true(tgt_inflight_enter(&inflight, &filler));
	for (unsigned int n = 0; n < 2; n++)
		for (unsigned int i = 0; i < CROWD; i++) {
			crowd[n][i].owner = tgt_inflight_owner(i + 1, 1);
			assert_false(tgt_inflight_enter(&inflight, &crowd[n][i]));
		}
	for (unsigned int i = 0; i < CROWD; i += 3)
		tgt_inflight_withdraw(&inflight, &crowd[i % 2][i]);
	for (unsigned int n = 0; n < 2; n++)
		for (unsigned int i = 0; i < CROWD; i++) {
			if (i % 3)
				assert_ptr_equal(next(), &crowd[n][i]);
			else if (!n)
				assert_ptr_equal(next(), &crowd[!(i % 2)][i]);
		}
	assert_null(next());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_follow_weights),
		cmocka_unit_test(equal_weights_are_equal),
		cmocka_unit_test(the_only_one_gets_all),
		cmocka_unit_test(a_withdrawal_keeps_the_turn),
		cmocka_unit_test(the_bound_may_change),
		cmocka_unit_test(priority_goes_first),
		cmocka_unit_test(reads_and_writes_take_turns),
		cmocka_unit_test(priority_does_not_wait_for_a_turn),
		cmocka_unit_test(priority_is_no_larger_part),
		cmocka_unit_test(a_crowd_is_served_in_turn),
		cmocka_unit_test(priority_of_many_leaves_turns_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
