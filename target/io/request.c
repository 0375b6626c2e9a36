/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of a command, from top to bottom: received -> checked -> data in -> stored -> data out
 * -> replied. request_state.c has the allowed steps, request_check.c the checks, request_memory.c
 * the memory, request_end.c how each ends; transfer.c moves bytes, reply.c packs completions. A block
 * command's own steps are in its row of command.c; commands that are not block I/O go to the upper
 * room. Nothing here waits: each function takes a request as far as possible and leaves it in a
 * list, with the store or with the fabric, as its state says.
 */
#include "target/io/request.h"

#include <errno.h>
#include <string.h>
#include "proto/wire/wire_check.h"
#include "target/io/io_queue.h"
#include "target/io/throttle.h"
#include "target/store/submit.h"

static struct tgt_loop *request_loop(const struct tgt_request *request)
{
	return request->io_queue->loop;
}

/* -- received ---------------------------------------------------------------------------------- */

static_assert(sizeof(((struct tgt_request *)0)->held) <= sizeof(((struct tgt_request *)0)->limited_ns),
	      "what clears limited_ns clears held");

static void request_decode(struct tgt_request *request, const struct rblk_wire_command *command, uint64_t now_ns)
{
	request->opcode = command->opcode;
	request->flags = command->flags;
	request->sequence = rblk_le32(command->sequence);
	request->blocks = rblk_le32(command->blocks);
	request->lba = rblk_le64(command->lba);
	request->address = rblk_le64(command->segment.address);
	request->rkey = rblk_le32(command->segment.rkey);
	request->length = rblk_le32(command->segment.length);
	request->argument = rblk_le64(command->argument);
	request->digest = rblk_le32(command->digest);
	request->home = TGT_HOME_NONE;
	request->status = RBLK_OK;
	request->aborted = false;
	request->holds_capsule = false;
	request->orphan = 0;
	request->limited_ns = 0; /* and held */
	request->numbered = false;
	request->access = NULL;
	request->compare = NULL;
	request->data = NULL;
	request->data_bytes = 0;
	request->moved = 0;
	request->reads_pending = 0;
	request->done_bytes = 0;
	request->result = 0;
	request->queued_us = 0;
	request->stored_us = 0;
	request->received_ns = now_ns;
	request->submitted_ns = now_ns;
}

/* -- data in ----------------------------------------------------------------------------------- */

/* False: the fabric may still write there. */
static bool fetch_leave(struct tgt_request *request)
{
	struct tgt_io_queue *io_queue = request->io_queue;

	if (request->moved && (io_queue->open || io_queue->reads_out))
		return false;
	/* Posted as a whole, it is in no list any more. */
	if (request->moved < request->data_bytes)
		TAILQ_REMOVE(tgt_turns_list(&io_queue->fetching, request), request, link);
	return true;
}

void tgt_request_fetch(struct tgt_request *request)
{
	if (!tgt_request_set_state(request, TGT_REQUEST_DATA_IN))
		return;
	request->leave = fetch_leave;
	if (tgt_request_priority(request))
		request->io_queue->beside_ns = request_loop(request)->now_ns;
	TAILQ_INSERT_TAIL(tgt_turns_list(&request->io_queue->fetching, request), request, link);
	tgt_io_queue_mark_dirty(request->io_queue);
}

/* F2: all of it is here before the store sees any of it. */
void tgt_request_data_in(struct tgt_request *request)
{
	if (!tgt_request_digest_matches(request))
		tgt_request_complete(request, RBLK_E_DIGEST);
	else if (tgt_request_refused(request))
		tgt_request_complete(request, RBLK_E_RESERVED); /* since its data was on the way */
	else
		tgt_command_of(request)->data_in(request);
}

/* -- stored ------------------------------------------------------------------------------------ */

enum rblk_status tgt_status_of_errno(int error)
{
	switch (-error) {
	case 0:
		return RBLK_OK;
	case EBUSY:
		return RBLK_E_BUSY;
	case ENOSPC:
	case EDQUOT:
		return RBLK_E_NO_SPACE;
	case ENODATA:
	case EBADMSG:
	case EILSEQ:
		return RBLK_E_MEDIUM;
	case EROFS:
		return RBLK_E_READ_ONLY;
	case EOPNOTSUPP:
		return RBLK_E_UNSUPPORTED;
	case ENOMEM:
		return RBLK_E_NO_RESOURCES;
	default:
		return RBLK_E_IO;
	}
}

