// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One command's life: request -> descriptor -> sent -> answered -> key ended -> request ended.
 * Called by blk_mq.c and waiting.c for requests, by queue.c for answers. What is special about the
 * session's own commands is call.c's.
 */
#include "kmod/command.h"

#include <linux/ioprio.h>

#include "kmod/call.h"
#include "kmod/compat.h"
#include "kmod/disk.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "kmod/trace.h"
#include "kmod/waiting.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_names.h"

/* -- ending -- */

/*
 * dm-multipath sends again, on another path, what fails with TRANSPORT, TIMEOUT or IOERR
 * (blk_path_error()).
 */
static blk_status_t rblk_io_status(const struct rblk_io *io)
{
	const struct rblk_command *command = &io->command;

	if (command->error)
		return errno_to_blk_status(command->error);
	switch (command->status) {
	case RBLK_OK:
		return BLK_STS_OK;
	case RBLK_E_BUSY: /* these for too long; another path may lead to another target */
	case RBLK_E_NO_RESOURCES:
	case RBLK_E_DRAINING:
	case RBLK_E_GONE:
	case RBLK_E_NO_VOLUME:
		return BLK_STS_TRANSPORT;
	case RBLK_E_UNSUPPORTED:
		return BLK_STS_NOTSUPP;
	case RBLK_E_NO_SPACE:
		return BLK_STS_NOSPC;
	case RBLK_E_MEDIUM:
		return BLK_STS_MEDIUM;
	case RBLK_E_DIGEST:
		return BLK_STS_PROTECTION;
	case RBLK_E_RESERVED:
	/* by a preemption: what this module has aborted is sent again, or has timed out */
	case RBLK_E_ABORTED:
		/* BLK_STS_RESV_CONFLICT; before 6.5 BLK_STS_NEXUS */
		return errno_to_blk_status(-EBADE);
	default: /* the target's definite answer, the same on every path */
		return BLK_STS_TARGET;
	}
}

/* The request's memory is as it was before; its status. */
static blk_status_t rblk_io_finish(struct request *rq)
{
	struct rblk_io *io = blk_mq_rq_to_pdu(rq);
	blk_status_t status = rblk_io_status(io);

	/* A read that the target failed has written nothing worth copying. */
	if (io->command.memory == RBLK_MEMORY_SLOT && rq_data_dir(rq) == READ && !status)
		rblk_memory_copy_out(io);
	rblk_memory_unmap(io);
	trace_rblk_complete(io);
	smp_store_release(&io->answered, false);
	return status;
}

/* Is the command for less than its request? See rblk_io_bytes(). */
static bool rblk_io_is_part(struct rblk_io *io)
{
	return io->command.bytes && io->command.bytes < blk_rq_bytes(rblk_io_rq(io));
}

void rblk_io_complete(struct request *rq)
{
	struct rblk_io *io = blk_mq_rq_to_pdu(rq);
	bool part = rblk_io_is_part(io);
	blk_status_t status = rblk_io_finish(rq);

	if (!part || status) {
		blk_mq_end_request(rq, status);
		return;
	}
	blk_update_request(rq, BLK_STS_OK, io->command.bytes);
	blk_mq_requeue_request(rq, true);
}

void rblk_io_fail(struct rblk_io *io, int error)
{
	io->command.error = error;
	blk_mq_complete_request(rblk_io_rq(io));
}

/* Ends a batch of requests that have all succeeded: none of them is ended alone. */
static void rblk_io_complete_batch(struct io_comp_batch *batch)
{
	struct request *rq;

	rq_list_for_each(&batch->req_list, rq)
		rblk_io_finish(rq);
	blk_mq_end_request_batch(batch);
}

/* F7: of a FLUSH over lost writes. Definite (BLK_STS_TARGET): on no other path would it be true. */
#define RBLK_FLUSH_ERROR (-EREMOTEIO)

static void rblk_io_ended(struct rblk_io *io)
{
	struct request *rq = rblk_io_rq(io);

	if (io->command.status == RBLK_OK && !rblk_digest_matches(io))
		io->command.status = RBLK_E_DIGEST;
	if (rblk_waiting_refused(io))
		return; /* it goes again */
	if (io->command.status == RBLK_OK && io->owes && !rblk_durable_done(io))
		io->command.error = RBLK_FLUSH_ERROR;
	if (blk_mq_complete_request_remote(rq))
		return;
	if (!blk_mq_add_to_batch(rq, io->command.queue->batch,
				 rblk_io_status(io) != BLK_STS_OK || rblk_io_is_part(io),
				 rblk_io_complete_batch))
		rblk_io_complete(rq);
}

