/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the arithmetic of one command message, and when it is sent: see batch.h.
 */
#include "proto/core/batch.h"

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

void core_batch_init(struct core_batch *batch, const struct core_batch_limits *limits)
{
	batch->limits = *limits;
	batch->capsule_bytes = 0;
	batch->commands = 0;
	batch->segments = 1;
	batch->waited_by = CORE_WAITED_BY_NONE;
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

static enum core_waited_by core_waited_by(const struct rblk_wire_command *command)
{
	if (command->flags & RBLK_CMD_PRIORITY)
		return CORE_WAITED_BY_NONE;
	return rblk_le32(command->segment.length) < CORE_BATCH_LARGE ? CORE_WAITED_BY_ALL : CORE_WAITED_BY_LARGE;
}

void core_batch_add(struct core_batch *batch, struct rblk_wire_command *command, u32 capsule_bytes,
		    u16 segments)
{
	enum core_waited_by waited_by = core_waited_by(command);

	command->index = (u8)batch->commands;
	/* These two send a payload and get a report: their segment is the report's memory. */
	if (capsule_bytes &&
	    (command->opcode == RBLK_OP_OPEN || command->opcode == RBLK_OP_AUTHENTICATE))
		command->argument = rblk_to_le64(batch->capsule_bytes);
	else if (capsule_bytes)
		command->segment.address = rblk_to_le64(batch->capsule_bytes);
	if (batch->waited_by < waited_by)
		batch->waited_by = (u8)waited_by;
	batch->commands++;
	batch->capsule_bytes += capsule_bytes;
	if (capsule_bytes)
		batch->segments += segments;
}

void core_clock_add(struct core_clock *clock, const struct rblk_wire_command *command, u32 capsule_bytes)
{
	clock->bytes += (u32)sizeof(*command) + capsule_bytes;
	clock->small |= core_waited_by(command) == CORE_WAITED_BY_ALL;
}

bool core_clock_busy(const struct core_clock *clock)
{
	return !clock->arrived &&
	       (clock->sending[CORE_WAITED_BY_ALL] || (!clock->small && clock->sending[CORE_WAITED_BY_LARGE]));
}

bool core_clock_waits(struct core_clock *clock)
{
	clock->owed = clock->bytes && clock->bytes < CORE_CLOCK_BYTES && core_clock_busy(clock);
	return clock->owed;
}

void core_clock_emptied(struct core_clock *clock)
{
	clock->bytes = 0;
	clock->small = clock->owed = false;
}

void core_clock_sent(struct core_clock *clock, enum core_waited_by waited_by, u32 number)
{
	clock->sending[waited_by]++;
	if (waited_by == CORE_WAITED_BY_NONE)
		return;
	clock->last = number;
	clock->arrived = false;
}

bool core_clock_answered(struct core_clock *clock, u32 number)
{
	if ((int)(number - clock->last) < 0)
		return false;
	clock->arrived = true;
	return clock->owed;
}

bool core_clock_completed(struct core_clock *clock, enum core_waited_by waited_by)
{
	clock->sending[waited_by]--;
	return clock->owed && !core_clock_busy(clock);
}
