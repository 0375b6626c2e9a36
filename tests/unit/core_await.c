/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a submitter waits on the processor where that makes its commands follow each other clearly faster, and only there.
 * Method: submitters on a clock of their own, who take as long for a command when they sleep as when they wait, or not;
 * and how many of their commands were waited for.
 */
#include "tests/unit/unit.h"

#include "proto/core/await.h"

struct submitter {
	struct core_await await;
	u64 now_ns;
	u64 slept_ns, waited_ns; /* what a cycle takes each way */
	bool in_vain;		 /* no answer comes while it waits */
};

/* How many of so many commands, one at a time, were waited for. */
static unsigned int submit(struct submitter *s, unsigned int commands)
{
	unsigned int waits = 0;

	for (unsigned int i = 0; i < commands; i++) {
		bool wait = core_await_submit(&s->await, s->now_ns, true);

		if (wait)
			core_await_waited(&s->await, !s->in_vain);
		waits += wait;
		s->now_ns += wait ? s->waited_ns : s->slept_ns;
	}
	return waits;
}

static struct submitter submitter_of(u64 slept_ns, u64 waited_ns)
{
	struct submitter s = { .now_ns = 1000, .slept_ns = slept_ns, .waited_ns = waited_ns };

	core_await_init(&s.await);
	return s;
}

static void waiting_that_is_faster_is_kept(void **state)
{
	struct submitter s = submitter_of(100000, 60000);

	(void)state;
	assert_in_range(submit(&s, 1000), 900, 1000);
	/* Trials become rare, and are not given up: half of each is slept through, and one command in 32 besides. */
	submit(&s, 50000);
	assert_in_range(submit(&s, 100000), 95000, 96000);
}

static void sleeping_that_is_as_good_is_kept(void **state)
{
	struct submitter s = submitter_of(100000, 90000);

	(void)state;
	submit(&s, 50000);
	assert_in_range(submit(&s, 100000), 100, 2000);
}

/* The submitter has something to do meanwhile, which waits when it does. */
static void waiting_that_costs_is_left(void **state)
{
	struct submitter s = submitter_of(100000, 60000);
	unsigned int waits;

	(void)state;
	submit(&s, 10000);
	s.waited_ns = 150000;
	submit(&s, 5000);
	waits = submit(&s, 10000);
	assert_in_range(waits, 1, 1000);
	s.waited_ns = 20000;
	submit(&s, 5000);
	assert_in_range(submit(&s, 10000), 9000, 10000);
}

/* Others want the processor: after four in a row there is a new trial, and then sleeping is kept, for a time that grows. */
static void waiting_in_vain_is_left_at_once(void **state)
{
	struct submitter s = submitter_of(100000, 60000);

	(void)state;
	submit(&s, 1000);
	s.in_vain = true;
	s.waited_ns = 100000;
	assert_in_range(submit(&s, 100), 4, 4 + 16);
	submit(&s, 50000);
	assert_in_range(submit(&s, 100000), 100, 2000);
}

/* Where sleeping takes longer still, it goes on. */
static void waiting_in_vain_may_be_faster_still(void **state)
{
	struct submitter s = submitter_of(5000000, 1000000);

	(void)state;
	s.in_vain = true;
	submit(&s, 1000);
	assert_in_range(submit(&s, 1000), 400, 900);
}

static void commands_that_are_not_alone_are_not_waited_for(void **state)
{
	struct submitter s = submitter_of(100000, 60000);

	(void)state;
	submit(&s, 100);
	assert_true(core_await_submit(&s.await, s.now_ns, true));
	for (unsigned int i = 0; i < 1000; i++)
		assert_false(core_await_submit(&s.await, 0, false));
	/* Then whether to wait is tried again, by 16 that are slept through first. */
	assert_int_equal(submit(&s, 17), 1);
}