void tgt_request_ended(struct tgt_request *request, int error)
{
	/* The connection was lost meanwhile: F5 waited for this. */
	if (!request->io_queue->open) {
		tgt_request_drop(request);
		return;
	}
	if (!error)
		tgt_request_complete(request, RBLK_OK);
	else /* the answer of an ABORT holds, whatever the store's error */
		tgt_request_complete(request, request->aborted ? RBLK_E_ABORTED : tgt_status_of_errno(error));
}

static void request_stored(struct tgt_request *request, int error)
{
	request->stored_us = tgt_microseconds(request->submitted_ns, request_loop(request)->now_ns);
	tgt_command_of(request)->stored(request, error);
}

static void request_io_done(struct tgt_io *io, int error)
{
	struct tgt_request *request = (struct tgt_request *)io;

	/* Not answered: its initiator sends it again when the volume has been opened again. */
	if (error && request->io_queue->open && tgt_volume_why_lost(io->volume))
		request->io_queue->ops->lost(request->io_queue);
	request_stored(request, error);
}

static inline int request_buffer_index(const struct tgt_request *request, const char *buffer)
{
	const struct tgt_receives *receives = request->io_queue->receives;

	if (request->home == TGT_HOME_POOL)
		return tgt_dma_memory_buffer(request_loop(request)->memory, buffer);
	if (request->home == TGT_HOME_CAPSULE)
		return tgt_dma_memory_buffer(&receives->chunks[request->capsule_buffer / TGT_RECEIVES_CHUNK].memory,
					     buffer);
	return -1;
}

/* False: the store has begun it. Otherwise the store will not report its end. */
bool tgt_request_withdraw(struct tgt_request *request)
{
	return tgt_volume_withdraw(&request->io);
}

static inline __attribute__((always_inline)) void request_submit(struct tgt_request *request, char *buffer,
								 bool (*leave)(struct tgt_request *request))
{
	struct tgt_channel *channel = request->access->channel;
	struct tgt_io *io = &request->io;
	int result;

	request->leave = leave;
	io->buffer = buffer;
	io->buffer_index = request_buffer_index(request, buffer);
	io->progress = 0;
	io->ended = request_io_done;
	io->waiter.owner = request->io_queue->owner;
	io->waiter.priority = tgt_request_priority(request);
	io->waiter.read = io->kind == TGT_IO_READ;
	result = tgt_volume_submit(channel->volume, channel, io);
	if (result)
		request_stored(request, result > 0 ? 0 : result);
}

void tgt_request_submit(struct tgt_request *request, char *buffer, bool (*leave)(struct tgt_request *request))
{
	request_submit(request, buffer, leave);
}

static inline __attribute__((always_inline)) bool begin_storing(struct tgt_request *request)
{
	if (!tgt_request_set_state(request, TGT_REQUEST_STORING))
		return false;
	request->submitted_ns = request_loop(request)->now_ns;
	request->queued_us = tgt_microseconds(request->received_ns, request->submitted_ns);
	return true;
}

bool tgt_request_begin_storing(struct tgt_request *request)
{
	return begin_storing(request);
}

void tgt_request_store(struct tgt_request *request, enum tgt_io_kind kind)
{
	uint64_t block_bytes = tgt_request_volume(request)->block_bytes;
	struct tgt_io *io = &request->io;

	if (request->state != TGT_REQUEST_STORING && !begin_storing(request))
		return;
	io->kind = kind;
	io->flags = (request->flags & RBLK_CMD_FUA ? TGT_IO_FUA : 0) |
		    (request->flags & RBLK_CMD_NO_UNMAP ? TGT_IO_NO_UNMAP : 0);
	io->offset = request->lba * block_bytes;
	io->bytes = request->blocks * block_bytes;
	request_submit(request, request->data, tgt_request_withdraw);
}

/* -- put off, limited -------------------------------------------------------------------------- */

static bool resumed_leave(struct tgt_request *request)
{
	TAILQ_REMOVE(&request_loop(request)->resumed, request, link);
	request->leave = NULL;
	return true;
}

void tgt_request_put_off(struct tgt_request *request)
{
	if (request->state != TGT_REQUEST_STORING && !tgt_request_begin_storing(request))
		return;
	request->leave = resumed_leave;
	TAILQ_INSERT_TAIL(&request_loop(request)->resumed, request, link);
}

