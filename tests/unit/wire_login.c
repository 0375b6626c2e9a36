/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a login, an acceptance and a refusal are valid only if every field obeys its rule, and the
 * validator names the broken rule exactly. Method: begin with a valid one, break one field at a
 * time, compare the validator's answer; each limit is tried on both of its sides.
 */
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"

static struct rblk_wire_login valid_login(void)
{
	struct rblk_wire_login login = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.queue_index = rblk_to_le16(1),
		.incarnation = rblk_to_le32(3),
		.features = rblk_to_le32(RBLK_FEATURE_IMMEDIATE),
		.session_id = { [15] = 1 },
		.session_epoch = rblk_to_le64(1),
		.queue_count = rblk_to_le16(2),
		.credits = rblk_to_le16(64),
		.reply_bytes = rblk_to_le32(2048),
		.fence_incarnation = rblk_to_le32(2),
	};

	return login;
}

static struct rblk_wire_accept valid_accept(void)
{
	struct rblk_wire_accept accept = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.credits = rblk_to_le16(64),
		.incarnation = rblk_to_le32(3),
		.features = rblk_to_le32(RBLK_FEATURE_IMMEDIATE),
		.target_instance = { [0] = 1 },
		.session_epoch = rblk_to_le64(1),
		.command_bytes = rblk_to_le32(8192 + 4096),
		.max_io_bytes = rblk_to_le32(1 << 20),
		.keepalive_ms = rblk_to_le32(5000),
		.max_batch = rblk_to_le16(32),
	};

	return accept;
}

static struct rblk_wire_reject valid_reject(void)
{
	struct rblk_wire_reject reject = {
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.reason = rblk_to_le16(RBLK_REJECT_DRAINING),
	};

	return reject;
}

/* Answer after one assignment to an otherwise valid struct. */
#define BROKEN(kind, assignment)                                                                   \
	({                                                                                         \
		struct rblk_wire_##kind broken = valid_##kind();                                   \
		broken.assignment;                                                                 \
		rblk_check_##kind(&broken, sizeof(broken));                                        \
	})
#define LOGIN(assignment) BROKEN(login, assignment)
#define ACCEPT(assignment) BROKEN(accept, assignment)
#define REJECT(assignment) BROKEN(reject, assignment)

static void login_valid(void **state)
{
	struct {
		struct rblk_wire_login login;
		u8 pad[200];
	} padded = { .login = valid_login(), .pad = { 0xff } };

	assert_int_equal(rblk_check_login(&padded, sizeof(struct rblk_wire_login)), RBLK_WIRE_OK);
	/* A connection manager may return more bytes than were sent; the added ones are not part
	 * of the login. */
	assert_int_equal(rblk_check_login(&padded, sizeof(padded)), RBLK_WIRE_OK);
}

static void login_length(void **state)
{
	struct rblk_wire_login login = valid_login();
	size_t length;

	for (length = 0; length < sizeof(login); length++)
		assert_int_equal(rblk_check_login(&login, length), RBLK_WIRE_SHORT);
	assert_int_equal(rblk_check_login(NULL, 0), RBLK_WIRE_SHORT);
}

/* Another version's login may be shorter; its initiator is still told about versions. */
static void login_version_before_length(void **state)
{
	struct rblk_wire_login login = valid_login();

	login.version = rblk_to_le16(RBLK_PROTOCOL_VERSION + 1);
	assert_int_equal(rblk_check_login(&login, 6), RBLK_WIRE_VERSION);
	assert_int_equal(rblk_check_login(&login, 5), RBLK_WIRE_SHORT);
}

