/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the initiator's session behaves as the specification's sections 10 and 11 say: commands of
 * a lost queue wait for its drain and its fence (F4, F5), other portals are used, and the old ones
 * when they are back, a target that forgot gets a new epoch, and once faults stop, nothing waits.
 * Method: single events with the actions that must follow; then thousands of random histories
 * against a small target that judges logins with core_login_judge() and is restarted, cut off and
 * slow.
 */
#include "tests/unit/unit.h"
#include "proto/core/login.h"
#include "proto/core/session.h"

#define MS 1000000ull

static const u8 INSTANCE[16] = {1}, OTHER[16] = {2};

static struct core_session session;

static void begin(u16 queues, u16 portals)
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
static struct core_action want(enum core_action_kind kind, u16 queue)
{
	struct core_action action;

	assert_true(core_session_action(&session, &action));
	assert_int_equal(action.kind, kind);
	assert_int_equal(action.queue, queue);
	return action;
}

static void want_none(void)
{
	struct core_action action;

	assert_false(core_session_action(&session, &action));
}

/* Connected and named, all queues LIVE, at time 0. */
static void live(u16 queues, u16 portals)
{
	struct core_action action;

	begin(queues, portals);
	want(CORE_ACTION_CONNECT, 0);
	want_none();
	assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, 0));
	for (u16 i = 1; i < queues; i++)
		want(CORE_ACTION_CONNECT, i);
	want(CORE_ACTION_NAME, 0);
	assert_int_equal(core_session_route(&session, 0), -1);
	core_session_named(&session, true, 0);
	want(CORE_ACTION_STATE, 0);
	for (u16 i = 1; i < queues; i++) {
		assert_int_equal(session.queue[i].portal, i % portals);
		assert_true(core_session_accepted(&session, i, INSTANCE, 5000, 0));
	}
	assert_false(core_session_action(&session, &action));
	assert_int_equal(session.state, CORE_SESSION_LIVE);
	assert_int_equal(core_session_live(&session), queues);
}

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
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.incarnation, 2);
	assert_int_equal(action.fence, 1);
	want_none(); /* drained, and not fenced: nothing is released (F5) */
	core_session_accepted(&session, 0, INSTANCE, 5000, 20003 * MS);
	action = want(CORE_ACTION_RELEASE, 0);
	assert_false(action.renewed);
	want(CORE_ACTION_STATE, 0);
	want_none();
	assert_int_equal(session.state, CORE_SESSION_LIVE);
}

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
	core_session_fenced(&session, 1, true, 20001 * MS);
	want_none();
	core_session_drained(&session, 1, 20002 * MS);
	want(CORE_ACTION_RELEASE, 1);
	want(CORE_ACTION_CONNECT, 1);
	want_none();
}

static void test_fence_refused_is_sent_again(void **state)
{
	(void)state;
	live(2, 2);
	core_session_lost(&session, 1, 20000 * MS);
	want(CORE_ACTION_CLOSE, 1);
	want(CORE_ACTION_FENCE, 1);
	core_session_fenced(&session, 1, false, 20000 * MS);
	want_none();
	assert_true(core_session_next_ns(&session) <= 20100 * MS);
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
	assert_int_equal(action.via, 0);
	core_session_lost(&session, 0, 20001 * MS);
	want(CORE_ACTION_CLOSE, 0);
	action = want(CORE_ACTION_FENCE, 0);
	assert_int_equal(action.via, 1);
	action = want(CORE_ACTION_FENCE, 2);
	assert_int_equal(action.via, 1);
}

