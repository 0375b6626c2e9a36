/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: every message that breaks a rule of the specification ends its own connection with one line
 * that says why, and nothing else: not the other queue of its session, not another session's load.
 * Method: well-formed commands of every opcode, each of which is shown to be answered; then each
 * with one field twisted, and messages that break the rules of their own by hand.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "tests/e2e/hostile.h"

#define CAPSULE RBLK_CAPSULE_ALIGN
#define HANDLE 12345u /* form does not ask whether it is open */
#define CREDITS 32u   /* as raw_init() wants them */

/* -- commands as they should be ---------------------------------------------------------------- */

enum where { NOWHERE, IN_MEMORY, IN_CAPSULE, IN_BOTH };

/* One well-formed command; the columns are those of section 6. */
struct base {
	const char *name;
	uint8_t opcode, flags;
	enum where where;
	bool volume, blocks, any_lba, any_argument;
	uint64_t argument;
	uint8_t flags_allowed; /* beside RETRY, without any feature agreed */
	uint32_t report_bytes; /* of a segment in memory; 0: blocks */
};

#define MAY_BE_CAPSULE (RBLK_CMD_FUA | RBLK_CMD_CAPSULE)
#define BLOCKS .volume = true, .blocks = true, .any_lba = true
#define VOLUME_REPORT sizeof(struct rblk_wire_volume)
#define AUTHENTICATE_REPORT sizeof(struct rblk_wire_authenticate)
#define RESERVATIONS_REPORT sizeof(struct rblk_wire_reservation_report)
#define SCRATCH_REPORT sizeof(struct rblk_wire_scratch)
#define PAYLOAD .flags = RBLK_CMD_CAPSULE, .flags_allowed = RBLK_CMD_CAPSULE

/* clang-format off */
static const struct base bases[] = {
	{ .name = "READ", .opcode = RBLK_OP_READ, .where = IN_MEMORY, BLOCKS },
	{ .name = "WRITE", .opcode = RBLK_OP_WRITE, .where = IN_MEMORY, BLOCKS, .flags_allowed = MAY_BE_CAPSULE },
	{ .name = "WRITE in the capsule", .opcode = RBLK_OP_WRITE, .flags = RBLK_CMD_CAPSULE, .where = IN_CAPSULE, BLOCKS,
	  .flags_allowed = MAY_BE_CAPSULE },
	{ .name = "FLUSH", .opcode = RBLK_OP_FLUSH, .volume = true },
	{ .name = "DISCARD", .opcode = RBLK_OP_DISCARD, BLOCKS },
	{ .name = "WRITE_ZEROES", .opcode = RBLK_OP_WRITE_ZEROES, BLOCKS,
	  .flags_allowed = RBLK_CMD_FUA | RBLK_CMD_NO_UNMAP },
	{ .name = "COMPARE_AND_WRITE", .opcode = RBLK_OP_COMPARE_AND_WRITE, .where = IN_MEMORY, BLOCKS,
	  .argument = 1, .any_argument = true, .flags_allowed = MAY_BE_CAPSULE },
	{ .name = "CHECKSUM", .opcode = RBLK_OP_CHECKSUM, BLOCKS },
	{ .name = "RESERVE", .opcode = RBLK_OP_RESERVE, PAYLOAD, .where = IN_CAPSULE, .volume = true, .argument = 1,
	  .any_argument = true },
	{ .name = "RESERVATIONS", .opcode = RBLK_OP_RESERVATIONS, .where = IN_MEMORY, .volume = true,
	  .report_bytes = RESERVATIONS_REPORT },
	{ .name = "IDENTIFY", .opcode = RBLK_OP_IDENTIFY, PAYLOAD, .where = IN_CAPSULE },
	{ .name = "AUTHENTICATE", .opcode = RBLK_OP_AUTHENTICATE, PAYLOAD, .where = IN_BOTH, .any_argument = true,
	  .report_bytes = AUTHENTICATE_REPORT },
	{ .name = "LIST", .opcode = RBLK_OP_LIST, .where = IN_MEMORY, .any_lba = true, .report_bytes = VOLUME_REPORT },
	{ .name = "OPEN", .opcode = RBLK_OP_OPEN, PAYLOAD, .where = IN_BOTH, .any_argument = true,
	  .report_bytes = VOLUME_REPORT },
	{ .name = "CLOSE", .opcode = RBLK_OP_CLOSE, .volume = true },
	{ .name = "FENCE", .opcode = RBLK_OP_FENCE, .any_lba = true, .argument = 1, .any_argument = true },
	{ .name = "ABORT", .opcode = RBLK_OP_ABORT, .any_lba = true },
	{ .name = "KEEPALIVE", .opcode = RBLK_OP_KEEPALIVE, .any_argument = true },
	{ .name = "PING", .opcode = RBLK_OP_PING },
	{ .name = "SCRATCH", .opcode = RBLK_OP_SCRATCH, .where = IN_MEMORY, .report_bytes = SCRATCH_REPORT },
};
/* clang-format on */

