// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One command's life: request -> descriptor -> sent -> answered -> key ended -> request ended.
 * Called by disk.c for requests, by queue.c for answers, by device.c for the session's own.
 */
#include "kmod/command.h"
#include "kmod/device.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "kmod/trace.h"
#include "proto/wire/wire_names.h"

/* -- ending -------------------------------------------------------------------------------------- */

static blk_status_t rblk_command_blk_status(const struct rblk_command *command)
{
	if (command->error)
		return BLK_STS_IOERR;
	switch (command->status) {
	case RBLK_OK:
		return BLK_STS_OK;
	case RBLK_E_BUSY:
		return BLK_STS_RESOURCE;
	case RBLK_E_UNSUPPORTED:
		return BLK_STS_NOTSUPP;
	case RBLK_E_NO_SPACE:
		return BLK_STS_NOSPC;
	case RBLK_E_MEDIUM:
		return BLK_STS_MEDIUM;
	case RBLK_E_DIGEST:
		return BLK_STS_PROTECTION;
	case RBLK_E_NO_RESOURCES:
		return BLK_STS_IOERR; /* not BLK_STS_RESOURCE: something of it may have been done */
	default:
		return errno_to_blk_status(rblk_status_errno(command->status));
	}
}

/* BUSY: nothing was begun, so it may simply be sent again; but not for ever. */
#define RBLK_BUSY_RETRY_MS 10

static void rblk_command_again(struct rblk_command *command, struct request *rq)
{
	unsigned int limit_ms = command->queue->device->options.command_ms;

	if (!(rq->rq_flags & RQF_DONTPREP)) {
		rq->rq_flags |= RQF_DONTPREP;
		command->busy_since = jiffies;
	} else if (time_after(jiffies, command->busy_since + msecs_to_jiffies(limit_ms))) {
		blk_mq_end_request(rq, BLK_STS_IOERR);
		return;
	}
	blk_mq_requeue_request(rq, false);
	blk_mq_delay_kick_requeue_list(rq->q, RBLK_BUSY_RETRY_MS);
}

void rblk_command_complete_rq(struct request *rq)
{
	struct rblk_command *command = blk_mq_rq_to_pdu(rq);
	blk_status_t status = rblk_command_blk_status(command);

	/* A read that the target failed has written nothing worth copying. */
	if (command->memory == RBLK_MEMORY_SLOT && rq_data_dir(rq) == READ && !status)
		rblk_memory_copy_out(command);
	if (command->memory != RBLK_MEMORY_NONE)
		rblk_memory_unmap(command);
	trace_rblk_complete(command);
	if (status != BLK_STS_RESOURCE)
		blk_mq_end_request(rq, status);
	else
		rblk_command_again(command, rq);
}

void rblk_command_finish(struct rblk_command *command)
{
	struct rblk_device *device = command->queue->device;

	/* From then on the command is the waiter's. */
	smp_store_release(&command->finished, true);
	wake_up_all(&device->session_wait);
}

void rblk_command_put(struct rblk_command *command)
{
	struct rblk_queue *queue = command->queue;

	if (!atomic_dec_and_test(&command->refs))
		return;
	command->account.state = CORE_TAG_FREE;
	queue->commands[command->tag] = NULL;
	if (!command->rq)
		rblk_command_finish(command);
	else if (!blk_mq_complete_request_remote(command->rq))
		rblk_command_complete_rq(command->rq);
}

static void rblk_command_invalidated(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_command *command = container_of(wc->wr_cqe, struct rblk_command, inv_cqe);

	if (wc->status != IB_WC_SUCCESS) {
		/* Its key ends with the queue pair; the command is held until then (F4). */
		rblk_queue_wc_error(command->queue, "invalidation", wc);
		return;
	}
	command->mr_valid = false;
	rblk_command_put(command);
}

static void rblk_command_registered(struct ib_cq *cq, struct ib_wc *wc)
{
	struct rblk_command *command = container_of(wc->wr_cqe, struct rblk_command, reg_cqe);

	if (wc->status != IB_WC_SUCCESS)
		rblk_queue_wc_error(command->queue, "registration", wc);
}

/* F4: the answer's reference lives until the key has ended. */
static void rblk_command_end_key(struct rblk_command *command, u32 invalidated_rkey)
{
	struct rblk_queue *queue = command->queue;

	if (command->memory == RBLK_MEMORY_FAST && command->mr_valid) {
		if (invalidated_rkey != command->mr->rkey) {
			rblk_queue_invalidate(queue, command);
			return;
		}
		command->mr_valid = false;
		queue->stats.remote_invalidations++;
		trace_rblk_invalidate(command, true);
	}
	rblk_command_put(command);
}

