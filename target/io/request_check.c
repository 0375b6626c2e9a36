/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The checks of a block command whose volume is open: its store has the operation, the range lies
 * within the volume, and the data is as long as the range. The validator has checked the descriptor
 * by itself; these checks need the volume. Called by request.c, once per command, and for one that
 * has waited for a limit once more: its volume may be smaller, read-only or reserved by then.
 */
#include "target/io/request.h"

#include "target/io/io_queue.h"

/* Flags that few commands have. */
static enum rblk_status check_flags(const struct tgt_request *request)
{
	const struct tgt_volume *volume = tgt_request_volume(request);
	uint32_t min_bytes, max_bytes;

	if (request->flags & RBLK_CMD_FUA && !volume->store->info.can_fua)
		return RBLK_E_UNSUPPORTED;
	if (request->opcode != RBLK_OP_WRITE || !(request->flags & RBLK_CMD_UNTORN))
		return RBLK_OK;
	tgt_volume_untorn(volume, request->io_queue->loop->max_io_bytes, &min_bytes, &max_bytes);
	if (!max_bytes)
		return RBLK_E_UNSUPPORTED;
	return rblk_untorn_valid(tgt_request_offset(request), tgt_request_bytes(request), min_bytes, max_bytes) ?
		       RBLK_OK : RBLK_E_INVALID;
}

/* Checks what the volume and its store allow. */
static enum rblk_status check_ability(const struct tgt_request *request)
{
	const struct tgt_store_info *info = &tgt_request_volume(request)->store->info;
	const struct tgt_command *command = tgt_command_of(request);

	if (command->writes && request->access->read_only)
		return RBLK_E_READ_ONLY;
	if (command->needs && !*(const bool *)((const char *)info + command->needs))
		return RBLK_E_UNSUPPORTED;
	return request->flags & (RBLK_CMD_FUA | RBLK_CMD_UNTORN) ? check_flags(request) : RBLK_OK;
}

/* Where the range lies, and whether the data is as long as the range. */
static enum rblk_status check_range(const struct tgt_request *request)
{
	const struct tgt_command *command = tgt_command_of(request);
	const struct tgt_volume *volume = tgt_request_volume(request);
	uint64_t blocks = atomic_load_explicit(&volume->blocks, memory_order_relaxed);
	uint64_t bytes = (uint64_t)request->blocks * volume->block_bytes, most;

	if (request->blocks > blocks || request->lba > blocks - request->blocks)
		return RBLK_E_RANGE;
	if (command->data) {
		most = request->io_queue->loop->max_io_bytes;
		if (request->flags & RBLK_CMD_CAPSULE && most > TGT_CAPSULE_BYTES)
			most = TGT_CAPSULE_BYTES;
		if (request->length > most || bytes * command->data != request->length)
			return RBLK_E_INVALID;
		most = volume->store->info.compare_bytes;
		return request->opcode == RBLK_OP_COMPARE_AND_WRITE && most && bytes > most ? RBLK_E_INVALID : RBLK_OK;
	}
	most = volume->store->info.max_discard_bytes;
	if (command->discards && most && bytes > most)
		return RBLK_E_INVALID;
	return RBLK_OK;
}

enum rblk_status tgt_request_check_volume(const struct tgt_request *request)
{
	enum rblk_status status = check_ability(request);

	if (!status && !tgt_command_of(request)->whole)
		status = check_range(request);
	if (!status && tgt_request_refused(request))
		status = RBLK_E_RESERVED;
	return status;
}
