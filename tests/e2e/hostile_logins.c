/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the target refuses a login that breaks a rule of section 3, with the reason that the
 * specification gives. It accepts a login that the rules allow. Neither affects other sessions.
 * Method: a table of logins with one field wrong each; then logins to a session that exists.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "proto/core/env.h"
#include "tests/e2e/hostile.h"

#define BLOCK 512u

/* -- logins that are wrong by themselves ------------------------------------------------------- */

#define FIELD(name) \
	offsetof(struct rblk_wire_login, name), sizeof(((struct rblk_wire_login *)0)->name)
#define WHOLE ((uint8_t)sizeof(struct rblk_wire_login))

/* clang-format off */
static const struct refusal {
	const char *what;
	uint16_t offset, bytes;
	uint64_t value;        /* of that field, little-endian */
	uint8_t login_bytes;   /* of private data */
	enum rblk_reject_reason reason;
	uint32_t detail;
} refusals[] = {
	{ "nothing said", FIELD(magic), RBLK_MAGIC, 0, RBLK_REJECT_MALFORMED, 0 },
	{ "no version", FIELD(magic), RBLK_MAGIC, 4, RBLK_REJECT_MALFORMED, 0 },
	{ "one byte short", FIELD(magic), RBLK_MAGIC, WHOLE - 1, RBLK_REJECT_MALFORMED, 0 },
	{ "not rblk", FIELD(magic), 0x12345678, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "version 0", FIELD(version), 0, WHOLE, RBLK_REJECT_VERSION, RBLK_PROTOCOL_VERSION },
	{ "version 3", FIELD(version), 3, WHOLE, RBLK_REJECT_VERSION, RBLK_PROTOCOL_VERSION },
	{ "version 3, short", FIELD(version), 3, 6, RBLK_REJECT_VERSION, RBLK_PROTOCOL_VERSION },
	{ "version 3, nothing else", FIELD(version), 3, 8, RBLK_REJECT_VERSION, RBLK_PROTOCOL_VERSION },
	{ "a reserved byte", FIELD(reserved), 1u << 31, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "no session id", FIELD(session_id), 0, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "epoch 0", FIELD(session_epoch), 0, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "incarnation 0", FIELD(incarnation), 0, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "fences itself", FIELD(fence_incarnation), 1, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "fences an incarnation that is not older", FIELD(fence_incarnation), UINT32_MAX, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "no queue", FIELD(queue_count), 0, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "17 queues", FIELD(queue_count), RBLK_QUEUES_MAX + 1, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "more queues than this target allows", FIELD(queue_count), 5, WHOLE,
	  RBLK_REJECT_QUEUE_COUNT, 4 },
	{ "a queue beyond the count", FIELD(queue_index), 1, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "no credits", FIELD(credits), 0, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "too few credits", FIELD(credits), RBLK_CREDITS_MIN - 1, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "too many credits", FIELD(credits), RBLK_CREDITS_MAX + 1, WHOLE, RBLK_REJECT_MALFORMED, 0 },
	{ "replies too short", FIELD(reply_bytes), RBLK_REPLY_BYTES_MIN - 1, WHOLE,
	  RBLK_REJECT_MALFORMED, 0 },
	{ "replies too long", FIELD(reply_bytes), RBLK_REPLY_BYTES_MAX + 1, WHOLE,
	  RBLK_REJECT_MALFORMED, 0 },
	{ "its first incarnation is not 1", FIELD(incarnation), 2, WHOLE, RBLK_REJECT_NONE, 0 },
	{ "the fewest credits", FIELD(credits), RBLK_CREDITS_MIN, WHOLE, RBLK_REJECT_NONE, 0 },
	{ "unknown features", FIELD(features), ~(uint32_t)RBLK_FEATURES_ALL, WHOLE, RBLK_REJECT_NONE, 0 },
	{ "the shortest replies", FIELD(reply_bytes), RBLK_REPLY_BYTES_MIN, WHOLE, RBLK_REJECT_NONE, 0 },
};
/* clang-format on */

static void set_field(struct rblk_wire_login *login, const struct refusal *refusal)
{
	unsigned char *field = (unsigned char *)login + refusal->offset;

	for (unsigned int i = 0; i < refusal->bytes; i++)
		field[i] = i < 8 ? (unsigned char)(refusal->value >> 8 * i) : 0;
}

static void every_wrong_field_has_its_reason(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(refusals); i++) {
		const struct refusal *refusal = &refusals[i];
		bool accepted;
		struct raw raw;

		print_message("%s\n", refusal->what);
		raw_init(&raw);
		set_field(&raw.login, refusal);
		raw.login_bytes = refusal->login_bytes;
		accepted = raw_connect(&raw, hostile_host());
		assert_int_equal(accepted, refusal->reason == RBLK_REJECT_NONE);
		if (accepted) {
			assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
			assert_int_equal(raw.accept.features, 0);
		}
		assert_int_equal(rblk_le16(raw.reject.reason), refusal->reason);
		assert_int_equal(rblk_le32(raw.reject.detail), refusal->detail);
		raw_close(&raw);
		hostile_goes_on();
	}
}

/* -- logins to a session that exists ------------------------------------------------------ */