void rblk_command_answered(struct rblk_command *command,
			   const struct rblk_wire_completion *completion, u32 invalidated_rkey)
{
	command->status = rblk_le16(completion->status);
	command->result = rblk_le64(completion->result);
	command->queued_us = rblk_le32(completion->queued_us);
	command->stored_us = rblk_le32(completion->stored_us);
	rblk_command_end_key(command, invalidated_rkey);
}

void rblk_command_answered_immediate(struct rblk_command *command, u8 queued_code, u8 stored_code)
{
	command->status = RBLK_OK;
	command->queued_us = rblk_time_decode(queued_code);
	command->stored_us = rblk_time_decode(stored_code);
	rblk_command_end_key(command, 0);
}

/* -- beginning ------------------------------------------------------------------------------------ */

void rblk_command_init(struct rblk_command *command, struct rblk_queue *queue, struct request *rq)
{
	command->queue = queue;
	command->rq = rq;
	command->first_sgl = (struct scatterlist *)(command + 1);
	command->reg_cqe.done = rblk_command_registered;
	command->inv_cqe.done = rblk_command_invalidated;
	INIT_LIST_HEAD(&command->entry);
	command->finished = false;
}

static void rblk_command_reset(struct rblk_command *command, u16 tag, u8 opcode)
{
	memset(&command->wire, 0, sizeof(command->wire));
	command->tag = tag;
	command->wire.tag = rblk_to_le16(tag);
	command->wire.opcode = opcode;
	command->status = 0;
	command->error = 0;
	command->bytes = 0;
	command->mr = NULL;
	command->mr_valid = false;
	command->memory = RBLK_MEMORY_NONE;
}

blk_status_t rblk_command_prepare(struct rblk_command *command, struct request *rq)
{
	struct rblk_device *device = command->queue->device;
	u8 opcode, flags = 0;
	bool data = false;
	int error;

	switch (req_op(rq)) {
	case REQ_OP_READ:
		opcode = RBLK_OP_READ;
		data = true;
		break;
	case REQ_OP_WRITE:
		opcode = RBLK_OP_WRITE;
		data = true;
		if (rq->cmd_flags & REQ_FUA)
			flags |= RBLK_CMD_FUA;
		break;
	case REQ_OP_FLUSH:
		opcode = RBLK_OP_FLUSH;
		break;
	case REQ_OP_DISCARD:
		opcode = RBLK_OP_DISCARD;
		break;
	case REQ_OP_WRITE_ZEROES:
		opcode = RBLK_OP_WRITE_ZEROES;
		if (rq->cmd_flags & REQ_NOUNMAP)
			flags |= RBLK_CMD_NO_UNMAP;
		if (rq->cmd_flags & REQ_FUA)
			flags |= RBLK_CMD_FUA;
		break;
	default:
		return BLK_STS_NOTSUPP;
	}
	rblk_command_reset(command, rq->tag, opcode);
	command->wire.flags = flags;
	command->wire.volume = rblk_to_le32(device->handle);
	if (opcode != RBLK_OP_FLUSH) {
		u8 shift = device->block_shift - SECTOR_SHIFT;

		command->wire.lba = rblk_to_le64(blk_rq_pos(rq) >> shift);
		command->wire.blocks = rblk_to_le32(blk_rq_bytes(rq) >> device->block_shift);
	}
	if (!data)
		return BLK_STS_OK;
	error = rblk_memory_map(command, rq);
	if (error)
		return error == -ENOMEM ? BLK_STS_RESOURCE : errno_to_blk_status(error);
	return BLK_STS_OK;
}

/* -- the session's own commands --------------------------------------------------------------------- */

/* While it is held, the queue's memory stays: rblk_queue_stop() waits for rblk_command_unreserve(). */
static struct rblk_command *rblk_command_reserve(struct rblk_queue *queue)
{
	struct rblk_command *command = ERR_PTR(-EBUSY);
	unsigned long flags, bit;

