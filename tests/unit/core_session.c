/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the initiator's session behaves as the specification's sections 10 and 11 say: other portals
 * are used, and the old ones when they are back, and a target that forgot gets a new epoch. Method: single
 * events with the actions that must follow. core_session_fences.c, core_session_delays.c and
 * core_session_histories.c have the rest.
 */
#include "tests/unit/core_session_rig.h"

static const u8 OTHER[16] = {2};

static void test_lone_queue_comes_back(void **state)
{
	struct core_action action;

	(void)state;
	live(1, 1);
	core_session_lost(&session, 0, 20000 * MS);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	want_none();
	assert_int_equal(session.state, CORE_SESSION_RECOVERING);
	assert_int_equal(core_session_route(&session, 0), -1);
	/* It was LIVE for long, so it connects again at once, but not before it is drained (F4). */
	core_session_tick(&session, 20001 * MS);
	want_none();
	core_session_drained(&session, 0, 20002 * MS);
	want(CORE_ACTION_RELEASE_HARMLESS, 0);
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.incarnation, 2);
	assert_int_equal(action.fence, 1);
	want_none(); /* drained, and not fenced: nothing else is released (F5) */
	core_session_accepted(&session, 0, INSTANCE, 5000, 0, 20003 * MS);
	action = want(CORE_ACTION_RELEASE, 0);
	assert_false(action.renewed);
	want(CORE_ACTION_STATE, 0);
	want_none();
	assert_int_equal(session.state, CORE_SESSION_LIVE);
}

static void test_first_queue_changes_portal(void **state)
{
	struct core_action action;

	(void)state;
	live(2, 2);
	lose(0, 20000 * MS);
	want(CORE_ACTION_STATE, 0);
	assert_int_equal(core_session_route(&session, 0), 1);
	core_session_drained(&session, 0, 20000 * MS);
	want(CORE_ACTION_RELEASE_HARMLESS, 0);
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.portal, 1);
	want_none();
	/* When queue 0 is connected at the other portal, queue 1 leaves that one: one queue has
	 * to try the lost portal. */
	core_session_accepted(&session, 0, INSTANCE, 5000, 0, 20001 * MS);
	want(CORE_ACTION_RELEASE, 0);
	want(CORE_ACTION_LEAVE, 1);
	want(CORE_ACTION_STATE, 0);
	want_none();
	assert_int_equal(core_session_route(&session, 1), 0);
	lose(1, 20002 * MS);
	core_session_drained(&session, 1, 20002 * MS);
	want(CORE_ACTION_RELEASE_HARMLESS, 1);
	action = want(CORE_ACTION_CONNECT, 1);
	assert_int_equal(action.portal, 0);
	/* The portal stays away for now; the queue goes on trying it. */
	for (u64 now = 20003; now < 60000; now += 50) {
		core_session_heard(&session, 0, now * MS);
		core_session_tick(&session, now * MS);
		if (!core_session_action(&session, &action))
			continue;
		if (action.kind == CORE_ACTION_CONNECT) {
			assert_int_equal(action.portal, 0);
			core_session_unreached(&session, 1, now * MS);
		} else if (action.kind == CORE_ACTION_CLOSE) {
			core_session_drained(&session, 1, now * MS);
		}
	}
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	assert_true(session.queue[1].incarnation > 5);
	/* It left once: when it is back, it stays. */
	while (session.queue[1].state != CORE_QUEUE_CONNECTING) {
		core_session_heard(&session, 0, core_session_next_ns(&session));
		core_session_tick(&session, core_session_next_ns(&session));
	}
	assert_true(core_session_accepted(&session, 1, INSTANCE, 0, 0, 80000 * MS));
	assert_true(core_session_open(&session, 1));
	while (core_session_action(&session, &action))
		assert_int_not_equal(action.kind, CORE_ACTION_LEAVE);
}

/* Fences and reply caches are a target's own: none of its queues, nor its session, is another one's. */
static void test_another_target_accepts(void **state)
{
	(void)state;
	live(2, 1);
	core_session_lost(&session, 1, 20000 * MS);
	core_session_drained(&session, 1, 20000 * MS);
	assert_int_equal(session.queue[1].state, CORE_QUEUE_CONNECTING);
	assert_false(core_session_accepted(&session, 1, OTHER, 5000, 0, 20001 * MS));
	assert_int_equal(session.queue[1].state, CORE_QUEUE_ENDING);
	core_session_lost(&session, 0, 20002 * MS);
	core_session_drained(&session, 0, 20002 * MS);
	assert_int_equal(session.queue[0].state, CORE_QUEUE_CONNECTING);
	assert_false(core_session_accepted(&session, 0, OTHER, 5000, 0, 20003 * MS));
	assert_int_equal(session.queue[0].state, CORE_QUEUE_ENDING);
	assert_int_equal(session.state, CORE_SESSION_RECOVERING);
	assert_int_equal(session.epoch, 1);
}

