/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a command message is split into descriptors and in-capsule data only if its length, its
 * descriptors' places and its capsule's tiling are exactly right. Method: build messages of known
 * shape, check what the validator returns, then break one thing at a time.
 */
#include <string.h>
#include "tests/unit/unit.h"
#include "proto/wire/wire_check.h"

#define DESCRIPTOR sizeof(struct rblk_wire_command)

/* One descriptor more than fits into a message, after the most in-capsule data. */
static union {
	u64 align;
	u8 bytes[RBLK_COMMAND_BYTES_MAX + 2 * DESCRIPTOR];
} buffer;

/* What the validator returned. */
static const struct rblk_wire_command *commands;
static u16 count;
static u32 capsule_bytes;

static int clear(void **state)
{
	memset(&buffer, 0, sizeof(buffer));
	commands = NULL;
	count = 0;
	capsule_bytes = 0;
	return 0;
}

static struct rblk_wire_command *descriptor(u32 capsule, u32 index)
{
	return (struct rblk_wire_command *)(buffer.bytes + capsule + index * DESCRIPTOR);
}

static struct rblk_wire_command *put_read(u32 capsule, u32 index)
{
	struct rblk_wire_command *command = descriptor(capsule, index);

	*command = (struct rblk_wire_command){
		.opcode = RBLK_OP_READ,
		.index = (u8)index,
		.tag = rblk_to_le16((u16)index),
		.volume = rblk_to_le32(1),
		.blocks = rblk_to_le32(1),
		.segment = { rblk_to_le64(0x1000), rblk_to_le32(1), rblk_to_le32(4096) },
	};
	return command;
}

static struct rblk_wire_command *put_write(u32 capsule, u32 index, u32 offset, u32 length)
{
	struct rblk_wire_command *command = put_read(capsule, index);

	command->opcode = RBLK_OP_WRITE;
	command->flags = RBLK_CMD_CAPSULE;
	command->segment.address = rblk_to_le64(offset);
	command->segment.rkey = 0;
	command->segment.length = rblk_to_le32(length);
	return command;
}

static enum rblk_wire_error check_limited(size_t length, u16 max_batch, u32 command_bytes)
{
	return rblk_check_message(buffer.bytes, length, RBLK_FEATURES_ALL, max_batch,
				  command_bytes, &commands, &count, &capsule_bytes);
}

static enum rblk_wire_error check(size_t length)
{
	return check_limited(length, RBLK_BATCH_MAX, RBLK_COMMAND_BYTES_MAX);
}

static void lone_command(void **state)
{
	put_read(0, 0);
	assert_int_equal(check(DESCRIPTOR), RBLK_WIRE_OK);
	assert_ptr_equal(commands, buffer.bytes);
	assert_int_equal(count, 1);
	assert_int_equal(capsule_bytes, 0);
}

static void lengths(void **state)
{
	size_t length;

	put_read(0, 0);
	for (length = 0; length < DESCRIPTOR; length++)
		assert_int_equal(check(length), RBLK_WIRE_SHORT);
	for (length = DESCRIPTOR + 1; length < 2 * DESCRIPTOR; length++)
		assert_int_equal(check(length), RBLK_WIRE_SHORT);
	assert_int_equal(check_limited(DESCRIPTOR, 1, DESCRIPTOR - 1), RBLK_WIRE_LONG);
	assert_int_equal(check_limited(RBLK_COMMAND_BYTES_MAX + DESCRIPTOR, 1, ~0u),
			 RBLK_WIRE_LONG);
	/* The validator returns nothing of a bad message. */
	assert_null(commands);
	assert_int_equal(check_limited(DESCRIPTOR, 1, DESCRIPTOR), RBLK_WIRE_OK);
}

static void full_batch(void **state)
{
	u32 i;

	for (i = 0; i < RBLK_BATCH_MAX + 1; i++)
		put_read(0, i);
	assert_int_equal(check(RBLK_BATCH_MAX * DESCRIPTOR), RBLK_WIRE_OK);
	assert_int_equal(count, RBLK_BATCH_MAX);
	assert_int_equal(check((RBLK_BATCH_MAX + 1) * DESCRIPTOR), RBLK_WIRE_BATCH);
	assert_int_equal(check_limited(9 * DESCRIPTOR, 8, RBLK_COMMAND_BYTES_MAX),
			 RBLK_WIRE_BATCH);
	assert_int_equal(check_limited(8 * DESCRIPTOR, 8, RBLK_COMMAND_BYTES_MAX), RBLK_WIRE_OK);
}

static void more_descriptors_than_bytes(void **state)
{
	put_read(0, 0);
	put_read(0, 1)->index = 2;
	assert_int_equal(check(2 * DESCRIPTOR), RBLK_WIRE_BATCH);
	descriptor(0, 1)->index = 255;
	assert_int_equal(check(2 * DESCRIPTOR), RBLK_WIRE_BATCH);
}

