/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a block command may ask for: a volume that is open, an operation that its store has, a
 * range that lies within it, and as much data as the range is long. The validator has judged the
 * descriptor alone; here it meets the volume. Called by request.c, once per command.
 */
#include "target/io/request.h"

#include "target/serve/handle.h"
#include "target/serve/queue.h"

/* What the volume and its store allow. */
static enum rblk_status check_ability(const struct tgt_request *request)
{
	const struct tgt_store_info *info = &request->handle->outlet->volume->store->info;

	if (tgt_opcode_writes(request->opcode) && request->handle->read_only)
		return RBLK_E_READ_ONLY;
	if (request->flags & RBLK_CMD_FUA && !info->can_fua)
		return RBLK_E_UNSUPPORTED;
	if ((request->opcode == RBLK_OP_FLUSH && !info->can_flush) ||
	    (request->opcode == RBLK_OP_DISCARD && !info->can_discard) ||
	    (request->opcode == RBLK_OP_WRITE_ZEROES && !info->can_write_zeroes))
		return RBLK_E_UNSUPPORTED;
	return RBLK_OK;
}

/* Where the range lies, and whether the data is as long as the range. */
static enum rblk_status check_range(const struct tgt_request *request)
{
	const struct tgt_volume *volume = request->handle->outlet->volume;
	uint64_t blocks = atomic_load_explicit(&volume->blocks, memory_order_relaxed);
	uint64_t bytes = (uint64_t)request->blocks * volume->block_bytes;
	uint64_t most = volume->store->info.max_discard_bytes;

	if (request->blocks > blocks || request->lba > blocks - request->blocks)
		return RBLK_E_RANGE;
	switch (request->opcode) {
	case RBLK_OP_READ:
	case RBLK_OP_WRITE:
		if (bytes > request->queue->reactor->max_io_bytes || bytes != request->length)
			return RBLK_E_INVALID;
		if (request->flags & RBLK_CMD_CAPSULE && bytes > TGT_CAPSULE_BYTES)
			return RBLK_E_INVALID;
		break;
	case RBLK_OP_DISCARD:
	case RBLK_OP_WRITE_ZEROES:
		if (most && bytes > most)
			return RBLK_E_INVALID;
		break;
	default:
		break;
	}
	return RBLK_OK;
}

enum rblk_status tgt_request_check(struct tgt_request *request, uint32_t handle_id)
{
	struct tgt_session *session = request->queue->session;
	struct tgt_handle *handle;
	enum rblk_status status;

	if (request->queue->reactor->draining)
		return RBLK_E_DRAINING;
	switch (request->opcode) {
	case RBLK_OP_READ:
	case RBLK_OP_WRITE:
	case RBLK_OP_FLUSH:
	case RBLK_OP_DISCARD:
	case RBLK_OP_WRITE_ZEROES:
	case RBLK_OP_CHECKSUM:
		break;
	default:
		return RBLK_E_UNSUPPORTED;
	}
	handle = tgt_handle_find(session, handle_id);
	if (!handle)
		return session->scratch ? RBLK_E_UNSUPPORTED : RBLK_E_NO_VOLUME;
	if (!handle->outlet ||
	    atomic_load_explicit(&handle->outlet->volume->removed, memory_order_relaxed))
		return RBLK_E_GONE;
	request->handle = handle;
	tgt_handle_get(handle);
	status = check_ability(request);
	if (!status && request->opcode != RBLK_OP_FLUSH)
		status = check_range(request);
	return status;
}
