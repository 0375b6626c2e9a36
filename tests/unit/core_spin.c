/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a loop keeps polling while work comes at short intervals, and sleeps at once if it does
 * not, or if other threads want the processor. Method: feed gaps of known length and look at the
 * decision.
 */
#include "tests/unit/unit.h"

#include "proto/core/env.h"
#include "proto/core/spin.h"

#define MAX_NS 50000u

/* The thread's time, in the place of the machine's. */
static u64 used_ns;

uint64_t __wrap_env_thread_cpu_ns(void);
uint64_t __wrap_env_thread_cpu_ns(void)
{
	return used_ns;
}

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
		for (u64 at = *now + 1; at < *now + gap_ns && !core_spin_turn(spin, at, 0);)
			at += 500000;
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

/*
 * A turn without work; the next turn comes only when another thread's time slice is over. Four
 * times: the first one says when to look, three are no coincidence.
 */
static void lose_processor(struct core_spin *spin, u64 *now)
{
	for (unsigned int i = 0; i < 4; i++) {
		core_spin_turn(spin, *now += 1000, 1);
		assert_false(core_spin_turn(spin, *now += 1000, 0));
		used_ns += 2000;
		*now += 3000000;
	}
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
	assert_true(first >= 39000000);
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

/* The clock jumps, and the thread's time as far: nobody else ran here. */
static void a_stop_by_a_hypervisor_is_polled_through(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	gaps(&spin, &now, 10000, 100);
	for (unsigned int i = 0; i < 100; i++) {
		core_spin_turn(&spin, now += 10000, 1);
		assert_false(core_spin_turn(&spin, now += 1000, 0));
		now += 3000000;
		used_ns += 3011000;
		assert_false(core_spin_turn(&spin, now, 0));
	}
	assert_true(spins_for(&spin, &now) > 20000);
}

/* Turns of 20 us for a while, then one in which another thread runs. True: it sleeps. */
static bool sleeps_beside(struct core_spin *spin, u64 *now, u64 run_ns, u64 lost_ns)
{
	for (u64 ran = 0; ran < run_ns; ran += 20000) {
		used_ns += 20000;
		if (core_spin_turn(spin, *now += 20000, 0))
			return true;
	}
	return core_spin_turn(spin, *now += lost_ns, 0);
}

/* Also one that is quicker than a spin, and leaves the loop more than half of the time. */
static void slow_turns_do_not_keep_an_idle_loop_polling(void **state)
{
	struct core_spin spin;
	u64 now = 1;
	bool slept = false;

	(void)state;
	core_spin_init(&spin, 2000000);
	core_spin_turn(&spin, now, 1);
	for (unsigned int i = 0; i < 10 && !slept; i++)
		slept = sleeps_beside(&spin, &now, 1500000, 1200000);
	assert_true(slept);
}

/* There is always work after some turns, so a spin never ends by itself. */
static void a_competitor_of_equal_share_is_seen(void **state)
{
	struct core_spin spin;
	u64 now = 1;
	bool slept = false;

	(void)state;
	core_spin_init(&spin, 2000000);
	gaps(&spin, &now, 20000, 100);
	for (unsigned int i = 0; i < 10 && !slept; i++) {
		for (u64 ran = 0; ran < 3000000; ran += 20000) {
			used_ns += 20000;
			slept |= core_spin_turn(&spin, now += 20000, ran % 100000 == 0);
		}
		slept |= core_spin_turn(&spin, now += 20000, 0);
		slept |= core_spin_turn(&spin, now += 2500000, 0);
	}
	assert_true(slept);
}

/* Two loops that poll yield to each other, and a hypervisor stops them now and then. */
static void sharing_with_one_that_polls_is_polled_through(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	for (unsigned int i = 0; i < 100; i++) {
		gaps(&spin, &now, 20000, 500);
		used_ns += 5000000;
		assert_false(core_spin_turn(&spin, now += 1000, 0));
		now += 3000000;
		assert_false(core_spin_turn(&spin, now, 0));
	}
	assert_true(spins_for(&spin, &now) > 20000);
}

/* What a thread did not run between two stops, in short pieces and asleep, is no reason to sleep. */
static void what_was_lost_before_a_sleep_does_not_count(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MAX_NS);
	for (unsigned int i = 0; i < 100; i++) {
		gaps(&spin, &now, 10000, 100);
		used_ns += 1000000;
		assert_false(core_spin_turn(&spin, now += 1000, 0));
		now += 3000000;
		used_ns += 3000000;
		assert_false(core_spin_turn(&spin, now, 0));
		while (!core_spin_turn(&spin, now += 1000, 0))
			used_ns += 1000;
		now += 30000000; /* asleep */
		core_spin_turn(&spin, now, 1);
	}
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

/*
 * How long the work takes to come: if the loop polls, for most gaps and for one of `every`; and if it
 * sleeps, from then on.
 */
struct source {
	u64 polled_ns, late_ns, slept_ns;
	unsigned int every; /* 0: none is late */
};

/* Of `count` gaps, how many the loop polled. */
static unsigned int polled_of(struct core_spin *spin, u64 *now, const struct source *source,
			      unsigned int count)
{
	unsigned int polled = 0;

	for (unsigned int i = 0; i < count; i++) {
		u64 due = source->every && i % source->every == 0 ? source->late_ns : source->polled_ns;
		u64 begin = *now + 1000;
		bool sleeps;

		core_spin_turn(spin, *now, 1);
		for (*now = begin; !(sleeps = core_spin_turn(spin, *now, 0)) && *now < begin + due;)
			*now += 5000;
		polled += *now > begin;
		if (sleeps)
			*now += source->slept_ns;
	}
	return polled;
}

#define MS 1000000ull

/* A hypervisor with more to run than processors: a wake-up has to wait for one. */
static void where_wake_ups_are_slow_it_polls(void **state)
{
	const struct source source = {.polled_ns = 100000, .late_ns = 4 * MS, .slept_ns = 3 * MS, .every = 10};
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, MS);
	/* Whatever it begins with. */
	gaps(&spin, &now, 3 * MS, 100);
	assert_true(polled_of(&spin, &now, &source, 4000) > 3000);
}

