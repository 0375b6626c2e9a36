/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: every descriptor that breaks a rule of its form (V1) ends its own connection with one line
 * that says why, and nothing else: not the other queue of its session, not another session's load.
 * Method: well-formed commands of every opcode, each of which the target answers; then each with
 * one field changed, and with a bit flipped in each of its bytes.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include "proto/wire/wire_check.h"
#include "tests/e2e/hostile.h"
#include "tests/e2e/hostile_base.h"

/* So below the changed field ends the connection, not the command. */
static void every_command_untwisted_is_answered(void **state)
{
	struct rblk_wire_command *command;
	struct raw raw;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, hostile_host()));
	for (unsigned int i = 0; i < base_count; i++) {
		raw_send(&raw, base_build(&raw, &bases[i], 1, &command));
		raw_wait(&raw, 1);
		raw_send(&raw, base_build(&raw, &bases[i], 2, &command));
		raw_wait(&raw, 2);
	}
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
	raw_close(&raw);
}

/* -- V1: one field of a descriptor ------------------------------------------------------------- */

struct twist {
	const char *what;
	bool (*applies)(const struct base *base);
	uint16_t offset;
	uint8_t bytes;
	bool set; /* the value replaces what is there, else it is XORed */
	uint64_t value;
	const char *words; /* in the log */
};

static bool any(const struct base *base)
{
	return true;
}

static bool no_volume(const struct base *base)
{
	return !base->volume;
}

static bool has_volume(const struct base *base)
{
	return base->volume;
}

static bool no_blocks(const struct base *base)
{
	return !base->blocks;
}

static bool has_blocks(const struct base *base)
{
	return base->blocks;
}

static bool no_lba(const struct base *base)
{
	return !base->any_lba;
}

static bool lba_is_narrow(const struct base *base)
{
	return base->any_lba && !base->blocks;
}

static bool no_argument(const struct base *base)
{
	return !base->any_argument;
}

static bool argument_is_a_number(const struct base *base)
{
	return base->argument != 0;
}

static bool argument_is_narrow(const struct base *base)
{
	return base->opcode == RBLK_OP_FENCE || base->opcode == RBLK_OP_KEEPALIVE;
}

static bool argument_is_a_place(const struct base *base)
{
	return base->where == IN_BOTH;
}

static bool is_fence(const struct base *base)
{
	return base->opcode == RBLK_OP_FENCE;
}

static bool no_segment(const struct base *base)
{
	return base->where == NOWHERE;
}

static bool in_memory(const struct base *base)
{
	return base->where == IN_MEMORY || base->where == IN_BOTH;
}

static bool blocks_in_memory(const struct base *base)
{
	return base->where == IN_MEMORY && !base->report_bytes;
}

static bool in_capsule(const struct base *base)
{
	return base->where == IN_CAPSULE;
}

static bool reports(const struct base *base)
{
	return base->report_bytes != 0;
}

static bool payload_alone(const struct base *base)
{
	return base->where == IN_CAPSULE && !base->blocks;
}

static bool must_be_capsule(const struct base *base)
{
	return base->where == IN_BOTH || payload_alone(base);
}

#define FLAG_TWIST(bit, name)                               \
	static bool no_flag_##name(const struct base *base) \
	{                                                   \
		return !(base->flags_allowed & (bit));      \
	}
FLAG_TWIST(RBLK_CMD_FUA, fua)
FLAG_TWIST(RBLK_CMD_CAPSULE, capsule)
FLAG_TWIST(RBLK_CMD_NO_UNMAP, no_unmap)

#define FIELD(name) \
	offsetof(struct rblk_wire_command, name), sizeof(((struct rblk_wire_command *)0)->name)
#define RESERVED_SET "a reserved byte or flag is set"
#define FLAG_WRONG "a flag that does not belong to this command or session"
#define VOLUME_WRONG "the volume handle is missing, or present where none belongs"
#define BLOCKS_WRONG "lba or block count missing, or present where none belongs"
#define ARGUMENT_WRONG "the argument is missing, out of range, or where none belongs"
#define SEGMENT_WRONG "the segment is missing, malformed, or present where none belongs"
#define CAPSULE_WRONG "in-capsule data outside the message, unaligned or overlapping"
#define FEATURE_FLAG(bit) any, FIELD(flags), false, bit, FLAG_WRONG

