/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a message becomes requests.
 */
#include "target/io/message.h"

#include "proto/wire/wire_check.h"
#include "target/io/request.h"

/* The checks that need the I/O queue's state. NULL, or the broken rule. */
static const char *command_rule(const struct tgt_io_queue *io_queue,
				const struct rblk_wire_command *command)
{
	uint16_t tag = rblk_le16(command->tag);

	if (tag >= io_queue->tags)
		return "tag beyond the credits granted";
	if (io_queue->requests[tag].state != TGT_REQUEST_FREE)
		return "tag is in use";
	if (rblk_le32(command->sequence) != io_queue->sequence)
		return "sequence number is not the next";
	if (tag >= io_queue->credits && !rblk_opcode_reserved_tag(command->opcode))
		return "reserved tag used for I/O";
	return NULL;
}

void tgt_message_receive(struct tgt_io_queue *io_queue, struct tgt_receives *receives, uint32_t index,
			 uint32_t bytes)
{
	char *message = tgt_receives_buffer(receives, index);
	const struct rblk_wire_command *commands;
	enum rblk_wire_error error;
	u32 capsule_bytes;
	u16 count;

	io_queue->totals.messages_in++;
	tgt_io_queue_heard(io_queue);
	error = rblk_check_message(message, bytes, io_queue->features, RBLK_BATCH_MAX,
				   io_queue->command_bytes, &commands, &count, &capsule_bytes);
	if (error) {
		tgt_io_queue_violation(io_queue, rblk_wire_error_text(error));
		return;
	}
	for (u16 i = 0; i < count && io_queue->open; i++) {
		const char *rule = command_rule(io_queue, &commands[i]);
		u32 offset = 0, length = 0;
		bool capsule;

		if (rule) {
			tgt_io_queue_violation(io_queue, rule);
			return;
		}
		io_queue->sequence++;
		capsule = rblk_command_capsule(&commands[i], &offset, &length);
		tgt_request_begin(&io_queue->requests[rblk_le16(commands[i].tag)], &commands[i],
				  capsule ? message + offset : NULL, length, index);
	}
}