static void test_first_queue_changes_portal(void **state)
{
	struct core_action action;

	(void)state;
	live(2, 2);
	core_session_lost(&session, 0, 20000 * MS);
	want(CORE_ACTION_CLOSE, 0);
	want(CORE_ACTION_FENCE, 0);
	want(CORE_ACTION_STATE, 0);
	assert_int_equal(core_session_route(&session, 0), 1);
	core_session_drained(&session, 0, 20000 * MS);
	action = want(CORE_ACTION_CONNECT, 0);
	assert_int_equal(action.portal, 1);
	want_none();
	/* When queue 0 is connected at the other portal, queue 1 leaves that one: one queue has
	 * to try the lost portal. */
	core_session_accepted(&session, 0, INSTANCE, 5000, 20001 * MS);
	want(CORE_ACTION_RELEASE, 0);
	want(CORE_ACTION_LEAVE, 1);
	want(CORE_ACTION_STATE, 0);
	want_none();
	assert_int_equal(core_session_route(&session, 1), 0);
	core_session_lost(&session, 1, 20002 * MS);
	want(CORE_ACTION_CLOSE, 1);
	want(CORE_ACTION_FENCE, 1);
	core_session_drained(&session, 1, 20002 * MS);
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
}

static void test_target_forgot(void **state)
{
	struct core_action action;

	(void)state;
	live(2, 1);
	core_session_lost(&session, 1, 20000 * MS);
	core_session_lost(&session, 0, 20000 * MS);
	core_session_drained(&session, 1, 20000 * MS);
	core_session_drained(&session, 0, 20000 * MS);
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
	assert_true(core_session_accepted(&session, 0, OTHER, 5000, 20001 * MS));
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
	core_session_lost(&session, 1, 20000 * MS);
	want(CORE_ACTION_CLOSE, 1);
	want(CORE_ACTION_FENCE, 1);
	core_session_drained(&session, 1, 20000 * MS);
	want(CORE_ACTION_CONNECT, 1);
	core_session_rejected(&session, 1, RBLK_REJECT_NO_SESSION, 0, 20000 * MS);
	want(CORE_ACTION_CLOSE, 1);
	want(CORE_ACTION_PROBE, 0);
	want_none();
	assert_int_equal(session.epoch, 1);
	assert_int_equal(session.state, CORE_SESSION_LIVE);
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
	core_session_drained(&session, 0, 26000 * MS);
	want(CORE_ACTION_CONNECT, 0);
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

/* -- delays between attempts
 * ---------------------------------------------------------------------------------- */

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
				assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, now_ns));
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
			core_session_leaves(&session);
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
				assert_true(core_session_accepted(&session, 0, INSTANCE, 5000, now_ns));
				if (!named) /* it answers IDENTIFY, but not OPEN */
					core_session_heard(&session, 0, now_ns + MS);
				core_session_lost(&session, 0, now_ns + 2 * MS);
			}
		}
		assert_true(accepted > 5 && accepted <= 24);
	}
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
	core_session_accepted(&session, 0, INSTANCE, 0, 0);
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

/* -- random histories ---------------------------------------------------------------------------
 */

#define QUEUES 4
#define PORTALS 3

/* A target as the session sees it, and what is in flight. */
static struct world {
	u64 now_ns;
	u32 random;
	bool calm; /* no more faults */
	bool up[PORTALS];
	bool exists; /* the session */
	u8 instance[16];
	u64 epoch;
	u16 queue_count;
	u32 known[QUEUES]; /* highest incarnation accepted or fenced */
	u32 live[QUEUES];  /* the incarnation that is connected; 0: none */
	u64 live_epoch[QUEUES];
	bool carries[QUEUES]; /* it carried commands */
	u64 busy_ns[QUEUES];  /* storage of an ended incarnation is busy until then (F5) */
	struct core_action login[QUEUES]; /* the login that waits for an answer */
	bool login_waits[QUEUES];
	struct core_action fence[QUEUES];
	bool fence_waits[QUEUES];
	bool naming, closing[QUEUES], probing[QUEUES];
	/* the commands: in flight on a queue, lost with it */
	bool flying[QUEUES], lost[QUEUES], drained[QUEUES];
	u64 lost_epoch[QUEUES];
	u32 lost_incarnation[QUEUES];
	unsigned int released, renewed, fenced, failovers;
} world;

