/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The initiator of reserver.h. */
#include "tests/e2e/reserver.h"

#include <string.h>
#include "tests/unit/unit.h"

static void payload(struct raw *raw, const void *data, size_t bytes)
{
	memset(raw->memory + RAW_SEND, 0, RBLK_CAPSULE_ALIGN);
	memcpy(raw->memory + RAW_SEND, data, bytes);
}

struct rblk_wire_command *reserver_with_payload(struct raw *raw, uint8_t opcode, uint16_t tag,
						const void *data, size_t bytes)
{
	struct rblk_wire_command *command = raw_command(raw, RBLK_CAPSULE_ALIGN, 0);

	payload(raw, data, bytes);
	raw_fill(raw, command, 0, opcode, tag);
	command->flags = RBLK_CMD_CAPSULE;
	command->segment.length = rblk_to_le32(RBLK_CAPSULE_ALIGN);
	return command;
}

void reserver_identify(struct raw *raw, const char *name)
{
	struct rblk_wire_identify who = {.software = "test"};

	strcpy(who.initiator, name);
	reserver_with_payload(raw, RBLK_OP_IDENTIFY, 0, &who, sizeof(who));
	raw_send(raw, RBLK_CAPSULE_ALIGN + 64);
	assert_int_equal(raw_wait(raw, 0), RBLK_OK);
}

void reserver_connect(struct reserver *host, const char *address, const char *name,
		      const char *volume)
{
	memset(host, 0, sizeof(*host));
	raw_init(&host->raw);
	assert_true(raw_connect(&host->raw, address));
	if (name)
		reserver_identify(&host->raw, name);
	host->volume = raw_open(&host->raw, volume);
	assert_int_not_equal(host->volume, 0);
}

void reserver_begin(struct reserver *host, const struct rblk_wire_reservation *reservation,
		    uint64_t operation, uint8_t flags)
{
	struct rblk_wire_command *command = reserver_with_payload(
		&host->raw, RBLK_OP_RESERVE, 5, reservation, sizeof(*reservation));

	command->flags |= flags;
	command->volume = rblk_to_le32(host->volume);
	command->argument = rblk_to_le64(operation);
	raw_send(&host->raw, RBLK_CAPSULE_ALIGN + 64);
}

const struct rblk_wire_reservation_report *reserver_report(struct reserver *host, uint32_t bytes)
{
	struct rblk_wire_command *command = raw_command(&host->raw, 0, 0);

	memset(host->raw.memory + REPORT, 0x77, 65536);
	raw_fill(&host->raw, command, 0, RBLK_OP_RESERVATIONS, 6);
	command->volume = rblk_to_le32(host->volume);
	command->segment.address = rblk_to_le64((uintptr_t)host->raw.memory + REPORT);
	command->segment.rkey =
		rblk_to_le32(fab_mr_rkey(host->raw.mr, fab_conn_device(host->raw.conn)));
	command->segment.length = rblk_to_le32(bytes);
	raw_send(&host->raw, 64);
	assert_int_equal(raw_wait(&host->raw, 6), RBLK_OK);
	return (const void *)(host->raw.memory + REPORT);
}

const struct rblk_wire_registrant *reserver_registrants(struct reserver *host)
{
	return (const void *)(host->raw.memory + REPORT +
			      sizeof(struct rblk_wire_reservation_report));
}

/* -- I/O --------------------------------------------------------------------------------------- */

void reserver_io_begin(struct reserver *host, uint8_t opcode, uint16_t tag, uint64_t lba,
		       int pattern)
{
	if (opcode == RBLK_OP_WRITE)
		memset(host->raw.memory + RAW_DATA, pattern, BYTES);
	raw_io(&host->raw, opcode, tag, host->volume, lba, BYTES / BLOCK, BYTES);
}

uint16_t reserver_no_data(struct reserver *host, uint8_t opcode)
{
	struct rblk_wire_command *command = raw_command(&host->raw, 0, 0);

	raw_fill(&host->raw, command, 0, opcode, 2);
	command->volume = rblk_to_le32(host->volume);
	if (opcode != RBLK_OP_FLUSH)
		command->blocks = rblk_to_le32(BYTES / BLOCK);
	raw_send(&host->raw, 64);
	return raw_wait(&host->raw, 2);
}

uint16_t reserver_in_capsule(struct reserver *host)
{
	struct rblk_wire_command *command = raw_command(&host->raw, BYTES, 0);

	raw_fill(&host->raw, command, 0, RBLK_OP_WRITE, 2);
	command->flags = RBLK_CMD_CAPSULE;
	command->volume = rblk_to_le32(host->volume);
	command->blocks = rblk_to_le32(BYTES / BLOCK);
	command->segment.length = rblk_to_le32(BYTES);
	raw_send(&host->raw, BYTES + 64);
	return raw_wait(&host->raw, 2);
}

const struct reserver_rights reserver_rights[RESERVER_TYPES] = {
	{RBLK_RESERVATION_WRITE_EXCLUSIVE, true, false, true},
	{RBLK_RESERVATION_EXCLUSIVE_ACCESS, false, false, false},
	{RBLK_RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS, true, true, true},
	{RBLK_RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS, true, true, false},
	{RBLK_RESERVATION_WRITE_EXCLUSIVE_ALL, true, true, true},
	{RBLK_RESERVATION_EXCLUSIVE_ACCESS_ALL, true, true, false},
};

void reserver_assert_may(struct reserver *host, bool reads, bool writes)
{
	static const uint8_t readers[] = {RBLK_OP_CHECKSUM},
			     writers[] = {RBLK_OP_FLUSH, RBLK_OP_DISCARD, RBLK_OP_WRITE_ZEROES};

	reserver_io_begin(host, RBLK_OP_READ, 2, 0, 0);
	assert_int_equal(raw_wait(&host->raw, 2), reads ? RBLK_OK : RBLK_E_RESERVED);
	reserver_io_begin(host, RBLK_OP_WRITE, 2, 0, 'm');
	assert_int_equal(raw_wait(&host->raw, 2), writes ? RBLK_OK : RBLK_E_RESERVED);
	assert_int_equal(reserver_in_capsule(host), writes ? RBLK_OK : RBLK_E_RESERVED);
	for (unsigned int i = 0; i < UNIT_LENGTH(readers); i++)
		assert_int_equal(reserver_no_data(host, readers[i]),
				 reads ? RBLK_OK : RBLK_E_RESERVED);
	for (unsigned int i = 0; i < UNIT_LENGTH(writers); i++)
		assert_int_equal(reserver_no_data(host, writers[i]),
				 writes ? RBLK_OK : RBLK_E_RESERVED);
}

void reserver_assert_reads(struct reserver *host, uint64_t lba, int pattern)
{
	memset(host->raw.memory + RAW_DATA, ~pattern, BYTES);
	reserver_io_begin(host, RBLK_OP_READ, 3, lba, 0);
	assert_int_equal(raw_wait(&host->raw, 3), RBLK_OK);
	for (unsigned int i = 0; i < BYTES; i++)
		assert_int_equal(host->raw.memory[RAW_DATA + i], (char)pattern);
}
