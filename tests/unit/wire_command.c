/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a descriptor is accepted only if it carries the fields of its opcode and nothing else.
 * Method: a table gives one valid descriptor per opcode with the flags it may have; each is then
 * broken field by field and flag by flag, and the answers are compared with the table.
 */
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"

#define ALL RBLK_FEATURES_ALL

enum data { NO_DATA, BLOCKS, PAYLOAD, REPORT, BOTH };

static const struct row {
	u8 opcode;
	u8 flags;      /* of the valid descriptor */
	u8 may_flags;  /* that may be added to it, one at a time */
	enum data data;
	u32 length;    /* of the segment; for reports the least that is enough */
	u64 lba, argument;
	bool volume, blocks, reserved_tag;
	enum rblk_data_direction direction;
} rows[] = {
	{ RBLK_OP_READ, 0, RBLK_CMD_INVALIDATE | RBLK_CMD_DIGEST | RBLK_CMD_IMMEDIATE, BLOCKS,
	  4096, 8, 0, true, true, false, RBLK_DATA_TO_INITIATOR },
	{ RBLK_OP_WRITE, 0,
	  RBLK_CMD_FUA | RBLK_CMD_INVALIDATE | RBLK_CMD_DIGEST | RBLK_CMD_CAPSULE | RBLK_CMD_UNTORN,
	  BLOCKS, 4096, 8, 0, true, true, false, RBLK_DATA_TO_TARGET },
	{ RBLK_OP_FLUSH, 0, 0, NO_DATA, 0, 0, 0, true, false, false, RBLK_DATA_NONE },
	{ RBLK_OP_DISCARD, 0, 0, NO_DATA, 0, 8, 0, true, true, false, RBLK_DATA_NONE },
	{ RBLK_OP_WRITE_ZEROES, 0, RBLK_CMD_FUA | RBLK_CMD_NO_UNMAP, NO_DATA, 0, 8, 0, true, true,
	  false, RBLK_DATA_NONE },
	{ RBLK_OP_COMPARE_AND_WRITE, 0,
	  RBLK_CMD_FUA | RBLK_CMD_INVALIDATE | RBLK_CMD_DIGEST | RBLK_CMD_CAPSULE, BLOCKS, 8192, 8,
	  1, true, true, false, RBLK_DATA_TO_TARGET },
	{ RBLK_OP_CHECKSUM, 0, 0, NO_DATA, 0, 8, 0, true, true, false, RBLK_DATA_NONE },
	{ RBLK_OP_EXTENTS, 0, RBLK_CMD_INVALIDATE, REPORT, 16, 8, 0, true, true, false,
	  RBLK_DATA_TO_INITIATOR },
	{ RBLK_OP_IDENTIFY, RBLK_CMD_CAPSULE, 0, PAYLOAD, 512, 0, 0, false, false, true,
	  RBLK_DATA_TO_TARGET },
	{ RBLK_OP_AUTHENTICATE, RBLK_CMD_CAPSULE, RBLK_CMD_INVALIDATE, BOTH, 192, 0, 0, false,
	  false, true, RBLK_DATA_TO_INITIATOR },
	{ RBLK_OP_LIST, 0, RBLK_CMD_INVALIDATE, REPORT, 192, 7, 0, false, false, true,
	  RBLK_DATA_TO_INITIATOR },
	{ RBLK_OP_OPEN, RBLK_CMD_CAPSULE, RBLK_CMD_INVALIDATE, BOTH, 192, 0, 0, true, false, true,
	  RBLK_DATA_TO_INITIATOR },
	{ RBLK_OP_CLOSE, 0, 0, NO_DATA, 0, 0, 0, true, false, true, RBLK_DATA_NONE },
	{ RBLK_OP_FENCE, 0, 0, NO_DATA, 0, 1, 3, false, false, true, RBLK_DATA_NONE },
	{ RBLK_OP_ABORT, 0, 0, NO_DATA, 0, 9, 0, false, false, true, RBLK_DATA_NONE },
	{ RBLK_OP_KEEPALIVE, 0, 0, NO_DATA, 0, 0, 4, false, false, true, RBLK_DATA_NONE },
	{ RBLK_OP_PING, 0, 0, NO_DATA, 0, 0, 0, false, false, true, RBLK_DATA_NONE },
	{ RBLK_OP_RESERVE, RBLK_CMD_CAPSULE, 0, PAYLOAD, 512, 0, 1, true, false, true,
	  RBLK_DATA_TO_TARGET },
	{ RBLK_OP_RESERVATIONS, 0, RBLK_CMD_INVALIDATE, REPORT, 16, 0, 0, true, false, true,
	  RBLK_DATA_TO_INITIATOR },
};