static const struct base *base_of(uint8_t opcode)
{
	for (unsigned int i = 0; i < UNIT_LENGTH(bases); i++)
		if (bases[i].opcode == opcode)
			return &bases[i];
	fail_msg("no base for opcode %u", opcode);
	return NULL;
}

/* The command in raw's memory, alone in its message, in-capsule data all zero; the length. */
static uint32_t build(struct raw *raw, const struct base *base, uint16_t tag,
		      struct rblk_wire_command **out)
{
	uint32_t capsule = base->where == IN_CAPSULE || base->where == IN_BOTH ? CAPSULE : 0;
	struct rblk_wire_command *command = raw_command(raw, capsule, 0);

	memset(raw->memory + RAW_SEND, 0, capsule);
	raw_fill(raw, command, 0, base->opcode, tag);
	command->flags = base->flags;
	command->volume = rblk_to_le32(base->volume ? HANDLE : 0);
	command->blocks = rblk_to_le32(base->blocks);
	command->argument = rblk_to_le64(base->argument);
	if (base->where == IN_CAPSULE)
		command->segment.length = rblk_to_le32(CAPSULE);
	if (base->where == IN_MEMORY || base->where == IN_BOTH) {
		command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_DATA);
		command->segment.rkey =
			rblk_to_le32(fab_mr_rkey(raw->mr, fab_conn_device(raw->conn)));
		command->segment.length =
			rblk_to_le32(base->report_bytes ? base->report_bytes : CAPSULE);
	}
	*out = command;
	return capsule + 64;
}

