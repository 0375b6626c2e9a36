/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the beginning of I/O: checks what the caller asks for against the volume, finds the buffer
 * and a credit, and fills the descriptor. No system call and no allocation.
 */
#include "initiator/io.h"

#include "initiator/session.h"
#include "initiator/volume.h"

int ini_io_check_range(const struct rblk_volume *volume, u64 bytes, u64 offset, u64 max_bytes)
{
	const struct rblk_volume_info *info = &volume->info;

	if (!bytes || bytes > max_bytes || (bytes | offset) & (info->block_bytes - 1))
		return -EINVAL;
	if (offset > info->bytes || bytes > info->bytes - offset)
		return -ERANGE;
	return 0;
}

/* The queue whose turn it is, or the next that has a credit. */
static struct ini_slot *take_slot(struct rblk_session *session)
{
	for (u16 i = 0; i < session->queue_count; i++) {
		u16 index = (u16)((session->next_queue + i) % session->queue_count);
		struct ini_slot *slot = ini_slot_take(&session->queues[index], false);

		if (slot)
			return slot;
	}
	return NULL;
}

/* In the capsule where volume, target and device agree to it, else by the target's RDMA. */
static int attach_data(struct rblk_volume *volume, struct ini_slot *slot, const struct ini_io *io)
{
	const struct ini_queue *queue = slot->queue;
	struct rblk_wire_command *command = &slot->command;
	struct ini_buffer *buffer =
		ini_buffer_find(volume->session, queue->device, io->data, io->bytes);

	if (!buffer)
		return -EFAULT;
	if (!buffer->lkey && !buffer->rkey)
		return -EIO;
	command->segment.length = rblk_to_le32((u32)io->bytes);
	if (io->opcode == RBLK_OP_WRITE && io->bytes <= volume->info.max_capsule_bytes &&
	    io->bytes <= queue->capsule_max) {
		command->flags |= RBLK_CMD_CAPSULE;
		slot->capsule = io->data;
		slot->capsule_bytes = (u32)io->bytes;
		slot->capsule_lkey = buffer->lkey;
	} else {
		command->segment.address = rblk_to_le64((uintptr_t)io->data);
		command->segment.rkey = rblk_to_le32(buffer->rkey);
		slot->data_bytes = (u32)io->bytes;
	}
	slot->buffer = buffer;
	buffer->users++;
	return 0;
}

/* The report goes to memory of the library's own. */
static void attach_report(struct rblk_session *session, struct ini_slot *slot,
			  const struct ini_io *io)
{
	struct rblk_wire_segment *segment = &slot->command.segment;

	/* What an earlier report left here must not be taken for this one's. */
	memset(io->report, 0, io->report_bytes);
	segment->address = rblk_to_le64((uintptr_t)io->report);
	segment->rkey = rblk_to_le32(fab_mr_rkey(session->control_mr, slot->queue->device));
	segment->length = rblk_to_le32(io->report_bytes);
}

int ini_io_start(struct rblk_volume *volume, const struct ini_io *io)
{
	struct rblk_session *session = volume->session;
	struct rblk_wire_command *command;
	struct ini_queue *queue;
	struct ini_slot *slot;
	int err;

	if (session->state != INI_SESSION_READY)
		return -ENOTCONN;
	if (volume->changing)
		return -EBUSY;
	slot = take_slot(session);
	if (!slot)
		return -EAGAIN;
	queue = slot->queue;
	command = &slot->command;
	command->opcode = io->opcode;
	command->flags = io->flags;
	command->volume = rblk_to_le32(volume->handle);
	command->lba = rblk_to_le64(io->offset >> volume->block_shift);
	command->blocks = rblk_to_le32((u32)(io->bytes >> volume->block_shift));
	/* Features are agreed for each queue. */
	if (io->opcode == RBLK_OP_EXTENTS && !(queue->features & RBLK_FEATURE_EXTENTS))
		err = -EOPNOTSUPP;
	else
		err = io->data ? attach_data(volume, slot, io) : 0;
	if (err) {
		ini_slot_put(slot);
		return err;
	}
	if (io->report)
		attach_report(session, slot, io);
	if (io->opcode == RBLK_OP_READ && queue->features & RBLK_FEATURE_IMMEDIATE)
		command->flags |= RBLK_CMD_IMMEDIATE;
	slot->volume = volume;
	slot->done = io->done;
	slot->arg = io->arg;
	volume->inflight++;
	ini_slot_start(slot);
	/* A full message gains nothing by waiting. A failure is the session's, told by callback. */
	if (queue->pending_count >= queue->limits.commands) {
		session->now_ns = env_now_ns();
		ini_queue_doorbell(queue);
	}
	return 0;
}