/* Queue 0 of two, incarnation 5 in epoch 3, with "mem" open. */
static uint32_t begin(struct raw *raw)
{
	uint32_t volume;

	raw_init(raw);
	raw->login.queue_count = rblk_to_le16(2);
	raw->login.session_epoch = rblk_to_le64(3);
	raw->login.incarnation = rblk_to_le32(5);
	assert_true(raw_connect(raw, hostile_host()));
	volume = raw_open(raw, "mem");
	assert_int_not_equal(volume, 0);
	return volume;
}

/* clang-format off */
static const struct rival {
	const char *what;
	uint16_t queue_index, queue_count;
	uint32_t incarnation;
	uint64_t epoch;
	enum rblk_reject_reason reason;
	uint32_t detail;
} rivals[] = {
	{ "the same login", 0, 2, 5, 3, RBLK_REJECT_STALE_INCARNATION, 5 },
	{ "an older incarnation", 0, 2, 4, 3, RBLK_REJECT_STALE_INCARNATION, 5 },
	{ "an older epoch", 0, 2, 9, 2, RBLK_REJECT_STALE_EPOCH, 3 },
	{ "another number of queues", 0, 3, 6, 3, RBLK_REJECT_MALFORMED, 2 },
	{ "the other queue, of an older epoch", 1, 2, 1, 2, RBLK_REJECT_STALE_EPOCH, 3 },
};
/* clang-format on */

/* F5: none of these changes the session that it names. */
static void who_may_not_take_over_does_not(void **state)
{
	uint32_t volume;
	struct raw old;

	(void)state;
	volume = begin(&old);
	for (unsigned int i = 0; i < UNIT_LENGTH(rivals); i++) {
		const struct rival *rival = &rivals[i];
		struct raw new;

		print_message("%s\n", rival->what);
		raw_init(&new);
		new.login = old.login;
		new.login.queue_index = rblk_to_le16(rival->queue_index);
		new.login.queue_count = rblk_to_le16(rival->queue_count);
		new.login.incarnation = rblk_to_le32(rival->incarnation);
		new.login.session_epoch = rblk_to_le64(rival->epoch);
		assert_false(raw_connect(&new, hostile_host()));
		assert_int_equal(rblk_le16(new.reject.reason), rival->reason);
		assert_int_equal(rblk_le32(new.reject.detail), rival->detail);
		raw_close(&new);
		raw_io(&old, RBLK_OP_READ, 1, volume, 0, 1, BLOCK);
		assert_int_equal(raw_wait(&old, 1), RBLK_OK);
	}
	raw_close(&old);
}

/* Only queue 0 begins a session, and only with a login that does not rely on an earlier one. */
static void strangers_are_told_that_there_is_no_session(void **state)
{
	struct raw raw;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		raw_init(&raw);
		raw.login.queue_count = rblk_to_le16(2);
		raw.login.incarnation = rblk_to_le32(2);
		if (i)
			raw.login.queue_index = rblk_to_le16(1);
		else
			raw.login.fence_incarnation = rblk_to_le32(1);
		assert_false(raw_connect(&raw, hostile_host()));
		assert_int_equal(rblk_le16(raw.reject.reason), RBLK_REJECT_NO_SESSION);
		raw_close(&raw);
	}
}

/*
 * A second login of a session's queue: the target accepts it when the first connection has ended.
 * Returns the status of a READ through the handle of the first one.
 */
static enum rblk_status read_after_login(void (*change)(struct rblk_wire_login *login))
{
	enum rblk_status status;
	struct raw old, new;
	uint32_t volume;

	volume = begin(&old);
	raw_init(&new);
	new.login = old.login;
	change(&new.login);
	raw_connect_begin(&new, hostile_host());
	/* This thread runs both: neither may block. */
	while (!old.gone) {
		raw_step(&new);
		raw_step(&old);
	}
	assert_true(raw_connect_wait(&new));
	raw_io(&new, RBLK_OP_READ, 1, volume, 0, 1, BLOCK);
	status = raw_wait(&new, 1);
	raw_close(&old);
	raw_close(&new);
	return status;
}

static void next_incarnation(struct rblk_wire_login *login)
{
	login->incarnation = rblk_to_le32(6);
	login->fence_incarnation = rblk_to_le32(5);
}

static void next_epoch(struct rblk_wire_login *login)
{
	login->session_epoch = rblk_to_le64(4);
	login->incarnation = rblk_to_le32(1);
}

/* F5: the handles of an older incarnation stay valid. */
static void newer_incarnation_takes_over(void **state)
{
	(void)state;
	assert_int_equal(read_after_login(next_incarnation), RBLK_OK);
}

/* A higher epoch begins from nothing: handles of the old epoch are invalid. */
static void higher_epoch_begins_anew(void **state)
{
	(void)state;
	assert_int_equal(read_after_login(next_epoch), RBLK_E_NO_VOLUME);
}

static const char *rule(unsigned int index)
{
	return index ? NULL : "F5";
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_field_has_its_reason),
		cmocka_unit_test(who_may_not_take_over_does_not),
		cmocka_unit_test(strangers_are_told_that_there_is_no_session),
		cmocka_unit_test(newer_incarnation_takes_over),
		cmocka_unit_test(higher_epoch_begins_anew),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, hostile_start, hostile_stop);
}
