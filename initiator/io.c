/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the beginning of I/O: checks what the caller asks for against the volume, finds the buffer
 * and a credit, and fills the descriptor. No system call and no allocation.
 */
#include "initiator/io.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "initiator/durable.h"
#include "initiator/reopen_volumes.h"
#include "initiator/retry.h"
#include "initiator/route.h"
#include "initiator/session.h"
#include "proto/wire/wire_names.h"

int ini_io_refuse(const struct rblk_volume *volume, int error, const char *what, const char *format,
		  ...)
{
	struct rblk_session *session = volume->session;
	char reason[160];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	ini_session_note(session, "%s: volume \"%s\": %s: %s", ini_session_peer(session),
			 volume->info.name, what, reason);
	return error;
}

int ini_io_check_range(const struct rblk_volume *volume, const char *what, u64 bytes, u64 offset,
		       u64 max_bytes)
{
	const struct rblk_volume_info *info = &volume->info;

	if (!bytes)
		return ini_io_refuse(volume, -EINVAL, what, "the length is 0 bytes");
	if ((bytes | offset) & (info->block_bytes - 1))
		return ini_io_refuse(volume, -EINVAL, what,
				     "%" PRIu64 " bytes at byte %" PRIu64
				     " are not whole blocks of %u",
				     bytes, offset, info->block_bytes);
	if (bytes > max_bytes)
		return ini_io_refuse(volume, -EINVAL, what,
				     "%" PRIu64
				     " bytes are more than one command can have (%" PRIu64 ")",
				     bytes, max_bytes);
	if (offset > info->bytes || bytes > info->bytes - offset)
		return ini_io_refuse(volume, -ERANGE, what,
				     "%" PRIu64 " bytes at byte %" PRIu64
				     " end beyond the volume's %" PRIu64,
				     bytes, offset, info->bytes);
	return 0;
}

int ini_io_check(const struct rblk_volume *volume, const char *what, const struct ini_ask *ask)
{
	u32 unknown = ask->flags & ~(ask->flags_allowed | RBLK_IO_PRIORITY);

	if (!ask->done)
		return ini_io_refuse(volume, -EINVAL, what, "no callback is given");
	if (unknown)
		return ini_io_refuse(volume, -EINVAL, what, "unknown flags 0x%x", unknown);
	if (ask->writes && volume->info.read_only)
		return ini_io_refuse(volume, -EROFS, what, "the volume is read-only");
	if (!ask->able)
		return ini_io_refuse(volume, -EOPNOTSUPP, what, "the volume cannot do that");
	if (ask->flags & RBLK_IO_FUA && !volume->info.can_fua)
		return ini_io_refuse(volume, -EOPNOTSUPP, what, "the volume cannot do FUA");
	return 0;
}

static int refuse_data(const struct rblk_volume *volume, const struct ini_io *io)
{
	return ini_io_refuse(volume, -EFAULT, rblk_opcode_name(io->opcode),
			     "%" PRIu64 " bytes at %p do not lie within one buffer of the session",
			     ini_io_data_bytes(io), io->data);
}

int ini_io_check_buffer(const struct rblk_volume *volume, u8 opcode, const struct ini_buffer *buffer)
{
	if (opcode != RBLK_OP_READ || !buffer->read_only)
		return 0;
	return ini_io_refuse(volume, -EFAULT, rblk_opcode_name(opcode), "the buffer at %p is read-only",
			     (const void *)buffer->memory);
}

/* In the capsule where volume, target and device agree to it, else by the target's RDMA. */
static int attach_data(struct rblk_volume *volume, struct ini_slot *slot, const struct ini_io *io)
{
	const struct ini_queue *queue = slot->queue;
	struct rblk_wire_command *command = &slot->command;
	u64 bytes = ini_io_data_bytes(io);
	struct ini_buffer *buffer =
		ini_buffer_find(&volume->session->buffers, queue->device, io->data, bytes);
	bool goes_out = io->opcode == RBLK_OP_WRITE || io->opcode == RBLK_OP_COMPARE_AND_WRITE;

	if (!buffer)
		return refuse_data(volume, io);
	if (ini_io_check_buffer(volume, io->opcode, buffer))
		return -EFAULT;
	if (!buffer->lkey && !buffer->rkey)
		return -EIO;
	command->segment.length = rblk_to_le32((u32)bytes);
	if (goes_out && bytes <= volume->info.max_capsule_bytes &&
	    bytes <= queue->capsule_max) {
		command->flags |= RBLK_CMD_CAPSULE;
		slot->capsule = io->data;
		slot->capsule_bytes = (u32)bytes;
		slot->capsule_lkey = buffer->lkey;
	} else {
		command->segment.address = rblk_to_le64((uintptr_t)io->data);
		command->segment.rkey = rblk_to_le32(buffer->rkey);
		slot->data_bytes = (u32)bytes;
	}
	slot->buffer = buffer;
	buffer->users++;
	return 0;
}

