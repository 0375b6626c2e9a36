/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a command that is well formed and still cannot be done gets an error and is no violation:
 * its status is the one of section 6, in its order, and the connection goes on. Method: a table of
 * commands on volumes of several kinds, each with its expected status; then payloads that break
 * their rule.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/hostile.h"

#define BLOCK 512u
#define CAPSULE RBLK_CAPSULE_ALIGN
#define MEM_BLOCKS 32768u /* of "mem" */

/* -- block commands ---------------------------------------------------------------------------- */

/* How "mem" is opened for the case. */
enum handle { READ_WRITE, READ_ONLY, CLOSED, NEVER };

/* clang-format off */
static const struct order {
	const char *rule;
	uint8_t opcode, flags;
	enum handle handle;
	uint64_t lba;
	uint32_t blocks, bytes;
	enum rblk_status status;
} orders[] = {
	{ "6", RBLK_OP_READ, 0, NEVER, 0, 1, BLOCK, RBLK_E_NO_VOLUME },
	{ "6", RBLK_OP_READ, 0, CLOSED, 0, 1, BLOCK, RBLK_E_NO_VOLUME },
	{ "6", RBLK_OP_WRITE, 0, CLOSED, MEM_BLOCKS, 1, BLOCK, RBLK_E_NO_VOLUME },
	{ "6", RBLK_OP_WRITE, 0, READ_ONLY, 0, 1, BLOCK, RBLK_E_READ_ONLY },
	{ "6", RBLK_OP_WRITE, RBLK_CMD_FUA, READ_ONLY, MEM_BLOCKS, 1, BLOCK, RBLK_E_READ_ONLY },
	{ "6", RBLK_OP_WRITE_ZEROES, 0, READ_ONLY, 0, 1, 0, RBLK_E_READ_ONLY },
	{ "6", RBLK_OP_DISCARD, 0, READ_ONLY, 0, 1, 0, RBLK_E_READ_ONLY },
	{ "6", RBLK_OP_WRITE, RBLK_CMD_FUA, READ_WRITE, MEM_BLOCKS, 1, BLOCK, RBLK_E_UNSUPPORTED },
	{ "6", RBLK_OP_FLUSH, 0, READ_WRITE, 0, 0, 0, RBLK_E_UNSUPPORTED },
	{ "6", RBLK_OP_COMPARE_AND_WRITE, 0, CLOSED, 0, 1, 2 * BLOCK, RBLK_E_NO_VOLUME },
	{ "6", RBLK_OP_COMPARE_AND_WRITE, 0, READ_ONLY, 0, 1, 2 * BLOCK, RBLK_E_READ_ONLY },
	{ "6", RBLK_OP_COMPARE_AND_WRITE, RBLK_CMD_FUA, READ_WRITE, 0, 1, 2 * BLOCK, RBLK_E_UNSUPPORTED },
	{ "6", RBLK_OP_COMPARE_AND_WRITE, 0, READ_WRITE, MEM_BLOCKS, 1, 2 * BLOCK, RBLK_E_RANGE },
	{ "6", RBLK_OP_COMPARE_AND_WRITE, 0, READ_WRITE, 0, 1, BLOCK, RBLK_E_INVALID },
	{ "6", RBLK_OP_COMPARE_AND_WRITE, 0, READ_WRITE, 0, MEM_BLOCKS, MEM_BLOCKS * BLOCK, RBLK_E_INVALID },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, MEM_BLOCKS, 1, BLOCK, RBLK_E_RANGE },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, MEM_BLOCKS - 1, 2, 2 * BLOCK, RBLK_E_RANGE },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, UINT64_MAX, 1, BLOCK, RBLK_E_RANGE },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, UINT64_MAX, UINT32_MAX, BLOCK, RBLK_E_RANGE },
	{ "6", RBLK_OP_WRITE, 0, READ_WRITE, UINT64_MAX / BLOCK + 1, 1, BLOCK, RBLK_E_RANGE },
	{ "6", RBLK_OP_WRITE_ZEROES, 0, READ_WRITE, 1, MEM_BLOCKS, 0, RBLK_E_RANGE },
	{ "6", RBLK_OP_DISCARD, 0, READ_WRITE, 1, MEM_BLOCKS, 0, RBLK_E_UNSUPPORTED },
	{ "6", RBLK_OP_CHECKSUM, 0, READ_WRITE, 1, UINT32_MAX, 0, RBLK_E_RANGE },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, 0, 2, BLOCK, RBLK_E_INVALID },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, 0, 1, 2 * BLOCK, RBLK_E_INVALID },
	{ "6", RBLK_OP_WRITE, 0, READ_WRITE, 0, 3, 2 * BLOCK, RBLK_E_INVALID },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, 0, MEM_BLOCKS, MEM_BLOCKS * BLOCK, RBLK_E_INVALID },
	{ "6", RBLK_OP_READ, 0, READ_WRITE, MEM_BLOCKS - 1, 1, BLOCK, RBLK_OK },
	{ "6", RBLK_OP_WRITE, 0, READ_WRITE, MEM_BLOCKS - 1, 1, BLOCK, RBLK_OK },
	{ "6", RBLK_OP_READ, 0, READ_ONLY, 0, 1, BLOCK, RBLK_OK },
	{ "6", RBLK_OP_WRITE, RBLK_CMD_RETRY, READ_WRITE, 0, 1, BLOCK, RBLK_OK },
};
/* clang-format on */

