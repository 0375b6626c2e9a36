/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session whose portals lead to several targets, which it is told (groups) or learns, has all queues at one of
 * them, and leaves that only when it ends, refuses, or none of its portals answers. Method: single events with the
 * actions that must follow.
 */
#include "tests/unit/core_session_rig.h"

#define LATER (20000 * MS)

static const u8 OTHER[16] = {2};

/* Portals 0 and 1 lead to one target, 2 and 3 to another. */
static void live_of_two(u16 queues, u32 give_up_ms)
{
	const struct core_session_options options = {
		.queues = queues,
		.portals = 4,
		.group = {0, 0, 1, 1},
		.connect_timeout_ms = 10000,
		.reconnect_min_ms = 100,
		.reconnect_max_ms = 10000,
		.give_up_ms = give_up_ms,
		.random = 7,
	};

	core_session_init(&session, &options);
	core_session_start(&session, 0);
	want(CORE_ACTION_CONNECT, 0);
	assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, 0));
	for (u16 i = 1; i < queues; i++) {
		assert_int_equal(want(CORE_ACTION_CONNECT, i).portal, i % 2);
		assert_true(core_session_accepted(&session, i, INSTANCE, 5000, 0, 0));
	}
	want(CORE_ACTION_NAME, 0);
	core_session_named(&session, true, 0);
	want(CORE_ACTION_STATE, 0);
	want_none();
}

static void go_on(void)
{
	struct core_action action;

	while (core_session_action(&session, &action))
		;
	assert_spread();
}

/* Queue 0's attempt, and its portal. */
static u16 attempt(u64 now_ns)
{
	core_session_drained(&session, 0, now_ns);
	core_session_tick(&session, now_ns);
	go_on();
	assert_int_equal(session.queue[0].state, CORE_QUEUE_CONNECTING);
	return session.queue[0].portal;
}

static void unreached(u64 now_ns)
{
	core_session_unreached(&session, 0, now_ns);
	go_on();
}

static void rejected(u16 reason, u64 now_ns)
{
	core_session_rejected(&session, 0, reason, 0, now_ns);
	go_on();
}

/* The other target takes it, in a new epoch. */
static void taken(u64 now_ns)
{
	u64 epoch = session.epoch;

	rejected(RBLK_REJECT_NO_SESSION, now_ns);
	assert_int_equal(session.epoch, epoch + 1);
	attempt(now_ns);
	assert_true(core_session_accepted(&session, 0, OTHER, 5000, 0, now_ns));
	go_on();
	core_session_named(&session, true, now_ns);
	go_on();
	assert_int_equal(session.state, CORE_SESSION_LIVE);
}

/* The portals of its target first, then the others, each at once; in the other target's epoch all queues go there. */
static void test_other_group_comes_last(void **state)
{
	(void)state;
	live_of_two(4, 60000);
	lost_all(4, LATER);
	/* Queue 1 was lost last. */
	assert_int_equal(attempt(LATER), 1);
	unreached(LATER);
	assert_int_equal(attempt(LATER), 0);
	unreached(LATER);
	assert_int_equal(attempt(LATER), 2);
	taken(LATER);
	for (u16 i = 1; i < 4; i++) {
		core_session_drained(&session, i, LATER);
		go_on();
		assert_int_equal(session.queue[i].state, CORE_QUEUE_CONNECTING);
		assert_int_equal(session.queue[i].portal, 2 + i % 2);
		assert_true(core_session_accepted(&session, i, OTHER, 5000, 0, LATER));
	}
	go_on();
	/* The first one is back: nothing looks for it. */
	for (u64 now = 0; now < 100000; now += 100) {
		for (u16 i = 0; i < 4; i++)
			core_session_heard(&session, i, LATER + now * MS);
		core_session_tick(&session, LATER + now * MS);
		want_none();
	}
}

