/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The commands of hostile_base.h.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include "tests/e2e/hostile_base.h"

#define MAY_BE_CAPSULE (RBLK_CMD_FUA | RBLK_CMD_CAPSULE)
#define BLOCKS .volume = true, .blocks = true, .any_lba = true
#define VOLUME_REPORT sizeof(struct rblk_wire_volume)
#define AUTHENTICATE_REPORT sizeof(struct rblk_wire_authenticate)
#define RESERVATIONS_REPORT sizeof(struct rblk_wire_reservation_report)
#define PAYLOAD .flags = RBLK_CMD_CAPSULE, .flags_allowed = RBLK_CMD_CAPSULE

/* clang-format off */
const struct base bases[] = {
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
	{ .name = "OPEN", .opcode = RBLK_OP_OPEN, PAYLOAD, .where = IN_BOTH, .volume = true, .any_argument = true,
	  .report_bytes = VOLUME_REPORT },
	{ .name = "CLOSE", .opcode = RBLK_OP_CLOSE, .volume = true },
	{ .name = "FENCE", .opcode = RBLK_OP_FENCE, .any_lba = true, .argument = 1, .any_argument = true },
	{ .name = "ABORT", .opcode = RBLK_OP_ABORT, .any_lba = true },
	{ .name = "KEEPALIVE", .opcode = RBLK_OP_KEEPALIVE, .any_argument = true },
	{ .name = "PING", .opcode = RBLK_OP_PING },
};
/* clang-format on */

const unsigned int base_count = UNIT_LENGTH(bases);

const struct base *base_of(uint8_t opcode)
{
	for (unsigned int i = 0; i < base_count; i++)
		if (bases[i].opcode == opcode)
			return &bases[i];
	fail_msg("no base for opcode %u", opcode);
	return NULL;
}

uint32_t base_build(struct raw *raw, const struct base *base, uint16_t tag,
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
	if (base->where == IN_MEMORY || base->where == IN_BOTH)
		raw_segment(raw, command, base->report_bytes ? base->report_bytes : CAPSULE);
	*out = command;
	return capsule + 64;
}