static u32 below(u32 n)
{
	world.random ^= world.random << 13;
	world.random ^= world.random >> 17;
	world.random ^= world.random << 5;
	return world.random % n;
}

static bool fault(u32 of)
{
	return !world.calm && !below(of);
}

/* The target's end of a queue ends; its storage may go on. */
static void target_ends(u16 queue)
{
	if (!world.live[queue])
		return;
	world.live[queue] = 0;
	if (world.carries[queue] && below(2))
		world.busy_ns[queue] = world.now_ns + below(3000) * MS;
}

static void restart_target(void)
{
	for (u16 i = 0; i < QUEUES; i++) {
		world.live[i] = 0;
		world.busy_ns[i] = 0; /* F6: the new daemon waited for the lock */
		world.known[i] = 0;
		world.login_waits[i] = false;
		world.fence_waits[i] = false;
	}
	world.exists = false;
	world.instance[1]++;
	world.naming = false;
}

static void forget(void)
{
	for (u16 i = 0; i < QUEUES; i++)
		world.known[i] = world.live[i] = 0;
	world.exists = false;
}

/* Judge a login as a target does; it waits for fences. */
static void answer_login(u16 queue)
{
	const struct core_action *action = &world.login[queue];
	const struct rblk_wire_login login = {
		.queue_index = rblk_to_le16(queue),
		.queue_count = rblk_to_le16(session.queues),
		.incarnation = rblk_to_le32(action->incarnation),
		.fence_incarnation = rblk_to_le32(action->fence),
		.session_epoch = rblk_to_le64(action->epoch),
	};
	const struct core_login_session known = {
		.exists = world.exists,
		.epoch = world.epoch,
		.queue_count = world.queue_count,
		.incarnation = world.known[queue],
		.queue_here = world.live[queue] || world.busy_ns[queue] > world.now_ns,
	};
	const struct core_login_limits limits = {.queues_max = QUEUES};
	const struct core_login_verdict verdict = core_login_judge(&login, &known, &limits);
	bool busy = false;

	if (session.queue[queue].state != CORE_QUEUE_CONNECTING ||
	    session.queue[queue].incarnation != action->incarnation ||
	    session.epoch != action->epoch) {
		world.login_waits[queue] = false; /* its connection is gone */
		return;
	}
	if (!world.up[action->portal] || fault(8)) {
		world.login_waits[queue] = false;
		core_session_unreached(&session, queue, world.now_ns);
		return;
	}
	switch (verdict.action) {
	case CORE_LOGIN_WAIT:
		return;
	case CORE_LOGIN_FENCE:
		target_ends(queue);
		return;
	case CORE_LOGIN_FORGET:
		for (u16 i = 0; i < QUEUES; i++) {
			target_ends(i);
			busy = busy || world.busy_ns[i] > world.now_ns;
		}
		if (!busy)
			forget();
		return;
	case CORE_LOGIN_REJECT:
		world.login_waits[queue] = false;
		core_session_rejected(&session, queue, verdict.reason, verdict.detail,
				      world.now_ns);
		return;
	case CORE_LOGIN_CREATE:
		world.exists = true;
		world.epoch = action->epoch;
		world.queue_count = session.queues;
		break;
	case CORE_LOGIN_ACCEPT:
		break;
	}
	world.login_waits[queue] = false;
	world.known[queue] = action->incarnation;
	world.live[queue] = action->incarnation;
	world.live_epoch[queue] = action->epoch;
	world.carries[queue] = false;
	if (fault(8)) { /* the acceptance is lost */
		core_session_unreached(&session, queue, world.now_ns);
		return;
	}
	assert_true(core_session_accepted(&session, queue, world.instance, 5000, world.now_ns));
}

