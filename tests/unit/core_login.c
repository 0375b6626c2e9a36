/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a login is judged as the specification's section 3 says, row by row, and a login that
 * fences is accepted only after the fence (F5) unless FENCE of a volume is agreed. Method: each row of that section's table is a row
 * here: what the target knows, what the login says, the verdict; then grants of credits at their
 * limits.
 */
#include "tests/unit/unit.h"
#include "proto/core/login.h"

#define EPOCH 5u
#define INCARNATION 3u
#define QUEUES 4u

static const struct row {
	const char *name;
	bool known, queue_here;
	u64 epoch;
	u16 queue_index, queue_count;
	u32 incarnation, fence_incarnation;
	enum core_login_action action;
	u16 reason;
	u32 detail;
} rows[] = {
	{ "a lower epoch", true, false, EPOCH - 1, 0, QUEUES, 9, 8, CORE_LOGIN_REJECT,
	  RBLK_REJECT_STALE_EPOCH, EPOCH },
	{ "a lower epoch on another queue", true, true, EPOCH - 1, 1, QUEUES, 9, 8,
	  CORE_LOGIN_REJECT, RBLK_REJECT_STALE_EPOCH, EPOCH },
	{ "a higher epoch", true, false, EPOCH + 1, 0, QUEUES, 1, 0, CORE_LOGIN_FORGET, 0, 0 },
	{ "a higher epoch while the old queue is connected", true, true, EPOCH + 1, 0, QUEUES, 1, 0,
	  CORE_LOGIN_FORGET, 0, 0 },
	{ "a higher epoch with another number of queues", true, true, EPOCH + 1, 0, 2, 1, 0,
	  CORE_LOGIN_FORGET, 0, 0 },
	{ "another number of queues", true, false, EPOCH, 0, 2, 4, 3, CORE_LOGIN_REJECT,
	  RBLK_REJECT_MALFORMED, QUEUES },
	{ "the same incarnation", true, true, EPOCH, 0, QUEUES, INCARNATION, 2, CORE_LOGIN_REJECT,
	  RBLK_REJECT_STALE_INCARNATION, INCARNATION },
	{ "a lower incarnation", true, false, EPOCH, 0, QUEUES, INCARNATION - 1, 0,
	  CORE_LOGIN_REJECT, RBLK_REJECT_STALE_INCARNATION, INCARNATION },
	{ "the next incarnation, the last not yet ended", true, true, EPOCH, 0, QUEUES,
	  INCARNATION + 1, INCARNATION, CORE_LOGIN_FENCE, 0, 0 },
	{ "the next incarnation, the last ended", true, false, EPOCH, 0, QUEUES, INCARNATION + 1,
	  INCARNATION, CORE_LOGIN_ACCEPT, 0, 0 },
	{ "an acceptance that the initiator never saw", true, true, EPOCH, 0, QUEUES,
	  INCARNATION + 1, 0, CORE_LOGIN_FENCE, 0, 0 },
	{ "a first login", false, false, 1, 0, QUEUES, 1, 0, CORE_LOGIN_CREATE, 0, 0 },
	{ "a first login at a second attempt", false, false, 1, 0, QUEUES, 2, 0,
	  CORE_LOGIN_CREATE, 0, 0 },
	{ "a reconnection to a target that forgot the session", false, false, EPOCH, 0, QUEUES, INCARNATION + 1,
	  INCARNATION, CORE_LOGIN_REJECT, RBLK_REJECT_NO_SESSION, 0 },
	{ "another queue first", false, false, 1, 1, QUEUES, 1, 0, CORE_LOGIN_REJECT,
	  RBLK_REJECT_NO_SESSION, 0 },
	{ "more queues than allowed", false, false, 1, 0, 9, 1, 0, CORE_LOGIN_REJECT,
	  RBLK_REJECT_QUEUE_COUNT, 8 },
};

