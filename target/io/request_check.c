/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The checks of a block command: its volume is open, its store has the operation, the range lies
 * within the volume, and the data is as long as the range. The validator has checked the descriptor
 * by itself; these checks need the volume. Called by request.c, once per command, and for one that
 * has waited for a limit once more: its volume may be smaller, read-only or reserved by then.
 */
#include "target/io/request.h"

#include "target/io/io_queue.h"

/* Checks what the volume and its store allow. */
static enum rblk_status check_ability(const struct tgt_request *request)
{
	const struct tgt_store_info *info = &tgt_request_volume(request)->store->info;
	const struct tgt_command *command = tgt_command_of(request);

	if (command->writes && request->access->read_only)
		return RBLK_E_READ_ONLY;
	if (request->flags & RBLK_CMD_FUA && !info->can_fua)
		return RBLK_E_UNSUPPORTED;
	if (command->needs && !*(const bool *)((const char *)info + command->needs))
		return RBLK_E_UNSUPPORTED;
	return RBLK_OK;
}

/* Where the range lies, and whether the data is as long as the range. */
static enum rblk_status check_range(const struct tgt_request *request)
{
	const struct tgt_command *command = tgt_command_of(request);
	const struct tgt_volume *volume = tgt_request_volume(request);
	uint64_t blocks = atomic_load_explicit(&volume->blocks, memory_order_relaxed);
	uint64_t bytes = tgt_request_bytes(request);
	uint64_t most = volume->store->info.max_discard_bytes;

	if (request->blocks > blocks || request->lba > blocks - request->blocks)
		return RBLK_E_RANGE;
	if (command->data && (bytes * command->data > request->io_queue->loop->max_io_bytes ||
			      bytes * command->data != request->length))
		return RBLK_E_INVALID;
	if (command->data && request->flags & RBLK_CMD_CAPSULE && request->length > TGT_CAPSULE_BYTES)
		return RBLK_E_INVALID;
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

enum rblk_status tgt_request_find(struct tgt_request *request, uint32_t handle)
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
		tgt_access_get(access);
	}
	return RBLK_OK;
}

enum rblk_status tgt_request_check(const struct tgt_request *request)
{
	if (request->io_queue->loop->draining)
		return RBLK_E_DRAINING;
	return request->access ? tgt_request_check_volume(request) : RBLK_E_GONE;
}