static void answer_fence(u16 queue)
{
	const struct core_action *action = &world.fence[queue];

	if (session.queue[action->via].state != CORE_QUEUE_LIVE) {
		world.fence_waits[queue] = false;
		return;
	}
	if (!world.up[session.queue[action->via].portal] || !world.live[action->via])
		return;
	if (world.live[queue] && world.live[queue] <= action->incarnation)
		target_ends(queue);
	if (world.known[queue] < action->incarnation)
		world.known[queue] = action->incarnation;
	if (world.busy_ns[queue] > world.now_ns)
		return;
	world.fence_waits[queue] = false;
	world.fenced++;
	core_session_fenced(&session, queue, !fault(5), world.now_ns);
}

/* F5: the target's I/O for the command has ended when it is sent again. */
static void released(const struct core_action *action)
{
	u16 queue = action->queue;

	assert_true(world.lost[queue]);
	world.lost[queue] = false;
	world.released++;
	world.renewed += action->renewed;
	assert_int_equal(action->renewed, world.lost_epoch[queue] != session.epoch);
	assert_true(world.drained[queue]); /* F4 */
	if (world.live[queue])
		assert_false(world.live_epoch[queue] == world.lost_epoch[queue] &&
			     world.live[queue] == world.lost_incarnation[queue]);
	assert_true(world.busy_ns[queue] <= world.now_ns);
}

static void act(const struct core_action *action)
{
	u16 queue = action->queue;

	switch (action->kind) {
	case CORE_ACTION_CONNECT:
		assert_int_equal(session.queue[queue].state, CORE_QUEUE_CONNECTING);
		world.login[queue] = *action;
		world.login_waits[queue] = true;
		break;
	case CORE_ACTION_CLOSE:
		assert_false(world.closing[queue]);
		world.closing[queue] = true;
		if (world.flying[queue]) {
			world.flying[queue] = false;
			world.drained[queue] = false;
			world.lost[queue] = true;
			world.lost_epoch[queue] = session.queue[queue].lost.renewed
							  ? session.epoch - 1
							  : session.epoch;
			world.lost_incarnation[queue] = session.queue[queue].lost.incarnation;
		}
		if (!queue)
			world.naming = false;
		break;
	case CORE_ACTION_FENCE:
		assert_true(core_session_carries(&session, action->via));
		world.fence[queue] = *action;
		world.fence_waits[queue] = true;
		world.failovers++;
		break;
	case CORE_ACTION_NAME:
		assert_int_equal(session.queue[0].state, CORE_QUEUE_LIVE);
		world.naming = true;
		break;
	case CORE_ACTION_RELEASE:
		if (world.lost[queue])
			released(action);
		break;
	case CORE_ACTION_LEAVE:
		core_session_lost(&session, queue, world.now_ns);
		break;
	case CORE_ACTION_PROBE:
		world.probing[queue] = true;
		break;
	default:
		break;
	}
}

static void do_actions(void)
{
	struct core_action action;

	while (core_session_action(&session, &action))
		act(&action);
}

/* Nothing is connected or busy. Only then may a target forget a session. */
static bool idle(void)
{
	for (u16 i = 0; i < QUEUES; i++)
		if (world.live[i] || world.busy_ns[i] > world.now_ns)
			return false;
	return true;
}

static void faults(void)
{
	u16 queue = (u16)below(QUEUES);

	if (fault(60))
		world.up[below(PORTALS)] = below(2);
	if (fault(300))
		restart_target();
	if (fault(40))
		target_ends(queue);
	if (fault(40))
		core_session_lost(&session, queue, world.now_ns);
	if (fault(40) && idle())
		forget();
}

