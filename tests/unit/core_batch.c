/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: every packed message passes the other end's validator, and every limit can be reached
 * exactly; commands wait while a SEND is under way, and none longer. Method: pack, lay out as a
 * sender does, run rblk_check_message() over the bytes; add, ring and complete, and see what is to be sent.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include "proto/core/batch.h"
#include "proto/wire/wire_check.h"

static const struct core_batch_limits wide = {
	.message_bytes = RBLK_COMMAND_BYTES_MAX,
	.commands = RBLK_BATCH_MAX,
	.segments = RBLK_BATCH_MAX + 1,
};

static struct rblk_wire_command command_of(u16 tag, u32 capsule_bytes)
{
	struct rblk_wire_command command = {
		.opcode = capsule_bytes ? RBLK_OP_WRITE : RBLK_OP_FLUSH,
		.flags = capsule_bytes ? RBLK_CMD_CAPSULE : 0,
		.tag = rblk_to_le16(tag),
		.volume = rblk_to_le32(1),
		.blocks = rblk_to_le32(capsule_bytes / 512),
		.segment.length = rblk_to_le32(capsule_bytes),
	};

	return command;
}

/* Pack commands with these capsule sizes until one does not fit; the message must be valid. */
static u16 pack(const struct core_batch_limits *limits, const u32 *sizes, u16 count)
{
	static u8 message[RBLK_COMMAND_BYTES_MAX] __attribute__((aligned(8)));
	struct rblk_wire_command descriptors[RBLK_BATCH_MAX];
	const struct rblk_wire_command *found;
	struct core_batch batch;
	u16 packed = 0, checked;
	u32 capsule;

	core_batch_init(&batch, limits);
	while (packed < count && core_batch_fits(&batch, sizes[packed], 1)) {
		descriptors[packed] = command_of(packed, sizes[packed]);
		core_batch_add(&batch, &descriptors[packed], sizes[packed], 1);
		packed++;
	}
	assert_int_equal(batch.commands, packed);
	if (!packed)
		return 0;
	assert_true(core_batch_bytes(&batch) <= limits->message_bytes);
	assert_true(batch.segments <= limits->segments);
	memset(message, 0, batch.capsule_bytes);
	memcpy(message + batch.capsule_bytes, descriptors, core_batch_descriptor_bytes(&batch));
	assert_int_equal(rblk_check_message(message, core_batch_bytes(&batch), 0,
					    limits->commands, limits->message_bytes, &found,
					    &checked, &capsule),
			 RBLK_WIRE_OK);
	assert_int_equal(checked, packed);
	assert_int_equal(capsule, batch.capsule_bytes);
	return packed;
}

static void a_lone_command_is_one_descriptor(void **state)
{
	struct core_batch batch;
	struct rblk_wire_command command = command_of(0, 0);

	core_batch_init(&batch, &wide);
	core_batch_add(&batch, &command, 0, 1);
	assert_int_equal(core_batch_bytes(&batch), 64);
	assert_int_equal(batch.segments, 1);
}

static void the_number_of_commands_is_bounded(void **state)
{
	struct core_batch_limits limits = wide;
	u32 sizes[RBLK_BATCH_MAX] = { 0 };

	assert_int_equal(pack(&wide, sizes, RBLK_BATCH_MAX), RBLK_BATCH_MAX);
	limits.commands = 1;
	assert_int_equal(pack(&limits, sizes, 4), 1);
}

static void segments_are_bounded(void **state)
{
	struct core_batch_limits limits = wide;
	u32 sizes[RBLK_BATCH_MAX];

	for (int i = 0; i < RBLK_BATCH_MAX; i++)
		sizes[i] = 512;
	limits.segments = 4;
	assert_int_equal(pack(&limits, sizes, RBLK_BATCH_MAX), 3);
	limits.segments = 1;
	assert_int_equal(pack(&limits, sizes, RBLK_BATCH_MAX), 0);
}