/* -EMSGSIZE: this queue's device, or its target, does not take so much in one message. The vector
 * then sends its pieces by themselves. */
static int attach_gather(struct ini_slot *slot, const struct ini_io *io)
{
	const struct ini_queue *queue = slot->queue;
	struct ini_gather *gather = io->gather;

	if (io->bytes > queue->capsule_max || gather->count >= queue->limits.segments)
		return -EMSGSIZE;
	if (gather->device != queue->device) {
		gather->device = queue->device;
		for (u16 i = 0; i < gather->count; i++)
			gather->sge[i].lkey = ini_mr_lkey(&gather->buffers[i]->mr, queue->device);
	}
	slot->command.flags |= RBLK_CMD_CAPSULE;
	slot->command.segment.length = rblk_to_le32((u32)io->bytes);
	slot->capsule_bytes = (u32)io->bytes;
	slot->gather = gather;
	return 0;
}

/* The report goes to memory of the library's own. */
static void attach_report(struct rblk_session *session, struct ini_slot *slot,
			  const struct ini_io *io)
{
	struct rblk_wire_segment *segment = &slot->command.segment;

	/* An earlier report here must not be taken for this one. */
	memset(io->report, 0, io->report_bytes);
	segment->address = rblk_to_le64((uintptr_t)io->report);
	segment->rkey = rblk_to_le32(ini_mr_rkey(&session->control.mr, slot->queue->device));
	segment->length = rblk_to_le32(io->report_bytes);
}

/* Fills in the memory to transfer, with the keys of the chosen queue. */
static int attach(struct rblk_volume *volume, struct ini_slot *slot, const struct ini_io *io)
{
	/* Features are agreed for each queue. */
	if (io->flags & RBLK_CMD_UNTORN && io->opcode == RBLK_OP_WRITE &&
	    !(slot->queue->features & RBLK_FEATURE_UNTORN))
		return -EOPNOTSUPP;
	if (io->report) {
		if (io->opcode == RBLK_OP_EXTENTS && !(slot->queue->features & RBLK_FEATURE_EXTENTS))
			return -EOPNOTSUPP;
		attach_report(volume->session, slot, io);
	}
	if (io->gather)
		return attach_gather(slot, io);
	return io->data ? attach_data(volume, slot, io) : 0;
}

/* The slot is taken: fill it in and send it. */
static int start_slot(struct rblk_volume *volume, struct ini_slot *slot, const struct ini_io *io)
{
	struct rblk_session *session = volume->session;
	struct rblk_wire_command *command = &slot->command;
	struct ini_queue *queue = slot->queue;
	int err;

	command->opcode = io->opcode;
	command->flags = io->flags | (session->options.priority ? RBLK_CMD_PRIORITY : 0);
	if (!(queue->features & RBLK_FEATURE_PRIORITY))
		command->flags &= (u8)~RBLK_CMD_PRIORITY;
	command->volume = rblk_to_le32(volume->handle);
	command->lba = rblk_to_le64(io->offset >> volume->block_shift);
	command->blocks = rblk_to_le32((u32)(io->bytes >> volume->block_shift));
	command->argument = rblk_to_le64(io->operation);
	err = attach(volume, slot, io);
	if (err) {
		ini_slot_put(slot);
		return err;
	}
	ini_digest_add(slot, io);
	/* An immediate has no room for a digest. */
	if (io->opcode == RBLK_OP_READ && queue->features & RBLK_FEATURE_IMMEDIATE &&
	    !(command->flags & RBLK_CMD_DIGEST))
		command->flags |= RBLK_CMD_IMMEDIATE;
	slot->flush = io->flush;
	slot->owes = core_durable_owes(&volume->open, io->opcode, io->flags);
	slot->piece = io->piece;
	slot->volume = volume;
	slot->done = io->done;
	slot->arg = io->arg;
	volume->inflight++;
	ini_slot_start(slot);
	/* As many as a message may have: rung for, though they may have to wait. If sending fails, the queue is lost,
	 * and the command waits. */
	if (queue->pending_count % queue->limits.commands == 0) {
		session->now_ns = env_now_ns();
		ini_queue_doorbell(queue);
	}
	return 0;
}