/* So that what ends a connection below is the twist, not the command. */
static void every_command_untwisted_is_answered(void **state)
{
	struct rblk_wire_command *command;
	struct raw raw;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, hostile_host()));
	for (unsigned int i = 0; i < UNIT_LENGTH(bases); i++) {
		raw_send(&raw, build(&raw, &bases[i], 1, &command));
		raw_wait(&raw, 1);
		raw_send(&raw, build(&raw, &bases[i], 2, &command));
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
	bool set;	/* the value replaces what is there, else it is XORed */
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

#define FLAG_TWIST(bit, name)                                                       \
	static bool no_flag_##name(const struct base *base)                         \
	{                                                                           \
		return !(base->flags_allowed & (bit));                              \
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
	{ "a reserved flag", any, FIELD(flags), false, 0x80, RESERVED_SET },
	{ "FUA", no_flag_fua, FIELD(flags), false, RBLK_CMD_FUA, FLAG_WRONG },
	{ "CAPSULE", no_flag_capsule, FIELD(flags), false, RBLK_CMD_CAPSULE, FLAG_WRONG },
	{ "CAPSULE left out", must_be_capsule, FIELD(flags), false, RBLK_CMD_CAPSULE, FLAG_WRONG },
	{ "NO_UNMAP", no_flag_no_unmap, FIELD(flags), false, RBLK_CMD_NO_UNMAP, FLAG_WRONG },
	{ "INVALIDATE, not agreed", FEATURE_FLAG(RBLK_CMD_INVALIDATE) },
	{ "DIGEST, not agreed", FEATURE_FLAG(RBLK_CMD_DIGEST) },
	{ "IMMEDIATE, not agreed", FEATURE_FLAG(RBLK_CMD_IMMEDIATE) },
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
	{ "a payload behind the message", argument_is_a_place, FIELD(argument), true, CAPSULE,
	  CAPSULE_WRONG },
	{ "a payload far behind", argument_is_a_place, FIELD(argument), true, UINT64_MAX,
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
	{ "a place behind the capsule", in_capsule, FIELD(segment.address), true, CAPSULE,
	  CAPSULE_WRONG },
	{ "a place beyond any capsule", in_capsule, FIELD(segment.address), true,
	  RBLK_CAPSULE_DATA_MAX, CAPSULE_WRONG },
	{ "a place between units", in_capsule, FIELD(segment.address), true, 256, CAPSULE_WRONG },
	{ "a tag that no queue has", any, FIELD(tag), true, RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS,
	  "the tag is out of range" },
	{ "an opcode of the future", any, FIELD(opcode), true, RBLK_OP_MAX, "the opcode is unknown" },
	{ "an opcode between the groups", any, FIELD(opcode), true, 10, "the opcode is unknown" },
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
	uint32_t bytes = build(raw, twisted->base, 1, &command);
	unsigned char *field = (unsigned char *)command + twist->offset;

	for (unsigned int i = 0; i < twist->bytes; i++) {
		unsigned char byte = (unsigned char)(twist->value >> 8 * i);

		field[i] = twist->set ? byte : field[i] ^ byte;
	}
	raw_send(raw, bytes);
}

/* What every twist is called in the log, seen on the first command that it applies to. */
static void every_twist_has_its_words(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(twists); i++) {
		struct twisted twisted = { bases, &twists[i] };

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
	for (unsigned int i = 0; i < UNIT_LENGTH(twists) * UNIT_LENGTH(bases); i++) {
		const struct twisted twisted = { &bases[i % UNIT_LENGTH(bases)],
						 &twists[i / UNIT_LENGTH(bases)] };

		if (!twisted.twist->applies(twisted.base))
			continue;
		print_message("%s: %s\n", twisted.base->name, twisted.twist->what);
		hostile_offend_quietly(commit_twisted, &twisted);
		count++;
	}
	assert_true(count > 300);
}

/* -- V1: the message as a whole (section 4) ---------------------------------------------------- */

static void send_pings(struct raw *raw, unsigned int count, uint32_t capsule)
{
	memset(raw->memory + RAW_SEND, 0, capsule);
	for (unsigned int n = 0; n < count; n++)
		raw_fill(raw, raw_command(raw, capsule, n), n, RBLK_OP_PING, (uint16_t)n);
	raw_send(raw, capsule + count * 64);
}

/* 4.1 */
static void commit_length(struct raw *raw, const void *arg)
{
	memset(raw->memory + RAW_SEND, 0, 4096);
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, *(const uint32_t *)arg);
}

/* 4.2 */
static void commit_batch(struct raw *raw, const void *arg)
{
	send_pings(raw, RBLK_BATCH_MAX + 1, 0);
}

static void commit_index_beyond_message(struct raw *raw, const void *arg)
{
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_fill(raw, raw_command(raw, 0, 1), 2, RBLK_OP_PING, 1);
	raw_send(raw, 128);
}

static void commit_index_of_another(struct raw *raw, const void *arg)
{
	raw_fill(raw, raw_command(raw, 0, 0), 1, RBLK_OP_PING, 0);
	raw_fill(raw, raw_command(raw, 0, 1), 1, RBLK_OP_PING, 1);
	raw_send(raw, 128);
}

/* 4.3: 64 and 512 bytes that no command names. */
static void commit_unclaimed(struct raw *raw, const void *arg)
{
	send_pings(raw, 1, *(const uint32_t *)arg);
}

/* 4.4: two WRITEs in one capsule of `bytes`, at these places. */
struct tiles {
	uint32_t bytes, offset[2], length[2];
};

static void commit_tiles(struct raw *raw, const void *arg)
{
	const struct tiles *tiles = arg;

	memset(raw->memory + RAW_SEND, 0, tiles->bytes);
	for (unsigned int n = 0; n < 2; n++) {
		struct rblk_wire_command *command = raw_command(raw, tiles->bytes, n);

		raw_fill(raw, command, n, RBLK_OP_WRITE, (uint16_t)n);
		command->flags = RBLK_CMD_CAPSULE;
		command->volume = rblk_to_le32(HANDLE);
		command->blocks = rblk_to_le32(1);
		command->segment.address = rblk_to_le64(tiles->offset[n]);
		command->segment.length = rblk_to_le32(tiles->length[n]);
	}
	raw_send(raw, tiles->bytes + 128);
}

/* -- V2: sequence numbers ---------------------------------------------------------------------- */

/* Behind one that was right, one that is off by *arg. */
static void commit_sequence(struct raw *raw, const void *arg)
{
	assert_int_equal(raw_simple(raw, RBLK_OP_PING, 0), RBLK_OK);
	raw->sequence += *(const uint32_t *)arg;
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, 64);
}

/* A message that was right comes once more, byte for byte. */
static void commit_replay(struct raw *raw, const void *arg)
{
	assert_int_equal(raw_simple(raw, RBLK_OP_PING, 0), RBLK_OK);
	raw_send(raw, 64);
}