	spin_lock_irqsave(&queue->lock, flags);
	bit = find_first_zero_bit(&queue->reserved_used, RBLK_RESERVED_TAGS);
	if (queue->down) {
		command = ERR_PTR(-ENOTCONN);
	} else if (bit < RBLK_RESERVED_TAGS) {
		__set_bit(bit, &queue->reserved_used);
		queue->session_callers++;
		command = &queue->reserved[bit];
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	if (!IS_ERR(command))
		rblk_command_init(command, queue, NULL);
	return command;
}

/* `answered`: the tag may be used again. Otherwise its answer may still come. */
static void rblk_command_unreserve(struct rblk_queue *queue, struct rblk_command *command,
				   bool answered)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	if (answered)
		__clear_bit(command - queue->reserved, &queue->reserved_used);
	if (!--queue->session_callers)
		wake_up(&queue->session_idle); /* under the lock: the waiter frees the queue */
	spin_unlock_irqrestore(&queue->lock, flags);
}

/*
 * The payload stands in the first half of the command's slot, the report is written to the second:
 * neither end can meet the other's.
 */
#define RBLK_REPORT_OFFSET (RBLK_SLOT_BYTES_MIN / 2)

static void rblk_command_fill_session(struct rblk_command *command,
				      const struct rblk_session_command *sc)
{
	struct rblk_queue *queue = command->queue;
	struct rblk_wire_command *wire = &command->wire;
	u8 *slot = rblk_memory_slot(queue, command->tag);

	wire->volume = rblk_to_le32(sc->volume);
	wire->lba = rblk_to_le64(sc->lba);
	wire->argument = rblk_to_le64(sc->argument);
	memset(slot, 0, RBLK_SLOT_BYTES_MIN);
	if (sc->payload_bytes) {
		memcpy(slot, sc->payload, sc->payload_bytes);
		command->bytes = ALIGN(sc->payload_bytes, RBLK_CAPSULE_ALIGN);
		command->memory = RBLK_MEMORY_CAPSULE;
		wire->segment.length = rblk_to_le32(command->bytes); /* the report's, if there is one */
		wire->flags |= RBLK_CMD_CAPSULE;
	}
	if (sc->report_bytes) {
		rblk_memory_slot_segment(queue, command->tag, sc->report_bytes, &wire->segment);
		wire->segment.address = rblk_to_le64(rblk_le64(wire->segment.address) +
						     RBLK_REPORT_OFFSET);
	}
	rblk_memory_sync_slot(queue, command->tag, true);
}

/*
 * Until it has been answered, or never will be. As long as a device connects, nobody takes a broken
 * connection down: its reason ends the wait.
 */
static int rblk_command_wait(struct rblk_command *command, const char *name,
			     unsigned int timeout_ms)
{
	struct rblk_device *device = command->queue->device;
	long left = wait_event_killable_timeout(device->session_wait,
						smp_load_acquire(&command->finished) ||
							rblk_device_broken(device),
						msecs_to_jiffies(timeout_ms));

	if (left > 0)
		return smp_load_acquire(&command->finished) ? 0 : -ECONNRESET;
	if (left < 0)
		rblk_device_lost(device, "killed while waiting for the answer to %s", name);
	else
		rblk_device_lost(device, "no answer to %s in %u ms", name, timeout_ms);
	return left < 0 ? -EINTR : -ETIMEDOUT;
}

int rblk_command_session(struct rblk_queue *queue, struct rblk_session_command *sc,
			 unsigned int timeout_ms)
{
	struct rblk_command *command = rblk_command_reserve(queue);
	int error;

	if (IS_ERR(command))
		return PTR_ERR(command);
	rblk_command_reset(command, queue->credits + (command - queue->reserved), sc->opcode);
	rblk_command_fill_session(command, sc);
	error = rblk_queue_add(queue, command);
	if (error) {
		rblk_command_unreserve(queue, command, true);
		return error;
	}
	rblk_queue_kick(queue);
	error = rblk_command_wait(command, rblk_opcode_name(sc->opcode), timeout_ms);
	if (error) {
		rblk_command_unreserve(queue, command, false);
		return error;
	}
	error = command->error;
	if (!error) {
		sc->status = command->status;
		sc->result = command->result;
		error = rblk_status_errno(command->status);
	}
	if (!error && sc->report_bytes) {
		rblk_memory_sync_slot(queue, command->tag, false);
		memcpy(sc->report,
		       rblk_memory_slot(queue, command->tag) + RBLK_REPORT_OFFSET,
		       sc->report_bytes);
	}
	rblk_command_unreserve(queue, command, true);
	return error;
}