/* While another queue is up there, the target is not left. */
/* A portal that was silent is not waited for: the same target's other one is tried, then the other target. */
static void test_silent_portal_comes_last(void **state)
{
	(void)state;
	live_of_two(1, 60000);
	core_session_tick(&session, 5000 * MS);
	want(CORE_ACTION_PROBE, 0);
	core_session_tick(&session, 10000 * MS);
	go_on();
	assert_int_equal(attempt(10000 * MS), 1);
	unreached(12000 * MS);
	assert_int_equal(attempt(12000 * MS), 2);
	taken(12000 * MS);
}

/* Its queues are silent one behind the other: then no attempt goes on at their portal. */
static void test_silent_queues(void **state)
{
	(void)state;
	for (u16 first = 0; first < 2; first++) {
		live_of_two(2, 60000);
		session.options.group[1] = 1; /* queue 1 is where the session does not stay */
		session.queue[1].home = session.queue[1].portal = 0;
		core_session_heard(&session, (u16)!first, 1000 * MS);
		core_session_tick(&session, 5000 * MS);
		core_session_tick(&session, 6000 * MS);
		go_on();
		core_session_tick(&session, 10000 * MS);
		go_on();
		assert_int_equal(session.queue[first].state, CORE_QUEUE_ENDING);
		core_session_drained(&session, first, 10000 * MS);
		core_session_tick(&session, 10000 * MS);
		core_session_tick(&session, 11000 * MS);
		go_on();
		core_session_drained(&session, !first, 11000 * MS);
		assert_int_equal(attempt(11000 * MS), 1);
	}
}

static void test_live_portal_before_other_group(void **state)
{
	(void)state;
	live_of_two(2, 60000);
	core_session_lost(&session, 0, LATER);
	go_on();
	for (unsigned int i = 0; i < 10; i++) {
		assert_true(attempt(LATER + i * 10000 * MS) < 2);
		core_session_heard(&session, 1, LATER + i * 10000 * MS);
		core_session_rejected(&session, 0, RBLK_REJECT_NO_CREDITS, 0, LATER + i * 10000 * MS);
		go_on();
	}
}

/* A refusal of the target is one at all of its portals. */
static void test_refusing_target_is_left_at_once(void **state)
{
	static const u16 reasons[] = {RBLK_REJECT_DRAINING, RBLK_REJECT_NO_CREDITS, RBLK_REJECT_NO_RESOURCES,
				      RBLK_REJECT_DENIED, RBLK_REJECT_VERSION};

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(reasons); i++) {
		live_of_two(1, 60000);
		lost_all(1, LATER);
		assert_int_equal(attempt(LATER), 0);
		rejected(reasons[i], LATER);
		assert_int_equal(attempt(LATER), 2);
		/* The other one, too: from here on there are pauses. */
		rejected(reasons[i], LATER);
		core_session_drained(&session, 0, LATER);
		want_none();
		assert_int_equal(session.state, CORE_SESSION_RECOVERING);
		assert_true(attempt(LATER + 20000 * MS) != 2);
	}
}

/* At the beginning, too; what is final is so when all have said it. */
static void test_first_login_goes_to_the_next(void **state)
{
	const struct core_session_options options = {
		.queues = 1,
		.portals = 3,
		.group = {0, 0, 1},
		.connect_timeout_ms = 10000,
		.reconnect_min_ms = 100,
		.reconnect_max_ms = 10000,
	};

	(void)state;
	for (u16 reason = RBLK_REJECT_DRAINING; reason <= RBLK_REJECT_DENIED; reason++) {
		core_session_init(&session, &options);
		core_session_start(&session, 0);
		go_on();
		rejected(reason, 0);
		assert_int_equal(session.state, CORE_SESSION_NEW);
		assert_int_equal(attempt(0), 2);
		rejected(reason, 0);
		assert_int_equal(session.state, CORE_SESSION_FAILED);
		assert_int_equal(session.failure, CORE_FAILURE_REFUSED);
	}
}