static struct rblk_wire_command valid(const struct row *row)
{
	struct rblk_wire_command command = {
		.opcode = row->opcode,
		.flags = row->flags,
		.tag = rblk_to_le16(5),
		.sequence = rblk_to_le32(77),
		.volume = rblk_to_le32(row->volume ? 1 : 0),
		.lba = rblk_to_le64(row->lba),
		.blocks = rblk_to_le32(row->blocks ? 8 : 0),
		.argument = rblk_to_le64(row->argument),
		.segment.length = rblk_to_le32(row->length),
	};

	if (row->data == BLOCKS || row->data == REPORT || row->data == BOTH) {
		command.segment.address = rblk_to_le64(0x10000);
		command.segment.rkey = rblk_to_le32(0x1234);
	}
	return command;
}

static const struct row *row_of(u8 opcode)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++)
		if (rows[i].opcode == opcode)
			return &rows[i];
	return NULL;
}

#define CHECK(row, assignment, features)                                                           \
	({                                                                                         \
		struct rblk_wire_command command = valid(row);                                     \
		command.assignment;                                                                \
		rblk_check_command(&command, features);                                            \
	})
#define OPCODE(opcode, assignment) CHECK(row_of(opcode), assignment, ALL)

static void every_opcode_is_in_the_table_or_unknown(void **state)
{
	unsigned int opcode;

	for (opcode = 0; opcode <= 255; opcode++) {
		const struct row *row = row_of((u8)opcode);
		struct rblk_wire_command command = { .opcode = (u8)opcode };

		if (row) {
			command = valid(row);
			assert_int_equal(rblk_check_command(&command, ALL), RBLK_WIRE_OK);
			assert_int_equal(rblk_opcode_direction(opcode), row->direction);
			assert_int_equal(rblk_opcode_reserved_tag(opcode), row->reserved_tag);
		} else {
			assert_int_equal(rblk_check_command(&command, ALL), RBLK_WIRE_OPCODE);
			assert_int_equal(rblk_opcode_direction(opcode), RBLK_DATA_NONE);
			assert_false(rblk_opcode_reserved_tag(opcode));
		}
	}
}

static void opcode_of_a_feature(void **state)
{
	const struct row *row = row_of(RBLK_OP_EXTENTS);

	assert_int_equal(CHECK(row, tag = 0, RBLK_FEATURE_EXTENTS), RBLK_WIRE_OK);
	assert_int_equal(CHECK(row, tag = 0, ALL & ~RBLK_FEATURE_EXTENTS), RBLK_WIRE_OPCODE);
}

/* Adds one flag to the flags of the valid descriptor, and the fields that this flag needs. */
static void flags_by_opcode(void **state)
{
	size_t i;
	u8 bit;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		for (bit = 1; bit & RBLK_CMD_FLAGS_ALL; bit <<= 1) {
			struct rblk_wire_command command = valid(&rows[i]);
			u8 allowed = rows[i].flags | rows[i].may_flags | RBLK_CMD_RETRY |
				     (rows[i].opcode < RBLK_OP_IDENTIFY ? RBLK_CMD_PRIORITY : 0);

			command.flags |= bit;
			if (bit == RBLK_CMD_CAPSULE && rows[i].data == BLOCKS) {
				command.segment.rkey = 0;
				command.segment.address = 0;
			}
			assert_int_equal(rblk_check_command(&command, ALL),
					 allowed & bit ? RBLK_WIRE_OK : RBLK_WIRE_FLAGS);
		}
	}
}