/* What is left of older connections is storage I/O (F5), or the session ends. */
static const struct ending_row {
	struct row row;
	bool lingers, ending, may_follow;
	u32 features;
} ending_rows[] = {
	{ { "the next incarnation, storage I/O of the last goes on", true, false, EPOCH, 0, QUEUES, INCARNATION + 1,
	  INCARNATION, CORE_LOGIN_FENCE, 0, 0 }, .lingers = true },
	{ { "the same, and FENCE of a volume is agreed", true, false, EPOCH, 0, QUEUES, INCARNATION + 1,
	  INCARNATION, CORE_LOGIN_ACCEPT, 0, 0 }, .lingers = true, .features = RBLK_FEATURE_VOLUME_FENCE },
	{ { "the epoch that the target ends", true, false, EPOCH, 0, QUEUES, INCARNATION + 1, INCARNATION,
	  CORE_LOGIN_REJECT, RBLK_REJECT_NO_SESSION, 0 }, .ending = true },
	{ { "its first login, once more", true, false, EPOCH, 0, QUEUES, 1, 0, CORE_LOGIN_REJECT,
	  RBLK_REJECT_NO_SESSION, 0 }, .ending = true },
	{ { "a lower epoch than that", true, false, EPOCH - 1, 0, QUEUES, 1, 0, CORE_LOGIN_REJECT,
	  RBLK_REJECT_STALE_EPOCH, EPOCH }, .ending = true },
	{ { "a higher epoch than that", true, false, EPOCH + 1, 0, QUEUES, 1, 0, CORE_LOGIN_FORGET, 0, 0 },
	  .ending = true, .features = RBLK_FEATURE_VOLUME_FENCE },
	{ { "a higher epoch, nothing is left but storage I/O", true, false, EPOCH + 1, 0, QUEUES, 1, 0,
	  CORE_LOGIN_FORGET, 0, 0 }, .ending = true, .may_follow = true },
	{ { "the same, and FENCE of a volume is agreed", true, false, EPOCH + 1, 0, QUEUES, 1, 0,
	  CORE_LOGIN_CREATE, 0, 0 }, .ending = true, .may_follow = true, .features = RBLK_FEATURE_VOLUME_FENCE },
};

static struct core_login_verdict judge_ending(const struct ending_row *ending, bool draining)
{
	const struct row *row = &ending->row;
	const struct rblk_wire_login login = {
		.queue_index = rblk_to_le16(row->queue_index),
		.queue_count = rblk_to_le16(row->queue_count),
		.incarnation = rblk_to_le32(row->incarnation),
		.fence_incarnation = rblk_to_le32(row->fence_incarnation),
		.session_epoch = rblk_to_le64(row->epoch),
		.features = rblk_to_le32(RBLK_FEATURE_IMMEDIATE | RBLK_FEATURE_EVENTS | 1u << 31 | ending->features),
	};
	const struct core_login_session session = {
		.lingers = ending->lingers,
		.ending = ending->ending,
		.may_follow = ending->may_follow,
		.exists = row->known,
		.epoch = EPOCH,
		.queue_count = QUEUES,
		.incarnation = INCARNATION,
		.queue_here = row->queue_here,
	};
	const struct core_login_limits limits = {
		.draining = draining,
		.queues_max = 8,
		.features = RBLK_FEATURE_IMMEDIATE | RBLK_FEATURE_DIGEST | RBLK_FEATURE_VOLUME_FENCE,
	};

	return core_login_judge(&login, &session, &limits);
}

static struct core_login_verdict judge(const struct row *row, bool draining)
{
	const struct ending_row ending = { .row = *row };

	return judge_ending(&ending, draining);
}

static void want(const struct row *row, struct core_login_verdict verdict)
{
	if (verdict.action != row->action || verdict.reason != row->reason || verdict.detail != row->detail)
		fail_msg("%s: action %d reason %u detail %u", row->name, verdict.action, verdict.reason,
			 verdict.detail);
}

static void each_row(void **state)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++)
		want(&rows[i], judge(&rows[i], false));
	for (i = 0; i < UNIT_LENGTH(ending_rows); i++)
		want(&ending_rows[i].row, judge_ending(&ending_rows[i], false));
}

static void agreed_features(void **state)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		struct core_login_verdict verdict = judge(&rows[i], false);

		if (verdict.action == CORE_LOGIN_ACCEPT || verdict.action == CORE_LOGIN_CREATE)
			assert_int_equal(verdict.features, RBLK_FEATURE_IMMEDIATE);
	}
}

static void nothing_while_draining(void **state)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		struct core_login_verdict verdict = judge(&rows[i], true);

		assert_int_equal(verdict.action, CORE_LOGIN_REJECT);
		assert_int_equal(verdict.reason, RBLK_REJECT_DRAINING);
	}
}

