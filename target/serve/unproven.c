/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls of a queue that has to prove its session's name first: a table of its own, so that a proven
 * queue's commands are not asked.
 */
#include "target/serve/unproven.h"

#include "target/io/request.h"
#include "target/serve/admin.h"

static void unproven_begin(struct tgt_request *request, const char *capsule, uint32_t capsule_bytes,
			   uint32_t volume)
{
	switch (request->opcode) {
	case RBLK_OP_AUTHENTICATE:
	case RBLK_OP_PING:
		tgt_admin_begin(request, capsule, capsule_bytes, volume);
		break;
	case RBLK_OP_KEEPALIVE: /* confirms no event: it was told none */
		tgt_request_complete(request, RBLK_OK);
		break;
	default:
		request->result = RBLK_DENIED_UNPROVEN;
		tgt_request_complete(request, RBLK_E_DENIED);
	}
}

static struct tgt_access *unproven_find(struct tgt_io_queue *io_queue, uint32_t handle,
					enum rblk_status *status)
{
	*status = RBLK_E_DENIED;
	return NULL;
}

static const struct tgt_io_queue_ops unproven_io_ops = {
	.begin = unproven_begin,
	.find = unproven_find,
	.event = NULL, /* none is due: event.c */
	.close = tgt_queue_io_close,
	.over = tgt_queue_io_over,
};

const struct tgt_io_queue_ops *tgt_unproven_ops(const struct tgt_session *session)
{
	return session->proven ? &unproven_io_ops : &tgt_admin_io_ops;
}