static void test_target_forgot(void **state)
{
	struct core_action action;

	(void)state;
	live(2, 1);
	lost_all(2, 20000 * MS);
	core_session_rejected(&session, 1, RBLK_REJECT_NO_SESSION, 0, 20000 * MS);
	assert_int_equal(session.state, CORE_SESSION_RECOVERING);
	core_session_rejected(&session, 0, RBLK_REJECT_NO_SESSION, 0, 20000 * MS);
	assert_int_equal(session.state, CORE_SESSION_RENEWING);
	assert_int_equal(session.epoch, 2);
	while (core_session_action(&session, &action))
		assert_int_not_equal(action.kind, CORE_ACTION_RELEASE);
	core_session_drained(&session, 1, 20000 * MS);
	core_session_drained(&session, 0, 20000 * MS);
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.epoch, 2);
	assert_int_equal(action.incarnation, 1);
	assert_int_equal(action.fence, 0);
	/* Another instance: the target was started again. */
	assert_true(core_session_accepted(&session, 0, OTHER, 5000, 0, 20001 * MS));
	want(CORE_ACTION_CONNECT, 1);
	want(CORE_ACTION_NAME, 0);
	want_none(); /* handles are void: nothing is sent again before the volumes are open */
	assert_int_equal(core_session_route(&session, 0), -1);
	core_session_named(&session, true, 20002 * MS);
	action = want(CORE_ACTION_RELEASE, 0);
	assert_true(action.renewed);
	action = want(CORE_ACTION_RELEASE, 1);
	assert_true(action.renewed);
	want(CORE_ACTION_STATE, 0);
	want_none();
}

/* One queue gets NO_SESSION while another one is LIVE: the session probes whether that one still
 * works. */
static void test_forgotten_but_not_noticed(void **state)
{
	(void)state;
	live(2, 1);
	lose(1, 20000 * MS);
	drain(1, 20000 * MS);
	core_session_rejected(&session, 1, RBLK_REJECT_NO_SESSION, 0, 20000 * MS);
	want(CORE_ACTION_CLOSE, 1);
	want(CORE_ACTION_PROBE, 0);
	want_none();
	assert_int_equal(session.epoch, 1);
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	/* It does not. More refusals do not give it more time. */
	core_session_drained(&session, 1, 20000 * MS);
	core_session_tick(&session, 22000 * MS);
	want(CORE_ACTION_CONNECT, 1);
	core_session_rejected(&session, 1, RBLK_REJECT_NO_SESSION, 0, 22000 * MS);
	want(CORE_ACTION_CLOSE, 1);
	want_none();
	core_session_tick(&session, 24999 * MS);
	want_none();
	core_session_tick(&session, 25000 * MS);
	want(CORE_ACTION_CLOSE, 0);
}

static void test_silence(void **state)
{
	(void)state;
	live(1, 1);
	assert_true(core_session_next_ns(&session) == 5000 * MS);
	core_session_heard(&session, 0, 3000 * MS);
	core_session_tick(&session, 5000 * MS);
	want_none();
	core_session_tick(&session, 8000 * MS);
	want(CORE_ACTION_PROBE, 0);
	core_session_heard(&session, 0, 8001 * MS);
	core_session_tick(&session, 13000 * MS);
	want_none();
	core_session_tick(&session, 13001 * MS);
	want(CORE_ACTION_PROBE, 0);
	core_session_tick(&session, 18000 * MS);
	want_none();
	core_session_tick(&session, 18001 * MS);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
}

static void test_fail_fast_and_give_up(void **state)
{
	(void)state;
	live(1, 1);
	core_session_lost(&session, 0, 20000 * MS);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	core_session_tick(&session, 24999 * MS);
	assert_false(session.failing_fast);
	core_session_tick(&session, 25000 * MS);
	want(CORE_ACTION_FAIL_FAST, 0);
	assert_true(session.failing_fast);
	/* Commands that were not drained then may fail now. */
	drain(0, 26000 * MS);
	want(CORE_ACTION_FAIL_FAST, 0);
	core_session_tick(&session, 80000 * MS);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	want_none(); /* no command fails before its queue is drained */
	assert_int_equal(session.state, CORE_SESSION_FAILED);
	assert_int_equal(session.failure, CORE_FAILURE_GIVE_UP);
	core_session_drained(&session, 0, 80001 * MS);
	want(CORE_ACTION_FAIL_ALL, 0);
	want_none();
	assert_true(core_session_next_ns(&session) == UINT64_MAX);
}

