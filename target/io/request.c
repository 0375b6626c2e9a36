/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of a command, from top to bottom: received -> checked -> data in -> stored -> data out
 * -> replied. request_state.c has the allowed steps, request_check.c the checks, request_memory.c
 * the memory, request_abort.c how one ends early, request_end.c how each ends, request_operation.c
 * its number (F8); transfer.c moves bytes, reply.c packs completions, checksum.c has CHECKSUM,
 * extents.c EXTENTS and compare.c COMPARE_AND_WRITE; commands that are not block I/O go to the upper
 * room. Nothing here waits: each function takes a request as far as possible and leaves it in a
 * list, with the store or with the fabric, as its state says.
 */
#include "target/io/request.h"

#include <errno.h>
#include <string.h>
#include "proto/digest/digest.h"
#include "target/io/answers.h"
#include "target/io/checksum.h"
#include "target/io/compare.h"
#include "target/io/extents.h"
#include "target/io/lane.h"
#include "target/io/limited.h"
#include "target/io/share.h"
#include "target/store/submit.h"

static struct tgt_turn *request_turn(const struct tgt_request *request)
{
	return request->lane->turn;
}

static const struct tgt_volume *request_volume(const struct tgt_request *request)
{
	return request->access->port->volume;
}

static uint32_t request_block_bytes(const struct tgt_request *request)
{
	return request_volume(request)->block_bytes;
}

/* The store's own memory, as the lane's device knows it. */
static uint32_t request_port_lkey(const struct tgt_request *request)
{
	return tgt_port_lkey(request->access->port, request->lane->fabric,
			     fab_conn_device(request->lane->conn));
}

/* -- received ---------------------------------------------------------------------------------- */

static_assert(sizeof(((struct tgt_request *)0)->held) <= sizeof(((struct tgt_request *)0)->limited_ns),
	      "what clears limited_ns clears held");

static void request_decode(struct tgt_request *request, const struct rblk_wire_command *command)
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
	request->bounded = false;
	request->put_off = false;
	request->holds_capsule = false;
	request->orphan = 0;
	request->limited_ns = 0; /* and held */
	request->chained = false;
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
	request->received_ns = request_turn(request)->now_ns;
	request->submitted_ns = request->received_ns;
}

static void request_store(struct tgt_request *request, enum tgt_io_kind kind);

/* -- data in ----------------------------------------------------------------------------------- */

static void request_fetch(struct tgt_request *request)
{
	if (!tgt_request_set_state(request, TGT_REQUEST_DATA_IN))
		return;
	TAILQ_INSERT_TAIL(&request->lane->fetching, request, link);
	tgt_lane_mark_dirty(request->lane);
}

static bool digest_matches(const struct tgt_request *request, const char *data)
{
	return !(request->flags & RBLK_CMD_DIGEST) ||
	       rblk_digest(0, data, request->length) == request->digest;
}

/* F2: all of it is here before the store sees any of it. */
void tgt_request_data_in(struct tgt_request *request)
{
	if (!digest_matches(request, request->data))
		tgt_request_complete(request, RBLK_E_DIGEST);
	else if (tgt_access_refuses(request->access, request->opcode))
		tgt_request_complete(request, RBLK_E_RESERVED); /* since its data was on the way */
	else if (request->opcode == RBLK_OP_COMPARE_AND_WRITE)
		tgt_compare_data_in(request);
	else
		request_store(request, TGT_IO_WRITE);
}

/*
 * The data goes directly into the store's own memory, without the store. That is not possible while
 * the volume has a claim, which might have to block it. It is in flight from now on.
 */
static bool request_write_direct(struct tgt_request *request)
{
	return tgt_write_begin_now(&request->access->port->claims, &request->io.write,
				   request->lba * request_block_bytes(request), request->length);
}

static void request_write_capsule(struct tgt_request *request, char *capsule)
{
	const struct tgt_store_info *info = &request_volume(request)->store->info;
	uint64_t offset = request->lba * request_block_bytes(request);

	if (!digest_matches(request, capsule)) {
		tgt_request_complete(request, RBLK_E_DIGEST);
		return;
	}
	if (info->direct && !tgt_claims_any(&request->access->port->claims)) {
		memcpy((char *)info->direct + offset, capsule, request->length);
		tgt_request_complete(request, RBLK_OK);
		return;
	}
	request->holds_capsule = true;
	tgt_receives_hold(request->lane->receives, request->capsule_buffer);
	request->data = capsule;
	if ((uintptr_t)capsule % (info->alignment ? info->alignment : 1)) {
		tgt_request_get_memory(request, request->length);
		return;
	}
	request->home = TGT_HOME_CAPSULE;
	request->data_bytes = request->length;
	request_store(request, TGT_IO_WRITE);
}

