/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: commands of a lost queue wait for its drain and its fence (F4, F5), whoever carries the FENCE, however often
 * the queue is lost meanwhile, and no longer. Method: single events with the actions that must follow.
 */
#include "tests/unit/core_session_rig.h"

static void test_fence_by_another_queue(void **state)
{
	struct core_action action;

	(void)state;
	live(2, 2);
	core_session_lost(&session, 1, 20000 * MS);
	want(CORE_ACTION_CLOSE, 1);
	action = want(CORE_ACTION_FENCE, 1);
	assert_int_equal(action.via, 0);
	assert_int_equal(action.incarnation, 1);
	want_none();
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	assert_int_equal(core_session_route(&session, 1), 0);
	/* Fenced, but not drained: the target no longer writes there, the device might. */
	core_session_fenced(&session, 1, 1, true, 20001 * MS);
	want_none();
	core_session_drained(&session, 1, 20002 * MS);
	want(CORE_ACTION_RELEASE, 1);
	want(CORE_ACTION_CONNECT, 1);
	want_none();
}

/* F5: reads go again when the queue is drained, however long its fence takes, and once. */
static void test_reads_wait_for_no_fence(void **state)
{
	(void)state;
	assert_false(core_lost_needs_fence(RBLK_OP_READ));
	assert_true(core_lost_needs_fence(RBLK_OP_WRITE));
	assert_true(core_lost_needs_fence(RBLK_OP_FLUSH));
	live(2, 2);
	lose(1, 20000 * MS);
	want_none(); /* F4 */
	drain(1, 20002 * MS);
	core_session_heard(&session, 0, 20100 * MS);
	core_session_tick(&session, 20100 * MS);
	want_none();
	core_session_fenced(&session, 1, 1, true, 20101 * MS);
	want(CORE_ACTION_RELEASE, 1);
	want_none();
}

/* F5: an acceptance is of the loss before it, also if the next loss comes before anybody has acted on it. */
static void test_lost_again_before_the_release(void **state)
{
	(void)state;
	live(2, 2);
	lose(1, 20000 * MS);
	drain(1, 20001 * MS);
	core_session_accepted(&session, 1, INSTANCE, 5000, 0, 20002 * MS);
	core_session_lost(&session, 1, 20002 * MS);
	want(CORE_ACTION_RELEASE, 1);
	want(CORE_ACTION_CLOSE, 1);
}

#define BEFORE_ITS_FENCE RBLK_FEATURE_VOLUME_FENCE

/* F5: with FENCE of a volume, an acceptance is no fence; the queue's next incarnation can carry the FENCE. */
static void test_accepted_before_the_fence(void **state)
{
	struct core_action action;

	(void)state;
	live(1, 1);
	core_session_lost(&session, 0, 20000 * MS);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	want_none();
	drain(0, 20001 * MS);
	core_session_accepted(&session, 0, INSTANCE, 5000, BEFORE_ITS_FENCE, 20002 * MS);
	action = want(CORE_ACTION_FENCE, 0);
	assert_int_equal(action.via, 0);
	assert_int_equal(action.incarnation, 1);
	want(CORE_ACTION_STATE, 0);
	want_none();
	assert_true(core_session_open(&session, 0));
	assert_true(core_session_owes_fence(&session, 0, 1, 1));
	core_session_fenced(&session, 0, 1, true, 20003 * MS);
	want(CORE_ACTION_RELEASE, 0);
	want_none();
	assert_false(core_session_owes_fence(&session, 0, 1, 1));
}