static void bytes_are_bounded(void **state)
{
	struct core_batch_limits limits = wide;
	u32 sizes[RBLK_BATCH_MAX];

	for (int i = 0; i < RBLK_BATCH_MAX; i++)
		sizes[i] = 4096;
	limits.message_bytes = 2 * (4096 + 64);
	assert_int_equal(pack(&limits, sizes, RBLK_BATCH_MAX), 2);
	limits.message_bytes--;
	assert_int_equal(pack(&limits, sizes, RBLK_BATCH_MAX), 1);
	limits.message_bytes = 64;
	assert_int_equal(pack(&limits, sizes, 1), 0);
	/* The protocol's limit on in-capsule data applies, even if the target's limit is higher. */
	assert_int_equal(pack(&wide, sizes, RBLK_BATCH_MAX), RBLK_CAPSULE_DATA_MAX / 4096);
}

static void what_may_travel_in_a_capsule(void **state)
{
	struct core_batch_limits limits = wide;

	assert_int_equal(core_batch_capsule_max(&limits), RBLK_CAPSULE_DATA_MAX);
	limits.message_bytes = RBLK_COMMAND_BYTES_MIN;
	assert_int_equal(core_batch_capsule_max(&limits), RBLK_CAPSULE_ALIGN);
	limits.message_bytes = 4096 + 64 + 100;
	assert_int_equal(core_batch_capsule_max(&limits), 4096);
	limits.message_bytes = 64;
	assert_int_equal(core_batch_capsule_max(&limits), 0);
	limits = wide;
	limits.segments = 1;
	assert_int_equal(core_batch_capsule_max(&limits), 0);
}

static void data_in_several_pieces(void **state)
{
	struct rblk_wire_command first = command_of(0, 1024), second = command_of(1, 1024);
	struct core_batch_limits limits = wide;
	struct core_batch batch;

	limits.segments = 5;
	core_batch_init(&batch, &limits);
	/* Besides the segment of the descriptors, four of data fit, and not five. */
	assert_true(core_batch_fits(&batch, 1024, 4));
	assert_false(core_batch_fits(&batch, 1024, 5));
	core_batch_add(&batch, &first, 1024, 3);
	assert_int_equal(batch.segments, 4);
	assert_true(core_batch_fits(&batch, 1024, 1));
	assert_false(core_batch_fits(&batch, 1024, 2));
	/* A command without data needs no segments. */
	assert_true(core_batch_fits(&batch, 0, 2));
	core_batch_add(&batch, &second, 1024, 1);
	assert_int_equal(batch.segments, 5);
	assert_int_equal(rblk_le64(second.segment.address), 1024);
	assert_false(core_batch_fits(&batch, 512, 1));
}

static void open_tells_and_is_told(void **state)
{
	struct rblk_wire_command first = command_of(0, 1024);
	struct rblk_wire_command open = { .opcode = RBLK_OP_OPEN, .flags = RBLK_CMD_CAPSULE };
	struct core_batch batch;
	u32 offset, length;

	open.segment.address = rblk_to_le64(0x1000);
	core_batch_init(&batch, &wide);
	core_batch_add(&batch, &first, 1024, 1);
	core_batch_add(&batch, &open, RBLK_CAPSULE_ALIGN, 1);
	/* The packer does not change the report's segment; it puts the payload's place into the
	 * argument. */
	assert_int_equal(rblk_le64(open.segment.address), 0x1000);
	assert_true(rblk_command_capsule(&open, &offset, &length));
	assert_int_equal(offset, 1024);
	assert_int_equal(open.index, 1);
}

static const struct rblk_wire_command small = {.opcode = RBLK_OP_READ};

/* Add a command and ring for it. True: it was sent. */
static bool clock_one(struct core_clock *clock, const struct rblk_wire_command *command, u32 capsule_bytes)
{
	core_clock_add(clock, command, capsule_bytes);
	if (core_clock_waits(clock))
		return false;
	core_clock_sent(clock, clock->small ? CORE_WAITED_BY_ALL : CORE_WAITED_BY_LARGE, clock->last + 1);
	core_clock_emptied(clock);
	return true;
}

