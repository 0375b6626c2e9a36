/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the tests of the initiator's state machine (proto/core/session.h) share: one session, and its
 * way to LIVE. Each program that includes this has a session of its own.
 */
#ifndef RBLK_TESTS_CORE_SESSION_RIG_H
#define RBLK_TESTS_CORE_SESSION_RIG_H

#include "tests/unit/unit.h"
#include "proto/core/session.h"

#define MS 1000000ull

static const u8 INSTANCE[16] = {1};

static struct core_session session;

static inline void begin(u16 queues, u16 portals)
{
	const struct core_session_options options = {
		.queues = queues,
		.portals = portals,
		.connect_timeout_ms = 10000,
		.reconnect_min_ms = 100,
		.reconnect_max_ms = 10000,
		.fail_fast_ms = 5000,
		.give_up_ms = 60000,
		.random = 7,
	};

	core_session_init(&session, &options);
	core_session_start(&session, 0);
}

/* The next action must be this one. */
static inline struct core_action want(enum core_action_kind kind, u16 queue)
{
	struct core_action action;

	assert_true(core_session_action(&session, &action));
	assert_int_equal(action.kind, kind);
	assert_int_equal(action.queue, queue);
	return action;
}

static inline void want_none(void)
{
	struct core_action action;

	assert_false(core_session_action(&session, &action));
}

/* The queue is lost while another one can carry its FENCE, and is drained. */
static inline void lose(u16 queue, u64 now_ns)
{
	core_session_lost(&session, queue, now_ns);
	want(CORE_ACTION_CLOSE, queue);
	want(CORE_ACTION_FENCE, queue);
}

static inline void drain(u16 queue, u64 now_ns)
{
	core_session_drained(&session, queue, now_ns);
	want(CORE_ACTION_RELEASE_HARMLESS, queue);
	want(CORE_ACTION_CONNECT, queue);
}

/* Connected and named, all queues LIVE, at time 0. */
static inline void live(u16 queues, u16 portals)
{
	struct core_action action;

	begin(queues, portals);
	want(CORE_ACTION_CONNECT, 0);
	want_none();
	assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0, 0));
	for (u16 i = 1; i < queues; i++)
		want(CORE_ACTION_CONNECT, i);
	want(CORE_ACTION_NAME, 0);
	assert_int_equal(core_session_route(&session, 0), -1);
	core_session_named(&session, true, 0);
	want(CORE_ACTION_STATE, 0);
	for (u16 i = 1; i < queues; i++) {
		assert_int_equal(session.queue[i].portal, i % portals);
		assert_true(core_session_accepted(&session, i, INSTANCE, 5000, 0, 0));
	}
	assert_false(core_session_action(&session, &action));
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	assert_int_equal(core_session_live(&session), queues);
}

/*
 * Each portal of the session's target is some queue's home, as far as there are queues, and none but queue 0 goes to
 * another target's.
 */
static inline void assert_spread(void)
{
	u16 homes[CORE_PORTALS_MAX] = {0}, own = 0, without = 0, shared = 0;

	for (u16 i = 0; i < session.queues; i++)
		homes[session.queue[i].home]++;
	for (u16 i = 0; i < session.options.portals; i++) {
		if (core_session_is_foreign(&session, i))
			continue;
		own++;
		without += !homes[i];
		shared += homes[i] > 1;
	}
	assert_true(!without || !shared);
	for (u16 i = 1; i < session.queues && own; i++)
		assert_false(core_session_is_foreign(&session, session.queue[i].home));
}

/* All of them are, and drained. */
static inline void lost_all(u16 queues, u64 now_ns)
{
	for (u16 i = 0; i < queues; i++)
		core_session_lost(&session, i, now_ns);
	for (u16 i = 0; i < queues; i++)
		core_session_drained(&session, i, now_ns);
}

#endif