/* It has said that it ends: what is under way is answered first, then all queues go, and none tries to stay. */
static void test_draining_target_is_left(void **state)
{
	struct core_action action;

	(void)state;
	live_of_two(2, 60000);
	core_session_leaves(&session, LATER);
	want(CORE_ACTION_LEAVE, 0);
	want(CORE_ACTION_LEAVE, 1);
	want_none();
	assert_int_equal(core_session_route(&session, 0), -1);
	core_session_lost(&session, 0, LATER);
	core_session_drained(&session, 0, LATER);
	while (core_session_action(&session, &action))
		assert_int_not_equal(action.kind, CORE_ACTION_CONNECT);
	core_session_heard(&session, 1, LATER);
	assert_true(core_session_next_ns(&session) > LATER);
	core_session_lost(&session, 1, LATER);
	core_session_drained(&session, 1, LATER);
	assert_int_equal(attempt(LATER), 2);
	assert_int_equal(session.queue[1].state, CORE_QUEUE_ENDED);
	taken(LATER);
	assert_int_equal(session.queue[1].state, CORE_QUEUE_CONNECTING);
	assert_int_equal(session.queue[1].portal, 3);
}

/* Without another target there is nowhere to go; nor for a session that would not come back. */
static void test_draining_target_is_kept(void **state)
{
	(void)state;
	live(2, 2);
	core_session_leaves(&session, LATER);
	want_none();
	/* It may stay: a connection that is lost is made again. */
	core_session_lost(&session, 1, LATER);
	go_on();
	core_session_drained(&session, 1, LATER);
	go_on();
	assert_int_equal(session.queue[1].state, CORE_QUEUE_CONNECTING);
	live_of_two(2, 0);
	core_session_leaves(&session, LATER);
	want_none();
	assert_int_equal(session.state, CORE_SESSION_LIVE);
}

/*
 * Nobody has said it: a queue that is refused by a target that does not know the session goes to queue 0's, and so does
 * one whose attempt goes on there.
 */
static void learn(u16 reason)
{
	begin(4, 2);
	want(CORE_ACTION_CONNECT, 0);
	assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, 0));
	go_on();
	core_session_named(&session, true, 0);
	go_on();
	for (u16 i = 1; i < 4; i++) {
		assert_int_equal(session.queue[i].portal, i % 2);
		if (!(i % 2))
			assert_true(core_session_accepted(&session, i, INSTANCE, 5000, 0, 0));
		else if (i > 1)
			assert_int_equal(session.queue[i].state, CORE_QUEUE_ENDING);
		else if (reason)
			core_session_rejected(&session, i, reason, 0, 0);
		else
			assert_false(core_session_accepted(&session, i, OTHER, 5000, 0, 0));
		core_session_drained(&session, i, 0);
	}
	go_on();
	core_session_tick(&session, 200 * MS);
	go_on();
	for (u16 i = 1; i < 4; i += 2) {
		assert_int_equal(session.queue[i].portal, 0);
		assert_true(core_session_accepted(&session, i, INSTANCE, 5000, 0, 200 * MS));
	}
	go_on();
	assert_int_equal(core_session_live(&session), 4);
}

static void test_groups_are_learnt(void **state)
{
	(void)state;
	learn(0);
	learn(RBLK_REJECT_NO_SESSION);
	/* That target may end, too. */
	core_session_leaves(&session, LATER);
	go_on();
	lost_all(4, LATER);
	assert_int_equal(attempt(LATER), 1);
	taken(LATER);
	assert_int_equal(session.foreign, 0);
}

/* Queue 0 tries another target, and is back: each portal of the session's is some queue's home all the time. */
static void test_homes_while_another_target_is_tried(void **state)
{
	(void)state;
	for (u16 queues = 2; queues <= 6; queues++) {
		live_of_two(queues, 100000000);
		lost_all(queues, LATER);
		for (u64 now = 0; now < 4000000; now += 20000) {
			attempt(LATER + now * MS);
			for (u16 i = 1; i < queues; i++)
				assert_true(session.queue[i].home < 2);
			unreached(LATER + now * MS);
			for (u16 i = 1; i < queues; i++) {
				core_session_unreached(&session, i, LATER + now * MS);
				core_session_drained(&session, i, LATER + now * MS);
			}
		}
	}
}