static u16 grant(u16 wanted, u32 most, u32 held, u32 places, u32 available)
{
	struct core_login_room room = {
		.total = 10240, .free = available, .held = held, .places = places, .most = most
	};

	return core_login_credits(wanted, &room);
}

static void credits(void **state)
{
	const u32 least = RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS;
	u32 wanted, most, remaining;

	(void)state;
	assert_int_equal(grant(64, 128, 0, 1, 100000), 64);
	assert_int_equal(grant(64, 32, 0, 1, 100000), 32);
	assert_int_equal(grant(64, 128, 0, 1, least), RBLK_CREDITS_MIN);
	assert_int_equal(grant(64, 128, 0, 1, least - 1), 0);
	/* Credits that the session already has count. */
	assert_int_equal(grant(64, 128, 1000, 1, 1000), RBLK_CREDITS_MIN);
	/* For every request, the granted credits are available and within the limits of the
	 * protocol. */
	for (wanted = RBLK_CREDITS_MIN; wanted <= RBLK_CREDITS_MAX; wanted += 51)
		for (most = RBLK_CREDITS_MIN; most <= RBLK_CREDITS_MAX; most += 51)
			for (remaining = 0; remaining < 6000; remaining += 7) {
				u16 granted = grant((u16)wanted, most, 0, 1 + remaining % 50,
						    remaining);

				assert_true(!granted == (remaining < least));
				if (!granted)
					continue;
				assert_true(granted >= RBLK_CREDITS_MIN && granted <= wanted);
				assert_true(granted <= most);
				assert_true(remaining - granted >= RBLK_RESERVED_TAGS);
			}
}

/* Sessions of sixteen queues that want as much as they can get; then small ones until all places
 * are used. */
static void a_thousand_initiators_get_in_behind_greedy_ones(void **state)
{
	u32 left = 10240, places = 1024, held, first = 0;

	(void)state;
	for (unsigned int initiator = 0; initiator < 10; initiator++) {
		held = 0;
		for (unsigned int queue = 0; queue < 16; queue++) {
			u16 granted = grant(128, 128, held, places--, left);

			assert_int_not_equal(granted, 0);
			held += granted + RBLK_RESERVED_TAGS;
			left -= granted + RBLK_RESERVED_TAGS;
		}
		if (!initiator)
			first = held;
	}
	assert_true(first >= 16 * 32); /* and the first one had a lot */
	while (places) {
		u16 granted = grant(32, 128, 0, places--, left);

		assert_true(granted >= RBLK_CREDITS_MIN);
		left -= granted + RBLK_RESERVED_TAGS;
	}
}

static void assert_rejected(struct core_login_verdict verdict, u16 reason, u32 detail)
{
	assert_int_equal(verdict.action, CORE_LOGIN_REJECT);
	assert_int_equal(verdict.reason, reason);
	assert_int_equal(verdict.detail, detail);
}

static void the_newer_of_two_that_wait_stays(void **state)
{
	struct rblk_wire_login older = {.session_epoch = rblk_to_le64(5), .incarnation = rblk_to_le32(9)};
	struct rblk_wire_login newer = older;

	(void)state;
	assert_rejected(core_login_supersede(&newer, &older), RBLK_REJECT_STALE_INCARNATION, 9);
	newer.incarnation = rblk_to_le32(10);
	assert_rejected(core_login_supersede(&newer, &older), RBLK_REJECT_STALE_INCARNATION, 10);
	assert_int_equal(core_login_supersede(&older, &newer).action, CORE_LOGIN_WAIT);
	/* Incarnations of different epochs cannot be compared. */
	newer.session_epoch = rblk_to_le64(6);
	newer.incarnation = rblk_to_le32(1);
	assert_rejected(core_login_supersede(&newer, &older), RBLK_REJECT_STALE_EPOCH, 6);
	assert_int_equal(core_login_supersede(&older, &newer).action, CORE_LOGIN_WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row),
		cmocka_unit_test(agreed_features),
		cmocka_unit_test(nothing_while_draining),
		cmocka_unit_test(credits),
		cmocka_unit_test(a_thousand_initiators_get_in_behind_greedy_ones),
		cmocka_unit_test(the_newer_of_two_that_wait_stays),
	};

	return cmocka_run_group_tests_name("core login", tests, NULL, NULL);
}