/* clang-format off */
static const struct twist twists[] = {
	{ "the first reserved byte", any, 5, 1, false, 1, RESERVED_SET },
	{ "another reserved byte", any, 7, 1, false, 0x80, RESERVED_SET },
	{ "a reserved byte at the end", any, FIELD(reserved1), false, 1ull << 63, RESERVED_SET },
	{ "FUA", no_flag_fua, FIELD(flags), false, RBLK_CMD_FUA, FLAG_WRONG },
	{ "CAPSULE", no_flag_capsule, FIELD(flags), false, RBLK_CMD_CAPSULE, FLAG_WRONG },
	{ "CAPSULE left out", must_be_capsule, FIELD(flags), false, RBLK_CMD_CAPSULE, FLAG_WRONG },
	{ "NO_UNMAP", no_flag_no_unmap, FIELD(flags), false, RBLK_CMD_NO_UNMAP, FLAG_WRONG },
	{ "INVALIDATE, not agreed", FEATURE_FLAG(RBLK_CMD_INVALIDATE) },
	{ "DIGEST, not agreed", FEATURE_FLAG(RBLK_CMD_DIGEST) },
	{ "IMMEDIATE, not agreed", FEATURE_FLAG(RBLK_CMD_IMMEDIATE) },
	{ "PRIORITY, not agreed", FEATURE_FLAG(RBLK_CMD_PRIORITY) },
	{ "a handle", no_volume, FIELD(volume), true, 1, VOLUME_WRONG },
	{ "no handle", has_volume, FIELD(volume), true, 0, VOLUME_WRONG },
	{ "blocks", no_blocks, FIELD(blocks), true, 1, BLOCKS_WRONG },
	{ "no blocks", has_blocks, FIELD(blocks), true, 0, BLOCKS_WRONG },
	{ "an lba", no_lba, FIELD(lba), true, 1, BLOCKS_WRONG },
	{ "an index or sequence of more than 32 bits", lba_is_narrow, FIELD(lba), true, 1ull << 32,
	  BLOCKS_WRONG },
	{ "a queue that no session has", is_fence, FIELD(lba), true, RBLK_QUEUES_MAX, BLOCKS_WRONG },
	{ "an argument", no_argument, FIELD(argument), true, 1, ARGUMENT_WRONG },
	{ "no argument", argument_is_a_number, FIELD(argument), true, 0, ARGUMENT_WRONG },
	{ "an argument of more than 32 bits", argument_is_narrow, FIELD(argument), true, 1ull << 32,
	  ARGUMENT_WRONG },
	{ "a payload after the end of the message", argument_is_a_place, FIELD(argument), true, CAPSULE,
	  CAPSULE_WRONG },
	{ "a payload far after the end", argument_is_a_place, FIELD(argument), true, UINT64_MAX,
	  CAPSULE_WRONG },
	{ "a payload between units", argument_is_a_place, FIELD(argument), true, 64, CAPSULE_WRONG },
	{ "a digest without its flag", any, FIELD(digest), true, 1, "a digest without its flag" },
	{ "an address", no_segment, FIELD(segment.address), true, 512, SEGMENT_WRONG },
	{ "a key", no_segment, FIELD(segment.rkey), true, 1, SEGMENT_WRONG },
	{ "a length", no_segment, FIELD(segment.length), true, 512, SEGMENT_WRONG },
	{ "no memory", in_memory, FIELD(segment.length), true, 0, SEGMENT_WRONG },
	{ "memory up to the end of all addresses", in_memory, FIELD(segment.address), true,
	  UINT64_MAX, SEGMENT_WRONG },
	{ "more than any command may have", in_memory, FIELD(segment.length), true,
	  RBLK_IO_BYTES_MAX + 512, SEGMENT_WRONG },
	{ "part of a block", blocks_in_memory, FIELD(segment.length), true, 513, SEGMENT_WRONG },
	{ "too short for the report", reports, FIELD(segment.length), true, 8, SEGMENT_WRONG },
	{ "a key to the capsule", in_capsule, FIELD(segment.rkey), true, 1, SEGMENT_WRONG },
	{ "nothing of the capsule", in_capsule, FIELD(segment.length), true, 0, SEGMENT_WRONG },
	{ "a payload of two units", payload_alone, FIELD(segment.length), true, 2 * CAPSULE,
	  SEGMENT_WRONG },
	{ "a place after the capsule", in_capsule, FIELD(segment.address), true, CAPSULE,
	  CAPSULE_WRONG },
	{ "a place beyond any capsule", in_capsule, FIELD(segment.address), true,
	  RBLK_CAPSULE_DATA_MAX, CAPSULE_WRONG },
	{ "a place between units", in_capsule, FIELD(segment.address), true, 256, CAPSULE_WRONG },
	{ "a tag that no queue has", any, FIELD(tag), true, RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS,
	  "the tag is out of range" },
	{ "an unknown opcode", any, FIELD(opcode), true, RBLK_OP_MAX, "the opcode is unknown" },
	{ "an opcode between the groups", any, FIELD(opcode), true, 11, "the opcode is unknown" },
	{ "an opcode of a feature that was not agreed", any, FIELD(opcode), true, RBLK_OP_EXTENTS, "the opcode is unknown" },
	{ "no opcode", any, FIELD(opcode), true, RBLK_OP_INVALID, "the opcode is unknown" },
};
/* clang-format on */