static void request_write(struct tgt_request *request)
{
	const struct tgt_volume *volume = request_volume(request);
	const struct tgt_store_info *info = &volume->store->info;

	/* A digest is checked before anything is stored, so not in the store's own memory. */
	if (!info->direct || request->flags & RBLK_CMD_DIGEST || !request_write_direct(request)) {
		tgt_request_get_memory(request, request->length);
		return;
	}
	request->home = TGT_HOME_DIRECT;
	request->data = (char *)info->direct + request->lba * volume->block_bytes;
	request->data_bytes = request->length;
	request->lkey = request_port_lkey(request);
	request_fetch(request);
}

/* The capsule's bytes are moved there and their receive buffer is released. */
void tgt_request_with_memory(struct tgt_request *request)
{
	switch (request->opcode) {
	case RBLK_OP_READ:
		request_store(request, TGT_IO_READ);
		break;
	case RBLK_OP_WRITE:
	case RBLK_OP_COMPARE_AND_WRITE:
		if (!request->holds_capsule) {
			request_fetch(request);
			break;
		}
		memcpy(request->data,
		       tgt_receives_buffer(request->lane->receives, request->capsule_buffer) +
			       request->address,
		       request->length);
		tgt_request_release_capsule(request);
		/* For a WRITE in the capsule it was checked before. */
		if (request->opcode == RBLK_OP_COMPARE_AND_WRITE)
			tgt_request_data_in(request);
		else
			request_store(request, TGT_IO_WRITE);
		break;
	case RBLK_OP_EXTENTS:
		tgt_extents_next(request);
		break;
	default:
		tgt_checksum_next(request);
		break;
	}
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

static uint32_t microseconds(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t us = to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;

	return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

void tgt_request_stored(struct tgt_request *request, int error)
{
	request->stored_us = microseconds(request->submitted_ns, request_turn(request)->now_ns);
	if (request->opcode == RBLK_OP_EXTENTS)
		tgt_extents_left(request);
	if (request->opcode == RBLK_OP_COMPARE_AND_WRITE) {
		tgt_compare_stored(request, error);
		return;
	}
	/* The connection was lost meanwhile: F5 waited for this. */
	if (!request->lane->open) {
		tgt_request_drop(request);
		return;
	}
	if (!error && request->opcode == RBLK_OP_CHECKSUM) {
		tgt_checksum_stored(request);
		return;
	}
	if (!error && request->opcode == RBLK_OP_EXTENTS) {
		tgt_extents_stored(request);
		return;
	}
	if (!error && request->opcode == RBLK_OP_READ && request->flags & RBLK_CMD_DIGEST)
		request->digest = rblk_digest(0, request->data, request->length);
	/* The answer of an ABORT holds, whatever the store's error. */
	tgt_request_complete(request, error && request->aborted ? RBLK_E_ABORTED
								: tgt_status_of_errno(error));
}

static void request_io_done(struct tgt_io *io, int error)
{
	tgt_request_stored((struct tgt_request *)io, error);
}

static int request_buffer_index(const struct tgt_request *request, const char *buffer)
{
	if (request->home == TGT_HOME_POOL)
		return tgt_region_buffer(request_turn(request)->region, buffer);
	if (request->home == TGT_HOME_CAPSULE)
		return tgt_region_buffer(tgt_receives_region(request->lane->receives,
							     request->capsule_buffer),
					 buffer);
	return -1;
}

void tgt_request_submit(struct tgt_request *request, char *buffer)
{
	struct tgt_port *port = request->access->port;
	struct tgt_io *io = &request->io;
	int result;

	io->buffer = buffer;
	io->buffer_index = request_buffer_index(request, buffer);
	io->progress = 0;
	io->ended = request_io_done;
	io->waiter.owner = request->lane->owner;
	result = tgt_volume_submit(port->volume, port, io);
	if (result)
		tgt_request_stored(request, result > 0 ? 0 : result);
}

bool tgt_request_begin_storing(struct tgt_request *request)
{
	if (!tgt_request_set_state(request, TGT_REQUEST_STORING))
		return false;
	request->submitted_ns = request_turn(request)->now_ns;
	request->queued_us = microseconds(request->received_ns, request->submitted_ns);
	return true;
}

static void request_store(struct tgt_request *request, enum tgt_io_kind kind)
{
	struct tgt_io *io = &request->io;

	if (request->state != TGT_REQUEST_STORING && !tgt_request_begin_storing(request))
		return;
	io->kind = kind;
	io->flags = (request->flags & RBLK_CMD_FUA ? TGT_IO_FUA : 0) |
		    (request->flags & RBLK_CMD_NO_UNMAP ? TGT_IO_NO_UNMAP : 0);
	io->offset = request->lba * request_block_bytes(request);
	io->bytes = (uint64_t)request->blocks * request_block_bytes(request);
	tgt_request_submit(request, request->data);
}

/* -- where each command goes after the checks -------------------------------------------------- */

void tgt_request_put_off(struct tgt_request *request)
{
	if (request->state != TGT_REQUEST_STORING && !tgt_request_begin_storing(request))
		return;
	request->put_off = true;
	TAILQ_INSERT_TAIL(&request_turn(request)->resumed, request, link);
}

static void request_read(struct tgt_request *request)
{
	const struct tgt_volume *volume = request_volume(request);
	char *direct = volume->store->info.direct;

	if (direct && tgt_share_over_budget(request->lane->share, request->length)) {
		tgt_request_put_off(request);
		return;
	}
	/* In the store's own memory a write may come between the digest and the transfer. */
	if (!direct || request->flags & RBLK_CMD_DIGEST) {
		tgt_request_get_memory(request, request->length);
		return;
	}
	request->home = TGT_HOME_DIRECT;
	request->data = direct + request->lba * volume->block_bytes;
	request->data_bytes = request->length;
	request->lkey = request_port_lkey(request);
	tgt_request_complete(request, RBLK_OK);
}

static void request_zero(struct tgt_request *request)
{
	uint64_t bytes = (uint64_t)request->blocks * request_block_bytes(request);

	/* The store zeroes its own memory during the call. */
	if (request_volume(request)->store->info.direct &&
	    tgt_share_over_budget(request->lane->share, bytes))
		tgt_request_put_off(request);
	else
		request_store(request, TGT_IO_WRITE_ZEROES);
}

void tgt_request_resume(struct tgt_request *request)
{
	TAILQ_REMOVE(&request_turn(request)->resumed, request, link);
	request->put_off = false;
	if (!request->lane->open)
		tgt_request_drop(request);
	else if (request->aborted)
		tgt_request_complete(request, RBLK_E_ABORTED);
	else if (request->opcode == RBLK_OP_READ)
		request_read(request);
	else if (request->opcode == RBLK_OP_WRITE_ZEROES)
		request_zero(request);
	else
		tgt_checksum_next(request);
}

static void request_go(struct tgt_request *request, char *capsule)
{
	switch (request->opcode) {
	case RBLK_OP_READ:
		request_read(request);
		break;
	case RBLK_OP_WRITE:
		if (capsule)
			request_write_capsule(request, capsule);
		else
			request_write(request);
		break;
	case RBLK_OP_COMPARE_AND_WRITE:
		tgt_compare_begin(request, capsule != NULL);
		break;
	case RBLK_OP_FLUSH:
		/* The whole volume: what was acknowledged before is durable when this succeeds. */
		request->lba = 0;
		request_store(request, TGT_IO_FLUSH);
		break;
	case RBLK_OP_DISCARD:
		request_store(request, TGT_IO_DISCARD);
		break;
	case RBLK_OP_WRITE_ZEROES:
		request_zero(request);
		break;
	case RBLK_OP_CHECKSUM:
		tgt_checksum_begin(request);
		break;
	case RBLK_OP_EXTENTS:
		tgt_extents_begin(request);
		break;
	}
}

void tgt_request_begin(struct tgt_request *request, const struct rblk_wire_command *command,
		       char *capsule, uint32_t capsule_bytes, uint32_t buffer)
{
	enum rblk_status status;

	request_decode(request, command); /* its slot is free: message.c has seen to that */
	if (!tgt_request_set_state(request, TGT_REQUEST_RECEIVED))
		return;
	request->lane->active++;
	request->lane->commands++;
	if (request->opcode >= RBLK_OP_IDENTIFY) {
		request->lane->ops->begin(request, capsule, capsule_bytes,
					  rblk_le32(command->volume));
		return;
	}
	request->capsule_buffer = buffer;
	status = tgt_request_find(request, rblk_le32(command->volume));
	/* F8: the connection may name the volume, so it may ask what became of the number. Only then may the command be
	 * refused: what was done is not to be denied to its retry. */
	if (!status && request->opcode == RBLK_OP_COMPARE_AND_WRITE && !tgt_request_begin_operation(request))
		return;
	if (!status)
		status = tgt_request_check(request);
	if (status)
		tgt_request_complete(request, status);
	else if (!request->access->limited || tgt_limited_pass(request, capsule != NULL))
		request_go(request, capsule);
}

void tgt_request_unlimited(struct tgt_request *request)
{
	struct tgt_receives *receives = request->lane->receives;
	uint32_t buffer = request->capsule_buffer;
	bool held = request->holds_capsule, begun = request->done_bytes > 0;
	enum rblk_status status;

	if (!tgt_request_set_state(request, begun ? TGT_REQUEST_STORING : TGT_REQUEST_RECEIVED))
		return;
	status = tgt_request_check_volume(request);
	if (status) {
		tgt_request_complete(request, status);
		return;
	}
	if (begun) {
		tgt_checksum_next(request);
		return;
	}
	request->holds_capsule = false;
	request_go(request, held ? tgt_receives_buffer(receives, buffer) + request->address : NULL);
	if (held)
		tgt_receives_release(receives, buffer);
}

/* -- data out, replied ------------------------------------------------------------------------- */

static bool request_queue_reply(struct tgt_request *request, enum tgt_request_state state)
{
	struct tgt_lane *lane = request->lane;

	if (!tgt_request_set_state(request, state))
		return false;
	TAILQ_INSERT_TAIL(&lane->done, request, link);
	lane->done_count++;
	tgt_lane_mark_dirty(lane);
	return true;
}

static void request_account(struct tgt_request *request)
{
	struct tgt_lane *lane = request->lane;
	struct tgt_counts *counts;
	uint32_t bytes;

	if (!request->access) {
		if (request->status != RBLK_OK)
			lane->turn->refused[request->status]++;
		return;
	}
	/* RESERVE and RESERVATIONS: session commands, which no volume counts. */
	if (request->opcode >= TGT_COUNT_OPCODES)
		return;
	counts = request->access->counts;
	tgt_counts_add(counts, request->opcode, request->queued_us, request->stored_us);
	lane->queued_us += request->queued_us;
	lane->stored_us += request->stored_us;
	if (request->status != RBLK_OK) {
		counts->errors[request->status]++;
	} else if (request->opcode == RBLK_OP_READ) {
		lane->bytes_read += request->length;
		counts->bytes_read += request->length;
	} else if (request->opcode == RBLK_OP_WRITE ||
		   request->opcode == RBLK_OP_COMPARE_AND_WRITE) {
		bytes = request->opcode == RBLK_OP_WRITE ? request->length : request->length / 2;
		lane->bytes_written += bytes;
		counts->bytes_written += bytes;
	}
}

void tgt_request_complete(struct tgt_request *request, enum rblk_status status)
{
	bool data_out = request->opcode == RBLK_OP_READ && status == RBLK_OK;

	tgt_compare_free(request);
	if (!request_queue_reply(request, data_out ? TGT_REQUEST_DATA_OUT : TGT_REQUEST_REPLYING))
		return;
	request->status = (uint16_t)status;
	tgt_request_end_operation(request, status);
	/* A reservation removed its rights while the store had it; now the store has ended it. */
	if (request->orphan)
		tgt_request_end_orphan(request);
	request_account(request);
	tgt_request_release_capsule(request);
	if (!data_out)
		tgt_request_free_data(request);
}

void tgt_request_report(struct tgt_request *request)
{
	if (request_queue_reply(request, TGT_REQUEST_DATA_OUT))
		request_account(request);
}

void tgt_request_chained(struct tgt_request *request)
{
	if (!tgt_request_set_state(request, TGT_REQUEST_REPLYING))
		return;
	request->queued_us = microseconds(request->received_ns, request_turn(request)->now_ns);
	request_account(request);
	request->chained = true;
	TAILQ_INSERT_TAIL(&request->lane->chained, request, link);
}

bool tgt_request_hold(struct tgt_request *request)
{
	return tgt_request_set_state(request, TGT_REQUEST_HELD);
}