static void indices(void **state)
{
	u32 i;

	for (i = 0; i < 3; i++)
		put_read(0, i);
	descriptor(0, 0)->index = 1;
	assert_int_equal(check(3 * DESCRIPTOR), RBLK_WIRE_INDEX);
	descriptor(0, 0)->index = 0;
	descriptor(0, 1)->index = 0;
	assert_int_equal(check(3 * DESCRIPTOR), RBLK_WIRE_INDEX);
	descriptor(0, 1)->index = 1;
	assert_int_equal(check(3 * DESCRIPTOR), RBLK_WIRE_OK);
}

static void each_descriptor_is_checked(void **state)
{
	u32 i, broken;

	for (broken = 0; broken < 3; broken++) {
		for (i = 0; i < 3; i++)
			put_read(0, i);
		descriptor(0, broken)->opcode = 99;
		assert_int_equal(check(3 * DESCRIPTOR), RBLK_WIRE_OPCODE);
	}
	put_read(0, 0)->flags = RBLK_CMD_IMMEDIATE;
	assert_int_equal(rblk_check_message(buffer.bytes, DESCRIPTOR, 0, 1, DESCRIPTOR, &commands,
					    &count, &capsule_bytes),
			 RBLK_WIRE_FLAGS);
}

static void capsule_data_stands_first(void **state)
{
	put_write(4096, 0, 0, 4096);
	assert_int_equal(check(4096 + DESCRIPTOR), RBLK_WIRE_OK);
	assert_ptr_equal(commands, buffer.bytes + 4096);
	assert_int_equal(count, 1);
	assert_int_equal(capsule_bytes, 4096);
}

/* Two writes and an OPEN around a read, which has nothing in the capsule. */
static void capsule_tiled_by_several(void **state)
{
	struct rblk_wire_command *open;
	const u32 capsule = 512 + 512 + 1024;
	const size_t length = capsule + 4 * DESCRIPTOR;

	put_write(capsule, 0, 0, 512);
	put_read(capsule, 1);
	open = put_read(capsule, 2);
	open->opcode = RBLK_OP_OPEN;
	open->flags = RBLK_CMD_CAPSULE;
	open->blocks = 0;
	open->argument = rblk_to_le64(512);
	put_write(capsule, 3, 1024, 1024);
	assert_int_equal(check(length), RBLK_WIRE_OK);
	assert_int_equal(capsule_bytes, capsule);
	assert_int_equal(count, 4);

	open->argument = rblk_to_le64(0); /* overlaps the first */
	assert_int_equal(check(length), RBLK_WIRE_CAPSULE);
	open->argument = rblk_to_le64(1024); /* leaves a gap */
	assert_int_equal(check(length), RBLK_WIRE_CAPSULE);
}

static void capsule_mistakes(void **state)
{
	/* Data that no descriptor owns. */
	put_read(512, 0);
	assert_int_equal(check(512 + DESCRIPTOR), RBLK_WIRE_CAPSULE);
	/* A range beyond the data, into the descriptors. */
	put_write(512, 0, 0, 1024);
	assert_int_equal(check(512 + DESCRIPTOR), RBLK_WIRE_CAPSULE);
	/* A range in a message without data. */
	put_write(0, 0, 0, 512);
	assert_int_equal(check(DESCRIPTOR), RBLK_WIRE_CAPSULE);
	/* Does not begin at 0. */
	put_write(1024, 0, 512, 512);
	assert_int_equal(check(1024 + DESCRIPTOR), RBLK_WIRE_CAPSULE);
	/* Too little is owned. */
	put_write(1024, 0, 0, 512);
	assert_int_equal(check(1024 + DESCRIPTOR), RBLK_WIRE_CAPSULE);
	/* Owned twice. */
	put_write(512, 0, 0, 512);
	put_write(512, 1, 0, 512);
	assert_int_equal(check(512 + 2 * DESCRIPTOR), RBLK_WIRE_CAPSULE);
	/* Complete, but not in the descriptors' order. */
	put_write(1024, 0, 512, 512);
	put_write(1024, 1, 0, 512);
	assert_int_equal(check(1024 + 2 * DESCRIPTOR), RBLK_WIRE_CAPSULE);
}

static void capsule_largest(void **state)
{
	put_write(RBLK_CAPSULE_DATA_MAX, 0, 0, RBLK_CAPSULE_DATA_MAX);
	assert_int_equal(check(RBLK_CAPSULE_DATA_MAX + DESCRIPTOR), RBLK_WIRE_OK);
	assert_int_equal(capsule_bytes, RBLK_CAPSULE_DATA_MAX);
	put_write(RBLK_CAPSULE_DATA_MAX + 512, 0, 0, RBLK_CAPSULE_DATA_MAX);
	assert_int_equal(check(RBLK_CAPSULE_DATA_MAX + 512 + DESCRIPTOR), RBLK_WIRE_CAPSULE);
}

#define TEST(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lone_command),
		TEST(lengths),
		TEST(full_batch),
		TEST(more_descriptors_than_bytes),
		TEST(indices),
		TEST(each_descriptor_is_checked),
		TEST(capsule_data_stands_first),
		TEST(capsule_tiled_by_several),
		TEST(capsule_mistakes),
		TEST(capsule_largest),
	};

	return cmocka_run_group_tests_name("wire message", tests, NULL, NULL);
}
