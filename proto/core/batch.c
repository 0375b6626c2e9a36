/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the arithmetic of one command message, see batch.h.
 */
#include "proto/core/batch.h"

void core_batch_init(struct core_batch *batch, const struct core_batch_limits *limits)
{
	batch->limits = *limits;
	batch->capsule_bytes = 0;
	batch->commands = 0;
	batch->segments = 1;
}

bool core_batch_fits(const struct core_batch *batch, u32 capsule_bytes, u16 segments)
{
	const struct core_batch_limits *limits = &batch->limits;
	u32 used = core_batch_bytes(batch) + (u32)sizeof(struct rblk_wire_command);

	if (batch->commands >= limits->commands || used > limits->message_bytes)
		return false;
	if (!capsule_bytes)
		return true;
	return batch->segments + segments <= limits->segments &&
	       capsule_bytes <= limits->message_bytes - used &&
	       capsule_bytes <= RBLK_CAPSULE_DATA_MAX - batch->capsule_bytes;
}

void core_batch_add(struct core_batch *batch, struct rblk_wire_command *command, u32 capsule_bytes,
		    u16 segments)
{
	command->index = (u8)batch->commands++;
	if (!capsule_bytes)
		return;
	/* These two send a payload and get a report: their segment is the report's memory. */
	if (command->opcode == RBLK_OP_OPEN || command->opcode == RBLK_OP_AUTHENTICATE)
		command->argument = rblk_to_le64(batch->capsule_bytes);
	else
		command->segment.address = rblk_to_le64(batch->capsule_bytes);
	batch->capsule_bytes += capsule_bytes;
	batch->segments += segments;
}

u32 core_batch_capsule_max(const struct core_batch_limits *limits)
{
	u32 most;

	if (limits->segments < 2 || limits->message_bytes <= sizeof(struct rblk_wire_command))
		return 0;
	most = limits->message_bytes - (u32)sizeof(struct rblk_wire_command);
	if (most > RBLK_CAPSULE_DATA_MAX)
		most = RBLK_CAPSULE_DATA_MAX;
	return most - most % RBLK_CAPSULE_ALIGN;
}