struct twisted {
	const struct base *base;
	const struct twist *twist;
};

static void commit_twisted(struct raw *raw, const void *arg)
{
	const struct twisted *twisted = arg;
	const struct twist *twist = twisted->twist;
	struct rblk_wire_command *command;
	uint32_t bytes = base_build(raw, twisted->base, 1, &command);
	unsigned char *field = (unsigned char *)command + twist->offset;

	for (unsigned int i = 0; i < twist->bytes; i++) {
		unsigned char byte = (unsigned char)(twist->value >> 8 * i);

		field[i] = twist->set ? byte : field[i] ^ byte;
	}
	raw_send(raw, bytes);
}

/* The words of the log for every twist, checked on the first command that it applies to. */
static void every_twist_has_its_words(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(twists); i++) {
		struct twisted twisted = {bases, &twists[i]};

		while (!twists[i].applies(twisted.base))
			twisted.base++;
		print_message("%s: %s\n", twisted.base->name, twists[i].what);
		hostile_offend(commit_twisted, &twisted, twists[i].words);
	}
}

static void every_twisted_command_ends_its_connection(void **state)
{
	unsigned int count = 0;

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(twists) * base_count; i++) {
		const struct twisted twisted = {&bases[i % base_count], &twists[i / base_count]};

		if (!twisted.twist->applies(twisted.base))
			continue;
		print_message("%s: %s\n", twisted.base->name, twisted.twist->what);
		hostile_offend_quietly(commit_twisted, &twisted);
		count++;
	}
	assert_true(count > 300);
}

/* -- V1: every byte of a descriptor ------------------------------------------------------------ */

/* What must follow a flipped bit, by the rules alone. */
enum verdict { ANSWERED, ENDED, EITHER };

static enum verdict judge(const struct raw *raw, uint32_t bytes,
			  const struct rblk_wire_command *command, uint32_t sequence,
			  unsigned int offset)
{
	u16 tag = rblk_le16(command->tag), credits = rblk_le16(raw->accept.credits);
	const struct rblk_wire_command *commands;
	u32 capsule;
	u16 count;

	if (rblk_check_message(raw->memory + RAW_SEND, bytes, 0, RBLK_BATCH_MAX, bytes, &commands,
			       &count, &capsule))
		return ENDED;
	if (rblk_le32(command->sequence) != sequence || tag >= credits + RBLK_RESERVED_TAGS ||
	    (tag >= credits && !rblk_opcode_reserved_tag(command->opcode)))
		return ENDED;
	/* Memory that is not ours: the target may notice, or may not need to access it. */
	if (offset >= offsetof(struct rblk_wire_command, segment) &&
	    offset < offsetof(struct rblk_wire_command, argument))
		return EITHER;
	return ANSWERED;
}

static void flip(const struct base *base, unsigned int offset)
{
	struct rblk_wire_command *command;
	enum verdict verdict;
	struct raw raw;
	uint32_t bytes;
	uint16_t tag;

	raw_init(&raw);
	assert_true(raw_connect(&raw, hostile_host()));
	bytes = base_build(&raw, base, 1, &command);
	((unsigned char *)command)[offset] ^=
		(unsigned char)(1u << (offset * 5 + base->opcode) % 8);
	verdict = judge(&raw, bytes, command, raw.sequence - 1, offset);
	tag = rblk_le16(command->tag);
	raw_send(&raw, bytes);
	if (verdict == ENDED)
		raw_wait_gone(&raw);
	else if (verdict == ANSWERED)
		raw_wait(&raw, tag);
	else
		raw_wait_either(&raw, tag);
	if (raw.gone)
		hostile_offended();
	raw_close(&raw);
}

/* A bit of each byte of each command, judged here by the specification's own validator. */
static void every_flipped_byte_is_judged_right(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < base_count; i++) {
		print_message("%s\n", bases[i].name);
		for (unsigned int offset = 0; offset < sizeof(struct rblk_wire_command); offset++)
			flip(&bases[i], offset);
		hostile_goes_on();
	}
}

/* -- all cases ------------------------------------------------------------------------------- */

static void every_offence_has_one_line(void **state)
{
	const struct twisted twisted = {bases, twists};

	(void)state;
	hostile_settle(commit_twisted, &twisted);
}

static const char *rule(unsigned int index)
{
	return index ? NULL : "V1";
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_command_untwisted_is_answered),
		cmocka_unit_test(every_twist_has_its_words),
		cmocka_unit_test(every_twisted_command_ends_its_connection),
		cmocka_unit_test(every_flipped_byte_is_judged_right),
		cmocka_unit_test(every_offence_has_one_line),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, hostile_start, hostile_stop);
}