static void flags_need_their_feature(void **state)
{
	const struct row *read = row_of(RBLK_OP_READ);

	assert_int_equal(CHECK(read, flags = RBLK_CMD_IMMEDIATE, RBLK_FEATURE_IMMEDIATE),
			 RBLK_WIRE_OK);
	assert_int_equal(CHECK(read, flags = RBLK_CMD_IMMEDIATE, ALL & ~RBLK_FEATURE_IMMEDIATE),
			 RBLK_WIRE_FLAGS);
	assert_int_equal(CHECK(read, flags = RBLK_CMD_PRIORITY, RBLK_FEATURE_PRIORITY), RBLK_WIRE_OK);
	assert_int_equal(CHECK(read, flags = RBLK_CMD_PRIORITY, ALL & ~RBLK_FEATURE_PRIORITY), RBLK_WIRE_FLAGS);
	assert_int_equal(CHECK(read, flags = RBLK_CMD_INVALIDATE, RBLK_FEATURE_INVALIDATE),
			 RBLK_WIRE_OK);
	assert_int_equal(CHECK(read, flags = RBLK_CMD_INVALIDATE, ALL & ~RBLK_FEATURE_INVALIDATE),
			 RBLK_WIRE_FLAGS);
	assert_int_equal(CHECK(read, flags = RBLK_CMD_DIGEST, RBLK_FEATURE_DIGEST), RBLK_WIRE_OK);
	assert_int_equal(CHECK(read, flags = RBLK_CMD_DIGEST, ALL & ~RBLK_FEATURE_DIGEST),
			 RBLK_WIRE_FLAGS);
	assert_int_equal(CHECK(row_of(RBLK_OP_WRITE), flags = RBLK_CMD_UNTORN, RBLK_FEATURE_UNTORN), RBLK_WIRE_OK);
	assert_int_equal(CHECK(row_of(RBLK_OP_WRITE), flags = RBLK_CMD_UNTORN, ALL & ~RBLK_FEATURE_UNTORN),
			 RBLK_WIRE_FLAGS);
}

static void flags_that_exclude_each_other(void **state)
{
	assert_int_equal(OPCODE(RBLK_OP_READ, flags = RBLK_CMD_IMMEDIATE | RBLK_CMD_INVALIDATE),
			 RBLK_WIRE_FLAGS);
	assert_int_equal(OPCODE(RBLK_OP_READ, flags = RBLK_CMD_IMMEDIATE | RBLK_CMD_DIGEST),
			 RBLK_WIRE_FLAGS);
	assert_int_equal(OPCODE(RBLK_OP_WRITE, flags = RBLK_CMD_CAPSULE | RBLK_CMD_INVALIDATE),
			 RBLK_WIRE_FLAGS);
}

/* A power of two, aligned to itself, within the limits. */
static void untorn_writes(void **state)
{
	assert_true(rblk_untorn_valid(0, 4096, 4096, 16384));
	assert_true(rblk_untorn_valid(1ull << 40, 16384, 4096, 16384));
	assert_false(rblk_untorn_valid(0, 0, 0, 0));
	assert_false(rblk_untorn_valid(0, 2048, 4096, 16384));
	assert_false(rblk_untorn_valid(0, 32768, 4096, 16384));
	assert_false(rblk_untorn_valid(0, 12288, 4096, 16384));
	assert_false(rblk_untorn_valid(4096, 8192, 4096, 16384));
}

/* If the payload is in the capsule, the flag must say so. */
static void payloads_need_the_capsule_flag(void **state)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++)
		if (rows[i].data == PAYLOAD || rows[i].data == BOTH)
			assert_int_equal(CHECK(&rows[i], flags = 0, ALL), RBLK_WIRE_FLAGS);
}

static void reserved_bytes(void **state)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		assert_int_equal(CHECK(&rows[i], reserved0[0] = 1, ALL), RBLK_WIRE_RESERVED);
		assert_int_equal(CHECK(&rows[i], reserved0[2] = 1, ALL), RBLK_WIRE_RESERVED);
		assert_int_equal(CHECK(&rows[i], reserved1[0] = 1, ALL), RBLK_WIRE_RESERVED);
		assert_int_equal(CHECK(&rows[i], reserved1[7] = 1, ALL), RBLK_WIRE_RESERVED);
	}
}

