/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a message becomes requests.
 */
#include "target/io/message.h"

#include "proto/wire/wire_check.h"
#include "target/io/request.h"

/* The checks that need the lane's state. NULL, or the broken rule. */
static const char *command_rule(const struct tgt_lane *lane,
				const struct rblk_wire_command *command)
{
	uint16_t tag = rblk_le16(command->tag);

	if (tag >= lane->tags)
		return "tag beyond the credits granted";
	if (lane->requests[tag].state != TGT_REQUEST_FREE)
		return "tag is in use";
	if (rblk_le32(command->sequence) != lane->sequence)
		return "sequence number is not the next";
	if (tag >= lane->credits && !rblk_opcode_reserved_tag(command->opcode))
		return "reserved tag used for I/O";
	return NULL;
}

void tgt_message_receive(struct tgt_lane *lane, struct tgt_receives *receives, uint32_t index,
			 uint32_t bytes)
{
	char *message = tgt_receives_buffer(receives, index);
	const struct rblk_wire_command *commands;
	enum rblk_wire_error error;
	u32 capsule_bytes;
	u16 count;

	lane->messages_in++;
	tgt_lane_heard(lane);
	error = rblk_check_message(message, bytes, lane->features, RBLK_BATCH_MAX,
				   lane->command_bytes, &commands, &count, &capsule_bytes);
	if (error) {
		tgt_lane_violation(lane, rblk_wire_error_text(error));
		return;
	}
	for (u16 i = 0; i < count && lane->open; i++) {
		const char *rule = command_rule(lane, &commands[i]);
		u32 offset = 0, length = 0;
		bool capsule;

		if (rule) {
			tgt_lane_violation(lane, rule);
			return;
		}
		lane->sequence++;
		capsule = rblk_command_capsule(&commands[i], &offset, &length);
		tgt_request_begin(&lane->requests[rblk_le16(commands[i].tag)], &commands[i],
				  capsule ? message + offset : NULL, length, index);
	}
}