static void what_comes_while_a_send_is_out_waits_for_it(void **state)
{
	struct core_clock clock;

	core_clock_init(&clock);
	assert_true(clock_one(&clock, &small, 0));
	assert_false(clock_one(&clock, &small, 0));
	assert_false(clock_one(&clock, &small, 4096));
	assert_true(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	core_clock_sent(&clock, CORE_WAITED_BY_ALL, 0);
	core_clock_emptied(&clock);
	/* Nothing came meanwhile: nothing is rung for. */
	assert_false(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	assert_true(clock_one(&clock, &small, 0));
}

static void at_depth_one_nothing_waits(void **state)
{
	struct core_clock clock;

	core_clock_init(&clock);
	for (int i = 0; i < 100; i++) {
		assert_true(clock_one(&clock, &small, i % 2 ? 4096 : 0));
		assert_false(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	}
}

/* Who waits for the SEND of such commands? */
static enum core_waited_by waited_by(const struct rblk_wire_command *commands, unsigned int count)
{
	struct rblk_wire_command command;
	struct core_batch batch;

	core_batch_init(&batch, &wide);
	for (unsigned int i = 0; i < count; i++) {
		command = commands[i];
		core_batch_add(&batch, &command, 0, 1);
	}
	return batch.waited_by;
}

static void who_reads_a_little_does_not_wait_for_large_commands(void **state)
{
	struct rblk_wire_command large = {.opcode = RBLK_OP_WRITE, .segment.length = rblk_to_le32(16 << 10)};
	struct rblk_wire_command urgent = {.opcode = RBLK_OP_READ, .flags = RBLK_CMD_PRIORITY};
	struct core_clock clock;

	(void)state;
	core_clock_init(&clock);
	core_clock_sent(&clock, CORE_WAITED_BY_NONE, 0);
	assert_true(clock_one(&clock, &large, 0));
	/* Large ones wait for each other, until a small one takes them along. */
	assert_false(clock_one(&clock, &large, 0));
	assert_true(clock_one(&clock, &small, 0));
	/* All that come next wait for it; when it has gone, large ones do for the first. */
	assert_false(clock_one(&clock, &large, 0));
	assert_false(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	assert_false(core_clock_completed(&clock, CORE_WAITED_BY_NONE));
	assert_true(core_clock_completed(&clock, CORE_WAITED_BY_LARGE));

	assert_int_equal(waited_by((const struct rblk_wire_command[]){large, large}, 2), CORE_WAITED_BY_LARGE);
	assert_int_equal(waited_by((const struct rblk_wire_command[]){large, small, large}, 3), CORE_WAITED_BY_ALL);
	assert_int_equal(waited_by((const struct rblk_wire_command[]){urgent, urgent}, 2), CORE_WAITED_BY_NONE);
}

/* What is added and not rung for is not sent by a completion: the caller has more to add. */
static void what_nobody_has_rung_for_is_left(void **state)
{
	struct core_clock clock;

	core_clock_init(&clock);
	assert_true(clock_one(&clock, &small, 0));
	core_clock_add(&clock, &small, 0);
	assert_false(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	assert_false(core_clock_waits(&clock));
}

static void the_last_of_several_sends_rings(void **state)
{
	struct core_clock clock;

	core_clock_init(&clock);
	for (int i = 0; i < 3; i++)
		core_clock_sent(&clock, CORE_WAITED_BY_ALL, 0);
	assert_false(clock_one(&clock, &small, 0));
	assert_false(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	assert_false(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	assert_true(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
}

/* As much as a fast link has under way does not wait for it. */
static void a_links_worth_does_not_wait(void **state)
{
	struct core_clock clock;
	u32 bytes = 0;

	core_clock_init(&clock);
	core_clock_sent(&clock, CORE_WAITED_BY_ALL, 0);
	while ((bytes += 4096 + (u32)sizeof(small)) < CORE_CLOCK_BYTES)
		assert_false(clock_one(&clock, &small, 4096));
	assert_true(clock_one(&clock, &small, 4096));
	assert_false(clock_one(&clock, &small, 4096));
}

static void random_mixes_are_valid(void **state)
{
	unsigned int seed = 7;

	for (int run = 0; run < 20000; run++) {
		struct core_batch_limits limits = {
			.message_bytes = RBLK_COMMAND_BYTES_MIN +
					 (u32)rand_r(&seed) %
						 (RBLK_COMMAND_BYTES_MAX - RBLK_COMMAND_BYTES_MIN),
			.commands = (u16)(1 + rand_r(&seed) % RBLK_BATCH_MAX),
			.segments = (u16)(1 + rand_r(&seed) % 32),
		};
		u32 sizes[RBLK_BATCH_MAX];

		for (int i = 0; i < RBLK_BATCH_MAX; i++)
			sizes[i] = rand_r(&seed) % 2 ? 0 : 512u * (1 + rand_r(&seed) % 16);
		sizes[0] = 0;
		assert_in_range(pack(&limits, sizes, RBLK_BATCH_MAX), 1, limits.commands);
	}
}

/* Its acknowledgement is lost, and the device has it for long: neither what waits does so for it, nor what comes. */
static void what_is_answered_has_arrived(void **state)
{
	struct core_clock clock;

	(void)state;
	core_clock_init(&clock);
	assert_true(clock_one(&clock, &small, 0));
	assert_false(core_clock_answered(&clock, clock.last));
	assert_true(clock_one(&clock, &small, 0));
	/* This one is waited for. */
	assert_false(clock_one(&clock, &small, 0));
	assert_true(core_clock_answered(&clock, clock.last));
	assert_true(clock_one(&clock, &small, 0));
	assert_false(clock_one(&clock, &small, 0));
	for (unsigned int i = 0; i < 2; i++)
		assert_false(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
	assert_true(core_clock_completed(&clock, CORE_WAITED_BY_ALL));
}

/* Priority that is sent in between, or an answer to what was sent before, changes nothing; numbers wrap around. */
static void an_answer_is_of_its_time(void **state)
{
	struct core_clock clock;

	(void)state;
	core_clock_init(&clock);
	core_clock_sent(&clock, CORE_WAITED_BY_LARGE, UINT32_MAX);
	core_clock_sent(&clock, CORE_WAITED_BY_ALL, 1);
	core_clock_sent(&clock, CORE_WAITED_BY_NONE, 3);
	assert_false(clock_one(&clock, &small, 0));
	assert_false(core_clock_answered(&clock, 0));
	assert_true(core_clock_busy(&clock));
	assert_true(core_clock_answered(&clock, 2));
	assert_false(core_clock_busy(&clock));
	core_clock_sent(&clock, CORE_WAITED_BY_NONE, 4);
	assert_false(core_clock_busy(&clock));
	core_clock_sent(&clock, CORE_WAITED_BY_ALL, 5);
	assert_true(core_clock_busy(&clock));
	assert_true(core_clock_answered(&clock, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lone_command_is_one_descriptor),
		cmocka_unit_test(the_number_of_commands_is_bounded),
		cmocka_unit_test(segments_are_bounded),
		cmocka_unit_test(bytes_are_bounded),
		cmocka_unit_test(what_may_travel_in_a_capsule),
		cmocka_unit_test(data_in_several_pieces),
		cmocka_unit_test(open_tells_and_is_told),
		cmocka_unit_test(what_comes_while_a_send_is_out_waits_for_it),
		cmocka_unit_test(at_depth_one_nothing_waits),
		cmocka_unit_test(who_reads_a_little_does_not_wait_for_large_commands),
		cmocka_unit_test(what_nobody_has_rung_for_is_left),
		cmocka_unit_test(the_last_of_several_sends_rings),
		cmocka_unit_test(a_links_worth_does_not_wait),
		cmocka_unit_test(what_is_answered_has_arrived),
		cmocka_unit_test(an_answer_is_of_its_time),
		cmocka_unit_test(random_mixes_are_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