/* No queue has a credit, or no queue takes commands: then the command waits with the lost ones. */
static int start_later(struct rblk_volume *volume, const struct ini_io *io)
{
	struct rblk_session *session = volume->session;
	struct ini_buffer *buffer = NULL;

	if (!io->waits && !volume->late_ns && core_session_route(&session->core, 0) >= 0)
		return -EAGAIN;
	if (session->core.failing_fast || ini_reopen_ready(volume) == -EIO)
		return -EIO; /* the words are why the connection was lost, or the volume cannot be served */
	if (io->data) {
		buffer = ini_buffer_at(&session->buffers, io->data, ini_io_data_bytes(io));
		if (!buffer)
			return refuse_data(volume, io);
		if (ini_io_check_buffer(volume, io->opcode, buffer))
			return -EFAULT;
	}
	return ini_park_new(volume, io, buffer);
}

int ini_io_start(struct rblk_volume *volume, const struct ini_io *io)
{
	struct rblk_session *session = volume->session;
	struct ini_slot *slot;

	if (!ini_session_usable(session))
		return -ENOTCONN; /* the words are why */
	if (volume->changing)
		return ini_io_refuse(volume, -EBUSY, rblk_opcode_name(io->opcode),
				     "the volume is being closed");
	if (volume->gone)
		return ini_io_refuse(volume, -ENODEV, rblk_opcode_name(io->opcode),
				     "%s", volume->denied ? rblk_denied_text(volume->denied) :
							    "the target does not serve the volume any more");
	if (io->opcode == RBLK_OP_FLUSH && !ini_durable_may_flush(volume->durable, io->flush)) {
		ini_tell_loss(volume);
		return ini_io_refuse(volume, -EIO, "FLUSH",
				     "writes that were acknowledged before may be lost");
	}
	if (session->parking.used && !io->waits && ini_parking_full(volume))
		return -EAGAIN;
	slot = volume->late_ns ? NULL : ini_route_take(session);
	return slot ? start_slot(volume, slot, io) : start_later(volume, io);
}

/* Starts it again, without checking it again. -EAGAIN: no queue takes it now; -EBUSY: the volume is late. */
static int restart(struct rblk_volume *volume, const struct ini_io *io)
{
	int err = ini_reopen_ready(volume);
	struct ini_slot *slot;

	if (err)
		return err;
	slot = ini_route_take(volume->session);
	return slot ? start_slot(volume, slot, io) : -EAGAIN;
}

/* As above; another error is its end. */
static int resume(const struct ini_parked *parked)
{
	if (parked->state != INI_PARKED_READY)
		return -EBUSY;
	if (parked->end)
		return ini_reopen_ready(parked->volume) == -EBUSY ? -EBUSY : parked->end;
	return restart(parked->volume, &parked->io);
}

void ini_io_resume(struct rblk_session *session)
{
	struct ini_parking *parking = &session->parking;
	struct ini_parked **link = &parking->waiting, *parked;

	while (parking->ready && (parked = *link)) {
		int err = resume(parked);

		if (err == -EAGAIN)
			return; /* completions give credits back, and the next turn looks again */
		if (err == -EBUSY) {
			link = &parked->next;
			continue;
		}
		parked = ini_parking_unlink(parking, link);
		if (err)
			ini_parking_finish(parking, parked, err);
		else
			ini_parked_remove(parking, parked); /* its slot holds volume and buffer */
	}
}

/* -- the calls --------------------------------------------------------------------------------- */

int ini_io_check_untorn(const struct rblk_volume *volume, const char *what, u64 bytes, u64 offset, u32 flags)
{
	const struct rblk_volume_info *info = &volume->info;

	if (!(flags & RBLK_IO_UNTORN))
		return 0;
	if (!info->untorn_max_bytes)
		return ini_io_refuse(volume, -EOPNOTSUPP, what, "the volume has no untorn writes");
	if (!rblk_untorn_valid(offset, bytes, info->untorn_min_bytes, info->untorn_max_bytes))
		return ini_io_refuse(volume, -EINVAL, what,
				     "%" PRIu64 " bytes at byte %" PRIu64
				     " cannot be untorn: a power of two from %u to %u, aligned to itself, can",
				     bytes, offset, info->untorn_min_bytes, info->untorn_max_bytes);
	return 0;
}

