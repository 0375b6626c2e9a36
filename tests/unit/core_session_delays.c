/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: how often a session tries to connect again follows how long its target was away: a pause is
 * never much longer, and a long one takes few attempts. Method: a target that is away for a time
 * of the test, and the session's own timers.
 */
#include "tests/unit/core_session_rig.h"

/*
 * The only queue is lost at `lost_ms`, and its target is away for `away_ms`. Until then each
 * attempt fails at once (`reason`; 0: no answer). Returns after how many ms the queue is accepted,
 * and counts the attempts.
 */
static u64 pause_ms(u64 lost_ms, u64 away_ms, u16 reason, unsigned int *attempts)
{
	u64 now_ns = lost_ms * MS, back_ns = (lost_ms + away_ms) * MS;
	struct core_action action;

	core_session_lost(&session, 0, now_ns);
	for (;;) {
		while (core_session_action(&session, &action)) {
			if (action.kind == CORE_ACTION_CLOSE) {
				core_session_drained(&session, 0, now_ns);
			} else if (action.kind == CORE_ACTION_CONNECT && now_ns >= back_ns) {
				++*attempts;
				assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, now_ns));
				assert_int_equal(session.state, CORE_SESSION_LIVE);
			} else if (action.kind == CORE_ACTION_CONNECT && reason) {
				++*attempts;
				core_session_rejected(&session, 0, reason, 0, now_ns);
			} else if (action.kind == CORE_ACTION_CONNECT) {
				++*attempts;
				core_session_unreached(&session, 0, now_ns);
			}
		}
		if (session.state == CORE_SESSION_LIVE)
			return now_ns / MS - lost_ms;
		assert_int_not_equal(session.state, CORE_SESSION_FAILED);
		assert_true(core_session_next_ns(&session) > now_ns);
		now_ns = core_session_next_ns(&session);
		core_session_tick(&session, now_ns);
	}
}

/* A pause is never much longer than the target was away, and a long one takes few attempts. */
static void test_pause_is_the_targets(void **state)
{
	static const u64 away[] = {0, 10, 100, 300, 700, 1000, 2000, 5000, 10000, 30000, 45000};
	unsigned int attempts;
	u64 pause;

	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(away); i++) {
		for (u32 random = 1; random <= 50; random++) {
			live(1, 1);
			session.queue[0].backoff.random = random * 2654435761u;
			attempts = 0;
			pause = pause_ms(20000, away[i], 0, &attempts);
			assert_true(pause >= away[i]);
			assert_true(pause <= away[i] + away[i] * 5 / 12 + 125);
			assert_true(attempts <= 24);
			/* The first attempt is made at once, the second after 75 to 125 ms, and
			 * so on. */
			if (!away[i])
				assert_int_equal(attempts, 1);
			if (away[i] == 10)
				assert_true(attempts == 2 && pause >= 75 && pause <= 125);
			/* The target had announced that it stops: for ten seconds the delay does
			 * not grow. */
			live(1, 1);
			session.queue[0].backoff.random = random * 2654435761u;
			core_session_leaves(&session, 0);
			attempts = 0;
			pause = pause_ms(20000, away[i], 0, &attempts);
			if (away[i] <= 10000)
				assert_true(pause <= away[i] + 125);
			else
				assert_true(pause <= away[i] + (away[i] - 10000) * 5 / 12 + 160);
			assert_true(attempts <= 2 + 10000 / 75 + 24);
		}
	}
}

/* A request that is lost on the way costs a pause of two seconds, not the whole time limit. Attempts
 * that get no answer take longer and longer, because the target may only be slow.
 */
static void test_attempts_are_short_at_first(void **state)
{
	u64 now_ns = 20000 * MS, limit_ns, last_ns = 0;

	(void)state;
	begin(1, 1);
	want(CORE_ACTION_CONNECT, 0);
	assert_true(core_session_next_ns(&session) == 10000 * MS);
	live(1, 1);
	session.options.fail_fast_ms = 0;
	core_session_lost(&session, 0, now_ns);
	for (int i = 0; i < 8; i++) {
		want(CORE_ACTION_CLOSE, 0);
		if (!i)
			want(CORE_ACTION_STATE, 0);
		core_session_drained(&session, 0, now_ns);
		if (!i)
			want(CORE_ACTION_RELEASE_HARMLESS, 0);
		if (i) {
			now_ns = core_session_next_ns(&session); /* the pause */
			core_session_tick(&session, now_ns);
		}
		want(CORE_ACTION_CONNECT, 0);
		limit_ns = core_session_next_ns(&session) - now_ns;
		assert_true(i ? limit_ns > last_ns && limit_ns <= 10000 * MS :
				limit_ns == 2000 * MS);
		last_ns = limit_ns;
		now_ns += limit_ns;
		core_session_tick(&session, now_ns);
	}
	assert_true(last_ns > 9000 * MS);
}