/* -- V3, C2, C3: tags -------------------------------------------------------------------------- */

static void commit_tag_twice_in_a_message(struct raw *raw, const void *arg)
{
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 3);
	raw_fill(raw, raw_command(raw, 0, 1), 1, RBLK_OP_PING, 3);
	raw_send(raw, 128);
}

/* C1: one more command than there are credits, for want of a tag with that of none. */
static void commit_beyond_credits(struct raw *raw, const void *arg)
{
	assert_int_equal(rblk_le16(raw->accept.credits), CREDITS);
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, CREDITS + RBLK_RESERVED_TAGS);
	raw_send(raw, 64);
}

static void commit_reserved_tag(struct raw *raw, const void *arg)
{
	struct rblk_wire_command *command;

	raw_send(raw, build(raw, base_of(*(const uint8_t *)arg), CREDITS, &command));
}

/* -- V4, C7: not a plain SEND, or too long ----------------------------------------------------- */

static void post_ping(struct raw *raw, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->memory + RAW_SEND,
		.length = bytes,
		.lkey = fab_mr_lkey(raw->mr, fab_conn_device(raw->conn)),
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = bytes ? 1 : 0, .opcode = opcode
	};

	/* One union: a key that nobody has. */
	if (opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = 0x12345678;
	else
		wr.imm_data = htonl(1);
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_post(raw, &wr);
}

static void commit_send_with_immediate(struct raw *raw, const void *arg)
{
	post_ping(raw, IBV_WR_SEND_WITH_IMM, 64);
}

static void commit_send_with_invalidate(struct raw *raw, const void *arg)
{
	post_ping(raw, IBV_WR_SEND_WITH_INV, 64);
}

/* Without data no key is looked at: it arrives. */
static void commit_write_with_immediate(struct raw *raw, const void *arg)
{
	post_ping(raw, IBV_WR_RDMA_WRITE_WITH_IMM, 0);
}

static void commit_longer_than_told(struct raw *raw, const void *arg)
{
	uint32_t bytes = rblk_le32(raw->accept.command_bytes) + 64;

	memset(raw->memory + RAW_SEND, 0, bytes);
	raw_fill(raw, raw_command(raw, bytes - 64, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, bytes);
}

/* -- memory that is not there ------------------------------------------------------------------ */

/* Well formed, but what it names is not exposed. */
static void commit_wrong_key(struct raw *raw, const void *arg)
{
	uint32_t volume = raw_open(raw, "mem");
	struct rblk_wire_command *command;
	uint32_t bytes = build(raw, base_of(*(const uint8_t *)arg), 1, &command);

	if (command->volume)
		command->volume = rblk_to_le32(volume);
	command->segment.rkey = rblk_to_le32(rblk_le32(command->segment.rkey) ^ 0x5a5a5a5a);
	raw_send(raw, bytes);
}

static void commit_memory_beyond_region(struct raw *raw, const void *arg)
{
	uint32_t volume = raw_open(raw, "mem");
	struct rblk_wire_command *command;
	uint32_t bytes = build(raw, base_of(*(const uint8_t *)arg), 1, &command);

	command->volume = rblk_to_le32(volume);
	command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_MEMORY - 256);
	raw_send(raw, bytes);
}

/* -- the table --------------------------------------------------------------------------------- */

#define U32(value) (&(const uint32_t){ value })
#define U8(value) (&(const uint8_t){ value })
#define TILES(...) (&(const struct tiles){ __VA_ARGS__ })
#define TOO_SHORT "too short"
#define NOT_NEXT "sequence number is not the next"
#define RESERVED_TAG "reserved tag used for I/O"
#define NOT_PLAIN "a message that is not a plain SEND"
#define NOT_EXPOSED "does not expose the memory"