/* F5: what is lost before the fence of the last loss waits for a fence of its own, and so does what was lost before. */
static void test_lost_again_before_the_fence(void **state)
{
	(void)state;
	live(2, 2);
	lose(1, 20000 * MS);
	drain(1, 20001 * MS);
	core_session_accepted(&session, 1, INSTANCE, 5000, BEFORE_ITS_FENCE, 20002 * MS);
	want_none();
	core_session_lost(&session, 1, 20003 * MS);
	want(CORE_ACTION_CLOSE, 1);
	assert_false(core_session_owes_fence(&session, 1, 1, 1));
	want_none(); /* F4; and the carrier has the FENCE before */
	core_session_drained(&session, 1, 20004 * MS);
	want(CORE_ACTION_RELEASE_HARMLESS, 1);
	assert_true(core_session_owes_fence(&session, 1, 1, 2));
	core_session_fenced(&session, 1, 1, true, 20005 * MS);
	assert_int_equal(want(CORE_ACTION_FENCE, 1).incarnation, 2);
	core_session_fenced(&session, 1, 1, true, 20006 * MS); /* a second answer is none */
	want_none();
	core_session_fenced(&session, 1, 2, true, 20007 * MS);
	want(CORE_ACTION_RELEASE, 1);
	want_none();
}

/* What is to be sent when the queue is lost again is sent for both losses. */
static void test_lost_again_before_its_fence_is_sent(void **state)
{
	(void)state;
	live(3, 1);
	core_session_lost(&session, 1, 20000 * MS);
	core_session_drained(&session, 1, 20000 * MS);
	want(CORE_ACTION_RELEASE_HARMLESS, 1);
	core_session_accepted(&session, 1, INSTANCE, 5000, BEFORE_ITS_FENCE, 20000 * MS);
	core_session_lost(&session, 1, 20000 * MS);
	want(CORE_ACTION_CLOSE, 1);
	assert_int_equal(want(CORE_ACTION_FENCE, 1).incarnation, 2);
	core_session_fenced(&session, 1, 2, true, 20001 * MS);
	core_session_drained(&session, 1, 20001 * MS);
	want(CORE_ACTION_RELEASE, 1);
}

/* The acceptance was the fence; the answer to the FENCE before it comes when the next loss has one under way. */
static void test_answer_after_the_acceptance(void **state)
{
	(void)state;
	live(2, 2);
	lose(1, 20000 * MS);
	drain(1, 20001 * MS);
	core_session_accepted(&session, 1, INSTANCE, 5000, 0, 20002 * MS);
	want(CORE_ACTION_RELEASE, 1);
	core_session_lost(&session, 1, 20003 * MS);
	want(CORE_ACTION_CLOSE, 1);
	assert_int_equal(want(CORE_ACTION_FENCE, 1).incarnation, 2);
	core_session_drained(&session, 1, 20004 * MS);
	want(CORE_ACTION_RELEASE_HARMLESS, 1);
	core_session_fenced(&session, 1, 1, true, 20004 * MS);
	want_none(); /* neither released, nor fenced twice */
	core_session_fenced(&session, 1, 2, true, 20005 * MS);
	want(CORE_ACTION_RELEASE, 1);
	want_none();
}

static void test_fence_refused_is_sent_again(void **state)
{
	(void)state;
	live(2, 2);
	lose(1, 20000 * MS);
	core_session_fenced(&session, 1, 1, false, 20000 * MS);
	want_none();
	assert_true(core_session_next_ns(&session) <= 20100 * MS);
	core_session_tick(&session, 20100 * MS);
	want(CORE_ACTION_FENCE, 1);
}

/* A second answer, or one for an earlier loss, is none for a FENCE that has yet to be sent. */
static void test_answer_without_fence(void **state)
{
	(void)state;
	live(2, 2);
	lose(1, 20000 * MS);
	core_session_fenced(&session, 1, 1, false, 20000 * MS);
	core_session_fenced(&session, 1, 1, true, 20001 * MS);
	drain(1, 20002 * MS);
	want_none();
	core_session_tick(&session, 20100 * MS);
	want(CORE_ACTION_FENCE, 1);
}

static void test_fence_carrier_is_lost(void **state)
{
	struct core_action action;

	(void)state;
	live(3, 1);
	core_session_lost(&session, 2, 20000 * MS);
	want(CORE_ACTION_CLOSE, 2);
	action = want(CORE_ACTION_FENCE, 2);
	assert_int_equal(action.via, 1);
	core_session_lost(&session, 1, 20001 * MS);
	want(CORE_ACTION_CLOSE, 1);
	action = want(CORE_ACTION_FENCE, 1);
	assert_int_equal(action.via, 0);
	want_none(); /* one at a time */
	core_session_fenced(&session, 1, 1, true, 20002 * MS);
	action = want(CORE_ACTION_FENCE, 2);
	assert_int_equal(action.via, 0);
	core_session_fenced(&session, 2, 1, true, 20003 * MS);
	want_none();
}