static void test_nobody_there(void **state)
{
	struct core_action action;

	(void)state;
	begin(4, 3);
	for (u16 portal = 0; portal < 3; portal++) {
		action = want(CORE_ACTION_CONNECT, 0);
		assert_int_equal(action.portal, portal);
		want_none();
		core_session_unreached(&session, 0, portal * MS);
		want(CORE_ACTION_CLOSE, 0);
		if (portal < 2)
			core_session_drained(&session, 0, portal * MS);
	}
	assert_int_equal(session.state, CORE_SESSION_FAILED);
	assert_int_equal(session.failure, CORE_FAILURE_UNREACHED);
}

/* -- refusals ---------------------------------------------------------------------------------- */

static const struct refusal {
	u16 reason;
	u32 detail;
	bool in_new; /* fails a session that is NEW */
	bool later;  /* fails one that was connected before */
} refusals[] = {
	{RBLK_REJECT_MALFORMED, 0, true, false},
	{RBLK_REJECT_VERSION, 2, true, false},
	{RBLK_REJECT_FEATURES, 1, true, false},
	{RBLK_REJECT_DENIED, 0, true, false},
	{RBLK_REJECT_STALE_EPOCH, 9, true, true},
	{RBLK_REJECT_STALE_INCARNATION, 9, false, false},
	{RBLK_REJECT_STALE_INCARNATION, UINT32_MAX, false, false},
	{RBLK_REJECT_QUEUE_COUNT, 0, true, false},
	{RBLK_REJECT_QUEUE_COUNT, 1, false, false},
	{RBLK_REJECT_NO_CREDITS, 0, false, false},
	{RBLK_REJECT_NO_RESOURCES, 0, false, false},
	{RBLK_REJECT_DRAINING, 0, false, false},
	{999, 0, true, false},
};

static void test_refusals(void **state)
{
	struct core_action action;

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(refusals); i++) {
		const struct refusal *row = &refusals[i];

		begin(2, 1);
		want(CORE_ACTION_CONNECT, 0);
		core_session_rejected(&session, 0, row->reason, row->detail, 0);
		assert_int_equal(session.state,
				 row->in_new ? CORE_SESSION_FAILED : CORE_SESSION_NEW);
		live(2, 1);
		core_session_lost(&session, 1, 0);
		core_session_lost(&session, 0, 0);
		core_session_drained(&session, 0, 0);
		core_session_tick(&session, 1000 * MS);
		assert_int_equal(session.queue[0].state, CORE_QUEUE_CONNECTING);
		core_session_rejected(&session, 0, row->reason, row->detail, 1000 * MS);
		assert_int_equal(session.state == CORE_SESSION_FAILED, row->later);
		while (core_session_action(&session, &action))
			assert_int_not_equal(action.kind, CORE_ACTION_RELEASE);
	}
}

/* The target knows a later incarnation than the queue has come to: the next login is of one above that. */
static void test_stale_incarnation(void **state)
{
	struct core_action action;

	(void)state;
	live(2, 1);
	core_session_lost(&session, 1, 20000 * MS);
	core_session_drained(&session, 1, 20000 * MS);
	core_session_rejected(&session, 1, RBLK_REJECT_STALE_INCARNATION, 9, 20000 * MS);
	while (core_session_action(&session, &action))
		continue;
	core_session_drained(&session, 1, 20000 * MS);
	action = want(CORE_ACTION_CONNECT, 1);
	assert_int_equal(action.incarnation, 10);
}

static void test_fewer_queues(void **state)
{
	(void)state;
	begin(4, 1);
	want(CORE_ACTION_CONNECT, 0);
	core_session_rejected(&session, 0, RBLK_REJECT_QUEUE_COUNT, 2, 0);
	want(CORE_ACTION_CLOSE, 0);
	core_session_drained(&session, 0, 0);
	want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(session.queues, 2);
	core_session_accepted(&session, 0, INSTANCE, 0, 0, 0);
	want(CORE_ACTION_CONNECT, 1);
	want(CORE_ACTION_NAME, 0);
	want_none();
}

static void test_stop(void **state)
{
	(void)state;
	live(2, 1);
	core_session_stop(&session, 1);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_CLOSE, 1);
	want(CORE_ACTION_STATE, 0);
	want_none();
	core_session_drained(&session, 0, 2);
	want_none();
	core_session_drained(&session, 1, 2);
	want(CORE_ACTION_FAIL_ALL, 0);
	want_none();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lone_queue_comes_back),
		cmocka_unit_test(test_first_queue_changes_portal),
		cmocka_unit_test(test_another_target_accepts),
		cmocka_unit_test(test_target_forgot),
		cmocka_unit_test(test_forgotten_but_not_noticed),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_fail_fast_and_give_up),
		cmocka_unit_test(test_nobody_there),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_stale_incarnation),
		cmocka_unit_test(test_fewer_queues),
		cmocka_unit_test(test_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