/* However short the pauses must be (--reconnect), a target that takes long to answer is reached. */
static void test_attempts_grow_beside_short_pauses(void **state)
{
	u64 now_ns = 20000 * MS, limit_ns = 0;

	(void)state;
	live(1, 1);
	session.options.fail_fast_ms = 0;
	session.queue[0].backoff.max_ms = 100;
	core_session_lost(&session, 0, now_ns);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	for (int i = 0; i < 9; i++) {
		core_session_drained(&session, 0, now_ns);
		if (!i)
			want(CORE_ACTION_RELEASE_HARMLESS, 0);
		if (i) {
			assert_true(core_session_next_ns(&session) <= now_ns + 125 * MS);
			now_ns = core_session_next_ns(&session);
			core_session_tick(&session, now_ns);
		}
		want(CORE_ACTION_CONNECT, 0);
		limit_ns = core_session_next_ns(&session) - now_ns;
		if (!i)
			assert_true(limit_ns == 2000 * MS);
		if (i < 8) {
			/* As the kernel module says it: just before the machine's own time. */
			now_ns += limit_ns - (i % 2 ? 20 * MS : 0);
			if (i % 2)
				core_session_unreached(&session, 0, now_ns);
			else
				core_session_tick(&session, now_ns);
			want(CORE_ACTION_CLOSE, 0);
		}
	}
	assert_true(limit_ns == 10000 * MS);
	/* One that is refused at once is not slow; and from an acceptance on, all begins anew. */
	assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, now_ns));
	want(CORE_ACTION_RELEASE, 0);
	want(CORE_ACTION_STATE, 0);
	now_ns += 2000 * MS;
	core_session_lost(&session, 0, now_ns);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_STATE, 0);
	for (int i = 0; i < 20; i++) {
		core_session_drained(&session, 0, now_ns);
		if (!i)
			want(CORE_ACTION_RELEASE_HARMLESS, 0);
		if (i) {
			now_ns = core_session_next_ns(&session);
			core_session_tick(&session, now_ns);
		}
		want(CORE_ACTION_CONNECT, 0);
		assert_true(core_session_next_ns(&session) - now_ns == 2000 * MS);
		core_session_unreached(&session, 0, now_ns + MS);
		want(CORE_ACTION_CLOSE, 0);
	}
}

/* The delay does not grow while the target answers that it drains, and for ten seconds more. */
static void test_pause_of_a_target_that_drains(void **state)
{
	unsigned int attempts = 0;
	u64 pause;

	(void)state;
	live(1, 1);
	pause = pause_ms(20000, 30000, RBLK_REJECT_DRAINING, &attempts);
	assert_true(pause <= 30125);
	assert_true(attempts >= 30000 / 125 && attempts <= 2 + 30000 / 75);
	/* After a refusal for lack of resources the delay grows. */
	live(1, 1);
	attempts = 0;
	pause_ms(20000, 30000, RBLK_REJECT_NO_RESOURCES, &attempts);
	assert_true(attempts <= 24);
}

/* Delays do not add up over restarts that follow each other closely, because the target served
 * in between. */
static void test_pauses_do_not_add_up(void **state)
{
	u64 now = 20000, pause;
	unsigned int attempts;

	(void)state;
	live(1, 1);
	for (int i = 0; i < 50; i++) {
		attempts = 0;
		pause = pause_ms(now, 800, 0, &attempts);
		assert_true(pause <= 800 + 800 * 5 / 12 + 125);
		now += pause + 300;
		core_session_heard(&session, 0, (now - 100) * MS);
	}
}

/* They do if the target accepts and then closes without serving the session. */
static void test_what_comes_to_nothing_is_tried_less_and_less(void **state)
{
	struct core_action action;
	unsigned int accepted = 0;
	u64 now_ns;

	(void)state;
	for (int named = 0; named < 2; named++) {
		live(1, 1);
		now_ns = 20000 * MS;
		core_session_lost(&session, 0, now_ns);
		while (core_session_action(&session, &action))
			;
		core_session_drained(&session, 0, now_ns);
		if (!named)
			core_session_rejected(&session, 0, RBLK_REJECT_NO_SESSION, 0, now_ns);
		for (accepted = 0; now_ns < 60000 * MS; now_ns = core_session_next_ns(&session)) {
			core_session_tick(&session, now_ns);
			while (core_session_action(&session, &action)) {
				if (action.kind == CORE_ACTION_CLOSE)
					core_session_drained(&session, 0, now_ns);
				if (action.kind != CORE_ACTION_CONNECT)
					continue;
				accepted++;
				assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, now_ns));
				if (!named) /* it answers IDENTIFY, but not OPEN */
					core_session_heard(&session, 0, now_ns + MS);
				core_session_lost(&session, 0, now_ns + 2 * MS);
			}
		}
		assert_true(accepted > 5 && accepted <= 24);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pause_is_the_targets),
		cmocka_unit_test(test_attempts_are_short_at_first),
		cmocka_unit_test(test_attempts_grow_beside_short_pauses),
		cmocka_unit_test(test_pause_of_a_target_that_drains),
		cmocka_unit_test(test_pauses_do_not_add_up),
		cmocka_unit_test(test_what_comes_to_nothing_is_tried_less_and_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
