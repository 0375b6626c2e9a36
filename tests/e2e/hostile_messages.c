/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a message that as a whole breaks a rule of the specification (V1 to V4, section 4) ends its
 * own connection with one line that says why, and nothing else. hostile_twists.c tests the fields
 * of a single descriptor. Method: a table of offences, each with the rule that it breaks.
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <string.h>
#include "tests/e2e/hostile.h"
#include "tests/e2e/hostile_base.h"

#define CREDITS 32u /* as raw_init() asks for */
#define CAPSULE_WRONG "in-capsule data outside the message, unaligned or overlapping"

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

/* One correct message, then one whose sequence number is off by *arg. */
static void commit_sequence(struct raw *raw, const void *arg)
{
	assert_int_equal(raw_simple(raw, RBLK_OP_PING, 0), RBLK_OK);
	raw->sequence += *(const uint32_t *)arg;
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, 64);
}

/* A correct message is sent again, byte for byte. */
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

/* C1: one more command than there are credits; no tag is left, so its tag is out of range. */
static void commit_beyond_credits(struct raw *raw, const void *arg)
{
	assert_int_equal(rblk_le16(raw->accept.credits), CREDITS);
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, CREDITS + RBLK_RESERVED_TAGS);
	raw_send(raw, 64);
}

static void commit_reserved_tag(struct raw *raw, const void *arg)
{
	struct rblk_wire_command *command;

	raw_send(raw, base_build(raw, base_of(*(const uint8_t *)arg), CREDITS, &command));
}

/* -- V4, C7: not a plain SEND, or too long ----------------------------------------------------- */

static void post_ping(struct raw *raw, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)raw->memory + RAW_SEND,
		.length = bytes,
		.lkey = fab_mr_lkey(raw->mr, fab_conn_device(raw->conn)),
	};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = bytes ? 1 : 0, .opcode = opcode};

	/* Both fields are in one union. The key is one that nobody has. */
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

/* A write without data needs no valid key, so it arrives. */
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

/* Well formed, but the memory that it names is not exposed. */
static void commit_wrong_key(struct raw *raw, const void *arg)
{
	uint32_t volume = raw_open(raw, "mem");
	struct rblk_wire_command *command;
	uint32_t bytes = base_build(raw, base_of(*(const uint8_t *)arg), 1, &command);

	if (command->volume)
		command->volume = rblk_to_le32(volume);
	command->segment.rkey = rblk_to_le32(rblk_le32(command->segment.rkey) ^ 0x5a5a5a5a);
	raw_send(raw, bytes);
}

static void commit_memory_beyond_region(struct raw *raw, const void *arg)
{
	uint32_t volume = raw_open(raw, "mem");
	struct rblk_wire_command *command;
	uint32_t bytes = base_build(raw, base_of(*(const uint8_t *)arg), 1, &command);

	command->volume = rblk_to_le32(volume);
	command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_MEMORY - 256);
	raw_send(raw, bytes);
}

/* -- the table --------------------------------------------------------------------------------- */

#define U32(value) (&(const uint32_t){value})
#define U8(value) (&(const uint8_t){value})
#define TILES(...) (&(const struct tiles){__VA_ARGS__})
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
	{ "V4", commit_send_with_immediate, NULL, NOT_PLAIN },
	{ "V4", commit_send_with_invalidate, NULL,
	  "an invalidation of a key that is not the peer's" },
	{ "V4", commit_write_with_immediate, NULL, NOT_PLAIN },
	{ "V4 C7", commit_longer_than_told, NULL, "a message that is too long" },
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

/* C1, C2: as many commands at once as there are credits, and the reserved tags, too. */
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
	/* C7: no reply was longer than the shortest receive allowed. */
	assert_int_equal(raw.reply_bytes_seen, RBLK_REPLY_BYTES_MIN);
	raw_close(&raw);
	hostile_goes_on();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_broken_rule_ends_the_connection),
		cmocka_unit_test(every_offence_has_one_line),
		cmocka_unit_test(all_credits_at_once_are_no_offence),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, hostile_start, hostile_stop);
}