/* clang-format off */
static const struct offence {
	const char *rule;
	void (*commit)(struct raw *raw, const void *arg);
	const void *arg;
	const char *words;
} offences[] = {
	{ "V1 4.1", commit_length, U32(0), TOO_SHORT },
	{ "V1 4.1", commit_length, U32(63), TOO_SHORT },
	{ "V1 4.1", commit_length, U32(65), TOO_SHORT },
	{ "V1 4.1", commit_length, U32(96), TOO_SHORT },
	{ "V1 4.2", commit_batch, NULL, "too many commands" },
	{ "V1 4.2", commit_index_beyond_message, NULL, "too many commands" },
	{ "V1 4.2", commit_index_of_another, NULL, "index is not its place" },
	{ "V1 4.3", commit_unclaimed, U32(64), CAPSULE_WRONG },
	{ "V1 4.3", commit_unclaimed, U32(512), CAPSULE_WRONG },
	{ "V1 4.4", commit_tiles, TILES(1024, { 0, 0 }, { 512, 512 }), CAPSULE_WRONG },
	{ "V1 4.4", commit_tiles, TILES(1024, { 512, 0 }, { 512, 512 }), CAPSULE_WRONG },
	{ "V1 4.4", commit_tiles, TILES(1536, { 0, 1024 }, { 512, 512 }), CAPSULE_WRONG },
	{ "V1 4.4", commit_tiles, TILES(1536, { 0, 512 }, { 512, 512 }), CAPSULE_WRONG },
	{ "V1 4.4", commit_tiles, TILES(1024, { 0, 512 }, { 512, 1024 }), CAPSULE_WRONG },
	{ "V1 4.4", commit_tiles, TILES(1024, { 512, 1024 }, { 512, 512 }), CAPSULE_WRONG },
	{ "V2", commit_sequence, U32(1), NOT_NEXT },
	{ "V2", commit_sequence, U32(UINT32_MAX), NOT_NEXT },
	{ "V2", commit_sequence, U32(1u << 31), NOT_NEXT },
	{ "V2", commit_replay, NULL, NOT_NEXT },
	{ "V3 C3", commit_tag_twice_in_a_message, NULL, "tag is in use" },
	{ "V3 C1", commit_beyond_credits, NULL, "tag beyond the credits granted" },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_READ), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_WRITE), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_FLUSH), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_DISCARD), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_WRITE_ZEROES), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_COMPARE_AND_WRITE), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_CHECKSUM), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_RESERVE), RESERVED_TAG },
	{ "V3 C2", commit_reserved_tag, U8(RBLK_OP_RESERVATIONS), RESERVED_TAG },
	{ "V4", commit_send_with_immediate, NULL, NOT_PLAIN },
	{ "V4", commit_send_with_invalidate, NULL, "an invalidation of what is not the peer's" },
	{ "V4", commit_write_with_immediate, NULL, NOT_PLAIN },
	{ "V4 C7", commit_longer_than_told, NULL, "a message longer than it may be" },
	{ "9", commit_wrong_key, U8(RBLK_OP_READ), NOT_EXPOSED },
	{ "9", commit_wrong_key, U8(RBLK_OP_WRITE), NOT_EXPOSED },
	{ "9", commit_wrong_key, U8(RBLK_OP_LIST), NOT_EXPOSED },
	{ "9", commit_memory_beyond_region, U8(RBLK_OP_READ), NOT_EXPOSED },
	{ "9", commit_memory_beyond_region, U8(RBLK_OP_WRITE), NOT_EXPOSED },
};
/* clang-format on */

static const char *rule(unsigned int index)
{
	return index < UNIT_LENGTH(offences) ? offences[index].rule : NULL;
}

static void every_broken_rule_ends_the_connection(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(offences); i++)
		hostile_offend(offences[i].commit, offences[i].arg, offences[i].words);
}

static void every_offence_has_one_line(void **state)
{
	(void)state;
	hostile_settle(commit_replay, NULL);
}

/* -- at the limit, not beyond ------------------------------------------------------------------ */

/* C1, C2: as many commands at once as there are credits, and the reserve on top. */
static void all_credits_at_once_are_no_offence(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	raw.login.reply_bytes = rblk_to_le32(RBLK_REPLY_BYTES_MIN);
	assert_true(raw_connect(&raw, hostile_host()));
	for (unsigned int round = 0; round < 20; round++) {
		send_pings(&raw, CREDITS + RBLK_RESERVED_TAGS, 0);
		for (uint16_t tag = 0; tag < CREDITS + RBLK_RESERVED_TAGS; tag++)
			assert_int_equal(raw_wait(&raw, tag), RBLK_OK);
	}
	/* C7: and no reply was longer than the shortest receive there is. */
	assert_int_equal(raw.reply_bytes_seen, RBLK_REPLY_BYTES_MIN);
	raw_close(&raw);
	hostile_goes_on();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_command_untwisted_is_answered),
		cmocka_unit_test(every_twist_has_its_words),
		cmocka_unit_test(every_twisted_command_ends_its_connection),
		cmocka_unit_test(every_broken_rule_ends_the_connection),
		cmocka_unit_test(every_offence_has_one_line),
		cmocka_unit_test(all_credits_at_once_are_no_offence),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, hostile_start, hostile_stop);
}
