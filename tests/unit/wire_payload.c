/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: names and payloads are valid only if every field obeys its rule. Method: begin with a valid
 * one, break one field at a time, compare the validator's answer; each limit is tried on both of
 * its sides.
 */
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"

static struct rblk_wire_identify valid_identify(void)
{
	return (struct rblk_wire_identify){ .initiator = "host-1", .software = "rblk 0.1/test" };
}

static struct rblk_wire_authenticate valid_authenticate(void)
{
	return (struct rblk_wire_authenticate){
		.step = rblk_to_le32(2), .nonce = { 1 }, .proof = { 2 }, .name = "key",
	};
}

static struct rblk_wire_open valid_open(void)
{
	return (struct rblk_wire_open){ .name = "disk", .flags = rblk_to_le32(RBLK_OPEN_FLAGS_ALL) };
}

static struct rblk_wire_reservation valid_reservation(void)
{
	return (struct rblk_wire_reservation){
		.key = rblk_to_le64(1),
		.action = RBLK_RESERVE_ACQUIRE,
		.type = RBLK_RESERVATION_WRITE_EXCLUSIVE,
	};
}

static struct rblk_wire_volume valid_volume(void)
{
	return (struct rblk_wire_volume){
		.name = "disk",
		.blocks = rblk_to_le64(1 << 20),
		.handle = rblk_to_le32(1),
		.block_bytes = rblk_to_le32(512),
		.physical_bytes = rblk_to_le32(4096),
		.flags = rblk_to_le32(RBLK_VOLUME_FLAGS_ALL),
		.max_io_bytes = rblk_to_le32(1 << 20),
		.max_capsule_bytes = rblk_to_le32(8192),
		.discard_granularity_bytes = rblk_to_le32(4096),
		.max_discard_blocks = rblk_to_le32(2048),
	};
}

/* Answer after one assignment to an otherwise valid struct. */
#define BROKEN(kind, assignment)                                                                   \
	({                                                                                         \
		struct rblk_wire_##kind broken = valid_##kind();                                   \
		broken.assignment;                                                                 \
		rblk_check_##kind(&broken, sizeof(broken));                                        \
	})

static void names(void **state)
{
	char name[RBLK_NAME_BYTES];
	int c;

	for (c = 1; c <= 255; c++) {
		bool allowed = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
			       (c >= 'a' && c <= 'z') || strchr("._:+-", c);

		memset(name, 0, sizeof(name));
		name[0] = 'a';
		name[1] = (char)c;
		assert_int_equal(rblk_name_valid(name), allowed);
	}
	memset(name, 0, sizeof(name));
	assert_false(rblk_name_valid(name)); /* empty */
	memset(name, 'a', sizeof(name) - 1);
	assert_true(rblk_name_valid(name)); /* the longest */
	name[RBLK_NAME_BYTES - 1] = 'a';
	assert_false(rblk_name_valid(name)); /* not terminated */
	memset(name, 0, sizeof(name));
	name[0] = 'a';
	name[RBLK_NAME_BYTES - 1] = 'b';
	assert_false(rblk_name_valid(name)); /* not zero filled */
}

/* Length and padding of an initiator's payloads, the same for all four. */
static void told_lengths(void **state)
{
	static const struct {
		enum rblk_wire_error (*check)(const void *data, size_t length);
		size_t bytes;
	} kinds[] = {
		{ rblk_check_identify, sizeof(struct rblk_wire_identify) },
		{ rblk_check_authenticate, sizeof(struct rblk_wire_authenticate) },
		{ rblk_check_open, sizeof(struct rblk_wire_open) },
		{ rblk_check_reservation, sizeof(struct rblk_wire_reservation) },
	};
	union {
		u64 align;
		u8 bytes[RBLK_CAPSULE_ALIGN + 1];
		struct rblk_wire_identify identify;
		struct rblk_wire_authenticate authenticate;
		struct rblk_wire_open open;
		struct rblk_wire_reservation reservation;
	} data;
	size_t i;

	for (i = 0; i < UNIT_LENGTH(kinds); i++) {
		memset(&data, 0, sizeof(data));
		if (i == 0)
			data.identify = valid_identify();
		else if (i == 1)
			data.authenticate = valid_authenticate();
		else if (i == 2)
			data.open = valid_open();
		else
			data.reservation = valid_reservation();
		assert_int_equal(kinds[i].check(&data, 0), RBLK_WIRE_SHORT);
		assert_int_equal(kinds[i].check(&data, kinds[i].bytes - 1), RBLK_WIRE_SHORT);
		assert_int_equal(kinds[i].check(&data, kinds[i].bytes), RBLK_WIRE_OK);
		assert_int_equal(kinds[i].check(&data, RBLK_CAPSULE_ALIGN), RBLK_WIRE_OK);
		assert_int_equal(kinds[i].check(&data, RBLK_CAPSULE_ALIGN + 1), RBLK_WIRE_LONG);
		data.bytes[RBLK_CAPSULE_ALIGN - 1] = 1;
		assert_int_equal(kinds[i].check(&data, RBLK_CAPSULE_ALIGN), RBLK_WIRE_RESERVED);
		assert_int_equal(kinds[i].check(&data, RBLK_CAPSULE_ALIGN - 1), RBLK_WIRE_OK);
	}
}