/* -- the calls --------------------------------------------------------------------------------- */

int rblk_read(struct rblk_volume *volume, void *data, size_t bytes, uint64_t offset, uint32_t flags,
	      rblk_callback done, void *arg)
{
	int err = ini_io_check_range(volume, bytes, offset, volume->info.max_io_bytes);

	if (flags || !data || !done)
		return -EINVAL;
	if (err)
		return err;
	return ini_io_start(volume, &(struct ini_io){.opcode = RBLK_OP_READ,
						     .data = data,
						     .bytes = bytes,
						     .offset = offset,
						     .done = done,
						     .arg = arg});
}

int rblk_write(struct rblk_volume *volume, const void *data, size_t bytes, uint64_t offset,
	       uint32_t flags, rblk_callback done, void *arg)
{
	int err = ini_io_check_range(volume, bytes, offset, volume->info.max_io_bytes);

	if (flags & ~(u32)RBLK_IO_FUA || !data || !done)
		return -EINVAL;
	if (volume->info.read_only)
		return -EROFS;
	if (flags & RBLK_IO_FUA && !volume->info.can_fua)
		return -EOPNOTSUPP;
	if (err)
		return err;
	return ini_io_start(volume,
			    &(struct ini_io){.opcode = RBLK_OP_WRITE,
					     .flags = flags & RBLK_IO_FUA ? RBLK_CMD_FUA : 0,
					     .data = data,
					     .bytes = bytes,
					     .offset = offset,
					     .done = done,
					     .arg = arg});
}

int rblk_flush(struct rblk_volume *volume, rblk_callback done, void *arg)
{
	if (!done)
		return -EINVAL;
	if (!volume->info.can_flush)
		return -EOPNOTSUPP;
	return ini_io_start(volume,
			    &(struct ini_io){.opcode = RBLK_OP_FLUSH, .done = done, .arg = arg});
}

int rblk_discard(struct rblk_volume *volume, uint64_t bytes, uint64_t offset, rblk_callback done,
		 void *arg)
{
	int err = ini_io_check_range(volume, bytes, offset, volume->info.max_discard_bytes);

	if (!done)
		return -EINVAL;
	if (volume->info.read_only)
		return -EROFS;
	if (!volume->info.can_discard)
		return -EOPNOTSUPP;
	if (err)
		return err;
	return ini_io_start(volume, &(struct ini_io){.opcode = RBLK_OP_DISCARD,
						     .bytes = bytes,
						     .offset = offset,
						     .done = done,
						     .arg = arg});
}

int rblk_write_zeroes(struct rblk_volume *volume, uint64_t bytes, uint64_t offset, uint32_t flags,
		      rblk_callback done, void *arg)
{
	int err = ini_io_check_range(volume, bytes, offset, volume->info.max_discard_bytes);
	u8 wire_flags = 0;

	if (flags & ~(u32)(RBLK_IO_FUA | RBLK_IO_NO_UNMAP) || !done)
		return -EINVAL;
	if (volume->info.read_only)
		return -EROFS;
	if (!volume->info.can_write_zeroes || (flags & RBLK_IO_FUA && !volume->info.can_fua))
		return -EOPNOTSUPP;
	if (err)
		return err;
	if (flags & RBLK_IO_FUA)
		wire_flags |= RBLK_CMD_FUA;
	if (flags & RBLK_IO_NO_UNMAP)
		wire_flags |= RBLK_CMD_NO_UNMAP;
	return ini_io_start(volume, &(struct ini_io){.opcode = RBLK_OP_WRITE_ZEROES,
						     .flags = wire_flags,
						     .bytes = bytes,
						     .offset = offset,
						     .done = done,
						     .arg = arg});
}

int rblk_checksum(struct rblk_volume *volume, uint64_t bytes, uint64_t offset, rblk_callback done,
		  void *arg)
{
	/* No data moves, so that only the descriptor's count of blocks bounds it. */
	u64 max_bytes = (u64)UINT32_MAX << volume->block_shift;
	int err = ini_io_check_range(volume, bytes, offset, max_bytes);

	if (!done)
		return -EINVAL;
	if (!volume->info.can_checksum)
		return -EOPNOTSUPP;
	if (err)
		return err;
	return ini_io_start(volume, &(struct ini_io){.opcode = RBLK_OP_CHECKSUM,
						     .bytes = bytes,
						     .offset = offset,
						     .done = done,
						     .arg = arg});
}