static void tags(void **state)
{
	assert_int_equal(OPCODE(RBLK_OP_PING, tag = rblk_to_le16(RBLK_CREDITS_MAX +
								 RBLK_RESERVED_TAGS - 1)),
			 RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_PING,
				tag = rblk_to_le16(RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS)),
			 RBLK_WIRE_TAG);
	assert_int_equal(OPCODE(RBLK_OP_PING, tag = rblk_to_le16(RBLK_TAG_EVENT)), RBLK_WIRE_TAG);
}

static void fields_belong_or_not(void **state)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		const struct row *row = &rows[i];

		assert_int_equal(CHECK(row, volume = rblk_to_le32(!row->volume), ALL & ~RBLK_FEATURE_VOLUME_FENCE),
				 RBLK_WIRE_VOLUME);
		assert_int_equal(CHECK(row, blocks = rblk_to_le32(!row->blocks), ALL),
				 RBLK_WIRE_BLOCKS);
		assert_int_equal(CHECK(row, lba = rblk_to_le64(1ull << 40), ALL),
				 row->blocks ? RBLK_WIRE_OK : RBLK_WIRE_BLOCKS);
		assert_int_equal(CHECK(row, digest = rblk_to_le32(1), ALL), RBLK_WIRE_DIGEST);
		if (row->data == NO_DATA) {
			assert_int_equal(CHECK(row, segment.address = 1, ALL), RBLK_WIRE_SEGMENT);
			assert_int_equal(CHECK(row, segment.rkey = 1, ALL), RBLK_WIRE_SEGMENT);
			assert_int_equal(CHECK(row, segment.length = 1, ALL), RBLK_WIRE_SEGMENT);
		}
	}
}

static void lba_of_session_commands(void **state)
{
	const u64 most = 0xffffffffull;

	assert_int_equal(OPCODE(RBLK_OP_FENCE, lba = rblk_to_le64(RBLK_QUEUES_MAX - 1)),
			 RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_FENCE, lba = rblk_to_le64(RBLK_QUEUES_MAX)),
			 RBLK_WIRE_BLOCKS);
	assert_int_equal(OPCODE(RBLK_OP_ABORT, lba = rblk_to_le64(most)), RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_ABORT, lba = rblk_to_le64(most + 1)), RBLK_WIRE_BLOCKS);
	assert_int_equal(OPCODE(RBLK_OP_LIST, lba = rblk_to_le64(most + 1)), RBLK_WIRE_BLOCKS);
	assert_int_equal(OPCODE(RBLK_OP_FLUSH, lba = rblk_to_le64(1)), RBLK_WIRE_BLOCKS);
}

static void fence_of_a_volume(void **state)
{
	assert_int_equal(OPCODE(RBLK_OP_FENCE, volume = rblk_to_le32(1)), RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_FENCE, volume = 0), RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_ABORT, volume = rblk_to_le32(1)), RBLK_WIRE_VOLUME);
	assert_int_equal(OPCODE(RBLK_OP_CLOSE, volume = 0), RBLK_WIRE_VOLUME);
}

static void arguments(void **state)
{
	const u64 most = 0xffffffffull;

	assert_int_equal(OPCODE(RBLK_OP_READ, argument = 1), RBLK_WIRE_ARGUMENT);
	assert_int_equal(OPCODE(RBLK_OP_FENCE, argument = 0), RBLK_WIRE_ARGUMENT);
	assert_int_equal(OPCODE(RBLK_OP_FENCE, argument = rblk_to_le64(most)), RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_FENCE, argument = rblk_to_le64(most + 1)),
			 RBLK_WIRE_ARGUMENT);
	assert_int_equal(OPCODE(RBLK_OP_KEEPALIVE, argument = 0), RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_KEEPALIVE, argument = rblk_to_le64(most + 1)),
			 RBLK_WIRE_ARGUMENT);
	assert_int_equal(OPCODE(RBLK_OP_COMPARE_AND_WRITE, argument = 0), RBLK_WIRE_ARGUMENT);
	assert_int_equal(OPCODE(RBLK_OP_COMPARE_AND_WRITE, argument = ~0ull), RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_RESERVE, argument = 0), RBLK_WIRE_ARGUMENT);
}