/* A portal led to another target, and leads to the session's now, which queue 0 finds. */
static void test_portal_is_back(void **state)
{
	(void)state;
	live(2, 2);
	core_session_lost(&session, 1, LATER);
	core_session_drained(&session, 1, LATER);
	go_on();
	core_session_rejected(&session, 1, RBLK_REJECT_NO_SESSION, 0, LATER);
	core_session_drained(&session, 1, LATER);
	core_session_heard(&session, 0, LATER);
	assert_true(core_session_is_foreign(&session, 1));
	assert_true(core_session_may_be_elsewhere(&session, session.instance, RBLK_E_NO_VOLUME));
	assert_false(core_session_may_be_elsewhere(&session, session.instance, RBLK_E_DENIED));
	assert_int_equal(session.queue[1].home, 0);
	lost_all(1, LATER);
	core_session_tick(&session, 2 * LATER);
	go_on();
	unreached(2 * LATER);
	assert_int_equal(attempt(2 * LATER), 1);
	assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, 2 * LATER));
	go_on();
	assert_false(core_session_is_foreign(&session, 1));
	assert_false(core_session_may_be_elsewhere(&session, session.instance, RBLK_E_NO_VOLUME));
	assert_true(core_session_may_be_elsewhere(&session, (const u8 *)"another instance", 0));
	assert_int_equal(session.queue[1].home, 0);
}

/* The first OPEN: each target is asked once. A session that does not reconnect is NEW until then, and still ends. */
static void misled_twice(u32 give_up_ms)
{
	live_of_two(2, give_up_ms);
	core_session_search(&session);
	assert_true(core_session_elsewhere(&session));
	core_session_misled(&session, LATER);
	go_on();
	core_session_drained(&session, 1, LATER);
	assert_int_equal(session.state, give_up_ms ? CORE_SESSION_RENEWING : CORE_SESSION_NEW);
	assert_int_equal(attempt(LATER), 2);
	assert_true(core_session_accepted(&session, 0, OTHER, 5000, 0, LATER));
	go_on();
	core_session_named(&session, true, LATER);
	go_on();
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	assert_false(core_session_elsewhere(&session));
}

static void test_each_target_is_asked_once(void **state)
{
	(void)state;
	misled_twice(60000);
	/* Where the caller goes on nevertheless, there are pauses. */
	core_session_misled(&session, LATER);
	go_on();
	core_session_drained(&session, 0, LATER);
	want_none();
	misled_twice(0);
}

/* No other one answers: it fails, once each was tried. */
static void test_misled_to_nowhere(void **state)
{
	u32 asked = 0;

	(void)state;
	live_of_two(1, 0);
	core_session_misled(&session, LATER);
	go_on();
	while (session.state == CORE_SESSION_NEW) {
		asked |= 1u << attempt(LATER);
		unreached(LATER);
	}
	assert_int_equal(session.failure, CORE_FAILURE_UNREACHED);
	assert_int_equal(asked & 0xc, 0xc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_group_comes_last),
		cmocka_unit_test(test_silent_portal_comes_last),
		cmocka_unit_test(test_silent_queues),
		cmocka_unit_test(test_live_portal_before_other_group),
		cmocka_unit_test(test_refusing_target_is_left_at_once),
		cmocka_unit_test(test_first_login_goes_to_the_next),
		cmocka_unit_test(test_draining_target_is_left),
		cmocka_unit_test(test_draining_target_is_kept),
		cmocka_unit_test(test_groups_are_learnt),
		cmocka_unit_test(test_homes_while_another_target_is_tried),
		cmocka_unit_test(test_portal_is_back),
		cmocka_unit_test(test_each_target_is_asked_once),
		cmocka_unit_test(test_misled_to_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
