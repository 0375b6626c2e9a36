// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Digests of data, see command.h. Data in a slot is digested there, because that is what is sent; a
 * page may change while it is copied. The pages of larger writes are stable (rblk_limits.stable),
 * or their writer's own affair.
 */
#include <linux/highmem.h>

#include "kmod/command.h"
#include "kmod/compat.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "proto/core/digest.h"

static u32 rblk_digest(struct rblk_io *io)
{
	const struct rblk_command *command = &io->command;
	struct request *rq = rblk_io_rq(io);
	struct req_iterator iter;
	u32 crc = ~0u, left = command->bytes;
	struct bio_vec bv;

	if (command->memory == RBLK_MEMORY_SLOT || command->memory == RBLK_MEMORY_CAPSULE)
		return ~crc32c(crc, rblk_memory_slot(command->queue, command->tag), command->bytes);
	rq_for_each_segment(bv, rq, iter) {
		void *data;

		if (!left)
			break;
		left -= bv.bv_len;
		data = bvec_kmap_local(&bv);
		crc = crc32c(crc, data, bv.bv_len);
		kunmap_local(data);
	}
	return ~crc;
}

void rblk_digest_add(struct rblk_io *io)
{
	struct rblk_wire_command *wire = &io->command.wire;

	if (!(io->command.queue->features & RBLK_FEATURE_DIGEST))
		return;
	wire->flags |= RBLK_CMD_DIGEST;
	/* An immediate has no room for one. */
	wire->flags &= (u8)~RBLK_CMD_IMMEDIATE;
	if (wire->opcode == RBLK_OP_WRITE)
		wire->digest = rblk_to_le32(rblk_digest(io));
}

bool rblk_digest_matches(struct rblk_io *io)
{
	const struct rblk_command *command = &io->command;

	if (!core_digest_asked(&command->wire))
		return true;
	if (command->memory == RBLK_MEMORY_SLOT)
		rblk_memory_sync_slot(command->queue, command->tag, false);
	else
		rblk_memory_unmap_pages(io);
	return rblk_digest(io) == command->digest;
}
