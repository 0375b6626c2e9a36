/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whatever happens to its connections, a session releases commands only behind their drain and
 * their fence (F4, F5), its queues are spread over its target's portals, and once faults stop, nothing waits. Method:
 * hundreds of random histories against a small target that judges logins with core_login_judge() and is restarted, cut
 * off and slow.
 */
#include "tests/unit/core_session_rig.h"
#include "proto/core/login.h"

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
	assert_true(core_session_accepted(&session, queue, world.instance, 5000, 0, world.now_ns));
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
	core_session_fenced(&session, queue, action->incarnation, !fault(5), world.now_ns);
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
	case CORE_ACTION_RELEASE_HARMLESS:
		assert_true(world.drained[queue] || !world.lost[queue]); /* F4 */
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
	assert_spread();
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
		cmocka_unit_test(test_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