static int start_data(struct rblk_volume *volume, u8 opcode, const void *data, u64 bytes,
		      u64 offset, const struct ini_ask *ask, void *arg)
{
	const char *what = rblk_opcode_name(opcode);
	int err = ini_io_check(volume, what, ask);

	if (!err && !data)
		err = ini_io_refuse(volume, -EINVAL, what, "no data is given");
	if (!err)
		err = ini_io_check_range(volume, what, bytes, offset, volume->info.max_io_bytes);
	if (!err && ask->flags)
		err = ini_io_check_untorn(volume, what, bytes, offset, ask->flags);
	if (err)
		return err;
	return ini_io_start(volume,
			    &(struct ini_io){.opcode = opcode,
					     .flags = ini_io_flags(ask->flags),
					     .data = data,
					     .bytes = bytes,
					     .offset = offset,
					     .done = ask->done,
					     .arg = arg});
}

int rblk_read(struct rblk_volume *volume, void *data, size_t bytes, uint64_t offset, uint32_t flags,
	      rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = true, .flags = flags, .done = done};

	return start_data(volume, RBLK_OP_READ, data, bytes, offset, &ask, arg);
}

int rblk_write(struct rblk_volume *volume, const void *data, size_t bytes, uint64_t offset,
	       uint32_t flags, rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = true,
				    .writes = true,
				    .flags = flags,
				    .flags_allowed = RBLK_IO_FUA | RBLK_IO_UNTORN,
				    .done = done};

	return start_data(volume, RBLK_OP_WRITE, data, bytes, offset, &ask, arg);
}

int rblk_flush(struct rblk_volume *volume, rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = volume->info.can_flush, .done = done};
	int err = ini_io_check(volume, "FLUSH", &ask);

	if (err)
		return err;
	return ini_io_start(volume,
			    &(struct ini_io){.opcode = RBLK_OP_FLUSH,
					     .flush = ini_durable_flush(volume->durable),
					     .done = done,
					     .arg = arg});
}

/* No data: only a range and flags. */
static int start_range(struct rblk_volume *volume, u8 opcode, u64 bytes, u64 offset, u64 max_bytes,
		       const struct ini_ask *ask, void *arg)
{
	const char *what = rblk_opcode_name(opcode);
	int err = ini_io_check(volume, what, ask);

	if (!err)
		err = ini_io_check_range(volume, what, bytes, offset, max_bytes);
	if (err)
		return err;
	return ini_io_start(
		volume,
		&(struct ini_io){.opcode = opcode,
				 .flags = ini_io_flags(ask->flags) |
					  (ask->flags & RBLK_IO_NO_UNMAP ? RBLK_CMD_NO_UNMAP : 0),
				 .bytes = bytes,
				 .offset = offset,
				 .done = ask->done,
				 .arg = arg});
}

int rblk_discard(struct rblk_volume *volume, uint64_t bytes, uint64_t offset, rblk_callback done,
		 void *arg)
{
	const struct ini_ask ask = {.able = volume->info.can_discard, .writes = true, .done = done};

	return start_range(volume, RBLK_OP_DISCARD, bytes, offset, volume->info.max_discard_bytes,
			   &ask, arg);
}

int rblk_write_zeroes(struct rblk_volume *volume, uint64_t bytes, uint64_t offset, uint32_t flags,
		      rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = volume->info.can_write_zeroes,
				    .writes = true,
				    .flags = flags,
				    .flags_allowed = RBLK_IO_FUA | RBLK_IO_NO_UNMAP,
				    .done = done};

	return start_range(volume, RBLK_OP_WRITE_ZEROES, bytes, offset,
			   volume->info.max_discard_bytes, &ask, arg);
}

int rblk_submit(struct rblk_session *session)
{
	if (core_session_over(&session->core))
		return -ENOTCONN;
	session->now_ns = env_now_ns();
	ini_route_next(session);
	ini_session_doorbells(session);
	return 0;
}