/* Its peer has no processor as long as it polls. */
static void where_polling_delays_the_work_it_sleeps(void **state)
{
	const struct source source = {.polled_ns = 10 * MS, .slept_ns = 500000};
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, 2 * MS);
	gaps(&spin, &now, 100000, 100);
	polled_of(&spin, &now, &source, 1000);
	assert_true(polled_of(&spin, &now, &source, 4000) < 40);
	/* And back, when it has the processor again. */
	gaps(&spin, &now, 100000, 600);
	assert_true(spins_for(&spin, &now) > 100000);
}

/* Nobody gains by polling for it. */
static void what_comes_seldom_is_slept_through(void **state)
{
	const struct source seldom = {.polled_ns = 5 * MS, .slept_ns = 5 * MS};
	const struct source never = {.polled_ns = 20 * MS, .slept_ns = 20 * MS};
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, 2 * MS);
	polled_of(&spin, &now, &seldom, 1000);
	assert_true(polled_of(&spin, &now, &seldom, 4000) < 20);
	polled_of(&spin, &now, &never, 1000);
	assert_int_equal(polled_of(&spin, &now, &never, 4000), 0);
	/* Then a little more often than that: that sleeping took long is no reason for ever. */
	for (u64 gap_ns = 2 * MS + 400000; gap_ns < 9 * MS; gap_ns += 400000) {
		const struct source steady = {.polled_ns = gap_ns, .slept_ns = gap_ns};

		polled_of(&spin, &now, &never, 200);
		polled_of(&spin, &now, &steady, 1500);
		assert_true(polled_of(&spin, &now, &steady, 4000) < 200);
	}
}

static void never_and_always(void **state)
{
	struct core_spin spin;
	u64 now = 1;

	(void)state;
	core_spin_init(&spin, 0);
	assert_true(core_spin_turn(&spin, now, 0));
	assert_false(core_spin_turn(&spin, now, 1));
	assert_true(core_spin_sleeps(&spin, now));
	core_spin_init(&spin, (u64)-1);
	assert_false(core_spin_sleeps(&spin, now));
	for (unsigned int i = 0; i < 100; i++)
		assert_false(core_spin_turn(&spin, now += 1000000000, 0));
}

static void a_spin_costs_so_many_wake_ups(void **state)
{
	(void)state;
	assert_int_equal(core_spin_max_ns(1, 50000), 50000);
	/* Nobody answered in time. */
	assert_int_equal(core_spin_max_ns(0, 50000), 2000000);
	assert_int_equal(core_spin_max_ns(3124, 50000), 50000);
	assert_int_equal(core_spin_max_ns(20000, 50000), 320000);
	assert_int_equal(core_spin_max_ns(124999, 50000), 1999984);
	assert_int_equal(core_spin_max_ns(UINT64_MAX, 50000), 2000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_gaps_are_spun_over),
		cmocka_unit_test(long_gaps_are_slept_through),
		cmocka_unit_test(a_crowded_processor_is_left),
		cmocka_unit_test(a_stop_by_a_hypervisor_is_polled_through),
		cmocka_unit_test(slow_turns_do_not_keep_an_idle_loop_polling),
		cmocka_unit_test(a_competitor_of_equal_share_is_seen),
		cmocka_unit_test(sharing_with_one_that_polls_is_polled_through),
		cmocka_unit_test(what_was_lost_before_a_sleep_does_not_count),
		cmocka_unit_test(a_sleep_is_not_a_loss),
		cmocka_unit_test(time_away_is_not_a_loss),
		cmocka_unit_test(where_wake_ups_are_slow_it_polls),
		cmocka_unit_test(where_polling_delays_the_work_it_sleeps),
		cmocka_unit_test(what_comes_seldom_is_slept_through),
		cmocka_unit_test(never_and_always),
		cmocka_unit_test(a_spin_costs_so_many_wake_ups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