void rblk_command_put(struct rblk_command *command)
{
	bool is_call;

	if (!refcount_dec_and_test(&command->refs))
		return;
	is_call = command->tag >= command->queue->credits;
	command->account.state = CORE_TAG_FREE;
	if (!is_call)
		rblk_command_io(command)->answered = true;
	/* Who does not find it on its queue any more finds that it is answered. */
	smp_store_release(&command->queue->commands[command->tag], NULL);
	if (is_call)
		rblk_call_finish(rblk_command_call(command));
	else
		rblk_io_ended(rblk_command_io(command));
}

static void rblk_io_invalidated(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_io *io = container_of(wc->wr_cqe, struct rblk_io, inv_cqe);
	struct rblk_io *ended, *next;

	if (wc->status != IB_WC_SUCCESS) {
		/* Its key ends with the queue pair; the command is held until then (F4). */
		rblk_queue_wc_error(io->command.queue, "invalidation", wc);
		return;
	}
	/* It is the last one of a chain, and the only one that says so. */
	for (ended = io->inv_first; ended; ended = next) {
		next = ended == io ? NULL
				   : container_of(ended->inv_wr.next, struct rblk_io, inv_wr);
		smp_store_release(&ended->mr_valid, false);
		rblk_command_put(&ended->command);
	}
}

static void rblk_io_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_io *io = container_of(wc->wr_cqe, struct rblk_io, reg_cqe);

	if (wc->status != IB_WC_SUCCESS)
		rblk_queue_wc_error(io->command.queue, "registration", wc);
}

bool rblk_command_has_valid_key(struct rblk_command *command)
{
	return command->memory == RBLK_MEMORY_FAST &&
	       smp_load_acquire(&rblk_command_io(command)->mr_valid);
}

bool rblk_command_has_key(struct rblk_command *command, u32 rkey)
{
	return (command->wire.flags & RBLK_CMD_INVALIDATE) && rblk_command_has_valid_key(command) &&
	       rblk_command_io(command)->mr->rkey == rkey;
}

/* F4: the answer's reference lives until the key has ended. */
static void rblk_command_end_key(struct rblk_command *command, u32 invalidated_rkey)
{
	struct rblk_queue *queue = command->queue;

	if (rblk_command_has_valid_key(command)) {
		struct rblk_io *io = rblk_command_io(command);

		if (invalidated_rkey != io->mr->rkey) {
			rblk_queue_invalidate(queue, io);
			return;
		}
		smp_store_release(&io->mr_valid, false);
		queue->stats.remote_invalidations++;
		trace_rblk_invalidate(io, true);
	}
	rblk_command_put(command);
}

void rblk_command_answered(struct rblk_command *command,
			   const struct rblk_wire_completion *completion, u32 invalidated_rkey)
{
	command->status = rblk_le16(completion->status);
	if (command->status == RBLK_E_DENIED || command->wire.opcode == RBLK_OP_ABORT)
		command->detail = (u16)rblk_le64(completion->result);
	command->queued_us = rblk_le32(completion->queued_us);
	command->stored_us = rblk_le32(completion->stored_us);
	command->digest = rblk_le32(completion->digest);
	rblk_command_end_key(command, invalidated_rkey);
}

void rblk_command_answered_immediate(struct rblk_command *command, u8 queued_code, u8 stored_code)
{
	command->status = RBLK_OK;
	command->queued_us = rblk_time_decode(queued_code);
	command->stored_us = rblk_time_decode(stored_code);
	rblk_command_end_key(command, 0);
}

/* -- beginning -- */

void rblk_io_init(struct rblk_io *io, struct rblk_queue *queue)
{
	io->command.queue = queue;
	io->reg_cqe.done = rblk_io_registered;
	io->inv_cqe.done = rblk_io_invalidated;
	INIT_LIST_HEAD(&io->command.entry);
}

void rblk_command_reset(struct rblk_command *command, u16 tag, u8 opcode)
{
	memset(&command->wire, 0, sizeof(command->wire));
	command->tag = tag;
	command->wire.tag = rblk_to_le16(tag);
	command->wire.opcode = opcode;
	command->status = RBLK_OK;
	command->detail = 0;
	command->error = 0;
	command->bytes = 0;
	command->memory = RBLK_MEMORY_NONE;
}

/*
 * A command is for all of its request. If Linux has joined untorn writes to one that the target
 * would refuse, it is for the first of them, a bio; the others are sent when it has ended.
 */
static u32 rblk_io_bytes(const struct request *rq)
{
	const struct rblk_disk *disk = rblk_disk_of(rq);
	u32 bytes = blk_rq_bytes(rq);

	if (!(rq->cmd_flags & REQ_ATOMIC) ||
	    rblk_untorn_valid(blk_rq_pos(rq) << SECTOR_SHIFT, bytes, disk->untorn_min_bytes,
			      disk->untorn_max_bytes))
		return bytes;
	return rq->bio->bi_iter.bi_size;
}