static void identify_fields(void **state)
{
	assert_int_equal(BROKEN(identify, reserved[63] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(identify, initiator[0] = 0), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(identify, initiator[0] = ' '), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(identify, software[0] = 0), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(identify, software[0] = '\n'), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(identify, software[0] = 0x7f), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(identify, software[63] = 'x'), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(identify, software[0] = '~'), RBLK_WIRE_OK);
}

static void authenticate_fields(void **state)
{
	struct rblk_wire_authenticate first = valid_authenticate();

	assert_int_equal(BROKEN(authenticate, reserved0[0] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(authenticate, reserved1[55] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(authenticate, name[0] = '/'), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(authenticate, step = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN(authenticate, step = rblk_to_le32(3)), RBLK_WIRE_PAYLOAD);
	/* Step 1 must not carry a proof. */
	assert_int_equal(BROKEN(authenticate, step = rblk_to_le32(1)), RBLK_WIRE_PAYLOAD);
	first.step = rblk_to_le32(1);
	memset(first.proof, 0, sizeof(first.proof));
	assert_int_equal(rblk_check_authenticate(&first, sizeof(first)), RBLK_WIRE_OK);
}

static void open_fields(void **state)
{
	assert_int_equal(BROKEN(open, reserved[0] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(open, flags = rblk_to_le32(RBLK_OPEN_FLAGS_ALL + 1)),
			 RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(open, flags = 0), RBLK_WIRE_OK);
	assert_int_equal(BROKEN(open, name[0] = 0), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN(open, name[1] = '/'), RBLK_WIRE_NAME);
}

static void reservation_fields(void **state)
{
	struct rblk_wire_reservation reservation = valid_reservation();
	u8 action;

	assert_int_equal(BROKEN(reservation, reserved[36] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(reservation, flags = RBLK_RESERVE_FLAGS_ALL + 1),
			 RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN(reservation, action = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN(reservation, action = RBLK_RESERVE_CLEAR + 1), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN(reservation, type = 7), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN(reservation, type = 6), RBLK_WIRE_OK);
	reservation.type = RBLK_RESERVATION_NONE;
	for (action = RBLK_RESERVE_REGISTER; action <= RBLK_RESERVE_CLEAR; action++) {
		bool takes = action == RBLK_RESERVE_ACQUIRE || action == RBLK_RESERVE_PREEMPT;

		reservation.action = action;
		assert_int_equal(rblk_check_reservation(&reservation, sizeof(reservation)),
				 takes ? RBLK_WIRE_PAYLOAD : RBLK_WIRE_OK);
	}
}

/* What each action may have besides `key`; any other field is refused. */
static void reservation_actions(void **state)
{
	static const struct {
		u8 action, flags;
		bool type, new_key, other_key;
	} rows[] = {
		{ RBLK_RESERVE_REGISTER,
		  RBLK_RESERVE_IGNORE_KEY | RBLK_RESERVE_PERSIST | RBLK_RESERVE_VOLATILE, false,
		  true, false },
		{ RBLK_RESERVE_ACQUIRE, 0, true, false, false },
		{ RBLK_RESERVE_RELEASE, 0, true, false, false },
		{ RBLK_RESERVE_PREEMPT, RBLK_RESERVE_ABORT, true, false, true },
		{ RBLK_RESERVE_CLEAR, 0, false, false, false },
	};

	struct rblk_wire_reservation with, plain;

#define WITH(change) (with = plain, with.change, rblk_check_reservation(&with, sizeof(with)))
	for (size_t i = 0; i < UNIT_LENGTH(rows); i++) {
		plain = valid_reservation();
		plain.action = rows[i].action;
		plain.type = plain.action == RBLK_RESERVE_ACQUIRE ||
			     plain.action == RBLK_RESERVE_PREEMPT;
		assert_int_equal(WITH(type = 1), rows[i].type ? RBLK_WIRE_OK : RBLK_WIRE_PAYLOAD);
		assert_int_equal(WITH(new_key = 1),
				 rows[i].new_key ? RBLK_WIRE_OK : RBLK_WIRE_PAYLOAD);
		assert_int_equal(WITH(other_key = 1),
				 rows[i].other_key ? RBLK_WIRE_OK : RBLK_WIRE_PAYLOAD);
		for (u8 flag = 1; flag < RBLK_RESERVE_FLAGS_ALL; flag <<= 1)
			assert_int_equal(WITH(flags = flag),
					 rows[i].flags & flag ? RBLK_WIRE_OK : RBLK_WIRE_PAYLOAD);
	}
#undef WITH
	plain.action = RBLK_RESERVE_REGISTER;
	plain.flags = RBLK_RESERVE_PERSIST | RBLK_RESERVE_VOLATILE;
	assert_int_equal(rblk_check_reservation(&plain, sizeof(plain)), RBLK_WIRE_PAYLOAD);
}

/* A report: the memory may be longer than the report, never shorter. */
static void reservation_reports(void **state)
{
	struct {
		struct rblk_wire_reservation_report head;
		struct rblk_wire_registrant registrants[2];
	} report = {
		.head = { .type = RBLK_RESERVATION_WRITE_EXCLUSIVE, .registrants = rblk_to_le32(2),
			  .total = rblk_to_le32(3) },
		.registrants = { { .key = rblk_to_le64(1), .initiator = "a", .holder = 1 },
				 { .key = rblk_to_le64(1), .initiator = "b" } },
	}, broken;
#define REPORT(change)                                                                             \
	(broken = report, broken.change, rblk_check_reservation_report(&broken, sizeof(broken)))

	assert_int_equal(REPORT(head.type = 1), RBLK_WIRE_OK);
	assert_int_equal(rblk_check_reservation_report(&report, 15), RBLK_WIRE_SHORT);
	assert_int_equal(rblk_check_reservation_report(&report, sizeof(report) - 1), RBLK_WIRE_SHORT);
	assert_int_equal(REPORT(head.reserved[1] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(REPORT(head.type = 7), RBLK_WIRE_PAYLOAD);
	assert_int_equal(REPORT(head.persists = 2), RBLK_WIRE_PAYLOAD);
	assert_int_equal(REPORT(head.total = rblk_to_le32(1)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(REPORT(head.total = rblk_to_le32(RBLK_REGISTRANTS_MAX + 1)),
			 RBLK_WIRE_PAYLOAD);
	assert_int_equal(REPORT(head.registrants = rblk_to_le32(3)), RBLK_WIRE_SHORT);
	assert_int_equal(REPORT(registrants[1].reserved[6] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(REPORT(registrants[1].initiator[0] = 0), RBLK_WIRE_NAME);
	assert_int_equal(REPORT(registrants[1].key = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(REPORT(registrants[0].holder = 2), RBLK_WIRE_PAYLOAD);
	assert_int_equal(REPORT(head.type = 0), RBLK_WIRE_PAYLOAD);
#undef REPORT
}

static void volume_lengths(void **state)
{
	struct rblk_wire_volume volumes[2] = { valid_volume() };

	assert_int_equal(rblk_check_volume(volumes, sizeof(volumes[0]) - 1, RBLK_FEATURES_ALL), RBLK_WIRE_SHORT);
	assert_int_equal(rblk_check_volume(volumes, sizeof(volumes[0]), RBLK_FEATURES_ALL), RBLK_WIRE_OK);
	/* Only the first volume of a buffer is checked. */
	assert_int_equal(rblk_check_volume(volumes, sizeof(volumes), RBLK_FEATURES_ALL), RBLK_WIRE_OK);
}

#define BROKEN_VOLUME(assignment)                                                                  \
	({                                                                                         \
		struct rblk_wire_volume broken = valid_volume();                                   \
		broken.assignment;                                                                 \
		rblk_check_volume(&broken, sizeof(broken), RBLK_FEATURES_ALL);                     \
	})

/* F10: of an open volume, and only where the field was agreed on. */
static void volume_fence_domain(void **state)
{
	struct rblk_wire_volume volume = valid_volume();

	volume.fence_domain[15] = 1;
	volume.handle = 0;
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL),
			 RBLK_WIRE_RESERVED);
	volume.handle = rblk_to_le32(7);
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL), RBLK_WIRE_OK);
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume),
					   RBLK_FEATURES_ALL & ~RBLK_FEATURE_FENCE_DOMAIN),
			 RBLK_WIRE_RESERVED);
	volume.fence_domain[15] = 0;
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), 0), RBLK_WIRE_OK);
	volume.max_compare_blocks = rblk_to_le16(1);
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL), RBLK_WIRE_OK);
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume),
					   RBLK_FEATURES_ALL & ~RBLK_FEATURE_COMPARE_LIMIT),
			 RBLK_WIRE_RESERVED);
	volume.handle = 0;
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL), RBLK_WIRE_RESERVED);
}