static void one_turn(void)
{
	world.now_ns += (1 + below(200)) * MS;
	faults();
	do_actions();
	for (u16 i = 0; i < QUEUES; i++) {
		bool reached = world.up[session.queue[i].portal] && world.live[i] &&
			       world.live[i] == session.queue[i].incarnation;

		if (world.login_waits[i])
			answer_login(i);
		do_actions();
		if (world.fence_waits[i])
			answer_fence(i);
		do_actions();
		if (world.closing[i] && !fault(2)) {
			world.closing[i] = false;
			world.drained[i] = true;
			core_session_drained(&session, i, world.now_ns);
			do_actions();
		}
		if (core_session_open(&session, i) && !world.lost[i]) {
			world.flying[i] = true;
			world.carries[i] = true;
		}
		/* A lost queue is reported by the transport, or found by the keep-alive. */
		if (session.queue[i].state == CORE_QUEUE_LIVE) {
			if (reached)
				core_session_heard(&session, i, world.now_ns);
			else if (below(20) == 0)
				core_session_lost(&session, i, world.now_ns);
		}
		do_actions();
	}
	if (world.naming && !fault(3) && session.queue[0].state == CORE_QUEUE_LIVE &&
	    world.live[0]) {
		world.naming = false;
		core_session_named(&session, !fault(10), world.now_ns);
	}
	do_actions();
	if (core_session_next_ns(&session) <= world.now_ns)
		core_session_tick(&session, world.now_ns);
	do_actions();
}

static bool quiet(void)
{
	for (u16 i = 0; i < QUEUES; i++)
		if (world.lost[i] ||
		    (i < session.queues && session.queue[i].state != CORE_QUEUE_LIVE))
			return false;
	return session.state == CORE_SESSION_LIVE;
}

static void one_history(u32 seed)
{
	const struct core_session_options options = {
		.queues = QUEUES,
		.portals = PORTALS,
		.connect_timeout_ms = 5000,
		.reconnect_min_ms = 100,
		.reconnect_max_ms = 10000,
		.give_up_ms = 100000000,
		.random = seed,
	};

	memset(&world, 0, sizeof(world));
	world.random = seed * 2654435761u | 1;
	world.instance[0] = 1;
	world.calm = true;
	for (u16 i = 0; i < PORTALS; i++)
		world.up[i] = true;
	core_session_init(&session, &options);
	core_session_start(&session, 0);
	for (u16 i = 0; i < 100 && !quiet(); i++)
		one_turn();
	assert_true(quiet());
	world.calm = false;
	for (u16 i = 0; i < 600; i++)
		one_turn();
	world.calm = true;
	for (u16 i = 0; i < PORTALS; i++)
		world.up[i] = true;
	for (u16 i = 0; i < 2000 && !quiet(); i++)
		one_turn();
	assert_true(quiet());
	for (u16 portal = 0; portal < PORTALS; portal++) {
		bool used = false;

		for (u16 i = 0; i < QUEUES; i++)
			used = used || session.queue[i].home == portal;
		assert_true(used);
	}
}

static void test_histories(void **state)
{
	unsigned int released = 0, renewed = 0, fenced = 0;

	(void)state;
	for (u32 seed = 1; seed <= 300; seed++) {
		one_history(seed);
		released += world.released;
		renewed += world.renewed;
		fenced += world.fenced;
	}
	/* The histories reached what they should test. */
	assert_true(released > 2000 && renewed > 200 && fenced > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lone_queue_comes_back),
		cmocka_unit_test(test_fence_by_another_queue),
		cmocka_unit_test(test_fence_refused_is_sent_again),
		cmocka_unit_test(test_fence_carrier_is_lost),
		cmocka_unit_test(test_first_queue_changes_portal),
		cmocka_unit_test(test_target_forgot),
		cmocka_unit_test(test_forgotten_but_not_noticed),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_fail_fast_and_give_up),
		cmocka_unit_test(test_nobody_there),
		cmocka_unit_test(test_pause_is_the_targets),
		cmocka_unit_test(test_pause_of_a_target_that_drains),
		cmocka_unit_test(test_pauses_do_not_add_up),
		cmocka_unit_test(test_what_comes_to_nothing_is_tried_less_and_less),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_fewer_queues),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
