/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a loop keeps polling while work comes at short intervals, and sleeps at once if it does
 * not, or if other threads want the processor. Method: feed gaps of known length and look at the
 * decision.
 */
#include "tests/unit/unit.h"

#include "proto/core/spin.h"

#define MAX_NS 50000u

/* Work at `now`, then turns without work each 1 us: how long it spins before it wants to sleep. */
static u64 spins_for(struct core_spin *spin, u64 *now)
{
	u64 begin;

	core_spin_turn(spin, *now, 1);
	begin = *now;
	for (u64 i = 0; i < 1000; i++) {
		*now += 1000;
		if (core_spin_turn(spin, *now, 0))
			break;
	}
	return *now - begin;
}

/* `count` gaps of this length between work. */
static void gaps(struct core_spin *spin, u64 *now, u64 gap_ns, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		core_spin_turn(spin, *now, 1);
		core_spin_turn(spin, *now + 1, 0);
		*now += gap_ns;
	}
	core_spin_turn(spin, *now, 1);
}

static void short_gaps_are_spun_over(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	gaps(&spin, &now, 10000, 100);
	assert_true(spins_for(&spin, &now) > 20000);
	assert_true(spins_for(&spin, &now) <= MAX_NS + 2000);
}

static void long_gaps_are_slept_through(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	gaps(&spin, &now, 10000000, 100);
	assert_true(spins_for(&spin, &now) <= 1000);
	/* And it adapts to a busy time again. */
	gaps(&spin, &now, 5000, 100);
	assert_true(spins_for(&spin, &now) > 5000);
}

/* A turn without work; the next turn comes only when another thread's time slice is over. */
static void lose_processor(struct core_spin *spin, u64 *now)
{
	core_spin_turn(spin, *now += 1000, 1);
	assert_false(core_spin_turn(spin, *now += 1000, 0));
	*now += 3000000;
}

/* For how long from `now` on every turn without work wants to sleep. */
static u64 sleeps_for(struct core_spin *spin, u64 *now)
{
	u64 begin = *now;

	for (unsigned int i = 0; i < 100000; i++) {
		core_spin_turn(spin, *now, 1);
		if (!core_spin_turn(spin, *now += 1000, 0))
			break;
		*now += 9000;
	}
	core_spin_turn(spin, *now += 1000, 1);
	return *now - begin;
}

static void a_crowded_processor_is_left(void **state)
{
	struct core_spin spin;
	u64 now = 1, first, second;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	gaps(&spin, &now, 10000, 100);
	lose_processor(&spin, &now);
	/* Also if there was work when the thread ran again. */
	core_spin_turn(&spin, now, 1);
	first = sleeps_for(&spin, &now);
	assert_true(first >= 9000000);
	gaps(&spin, &now, 10000, 100);
	lose_processor(&spin, &now);
	assert_true(core_spin_turn(&spin, now, 0));
	second = sleeps_for(&spin, &now);
	assert_true(second >= 2 * first - 2000000);
	/* After a long time without other threads, it begins from the start again. */
	gaps(&spin, &now, 10000, 10000);
	lose_processor(&spin, &now);
	core_spin_turn(&spin, now, 1);
	assert_true(sleeps_for(&spin, &now) <= first + 2000000);
}

static void a_sleep_is_not_a_loss(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	gaps(&spin, &now, 10000, 100);
	while (!core_spin_turn(&spin, now += 1000, 0))
		;
	now += 3000000; /* asleep */
	core_spin_turn(&spin, now, 1);
	gaps(&spin, &now, 10000, 100);
	assert_true(spins_for(&spin, &now) > 20000);
}

static void time_away_is_not_a_loss(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	gaps(&spin, &now, 10000, 100);
	for (unsigned int i = 0; i < 100; i++) {
		assert_false(core_spin_turn(&spin, now += 1000, 0));
		core_spin_leave(&spin);
		now += 3000000;
	}
	assert_true(spins_for(&spin, &now) > 20000);
}

static void never_and_always(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, 0);
	assert_true(core_spin_turn(&spin, now, 0));
	assert_false(core_spin_turn(&spin, now, 1));
	core_spin_init(&spin, (u64)-1);
	for (unsigned int i = 0; i < 100; i++)
		assert_false(core_spin_turn(&spin, now += 1000000000, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_gaps_are_spun_over),
		cmocka_unit_test(long_gaps_are_slept_through),
		cmocka_unit_test(a_crowded_processor_is_left),
		cmocka_unit_test(a_sleep_is_not_a_loss),
		cmocka_unit_test(time_away_is_not_a_loss),
		cmocka_unit_test(never_and_always),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
