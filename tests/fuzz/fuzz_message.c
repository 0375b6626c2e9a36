/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: no command message breaks its validator. In a message that passes, the descriptors are the
 * message's end, their in-capsule ranges tile its beginning, every descriptor is also valid alone,
 * and no segment wraps. Method: the first bytes are the queue's contract (features, batch, longest
 * message), the rest is the message. The tiling is proved by marking bytes, not by the validator's
 * own arithmetic.
 */
#include "tests/fuzz/fuzz.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

static void check_one(const struct rblk_wire_command *command, u32 features)
{
	u64 address = rblk_le64(command->segment.address);
	u32 length = rblk_le32(command->segment.length);
	u8 flags = command->flags;

	FUZZ_ASSERT(rblk_check_command(command, features) == RBLK_WIRE_OK);
	FUZZ_ASSERT(strcmp(rblk_opcode_name(command->opcode), "unknown opcode"));
	FUZZ_ASSERT(address + length >= address);
	FUZZ_ASSERT(length <= RBLK_IO_BYTES_MAX);
	FUZZ_ASSERT(!(flags & RBLK_CMD_IMMEDIATE) || features & RBLK_FEATURE_IMMEDIATE);
	FUZZ_ASSERT(!(flags & RBLK_CMD_PRIORITY) ||
		    (features & RBLK_FEATURE_PRIORITY && command->opcode < RBLK_OP_IDENTIFY));
	FUZZ_ASSERT(!(flags & RBLK_CMD_IMMEDIATE) || command->opcode == RBLK_OP_READ);
	FUZZ_ASSERT(!(flags & RBLK_CMD_UNTORN) || command->opcode == RBLK_OP_WRITE_ZEROES ||
		    (command->opcode == RBLK_OP_WRITE && features & RBLK_FEATURE_UNTORN));
	FUZZ_ASSERT(!(flags & RBLK_CMD_INVALIDATE) || features & RBLK_FEATURE_INVALIDATE);
	FUZZ_ASSERT(rblk_le16(command->tag) < RBLK_CREDITS_MAX + RBLK_RESERVED_TAGS);
	if (rblk_opcode_direction(command->opcode) != RBLK_DATA_NONE)
		FUZZ_ASSERT(length > 0);
	if (command->blocks)
		FUZZ_ASSERT(command->volume);
}

static void check_message(const u8 *message, size_t size, u32 features,
			  const struct rblk_wire_command *commands, u16 count, u32 capsule_bytes)
{
	u8 *owned = calloc(1, capsule_bytes + 1);
	u32 offset, length, i, end = 0;

	FUZZ_ASSERT(owned);
	FUZZ_ASSERT(count >= 1 && count <= RBLK_BATCH_MAX);
	FUZZ_ASSERT((const u8 *)commands == message + capsule_bytes);
	FUZZ_ASSERT((const u8 *)(commands + count) == message + size);
	for (i = 0; i < count; i++) {
		FUZZ_ASSERT(commands[i].index == i);
		check_one(&commands[i], features);
		if (!rblk_command_capsule(&commands[i], &offset, &length))
			continue;
		FUZZ_ASSERT(offset >= end && length <= capsule_bytes - offset);
		FUZZ_ASSERT(offset % RBLK_CAPSULE_ALIGN == 0);
		FUZZ_ASSERT(length && length % RBLK_CAPSULE_ALIGN == 0);
		memset(owned + offset, 1, length);
		end = offset + length;
	}
	for (i = 0; i < capsule_bytes; i++)
		FUZZ_ASSERT(owned[i]);
	free(owned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rblk_wire_command *commands = NULL;
	u32 features = fuzz_take(&data, &size, 2) & RBLK_FEATURES_ALL;
	u16 max_batch = (u16)fuzz_take(&data, &size, 1);
	u32 command_bytes = fuzz_take(&data, &size, 3);
	u32 capsule_bytes = 0;
	u16 count = 0;
	void *message = fuzz_copy(data, size);

	if (rblk_check_message(message, size, features, max_batch, command_bytes, &commands,
			       &count, &capsule_bytes) == RBLK_WIRE_OK) {
		FUZZ_ASSERT(size <= command_bytes);
		FUZZ_ASSERT(count <= max_batch);
		check_message(message, size, features, commands, count, capsule_bytes);
	} else {
		FUZZ_ASSERT(!commands);
	}
	free(message);
	return 0;
}