static uint32_t key(const struct raw *raw)
{
	return rblk_to_le32(fab_mr_rkey(raw->mr, fab_conn_device(raw->conn)));
}

static uint16_t order_status(struct raw *raw, const struct order *order, uint32_t handle)
{
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	raw_fill(raw, command, 0, order->opcode, 1);
	command->flags = order->flags;
	command->volume = rblk_to_le32(handle);
	command->lba = rblk_to_le64(order->lba);
	command->blocks = rblk_to_le32(order->blocks);
	if (order->opcode == RBLK_OP_COMPARE_AND_WRITE)
		command->argument = rblk_to_le64(1);
	if (order->bytes) {
		command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_DATA);
		command->segment.rkey = key(raw);
		command->segment.length = rblk_to_le32(order->bytes);
	}
	raw_send(raw, 64);
	return raw_wait(raw, 1);
}

static uint32_t open_for(struct raw *raw, enum handle handle)
{
	uint32_t volume = 12345;

	if (handle == NEVER)
		return volume;
	volume = handle == READ_ONLY ? raw_open_flags(raw, "mem", RBLK_OPEN_READ_ONLY)
				     : raw_open(raw, "mem");
	assert_int_not_equal(volume, 0);
	if (handle == CLOSED)
		assert_int_equal(raw_close_handle(raw, volume), RBLK_OK);
	return volume;
}

static void every_order_has_its_status(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, hostile_host()));
	for (unsigned int i = 0; i < UNIT_LENGTH(orders); i++) {
		uint32_t volume = open_for(&raw, orders[i].handle);

		print_message("order %u\n", i);
		assert_int_equal(order_status(&raw, &orders[i], volume), orders[i].status);
	}
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
	raw_close(&raw);
	hostile_goes_on();
}

/* A handle belongs to its session: another session that knows it cannot use it. */
static void a_handle_is_worth_nothing_elsewhere(void **state)
{
	struct raw owner, thief;
	uint32_t volume;

	(void)state;
	raw_init(&owner);
	assert_true(raw_connect(&owner, hostile_host()));
	volume = raw_open(&owner, "mem");
	raw_init(&thief);
	assert_true(raw_connect(&thief, hostile_host()));
	raw_io(&thief, RBLK_OP_READ, 1, volume, 0, 1, BLOCK);
	assert_int_equal(raw_wait(&thief, 1), RBLK_E_NO_VOLUME);
	raw_close(&thief);
	raw_close(&owner);
}

/* -- session commands -------------------------------------------------------------------------- */

/* Two queues of a session: a command of the first is INVALID on the second, and no offence. */
static void what_is_for_queue_0_is_invalid_elsewhere(void **state)
{
	struct raw first, second;

	(void)state;
	raw_init(&first);
	first.login.queue_count = rblk_to_le16(2);
	assert_true(raw_connect(&first, hostile_host()));
	raw_init(&second);
	second.login = first.login;
	second.login.queue_index = rblk_to_le16(1);
	assert_true(raw_connect(&second, hostile_host()));
	assert_int_equal(raw_open(&second, "mem"), 0);
	assert_int_equal(rblk_le16(second.last[0].status), RBLK_E_INVALID);
	assert_int_equal(raw_close_handle(&second, 1), RBLK_E_INVALID);
	assert_int_equal(raw_simple(&second, RBLK_OP_KEEPALIVE, 0), RBLK_OK);
	raw_close(&second);
	raw_close(&first);
}