/* Opcode and flags. */
static blk_status_t rblk_io_describe(const struct request *rq, u8 *opcode, u8 *flags)
{
	*flags = 0;
	switch (req_op(rq)) {
	case REQ_OP_READ:
		*opcode = RBLK_OP_READ;
		return BLK_STS_OK;
	case REQ_OP_WRITE:
		*opcode = RBLK_OP_WRITE;
		break;
	case REQ_OP_FLUSH:
		*opcode = RBLK_OP_FLUSH;
		return BLK_STS_OK;
	case REQ_OP_DISCARD:
		*opcode = RBLK_OP_DISCARD;
		return BLK_STS_OK;
	case REQ_OP_WRITE_ZEROES:
		*opcode = RBLK_OP_WRITE_ZEROES;
		*flags |= rq->cmd_flags & REQ_NOUNMAP ? RBLK_CMD_NO_UNMAP : 0;
		break;
	default:
		return BLK_STS_NOTSUPP;
	}
	if (rq->cmd_flags & REQ_FUA)
		*flags |= RBLK_CMD_FUA;
	if (!(rq->cmd_flags & REQ_ATOMIC))
		return BLK_STS_OK;
	*flags |= RBLK_CMD_UNTORN;
	/* Opened again, the volume may keep less, or none. The target judges the rest. */
	return rblk_io_bytes(rq) > rblk_disk_of(rq)->untorn_max_bytes ? BLK_STS_NOTSUPP
								      : BLK_STS_OK;
}

/*
 * Since it was opened again, the volume may take less at a time than blk-mq was told at attach. 0:
 * it has neither command, and the target says why.
 */
static bool rblk_io_fits(const struct rblk_disk *disk, u8 opcode, u32 blocks)
{
	return (opcode != RBLK_OP_DISCARD && opcode != RBLK_OP_WRITE_ZEROES) ||
	       !disk->max_discard_blocks || blocks <= disk->max_discard_blocks;
}

/*
 * F7: it has got a volatile cache since it was attached, of which blk-mq does not know. No FLUSH
 * will come, and FUA was taken off what should have it.
 */
static bool rblk_io_writes_through(const struct rblk_disk *disk, u8 opcode)
{
	const u32 cached = RBLK_VOLUME_FLUSH | RBLK_VOLUME_FUA | RBLK_VOLUME_VOLATILE_CACHE;

	return (opcode == RBLK_OP_WRITE || opcode == RBLK_OP_WRITE_ZEROES) && !disk->flushes &&
	       (disk->volume_flags & cached) == cached;
}

/* Descriptor and data. */
static blk_status_t rblk_io_prepare(struct rblk_io *io)
{
	struct rblk_command *command = &io->command;
	struct request *rq = rblk_io_rq(io);
	const struct rblk_disk *disk = rblk_disk_of(rq);
	u8 shift = disk->block_shift - SECTOR_SHIFT;
	u32 bytes = rblk_io_bytes(rq);
	u8 opcode, flags;
	blk_status_t status = rblk_io_describe(rq, &opcode, &flags);
	int error = 0;

	if (status)
		return status;
	if (!rblk_io_fits(disk, opcode, blk_rq_bytes(rq) >> disk->block_shift))
		return BLK_STS_NOTSUPP;
	if (rblk_io_writes_through(disk, opcode))
		flags |= RBLK_CMD_FUA;
	if (command->queue->features & RBLK_FEATURE_PRIORITY &&
	    (disk->options.priority || IOPRIO_PRIO_CLASS(req_get_ioprio(rq)) == IOPRIO_CLASS_RT))
		flags |= RBLK_CMD_PRIORITY;
	rblk_command_reset(command, command->tag, opcode);
	command->wire.flags = flags | (io->retry ? RBLK_CMD_RETRY : 0);
	command->wire.volume = rblk_to_le32(READ_ONCE(disk->handle));
	io->owes = core_durable_owes(&disk->part, opcode, flags);
	if (opcode != RBLK_OP_FLUSH) {
		command->wire.lba = rblk_to_le64(blk_rq_pos(rq) >> shift);
		command->wire.blocks = rblk_to_le32(bytes >> disk->block_shift);
	}
	if (opcode == RBLK_OP_READ || opcode == RBLK_OP_WRITE)
		error = rblk_memory_map(io, bytes);
	if (error == -ENOMEM)
		return BLK_STS_RESOURCE;
	if (!error && command->bytes)
		rblk_digest_add(io);
	return errno_to_blk_status(error);
}

blk_status_t rblk_io_send(struct rblk_io *io, struct rblk_queue *queue)
{
	blk_status_t status;

	rblk_trace_dispatch(io, queue);
	io->command.queue = queue;
	status = rblk_io_prepare(io);
	if (status) {
		rblk_memory_unmap(io);
		return status;
	}
	WRITE_ONCE(io->sent_at, jiffies);
	io->abort_asked = false;
	trace_rblk_submit(io);
	if (!rblk_queue_add(queue, &io->command))
		return BLK_STS_OK;
	rblk_memory_unmap(io);
	return BLK_STS_TRANSPORT;
}