/* One that submits the next command without an answer: from the first one that is not waited for on, none is. */
static void a_submitter_of_several_is_found_out(void **state)
{
	struct submitter s = submitter_of(100000, 60000);
	unsigned int waits = 0;
	bool alone = true;

	(void)state;
	submit(&s, 100);
	for (unsigned int i = 0; i < 1000; i++) {
		alone = core_await_submit(&s.await, s.now_ns += 5000, alone);
		if (alone)
			core_await_waited(&s.await, true);
		waits += alone;
	}
	assert_in_range(waits, 0, 31);
}

/* A wait in vain that asks for a trial is not part of it. */
static void a_trial_begins_anew(void **state)
{
	struct submitter s = submitter_of(100000, 60000);

	(void)state;
	submit(&s, 100);
	s.in_vain = true;
	s.waited_ns = 1000000;
	while (submit(&s, 1))
		;
	s.in_vain = false;
	s.waited_ns = 60000;
	submit(&s, 33);
	assert_in_range(submit(&s, 100), 95, 100);
}

/* Answers that take long: nothing is decided, and few are waited for. */
static void slow_answers_are_not_waited_for_without_end(void **state)
{
	struct submitter s = submitter_of(100000, 60000);

	(void)state;
	submit(&s, 20);
	s.in_vain = true;
	s.slept_ns = s.waited_ns = 25000000;
	assert_in_range(submit(&s, 1000), 1, 2);
}

/* Hours between two commands say nothing of either way. */
static void a_long_pause_is_no_cycle(void **state)
{
	struct submitter s = submitter_of(100000, 60000);
	u64 hour = 3600000000000ull;

	(void)state;
	submit(&s, 10);
	s.now_ns += hour;
	assert_int_equal(submit(&s, 7), 0);
	assert_int_equal(submit(&s, 10), 10);
	/* In the half of the trial that waits, it begins the trial anew. */
	s.now_ns += hour;
	assert_int_equal(submit(&s, 16), 0);
	assert_in_range(submit(&s, 100), 95, 99);
}

/* Each other command is one that nobody is to wait for: a write and a flush in turn, or batches between single reads. */
static void a_trial_without_cycles_does_not_wait_for_ever(void **state)
{
	(void)state;
	for (unsigned int before = 0; before < 40; before++) {
		struct submitter s = submitter_of(5000000, 5000000);
		unsigned int waits = 0;

		s.in_vain = true;
		submit(&s, before);
		for (unsigned int i = 0; i < 1000; i++) {
			waits += submit(&s, 1);
			core_await_submit(&s.await, s.now_ns, false);
			s.now_ns += 1000000;
		}
		assert_in_range(waits, 0, 1);
	}
}

/* Who has won with quick commands, and then pauses before each, is tried again. */
static void a_submitter_that_slows_down_is_not_waited_for_without_end(void **state)
{
	struct submitter s = submitter_of(100000, 60000);

	(void)state;
	submit(&s, 33);
	s.slept_ns = s.waited_ns = 25000000;
	assert_in_range(submit(&s, 5000), 1, 1024);
	assert_int_equal(submit(&s, 1000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_that_is_faster_is_kept),
		cmocka_unit_test(sleeping_that_is_as_good_is_kept),
		cmocka_unit_test(waiting_that_costs_is_left),
		cmocka_unit_test(waiting_in_vain_is_left_at_once),
		cmocka_unit_test(waiting_in_vain_may_be_faster_still),
		cmocka_unit_test(commands_that_are_not_alone_are_not_waited_for),
		cmocka_unit_test(a_submitter_of_several_is_found_out),
		cmocka_unit_test(a_trial_begins_anew),
		cmocka_unit_test(slow_answers_are_not_waited_for_without_end),
		cmocka_unit_test(a_long_pause_is_no_cycle),
		cmocka_unit_test(a_trial_without_cycles_does_not_wait_for_ever),
		cmocka_unit_test(a_submitter_that_slows_down_is_not_waited_for_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