static void digests(void **state)
{
	struct rblk_wire_command command = valid(row_of(RBLK_OP_WRITE));

	command.flags = RBLK_CMD_DIGEST;
	command.digest = rblk_to_le32(0xe3069283);
	assert_int_equal(rblk_check_command(&command, ALL), RBLK_WIRE_OK);
	/* A READ asks for a digest; it does not carry one. */
	command = valid(row_of(RBLK_OP_READ));
	command.flags = RBLK_CMD_DIGEST;
	command.digest = rblk_to_le32(0xe3069283);
	assert_int_equal(rblk_check_command(&command, ALL), RBLK_WIRE_DIGEST);
}

static enum rblk_wire_error with_memory(u8 opcode, u64 address, u32 length)
{
	struct rblk_wire_command command = valid(row_of(opcode));

	command.segment.address = rblk_to_le64(address);
	command.segment.length = rblk_to_le32(length);
	return rblk_check_command(&command, ALL);
}

static void segments_of_blocks(void **state)
{
	const u8 opcodes[] = { RBLK_OP_READ, RBLK_OP_WRITE, RBLK_OP_COMPARE_AND_WRITE };
	size_t i;

	for (i = 0; i < UNIT_LENGTH(opcodes); i++) {
		u8 opcode = opcodes[i];

		assert_int_equal(with_memory(opcode, 0x1000, 0), RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(opcode, 0x1000, 256), RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(opcode, 0x1000, 512), RBLK_WIRE_OK);
		assert_int_equal(with_memory(opcode, 0x1001, 512), RBLK_WIRE_OK);
		assert_int_equal(with_memory(opcode, 0x1000, 513), RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(opcode, 0x1000, RBLK_IO_BYTES_MAX), RBLK_WIRE_OK);
		assert_int_equal(with_memory(opcode, 0x1000, RBLK_IO_BYTES_MAX + 512),
				 RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(opcode, 0x1000, 0xfffffe00), RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(opcode, ~0ull - 512, 512), RBLK_WIRE_OK);
		assert_int_equal(with_memory(opcode, ~0ull - 511, 512), RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(opcode, ~0ull, 512), RBLK_WIRE_SEGMENT);
	}
}

static void segments_of_reports(void **state)
{
	size_t i;

	for (i = 0; i < UNIT_LENGTH(rows); i++) {
		const struct row *row = &rows[i];

		if (row->data != REPORT && row->data != BOTH)
			continue;
		assert_int_equal(with_memory(row->opcode, 0, row->length), RBLK_WIRE_OK);
		assert_int_equal(with_memory(row->opcode, 0, row->length + 1), RBLK_WIRE_OK);
		assert_int_equal(with_memory(row->opcode, 0, row->length - 1), RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(row->opcode, 0, RBLK_IO_BYTES_MAX + 1),
				 RBLK_WIRE_SEGMENT);
		assert_int_equal(with_memory(row->opcode, ~0ull, row->length), RBLK_WIRE_SEGMENT);
	}
}

static enum rblk_wire_error in_capsule(u8 opcode, u64 offset, u32 length, u32 rkey)
{
	struct rblk_wire_command command = valid(row_of(opcode));

	command.flags = RBLK_CMD_CAPSULE;
	command.segment.address = rblk_to_le64(offset);
	command.segment.length = rblk_to_le32(length);
	command.segment.rkey = rblk_to_le32(rkey);
	return rblk_check_command(&command, ALL);
}

