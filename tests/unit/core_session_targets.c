/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session whose portals lead to two targets keeps to the one that it has, and takes the
 * other's acceptance for no fence (F10). Method: single events with the actions that must follow,
 * and the judgement of a volume's fence domain.
 */
#include "proto/core/domain.h"
#include "tests/unit/core_session_rig.h"

static const u8 OTHER[16] = {2};

static void test_domains(void **state)
{
	static const u8 none[16], a[16] = {1, 2, 3}, b[16] = {1, 2, 4};
	struct core_domain domain = {0};

	(void)state;
	/* The first target is anyone. */
	assert_true(core_domain_admits(&domain, INSTANCE, none));
	core_domain_opened(&domain, INSTANCE, none);
	assert_true(core_domain_admits(&domain, INSTANCE, none));
	assert_true(core_domain_admits(&domain, INSTANCE, a));
	assert_false(core_domain_admits(&domain, OTHER, none));
	assert_false(core_domain_admits(&domain, OTHER, a));
	core_domain_opened(&domain, INSTANCE, a);
	assert_true(core_domain_admits(&domain, INSTANCE, b));
	assert_true(core_domain_admits(&domain, OTHER, a));
	assert_false(core_domain_admits(&domain, OTHER, b));
	assert_false(core_domain_admits(&domain, OTHER, none));
	/* It moves on. */
	core_domain_opened(&domain, OTHER, a);
	assert_true(core_domain_admits(&domain, INSTANCE, a));
	assert_false(core_domain_admits(&domain, INSTANCE, b));
}

/* The first queue at portal 0 is lost, and portal 1 leads to another target, where it is accepted. */
static void reach_other(u64 now_ns)
{
	struct core_action action;

	live(1, 2);
	core_session_lost(&session, 0, now_ns);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	drain(0, now_ns);
	core_session_unreached(&session, 0, now_ns);
	want(CORE_ACTION_CLOSE, 0);
	core_session_drained(&session, 0, now_ns);
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.portal, 1);
	core_session_rejected(&session, 0, RBLK_REJECT_NO_SESSION, 0, now_ns);
	assert_int_equal(session.epoch, 2);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	core_session_drained(&session, 0, now_ns);
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.portal, 1);
	assert_true(core_session_accepted(&session, 0, OTHER, 5000, 0, now_ns));
	want(CORE_ACTION_NAME, 0);
	want_none();
}

/* Nothing is released there; the first target is tried in a new epoch, and is taken. */
static void test_other_is_left(void **state)
{
	struct core_action action;

	(void)state;
	reach_other(20000 * MS);
	core_session_misled(&session, 20001 * MS);
	want(CORE_ACTION_CLOSE, 0);
	want_none();
	assert_int_equal(session.state, CORE_SESSION_RENEWING);
	assert_int_equal(session.epoch, 3);
	core_session_drained(&session, 0, 20001 * MS);
	want_none(); /* after a pause: it might lead there again */
	core_session_tick(&session, 20200 * MS);
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.portal, 0);
	assert_int_equal(action.epoch, 3);
	assert_int_equal(action.fence, 0);
	assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, 20201 * MS));
	want(CORE_ACTION_NAME, 0);
	want_none();
	core_session_named(&session, true, 20202 * MS);
	action = want(CORE_ACTION_RELEASE, 0);
	assert_true(action.renewed);
	want(CORE_ACTION_STATE, 0);
	assert_int_equal(session.state, CORE_SESSION_LIVE);
}

/* The other target's acceptances do not put off the end of the wait for the first. */
static void test_give_up_goes_on(void **state)
{
	struct core_action action;
	u64 now = 20000;

	(void)state;
	reach_other(now * MS);
	core_session_misled(&session, now * MS);
	for (; now < 90000 && !core_session_over(&session); now += 10) {
		core_session_tick(&session, now * MS);
		while (core_session_action(&session, &action)) {
			assert_int_not_equal(action.kind, CORE_ACTION_RELEASE);
			if (action.kind == CORE_ACTION_CLOSE)
				core_session_drained(&session, 0, now * MS);
			if (action.kind == CORE_ACTION_NAME)
				core_session_misled(&session, now * MS);
			if (action.kind != CORE_ACTION_CONNECT)
				continue;
			if (action.portal)
				core_session_accepted(&session, 0, OTHER, 5000, 0, now * MS);
			else
				core_session_unreached(&session, 0, now * MS);
		}
	}
	assert_int_equal(session.failure, CORE_FAILURE_GIVE_UP);
	assert_in_range(now, 80000, 80020);
	/* Each round waits longer than the last. */
	assert_in_range(session.epoch, 5, 30);
}

/* Every queue that was connected there is closed, and its keys die (F4), before the next portal is tried. */
static void test_all_queues_leave(void **state)
{
	struct core_action action;
	bool closed[2] = {0};

	(void)state;
	live(2, 2);
	core_session_misled(&session, 20000 * MS);
	while (core_session_action(&session, &action)) {
		assert_true(action.kind == CORE_ACTION_CLOSE || action.kind == CORE_ACTION_STATE);
		if (action.kind == CORE_ACTION_CLOSE)
			closed[action.queue] = true;
	}
	assert_true(closed[0] && closed[1]);
	assert_int_equal(session.state, CORE_SESSION_RENEWING);
	assert_int_equal(core_session_live(&session), 0);
	core_session_tick(&session, 22000 * MS);
	want_none();
}

/* Queue 0 is at a portal of another target, while another queue reaches the first: it goes there. */
static void test_first_queue_follows_the_others(void **state)
{
	struct core_action action;

	(void)state;
	live(2, 2);
	lost_all(2, 20000 * MS);
	while (core_session_action(&session, &action))
		;
	assert_int_equal(session.queue[0].state, CORE_QUEUE_CONNECTING);
	assert_int_equal(session.queue[0].portal, 1);
	/* Queue 1 has taken the first portal, which is back. */
	core_session_tick(&session, 21000 * MS);
	while (core_session_action(&session, &action))
		;
	assert_int_equal(session.queue[1].state, CORE_QUEUE_CONNECTING);
	assert_int_equal(session.queue[1].portal, 0);
	assert_true(core_session_accepted(&session, 1, INSTANCE, 5000, 0, 21000 * MS));
	core_session_rejected(&session, 0, RBLK_REJECT_NO_SESSION, 0, 21000 * MS);
	assert_int_equal(session.epoch, 1);
	assert_int_equal(session.state, CORE_SESSION_RECOVERING);
	core_session_drained(&session, 0, 21000 * MS);
	core_session_tick(&session, 40000 * MS);
	assert_int_equal(session.queue[0].state, CORE_QUEUE_CONNECTING);
	assert_int_equal(session.queue[0].portal, 0);
}

/* A login of this epoch that another target has kept: its acceptance is closed. */
static void test_acceptance_of_another(void **state)
{
	(void)state;
	live(2, 2);
	lose(1, 20000 * MS);
	drain(1, 20000 * MS);
	assert_false(core_session_accepted(&session, 1, OTHER, 5000, 0, 20001 * MS));
	want(CORE_ACTION_CLOSE, 1);
	want_none(); /* and it was no fence */
	assert_true(session.queue[1].lost.waits);
	assert_int_equal(session.state, CORE_SESSION_LIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_domains),
		cmocka_unit_test(test_other_is_left),
		cmocka_unit_test(test_give_up_goes_on),
		cmocka_unit_test(test_all_queues_leave),
		cmocka_unit_test(test_first_queue_follows_the_others),
		cmocka_unit_test(test_acceptance_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