/* Powers of two, and only where they were agreed on. */
static void volume_untorn(void **state)
{
	struct rblk_wire_volume volume = valid_volume();
#define UNTORN(min, max, features)                                                                 \
	(volume.untorn_min_bytes = rblk_to_le32(min), volume.untorn_max_bytes = rblk_to_le32(max),     \
	 rblk_check_volume(&volume, sizeof(volume), features))

	assert_int_equal(UNTORN(512, 16384, RBLK_FEATURES_ALL), RBLK_WIRE_OK);
	assert_int_equal(UNTORN(512, 16384, RBLK_FEATURES_ALL & ~RBLK_FEATURE_UNTORN), RBLK_WIRE_PAYLOAD);
	assert_int_equal(UNTORN(0, 0, RBLK_FEATURES_ALL & ~RBLK_FEATURE_UNTORN), RBLK_WIRE_OK);
	assert_int_equal(UNTORN(512, 0, RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
	assert_int_equal(UNTORN(0, 4096, RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
	assert_int_equal(UNTORN(8192, 4096, RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
	assert_int_equal(UNTORN(512, 12288, RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
	assert_int_equal(UNTORN(1536, 4096, RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
	assert_int_equal(UNTORN(256, 4096, RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
	assert_int_equal(UNTORN(512, 2 * rblk_le32(volume.max_io_bytes), RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
#undef UNTORN
}

static void volume_fields(void **state)
{
	assert_int_equal(BROKEN_VOLUME(reserved0[1] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN_VOLUME(reserved1[23] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN_VOLUME(flags = rblk_to_le32(RBLK_VOLUME_FLAGS_ALL + 1)),
			 RBLK_WIRE_RESERVED);
	assert_int_equal(BROKEN_VOLUME(name[63] = 'x'), RBLK_WIRE_NAME);
	assert_int_equal(BROKEN_VOLUME(block_bytes = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(block_bytes = rblk_to_le32(256)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(block_bytes = rblk_to_le32(1000)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(block_bytes = rblk_to_le32(4096)), RBLK_WIRE_OK);
	assert_int_equal(BROKEN_VOLUME(block_bytes = rblk_to_le32(8192)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(physical_bytes = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(physical_bytes = rblk_to_le32(1000)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(blocks = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(blocks = rblk_to_le64((1ull << 54) - 1)), RBLK_WIRE_OK);
	assert_int_equal(BROKEN_VOLUME(blocks = rblk_to_le64(1ull << 54)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(blocks = ~0ull), RBLK_WIRE_PAYLOAD);
}

static void volume_limits(void **state)
{
	const u32 no_discard = RBLK_VOLUME_FLAGS_ALL & ~RBLK_VOLUME_DISCARD;
	struct rblk_wire_volume volume = valid_volume();

	assert_int_equal(BROKEN_VOLUME(max_io_bytes = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(max_io_bytes = rblk_to_le32(512)), RBLK_WIRE_OK);
	assert_int_equal(BROKEN_VOLUME(max_io_bytes = rblk_to_le32(513)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(max_io_bytes = rblk_to_le32(RBLK_IO_BYTES_MAX + 512)),
			 RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(max_capsule_bytes = 0), RBLK_WIRE_OK);
	assert_int_equal(BROKEN_VOLUME(max_capsule_bytes = rblk_to_le32(256)), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(max_capsule_bytes = rblk_to_le32(RBLK_CAPSULE_DATA_MAX)),
			 RBLK_WIRE_OK);
	assert_int_equal(BROKEN_VOLUME(
				max_capsule_bytes = rblk_to_le32(RBLK_CAPSULE_DATA_MAX + 512)),
			 RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(discard_granularity_bytes = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(BROKEN_VOLUME(max_discard_blocks = 0), RBLK_WIRE_PAYLOAD);
	/* Without DISCARD there is no granularity; WRITE_ZEROES still has a limit. */
	assert_int_equal(BROKEN_VOLUME(flags = rblk_to_le32(no_discard)), RBLK_WIRE_PAYLOAD);
	volume.flags = rblk_to_le32(no_discard);
	volume.discard_granularity_bytes = 0;
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL), RBLK_WIRE_OK);
	volume.max_discard_blocks = 0;
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL), RBLK_WIRE_PAYLOAD);
	volume.flags = rblk_to_le32(no_discard & ~RBLK_VOLUME_WRITE_ZEROES);
	assert_int_equal(rblk_check_volume(&volume, sizeof(volume), RBLK_FEATURES_ALL), RBLK_WIRE_OK);
}

static void extents_fields(void **state)
{
	const struct rblk_wire_extent valid[2] = {
		{ .blocks = rblk_to_le64(5) },
		{ .blocks = rblk_to_le64(7), .flags = rblk_to_le32(RBLK_EXTENT_FLAGS_ALL) },
	};
	struct rblk_wire_extent extents[2];

#define EXTENTS(assignment)                                                                        \
	(memcpy(extents, valid, sizeof(valid)), assignment,                                        \
	 rblk_check_extents(extents, sizeof(extents), 2, 12))
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), 2, 12), RBLK_WIRE_OK);
	/* The report may end before the range does, but not after it. */
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), 2, UINT32_MAX), RBLK_WIRE_OK);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), 1, 5), RBLK_WIRE_OK);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), 1, 4), RBLK_WIRE_PAYLOAD);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), 2, 11), RBLK_WIRE_PAYLOAD);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), 0, 12), RBLK_WIRE_PAYLOAD);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid) - 1, 2, 12), RBLK_WIRE_SHORT);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), RBLK_EXTENTS_MAX, 12),
			 RBLK_WIRE_SHORT);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), RBLK_EXTENTS_MAX + 1, 12),
			 RBLK_WIRE_PAYLOAD);
	assert_int_equal(rblk_check_extents(valid, sizeof(valid), 1ull << 63, 12),
			 RBLK_WIRE_PAYLOAD);
	assert_int_equal(EXTENTS(extents[1].reserved[3] = 1), RBLK_WIRE_RESERVED);
	assert_int_equal(EXTENTS(extents[1].flags = rblk_to_le32(RBLK_EXTENT_FLAGS_ALL + 1)),
			 RBLK_WIRE_RESERVED);
	assert_int_equal(EXTENTS(extents[0].blocks = 0), RBLK_WIRE_PAYLOAD);
	assert_int_equal(EXTENTS(extents[1].blocks = rblk_to_le64(~0ull - 4)), RBLK_WIRE_PAYLOAD);
#undef EXTENTS
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(told_lengths),
		cmocka_unit_test(identify_fields),
		cmocka_unit_test(authenticate_fields),
		cmocka_unit_test(open_fields),
		cmocka_unit_test(reservation_fields), cmocka_unit_test(reservation_actions),
		cmocka_unit_test(reservation_reports),
		cmocka_unit_test(volume_lengths),
		cmocka_unit_test(volume_fields),
		cmocka_unit_test(volume_fence_domain),
		cmocka_unit_test(volume_untorn),
		cmocka_unit_test(volume_limits),
		cmocka_unit_test(extents_fields),
	};

	return cmocka_run_group_tests_name("wire payload", tests, NULL, NULL);
}