/*
 * Storage hangs, and no FENCE is answered. Each holds a reserved tag of its carrier, of which I/O uses none: whatever is
 * lost, one tag is KEEPALIVE's and two are left for OPEN and CLOSE on queue 0, and for ABORT on any.
 */
static void test_fences_leave_tags(void **state)
{
	unsigned int carried[8] = {0}, fences = 0;
	struct core_action action;

	(void)state;
	live(8, 1);
	for (u16 i = 4; i < 8; i++) {
		core_session_lost(&session, i, 20000 * MS);
		while (core_session_action(&session, &action)) {
			if (action.kind != CORE_ACTION_FENCE)
				continue;
			/* A carrier that is lost now takes its FENCEs with it. */
			carried[action.via]++;
			fences++;
		}
		memset(&carried[i], 0, sizeof(carried[i]));
	}
	assert_in_range(fences, 4, 7);
	for (u16 i = 0; i < 4; i++)
		assert_true(carried[i] <= 1);
	assert_int_equal(carried[0] + carried[1] + carried[2] + carried[3], 4);
}

/* The same with queues that are lost again and again, each time before the fence of the loss before. */
static void test_fences_of_merged_losses_leave_tags(void **state)
{
	unsigned int under_way = 0;
	struct core_action action;

	(void)state;
	live(8, 1);
	for (unsigned int round = 0; round < 4; round++) {
		for (u16 i = 1; i < 8; i++)
			core_session_lost(&session, i, (20000 + round * 5000) * MS);
		while (core_session_action(&session, &action)) {
			/* Queue 0 stays, and what it carries is not answered. */
			if (action.kind == CORE_ACTION_FENCE && action.via == 0)
				under_way++;
			if (action.kind == CORE_ACTION_CLOSE)
				core_session_drained(&session, action.queue, (20000 + round * 5000) * MS);
			if (action.kind == CORE_ACTION_CONNECT)
				core_session_accepted(&session, action.queue, INSTANCE, 5000, BEFORE_ITS_FENCE, (20000 + round * 5000) * MS);
		}
	}
	assert_int_equal(under_way, 1);
}

/* With queue 0 alone, they follow one another, without a timer in between. */
static void test_fences_one_after_the_other(void **state)
{
	struct core_action action;
	u16 fenced = 0;

	(void)state;
	live(8, 1);
	for (u16 i = 1; i < 8; i++) {
		core_session_lost(&session, i, 20000 * MS);
		while (core_session_action(&session, &action))
			;
	}
	for (u16 i = 1; i < 8; i++) {
		unsigned int under_way = 0;

		for (u16 k = 1; k < 8; k++) {
			if (!session.queue[k].lost.fence_sent)
				continue;
			assert_int_equal(session.queue[k].lost.via, 0);
			fenced = k;
			under_way++;
		}
		assert_int_equal(under_way, 1);
		core_session_fenced(&session, fenced, 1, true, (20000 + i) * MS);
		while (core_session_action(&session, &action))
			;
	}
	for (u16 i = 1; i < 8; i++)
		assert_true(session.queue[i].lost.fenced);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fence_by_another_queue),
		cmocka_unit_test(test_reads_wait_for_no_fence),
		cmocka_unit_test(test_lost_again_before_the_release),
		cmocka_unit_test(test_accepted_before_the_fence),
		cmocka_unit_test(test_lost_again_before_the_fence),
		cmocka_unit_test(test_answer_after_the_acceptance),
		cmocka_unit_test(test_fence_refused_is_sent_again),
		cmocka_unit_test(test_answer_without_fence),
		cmocka_unit_test(test_fence_carrier_is_lost),
		cmocka_unit_test(test_lost_again_before_its_fence_is_sent),
		cmocka_unit_test(test_fences_leave_tags),
		cmocka_unit_test(test_fences_of_merged_losses_leave_tags),
		cmocka_unit_test(test_fences_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