static void capsules_of_writes(void **state)
{
	const u32 most = RBLK_CAPSULE_DATA_MAX;

	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0, 512, 0), RBLK_WIRE_OK);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0, most, 0), RBLK_WIRE_OK);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, most - 512, 512, 0), RBLK_WIRE_OK);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0, 512, 1), RBLK_WIRE_SEGMENT);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0, 0, 0), RBLK_WIRE_SEGMENT);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0, 511, 0), RBLK_WIRE_CAPSULE);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 256, 512, 0), RBLK_WIRE_CAPSULE);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0, most + 512, 0), RBLK_WIRE_CAPSULE);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, most, 512, 0), RBLK_WIRE_CAPSULE);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0ull - 512, 512, 0), RBLK_WIRE_CAPSULE);
	assert_int_equal(in_capsule(RBLK_OP_WRITE, 0, 0xfffffe00, 0), RBLK_WIRE_CAPSULE);
}

static void capsules_of_payloads(void **state)
{
	assert_int_equal(in_capsule(RBLK_OP_IDENTIFY, 512, 512, 0), RBLK_WIRE_OK);
	assert_int_equal(in_capsule(RBLK_OP_IDENTIFY, 0, 512, 1), RBLK_WIRE_SEGMENT);
	assert_int_equal(in_capsule(RBLK_OP_IDENTIFY, 0, 1024, 0), RBLK_WIRE_SEGMENT);
	assert_int_equal(in_capsule(RBLK_OP_IDENTIFY, 0, 192, 0), RBLK_WIRE_SEGMENT);
	assert_int_equal(in_capsule(RBLK_OP_RESERVE, 1, 512, 0), RBLK_WIRE_CAPSULE);
	assert_int_equal(OPCODE(RBLK_OP_OPEN, argument = rblk_to_le64(512)), RBLK_WIRE_OK);
	assert_int_equal(OPCODE(RBLK_OP_OPEN, argument = rblk_to_le64(1)), RBLK_WIRE_CAPSULE);
	assert_int_equal(OPCODE(RBLK_OP_OPEN, argument = rblk_to_le64(RBLK_CAPSULE_DATA_MAX)),
			 RBLK_WIRE_CAPSULE);
	assert_int_equal(OPCODE(RBLK_OP_OPEN, argument = rblk_to_le64(1ull << 32)),
			 RBLK_WIRE_CAPSULE);
}

static void capsule_ranges(void **state)
{
	struct rblk_wire_command command = valid(row_of(RBLK_OP_WRITE));
	u32 offset, length;

	assert_false(rblk_command_capsule(&command, &offset, &length));
	command.flags = RBLK_CMD_CAPSULE;
	command.segment.address = rblk_to_le64(1024);
	assert_true(rblk_command_capsule(&command, &offset, &length));
	assert_int_equal(offset, 1024);
	assert_int_equal(length, 4096);
	command = valid(row_of(RBLK_OP_OPEN));
	command.argument = rblk_to_le64(512);
	assert_true(rblk_command_capsule(&command, &offset, &length));
	assert_int_equal(offset, 512);
	assert_int_equal(length, RBLK_CAPSULE_ALIGN);
	command.opcode = 200;
	assert_false(rblk_command_capsule(&command, &offset, &length));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_opcode_is_in_the_table_or_unknown),
		cmocka_unit_test(opcode_of_a_feature),
		cmocka_unit_test(flags_by_opcode),
		cmocka_unit_test(flags_need_their_feature),
		cmocka_unit_test(untorn_writes),
		cmocka_unit_test(flags_that_exclude_each_other),
		cmocka_unit_test(payloads_need_the_capsule_flag),
		cmocka_unit_test(reserved_bytes),
		cmocka_unit_test(tags),
		cmocka_unit_test(fields_belong_or_not),
		cmocka_unit_test(lba_of_session_commands),
		cmocka_unit_test(fence_of_a_volume),
		cmocka_unit_test(arguments),
		cmocka_unit_test(digests),
		cmocka_unit_test(segments_of_blocks),
		cmocka_unit_test(segments_of_reports),
		cmocka_unit_test(capsules_of_writes),
		cmocka_unit_test(capsules_of_payloads),
		cmocka_unit_test(capsule_ranges),
	};

	return cmocka_run_group_tests_name("wire command", tests, NULL, NULL);
}
