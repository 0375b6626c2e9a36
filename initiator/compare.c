/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns COMPARE_AND_WRITE and the operation numbers that make it happen once (F8): number n has the
 * place n modulo RBLK_OPERATIONS_MAX and is used only after n - RBLK_OPERATIONS_MAX was called
 * back, so the target still has the answer to every command that may be sent again. io.c does the
 * rest.
 */
#include "initiator/session.h"

#include "initiator/io.h"
#include "initiator/volume.h"

static void compare_done(void *arg, const struct rblk_result *answer)
{
	struct ini_operation *operation = arg;
	struct ini_operation ended = *operation;
	struct rblk_result result = *answer;

	/* The place is freed before the callback, which may start the next one. */
	operation->volume = NULL;
	if (result.status == RBLK_E_COMPARE && result.value >= ended.bytes) {
		ini_session_note(ended.volume->session,
				 "%s: volume \"%s\": the target reports a difference beyond the range",
				 ini_session_peer(ended.volume->session),
				 ended.volume->info.name);
		result.error = -EPROTO;
	}
	ended.done(ended.arg, &result);
}

bool ini_compare_is(rblk_callback done, const void *arg, const struct ini_origin *origin)
{
	const struct ini_operation *operation = arg;

	return done == compare_done && operation->done == origin->done &&
	       operation->arg == origin->arg;
}

int rblk_compare_and_write(struct rblk_volume *volume, const void *data, size_t bytes,
			   uint64_t offset, uint32_t flags, rblk_callback done, void *arg)
{
	const struct ini_ask ask = {.able = volume->info.can_compare_and_write,
				    .writes = true,
				    .flags = flags,
				    .flags_allowed = RBLK_IO_FUA,
				    .done = done};
	struct rblk_session *session = volume->session;
	u64 number = session->calls.operation + 1;
	struct ini_operation *operation = &session->calls.operations[number % RBLK_OPERATIONS_MAX];
	int err = ini_io_check(volume, "COMPARE_AND_WRITE", &ask);

	if (!err && !data)
		err = ini_io_refuse(volume, -EINVAL, "COMPARE_AND_WRITE", "no data is given");
	if (!err)
		err = ini_io_check_range(volume, "COMPARE_AND_WRITE", bytes, offset,
					 volume->info.max_compare_bytes);
	if (err)
		return err;
	if (operation->volume)
		return -EAGAIN;
	*operation = (struct ini_operation){
		.volume = volume, .bytes = bytes, .done = done, .arg = arg};
	err = ini_io_start(volume,
			   &(struct ini_io){.opcode = RBLK_OP_COMPARE_AND_WRITE,
					    .flags = ini_io_flags(flags),
					    .data = data,
					    .bytes = bytes,
					    .offset = offset,
					    .operation = number,
					    .done = compare_done,
					    .arg = operation});
	if (err)
		operation->volume = NULL;
	else
		session->calls.operation = number;
	return err;
}
