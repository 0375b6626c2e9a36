/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a command that was failed by fail_fast_ms never lands on one that is sent later (F5): no
 * command is sent before the target has acknowledged the fence of every incarnation on which one
 * was failed; and what was lost in an older epoch is released as such, whatever happens meanwhile.
 * Method: the initiator's session, event by event, as a driver reports them.
 */
#include "tests/unit/unit.h"
#include "proto/core/session.h"

#define MS 1000000ull

static const u8 INSTANCE[16] = {1};

static struct core_session session;
static unsigned int fences; /* actions FENCE */
static bool released[RBLK_QUEUES_MAX], renewed[RBLK_QUEUES_MAX];

/* Takes the actions; what ends is drained at once. */
static void follow(u64 now_ns)
{
	struct core_action action;

	while (core_session_action(&session, &action)) {
		fences += action.kind == CORE_ACTION_FENCE;
		if (action.kind == CORE_ACTION_CLOSE)
			core_session_drained(&session, action.queue, now_ns);
		if (action.kind != CORE_ACTION_RELEASE)
			continue;
		released[action.queue] = true;
		renewed[action.queue] = action.renewed;
	}
}

static void accepted(u16 queue, u64 now_ns)
{
	assert_int_equal(session.queue[queue].state, CORE_QUEUE_CONNECTING);
	assert_true(core_session_accepted(&session, queue, INSTANCE, 0, 0, now_ns));
	follow(now_ns);
}

/* Two queues, LIVE, lost at 20 s; the time for fail_fast_ms is over or not. */
static void lose_both(bool fail_fast)
{
	const struct core_session_options options = {
		.queues = 2,
		.portals = 1,
		.connect_timeout_ms = 60000,
		.reconnect_min_ms = 100,
		.reconnect_max_ms = 10000,
		.fail_fast_ms = fail_fast ? 1000 : 0,
		.give_up_ms = 60000,
		.random = 7,
	};

	fences = 0;
	memset(released, 0, sizeof(released));
	core_session_init(&session, &options);
	core_session_start(&session, 0);
	follow(0);
	accepted(0, 0);
	core_session_named(&session, true, 0);
	follow(0);
	accepted(1, 0);
	core_session_lost(&session, 0, 20000 * MS);
	core_session_lost(&session, 1, 20000 * MS);
	follow(20000 * MS);
	core_session_tick(&session, 21000 * MS);
	follow(21000 * MS);
	assert_int_equal(session.failing_fast, fail_fast);
	assert_int_equal(core_session_route(&session, 0), -1);
}

static void test_nothing_failed_nothing_waits(void **state)
{
	(void)state;
	lose_both(false);
	accepted(0, 22000 * MS);
	assert_int_equal(core_session_route(&session, 0), 0);
	assert_true(released[0] && !released[1]);
}

/* The fence of queue 1 comes by FENCE on queue 0. */
static void test_commands_wait_for_the_fence(void **state)
{
	(void)state;
	lose_both(true);
	accepted(0, 22000 * MS);
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	assert_int_equal(core_session_route(&session, 0), -1);
	assert_int_equal(fences, 1);
	/* They wait, and do not fail: the target is there. */
	assert_false(session.failing_fast);
	core_session_tick(&session, 500000 * MS);
	follow(500000 * MS);
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	assert_false(session.failing_fast);
	/* A fence that was refused is none. */
	core_session_fenced(&session, 1, 1, false, 500000 * MS);
	follow(500000 * MS);
	assert_int_equal(core_session_route(&session, 0), -1);
	core_session_tick(&session, 500100 * MS);
	follow(500100 * MS);
	assert_int_equal(fences, 2);
	core_session_fenced(&session, 1, 1, true, 500200 * MS);
	follow(500200 * MS);
	assert_int_equal(core_session_route(&session, 0), 0);
	assert_true(released[1]);
}

/* Or by its own login, at a target without FENCE of a volume. */
static void test_login_is_a_fence(void **state)
{
	(void)state;
	lose_both(true);
	accepted(0, 22000 * MS);
	accepted(1, 22001 * MS);
	assert_int_equal(core_session_route(&session, 0), 0);
	assert_int_equal(core_session_route(&session, 1), 1);
}

/* Or by a new epoch. */
static void test_new_epoch_is_a_fence(void **state)
{
	(void)state;
	lose_both(true);
	core_session_rejected(&session, 0, RBLK_REJECT_NO_SESSION, 0, 22000 * MS);
	follow(22000 * MS);
	accepted(0, 22001 * MS);
	assert_int_equal(core_session_route(&session, 0), -1); /* not named yet */
	core_session_named(&session, true, 22002 * MS);
	follow(22002 * MS);
	assert_int_equal(core_session_route(&session, 0), 0);
	assert_true(renewed[0] && renewed[1]);
}

/* The connection of the new epoch is lost before the driver has taken RELEASE (F8). */
static void test_released_of_an_older_epoch(void **state)
{
	struct core_action action;

	(void)state;
	lose_both(false);
	core_session_rejected(&session, 0, RBLK_REJECT_NO_SESSION, 0, 22000 * MS);
	follow(22000 * MS);
	accepted(0, 22001 * MS);
	core_session_named(&session, true, 22002 * MS);
	core_session_lost(&session, 0, 22002 * MS);
	while (core_session_action(&session, &action))
		if (action.kind == CORE_ACTION_RELEASE)
			assert_true(action.renewed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_failed_nothing_waits),
		cmocka_unit_test(test_commands_wait_for_the_fence),
		cmocka_unit_test(test_login_is_a_fence),
		cmocka_unit_test(test_new_epoch_is_a_fence),
		cmocka_unit_test(test_released_of_an_older_epoch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