static void login_fields(void **state)
{
	assert_int_equal(LOGIN(magic = rblk_to_le32(RBLK_MAGIC ^ 1)), RBLK_WIRE_MAGIC);
	assert_int_equal(LOGIN(version = rblk_to_le16(0)), RBLK_WIRE_VERSION);
	assert_int_equal(LOGIN(version = rblk_to_le16(RBLK_PROTOCOL_VERSION + 1)), RBLK_WIRE_VERSION);
	assert_int_equal(LOGIN(reserved[0] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(LOGIN(reserved[3] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(LOGIN(session_id[15] = 0), RBLK_WIRE_SESSION_ID);
	assert_int_equal(LOGIN(session_epoch = 0), RBLK_WIRE_EPOCH);
	/* Features that this version does not know are not an error: they are not agreed. */
	assert_int_equal(LOGIN(features = rblk_to_le32(~0u)), RBLK_WIRE_OK);
}

static void login_incarnation(void **state)
{
	assert_int_equal(LOGIN(incarnation = 0), RBLK_WIRE_INCARNATION);
	assert_int_equal(LOGIN(fence_incarnation = rblk_to_le32(3)), RBLK_WIRE_INCARNATION);
	assert_int_equal(LOGIN(fence_incarnation = rblk_to_le32(4)), RBLK_WIRE_INCARNATION);
	assert_int_equal(LOGIN(fence_incarnation = 0), RBLK_WIRE_OK);
	assert_int_equal(LOGIN(incarnation = broken.fence_incarnation = 0), RBLK_WIRE_INCARNATION);
}

static void login_queues(void **state)
{
	assert_int_equal(LOGIN(queue_count = 0), RBLK_WIRE_QUEUE);
	assert_int_equal(LOGIN(queue_count = rblk_to_le16(RBLK_QUEUES_MAX)), RBLK_WIRE_OK);
	assert_int_equal(LOGIN(queue_count = rblk_to_le16(RBLK_QUEUES_MAX + 1)), RBLK_WIRE_QUEUE);
	assert_int_equal(LOGIN(queue_index = rblk_to_le16(2)), RBLK_WIRE_QUEUE);
	assert_int_equal(LOGIN(queue_index = 0), RBLK_WIRE_OK);
}

static void login_credits_and_sizes(void **state)
{
	assert_int_equal(LOGIN(credits = rblk_to_le16(RBLK_CREDITS_MIN)), RBLK_WIRE_OK);
	assert_int_equal(LOGIN(credits = rblk_to_le16(RBLK_CREDITS_MIN - 1)), RBLK_WIRE_CREDITS);
	assert_int_equal(LOGIN(credits = rblk_to_le16(RBLK_CREDITS_MAX)), RBLK_WIRE_OK);
	assert_int_equal(LOGIN(credits = rblk_to_le16(RBLK_CREDITS_MAX + 1)), RBLK_WIRE_CREDITS);
	assert_int_equal(LOGIN(reply_bytes = rblk_to_le32(31)), RBLK_WIRE_SIZES);
	assert_int_equal(LOGIN(reply_bytes = rblk_to_le32(32)), RBLK_WIRE_OK);
	assert_int_equal(LOGIN(reply_bytes = rblk_to_le32(RBLK_REPLY_BYTES_MAX)), RBLK_WIRE_OK);
	assert_int_equal(LOGIN(reply_bytes = rblk_to_le32(RBLK_REPLY_BYTES_MAX + 1)),
			 RBLK_WIRE_SIZES);
}

static void accept_valid_and_length(void **state)
{
	struct {
		struct rblk_wire_accept accept;
		u8 pad[140];
	} padded = { .accept = valid_accept(), .pad = { 0xff } };
	size_t length;

	assert_int_equal(rblk_check_accept(&padded, sizeof(struct rblk_wire_accept)), RBLK_WIRE_OK);
	assert_int_equal(rblk_check_accept(&padded, sizeof(padded)), RBLK_WIRE_OK);
	for (length = 0; length < sizeof(struct rblk_wire_accept); length++)
		assert_int_equal(rblk_check_accept(&padded, length), RBLK_WIRE_SHORT);
}

static void accept_fields(void **state)
{
	assert_int_equal(ACCEPT(magic = 0), RBLK_WIRE_MAGIC);
	assert_int_equal(ACCEPT(version = rblk_to_le16(RBLK_PROTOCOL_VERSION + 1)), RBLK_WIRE_VERSION);
	assert_int_equal(ACCEPT(reserved[1] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(ACCEPT(features = rblk_to_le32(RBLK_FEATURES_ALL)), RBLK_WIRE_OK);
	assert_int_equal(ACCEPT(features = rblk_to_le32(RBLK_FEATURES_ALL + 1)),
			 RBLK_WIRE_RESERVED);
	assert_int_equal(ACCEPT(target_instance[0] = 0), RBLK_WIRE_SESSION_ID);
	assert_int_equal(ACCEPT(session_epoch = 0), RBLK_WIRE_EPOCH);
	assert_int_equal(ACCEPT(incarnation = 0), RBLK_WIRE_INCARNATION);
	assert_int_equal(ACCEPT(credits = rblk_to_le16(RBLK_CREDITS_MIN - 1)), RBLK_WIRE_CREDITS);
	assert_int_equal(ACCEPT(credits = rblk_to_le16(RBLK_CREDITS_MAX + 1)), RBLK_WIRE_CREDITS);
	assert_int_equal(ACCEPT(max_batch = 0), RBLK_WIRE_BATCH);
	assert_int_equal(ACCEPT(max_batch = rblk_to_le16(RBLK_BATCH_MAX)), RBLK_WIRE_OK);
	assert_int_equal(ACCEPT(max_batch = rblk_to_le16(RBLK_BATCH_MAX + 1)), RBLK_WIRE_BATCH);
	assert_int_equal(ACCEPT(keepalive_ms = 0), RBLK_WIRE_OK);
}

static void accept_sizes(void **state)
{
	assert_int_equal(ACCEPT(command_bytes = rblk_to_le32(RBLK_COMMAND_BYTES_MIN)),
			 RBLK_WIRE_OK);
	assert_int_equal(ACCEPT(command_bytes = rblk_to_le32(RBLK_COMMAND_BYTES_MIN - 1)),
			 RBLK_WIRE_SIZES);
	assert_int_equal(ACCEPT(command_bytes = rblk_to_le32(RBLK_COMMAND_BYTES_MAX)),
			 RBLK_WIRE_OK);
	assert_int_equal(ACCEPT(command_bytes = rblk_to_le32(RBLK_COMMAND_BYTES_MAX + 1)),
			 RBLK_WIRE_SIZES);
	assert_int_equal(ACCEPT(max_io_bytes = rblk_to_le32(RBLK_BLOCK_BYTES_MAX)), RBLK_WIRE_OK);
	assert_int_equal(ACCEPT(max_io_bytes = 0), RBLK_WIRE_SIZES);
	assert_int_equal(ACCEPT(max_io_bytes = rblk_to_le32(RBLK_BLOCK_BYTES_MAX + 512)),
			 RBLK_WIRE_SIZES);
	assert_int_equal(ACCEPT(max_io_bytes = rblk_to_le32(RBLK_IO_BYTES_MAX)), RBLK_WIRE_OK);
	assert_int_equal(ACCEPT(max_io_bytes = rblk_to_le32(RBLK_IO_BYTES_MAX + 4096)),
			 RBLK_WIRE_SIZES);
}

static void reject_fields(void **state)
{
	struct rblk_wire_reject reject = valid_reject();
	size_t length;

	for (length = 0; length < sizeof(reject); length++)
		assert_int_equal(rblk_check_reject(&reject, length), RBLK_WIRE_SHORT);
	assert_int_equal(rblk_check_reject(&reject, sizeof(reject)), RBLK_WIRE_OK);
	assert_int_equal(REJECT(magic = 0), RBLK_WIRE_MAGIC);
	assert_int_equal(REJECT(reason = 0), RBLK_WIRE_REASON);
	assert_int_equal(REJECT(reason = rblk_to_le16(RBLK_REJECT_MAX - 1)), RBLK_WIRE_OK);
	assert_int_equal(REJECT(reason = rblk_to_le16(RBLK_REJECT_MAX)), RBLK_WIRE_REASON);
	assert_int_equal(REJECT(reserved[2] = 1), RBLK_WIRE_RESERVED);
}

/* A target of a later version may refuse with unknown codes: the refusal must still be readable. */
static void reject_of_another_version(void **state)
{
	struct rblk_wire_reject reject = valid_reject();

	reject.version = rblk_to_le16(RBLK_PROTOCOL_VERSION + 1);
	reject.reason = rblk_to_le16(RBLK_REJECT_MAX);
	reject.reserved[0] = 1;
	assert_int_equal(rblk_check_reject(&reject, sizeof(reject)), RBLK_WIRE_OK);
	reject.reason = 0;
	assert_int_equal(rblk_check_reject(&reject, sizeof(reject)), RBLK_WIRE_REASON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(login_valid),
		cmocka_unit_test(login_length),
		cmocka_unit_test(login_version_before_length),
		cmocka_unit_test(login_fields),
		cmocka_unit_test(login_incarnation),
		cmocka_unit_test(login_queues),
		cmocka_unit_test(login_credits_and_sizes),
		cmocka_unit_test(accept_valid_and_length),
		cmocka_unit_test(accept_fields),
		cmocka_unit_test(accept_sizes),
		cmocka_unit_test(reject_fields),
		cmocka_unit_test(reject_of_another_version),
	};

	return cmocka_run_group_tests_name("wire login", tests, NULL, NULL);
}