/* -- payloads (section 6.1) -------------------------------------------------------------------- */

/* One byte of a payload that is otherwise right. */
static const struct payload {
	const char *what;
	uint8_t opcode;
	uint16_t offset;
	uint8_t byte;
	enum rblk_status status;
} payloads[] = {
	{"as it should be", RBLK_OP_OPEN, 0, 'm', RBLK_OK},
	{"no such volume", RBLK_OP_OPEN, 0, 'n', RBLK_E_NO_VOLUME},
	{"no name", RBLK_OP_OPEN, 0, 0, RBLK_E_INVALID},
	{"a space in the name", RBLK_OP_OPEN, 1, ' ', RBLK_E_INVALID},
	{"a slash in the name", RBLK_OP_OPEN, 1, '/', RBLK_E_INVALID},
	{"a letter of another alphabet", RBLK_OP_OPEN, 1, 0xe4, RBLK_E_INVALID},
	{"something after the name", RBLK_OP_OPEN, 40, 'x', RBLK_E_INVALID},
	{"a name that is not terminated", RBLK_OP_OPEN, 63, 'x', RBLK_E_INVALID},
	{"an unknown flag", RBLK_OP_OPEN, 64, 0x08, RBLK_E_INVALID},
	{"a need that is not met", RBLK_OP_OPEN, 64, RBLK_OPEN_NEED_FLUSH, RBLK_E_UNSUPPORTED},
	{"another need", RBLK_OP_OPEN, 64, RBLK_OPEN_NEED_FUA, RBLK_E_UNSUPPORTED},
	{"a reserved byte", RBLK_OP_OPEN, 68, 1, RBLK_E_INVALID},
	{"something behind the payload", RBLK_OP_OPEN, 511, 1, RBLK_E_INVALID},
	{"as it should be", RBLK_OP_IDENTIFY, 0, 'm', RBLK_OK},
	{"no name", RBLK_OP_IDENTIFY, 0, 0, RBLK_E_INVALID},
	{"a line feed in the name", RBLK_OP_IDENTIFY, 1, '\n', RBLK_E_INVALID},
	{"a line feed in the software's name", RBLK_OP_IDENTIFY, 65, '\n', RBLK_E_INVALID},
	{"no software", RBLK_OP_IDENTIFY, 64, 0, RBLK_E_INVALID},
	{"a reserved byte", RBLK_OP_IDENTIFY, 191, 1, RBLK_E_INVALID},
	{"something behind the payload", RBLK_OP_IDENTIFY, 192, 1, RBLK_E_INVALID},
};

static uint16_t payload_status(struct raw *raw, const struct payload *payload)
{
	struct rblk_wire_command *command = raw_command(raw, CAPSULE, 0);
	char *told = raw->memory + RAW_SEND;

	memset(told, 0, CAPSULE);
	strcpy(told, "mem");
	if (payload->opcode == RBLK_OP_IDENTIFY)
		strcpy(told + 64, "test 1");
	told[payload->offset] = (char)payload->byte;
	raw_fill(raw, command, 0, payload->opcode, 1);
	command->flags = RBLK_CMD_CAPSULE;
	command->segment.length = rblk_to_le32(CAPSULE);
	if (payload->opcode == RBLK_OP_OPEN) {
		command->volume = rblk_to_le32(1);
		command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_DATA);
		command->segment.rkey = key(raw);
	}
	raw_send(raw, CAPSULE + 64);
	return raw_wait(raw, 1);
}

static void every_payload_has_its_status(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, hostile_host()));
	for (unsigned int i = 0; i < UNIT_LENGTH(payloads); i++) {
		print_message("%s\n", payloads[i].what);
		assert_int_equal(payload_status(&raw, &payloads[i]), payloads[i].status);
	}
	raw_close(&raw);
	hostile_goes_on();
}

static const char *rule(unsigned int index)
{
	return index < UNIT_LENGTH(orders) ? orders[index].rule : NULL;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_order_has_its_status),
		cmocka_unit_test(a_handle_is_worth_nothing_elsewhere),
		cmocka_unit_test(what_is_for_queue_0_is_invalid_elsewhere),
		cmocka_unit_test(every_payload_has_its_status),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, hostile_start, hostile_stop);
}