void tgt_request_resume(struct tgt_request *request)
{
	resumed_leave(request);
	if (request->aborted)
		tgt_request_complete(request, RBLK_E_ABORTED);
	else
		tgt_command_of(request)->resume(request);
}

/* The open volume that it names. It counts as its user from now on, unless the volume is gone. Not OK: the
 * connection has no such volume, or may not use any; nothing else is looked up for it then. */
static inline enum rblk_status request_find(struct tgt_request *request, uint32_t handle)
{
	struct tgt_access *access;
	enum rblk_status status;

	if (!tgt_command_of(request)->begin)
		return RBLK_E_UNSUPPORTED;
	access = request->io_queue->ops->find(request->io_queue, handle, &status);
	if (!access)
		return status;
	if (access->channel && !atomic_load_explicit(&access->channel->volume->removed, memory_order_relaxed)) {
		request->access = access;
		request->flags |= access->flags;
		tgt_access_get(access);
	}
	return RBLK_OK;
}

static inline __attribute__((always_inline)) void
request_begin(struct tgt_io_queue *io_queue, struct tgt_request *request, const struct rblk_wire_command *command,
	      char *capsule, uint32_t capsule_bytes, uint32_t buffer)
{
	enum rblk_status status;

	request_decode(request, command, io_queue->loop->now_ns);
	if (!tgt_request_set_state(request, TGT_REQUEST_RECEIVED))
		return;
	io_queue->active++;
	io_queue->totals.commands++;
	if (request->opcode >= RBLK_OP_IDENTIFY) {
		const struct tgt_arguments arguments = {capsule, capsule_bytes, rblk_le32(command->volume)};

		io_queue->ops->begin(request, &arguments);
		return;
	}
	request->capsule_buffer = buffer;
	request->data = capsule;
	status = request_find(request, rblk_le32(command->volume));
	/* F8: the connection may name the volume, so it may ask what became of the number. Only then may the command be
	 * refused: what was done is not to be denied to its retry. */
	if (!status && tgt_command_of(request)->numbered && !tgt_request_begin_operation(request))
		return;
	if (!status)
		status = tgt_request_check(request);
	if (status)
		tgt_request_complete(request, status);
	else if (!request->access->limited || tgt_throttle_pass(request, capsule != NULL))
		tgt_command_of(request)->begin(request);
}

void tgt_request_begin(struct tgt_request *request, const struct rblk_wire_command *command,
		       char *capsule, uint32_t capsule_bytes, uint32_t buffer)
{
	request_begin(request->io_queue, request, command, capsule, capsule_bytes, buffer);
}

void tgt_request_unlimited(struct tgt_request *request)
{
	const struct tgt_command *command = tgt_command_of(request);
	bool begun = request->done_bytes > 0;
	enum rblk_status status;

	if (!tgt_request_set_state(request, begun ? TGT_REQUEST_STORING : TGT_REQUEST_RECEIVED))
		return;
	status = tgt_request_check_volume(request);
	if (status)
		tgt_request_complete(request, status);
	else if (begun)
		command->resume(request);
	else
		command->begin(request);
}

/* -- a message from the peer --------------------------------------------------------------------- */

/* The checks that need the I/O queue's state. NULL and the command's slot, or the broken rule. */
static inline const char *command_rule(const struct tgt_io_queue *io_queue, const struct rblk_wire_command *command,
				       struct tgt_request **request)
{
	uint16_t tag = rblk_le16(command->tag);

	if (tag >= io_queue->tags)
		return "tag beyond the credits granted";
	*request = &io_queue->requests[tag];
	if ((*request)->state != TGT_REQUEST_FREE)
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
		struct tgt_request *request;
		const char *rule = command_rule(io_queue, &commands[i], &request);
		u32 offset = 0, length = 0;
		bool capsule;

		if (rule) {
			tgt_io_queue_violation(io_queue, rule);
			return;
		}
		io_queue->sequence++;
		capsule = rblk_command_capsule(&commands[i], &offset, &length);
		request_begin(io_queue, request, &commands[i], capsule ? message + offset : NULL, length, index);
	}
}

/* -- held -------------------------------------------------------------------------------------- */

bool tgt_request_hold(struct tgt_request *request, bool (*leave)(struct tgt_request *request), void *held)
{
	if (!tgt_request_set_state(request, TGT_REQUEST_HELD))
		return false;
	request->held = held;
	request->leave = leave;
	return true;
}
