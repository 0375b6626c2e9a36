/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the digests of a session that has asked for them (RBLK_FEATURE_DIGEST): what goes out has the
 * CRC32C of its data, which the target checks before it stores anything; what comes in is compared with the
 * target's. complete.c sends a command again whose data does not match.
 */
#include "initiator/queue.h"

#include "initiator/io.h"
#include "proto/digest/digest.h"

static u32 gather_digest(const struct ini_gather *gather)
{
	u32 digest = 0;

	for (u16 i = 0; i < gather->count; i++)
		digest = rblk_digest(digest, (const void *)(uintptr_t)gather->sge[i].addr,
				     gather->sge[i].length);
	return digest;
}

void ini_digest_add(struct ini_slot *slot, const struct ini_io *io)
{
	struct rblk_wire_command *command = &slot->command;

	if (!(slot->queue->features & RBLK_FEATURE_DIGEST) || (!io->data && !io->gather))
		return;
	command->flags |= RBLK_CMD_DIGEST;
	/* A read asks for one. */
	if (io->opcode != RBLK_OP_READ)
		command->digest = rblk_to_le32(
			io->gather ? gather_digest(io->gather)
				   : rblk_digest(0, io->data, ini_io_data_bytes(io)));
}

bool ini_digest_matches(const struct ini_slot *slot, const struct rblk_wire_completion *completion)
{
	const void *data = (const void *)(uintptr_t)rblk_le64(slot->command.segment.address);

	return !(completion->flags & RBLK_CPL_DIGEST) ||
	       rblk_digest(0, data, slot->data_bytes) == rblk_le32(completion->digest);
}
