/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a reply message is valid only if each of its completions and events obeys its rule. Method:
 * build valid ones, break one field at a time, compare the validator's answer.
 */
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"

#define TAGS 68u /* 64 credits and the reserved tags */

static struct rblk_wire_completion replies[RBLK_REPLY_BATCH_MAX + 1];

static int fill(void **state)
{
	u16 i;

	memset(replies, 0, sizeof(replies));
	for (i = 0; i < UNIT_LENGTH(replies); i++) {
		replies[i].tag = rblk_to_le16(i);
		replies[i].result = rblk_to_le64(~0ull);
		replies[i].queued_us = rblk_to_le32(~0u);
		replies[i].stored_us = rblk_to_le32(~0u);
		replies[i].sequence = rblk_to_le32(1000u + i);
	}
	return 0;
}

static enum rblk_wire_error check(size_t length, u32 features)
{
	const struct rblk_wire_completion *completions = NULL;
	u16 count = 0;
	enum rblk_wire_error error =
		rblk_check_reply(replies, length, features, TAGS, &completions, &count);

	if (error) {
		assert_null(completions);
	} else {
		assert_ptr_equal(completions, replies);
		assert_int_equal(count, length / sizeof(replies[0]));
	}
	return error;
}

static enum rblk_wire_error check_count(size_t count)
{
	return check(count * sizeof(replies[0]), RBLK_FEATURES_ALL);
}

static void lengths(void **state)
{
	size_t length;

	for (length = 0; length < 2 * sizeof(replies[0]); length++)
		assert_int_equal(check(length, RBLK_FEATURES_ALL),
				 length == sizeof(replies[0]) ? RBLK_WIRE_OK : RBLK_WIRE_SHORT);
	assert_int_equal(check_count(RBLK_REPLY_BATCH_MAX), RBLK_WIRE_OK);
	assert_int_equal(check_count(RBLK_REPLY_BATCH_MAX + 1), RBLK_WIRE_BATCH);
}

static void reserved(void **state)
{
	replies[1].reserved[2] = 1;
	assert_int_equal(check_count(2), RBLK_WIRE_RESERVED);
	assert_int_equal(check_count(1), RBLK_WIRE_OK);
	replies[1].reserved[2] = 0;
	replies[1].flags = RBLK_CPL_FLAGS_ALL + 1;
	assert_int_equal(check_count(2), RBLK_WIRE_RESERVED);
}

static void tags_and_statuses(void **state)
{
	replies[0].tag = rblk_to_le16(TAGS - 1);
	assert_int_equal(check_count(1), RBLK_WIRE_OK);
	replies[0].tag = rblk_to_le16(TAGS);
	assert_int_equal(check_count(1), RBLK_WIRE_TAG);
	replies[0].tag = rblk_to_le16(RBLK_TAG_EVENT); /* without the event's flag */
	assert_int_equal(check_count(1), RBLK_WIRE_TAG);
	replies[0].tag = 0;
	replies[0].status = rblk_to_le16(RBLK_E_MAX - 1);
	assert_int_equal(check_count(1), RBLK_WIRE_OK);
	replies[0].status = rblk_to_le16(RBLK_E_MAX);
	assert_int_equal(check_count(1), RBLK_WIRE_STATUS);
}

static void digests(void **state)
{
	replies[0].digest = rblk_to_le32(1);
	assert_int_equal(check_count(1), RBLK_WIRE_DIGEST);
	replies[0].flags = RBLK_CPL_DIGEST;
	assert_int_equal(check_count(1), RBLK_WIRE_OK);
	assert_int_equal(check(sizeof(replies[0]), RBLK_FEATURES_ALL & ~RBLK_FEATURE_DIGEST),
			 RBLK_WIRE_FLAGS);
}

/* A SEND can invalidate only one key. */
static void invalidations(void **state)
{
	replies[1].flags = RBLK_CPL_INVALIDATED;
	assert_int_equal(check_count(3), RBLK_WIRE_OK);
	replies[2].flags = RBLK_CPL_INVALIDATED;
	assert_int_equal(check_count(3), RBLK_WIRE_FLAGS);
	assert_int_equal(check(2 * sizeof(replies[0]),
			       RBLK_FEATURES_ALL & ~RBLK_FEATURE_INVALIDATE),
			 RBLK_WIRE_FLAGS);
}

static void put_event(void)
{
	replies[0] = (struct rblk_wire_completion){
		.tag = rblk_to_le16(RBLK_TAG_EVENT),
		.status = rblk_to_le16(RBLK_EVENT_VOLUME_CHANGED),
		.flags = RBLK_CPL_EVENT,
		.result = rblk_to_le64(1ull << 32 | 7),
	};
}

#define EVENT(assignment) (put_event(), replies[0].assignment, check_count(1))

static void events(void **state)
{
	put_event();
	assert_int_equal(check_count(2), RBLK_WIRE_OK);
	assert_int_equal(check(sizeof(replies[0]), RBLK_FEATURES_ALL & ~RBLK_FEATURE_EVENTS),
			 RBLK_WIRE_FLAGS);
	assert_int_equal(EVENT(flags |= RBLK_CPL_DIGEST), RBLK_WIRE_FLAGS);
	assert_int_equal(EVENT(flags |= RBLK_CPL_INVALIDATED), RBLK_WIRE_FLAGS);
	assert_int_equal(EVENT(tag = 0), RBLK_WIRE_TAG);
	assert_int_equal(EVENT(status = RBLK_EVENT_NONE), RBLK_WIRE_STATUS);
	assert_int_equal(EVENT(status = rblk_to_le16(RBLK_EVENT_MAX - 1)), RBLK_WIRE_OK);
	assert_int_equal(EVENT(status = rblk_to_le16(RBLK_EVENT_MAX)), RBLK_WIRE_STATUS);
	assert_int_equal(EVENT(queued_us = rblk_to_le32(1)), RBLK_WIRE_RESERVED);
	assert_int_equal(EVENT(stored_us = rblk_to_le32(1)), RBLK_WIRE_RESERVED);
	assert_int_equal(EVENT(digest = rblk_to_le32(1)), RBLK_WIRE_RESERVED);
	assert_int_equal(EVENT(sequence = rblk_to_le32(1)), RBLK_WIRE_RESERVED);
	assert_int_equal(EVENT(result = rblk_to_le64(7)), RBLK_WIRE_ARGUMENT); /* number 0 */
}

#define TEST(name) cmocka_unit_test_setup(name, fill)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lengths),	     TEST(reserved), TEST(tags_and_statuses), TEST(digests),
		TEST(invalidations), TEST(events),
	};

	return cmocka_run_group_tests_name("wire reply", tests, NULL, NULL);
}
