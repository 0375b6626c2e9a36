/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Session commands: those that are not block I/O. admin.c calls them, and has those that are a few lines; open.c, fence.c,
 * reserve.c and authenticate.c have the others. The reactor's thread only.
 */
#ifndef RBLK_TARGET_SESSION_COMMAND_H
#define RBLK_TARGET_SESSION_COMMAND_H

#include "target/io/request.h"
#include "target/serve/session.h"

/*
 * Begins the command, which is RECEIVED, and returns its answer. RBLK_OK: with the report, if it has allocated one.
 * TGT_UNANSWERED: it is held, and tgt_command_answer() follows; or it was answered already.
 */
typedef enum rblk_status tgt_session_command(struct tgt_request *request, const struct tgt_arguments *arguments);
#define TGT_UNANSWERED RBLK_E_MAX

tgt_session_command tgt_authenticate_begin, tgt_fence_begin, tgt_open_begin, tgt_reserve_begin, tgt_reserve_report;

/*
 * A queue gives them to its I/O queue (io/io_queue.h). One that has not proven its session's name is DENIED everything
 * but AUTHENTICATE, KEEPALIVE and PING.
 */
extern const struct tgt_io_queue_ops tgt_admin_io_ops;

static inline void tgt_command_answer(struct tgt_request *request, enum rblk_status status)
{
	if (status == RBLK_OK && request->home == TGT_HOME_REPORT)
		tgt_request_report(request);
	else if (status != TGT_UNANSWERED)
		tgt_request_complete(request, status);
}

/* -- pending.c --------------------------------------------------------------------------------- */

/*
 * Makes what waits, zeroed, last in reactor->pending; `bytes`: of the struct, which begins with a struct tgt_pending.
 * request: HELD, it becomes request->held; NULL: there is none. barrier: it also waits for a barrier, which begins now.
 * Takes over the reference to the volume, on failure too. The caller sets go_on and the request's leave. NULL: no
 * memory; the request is still HELD, and the caller answers it this turn, before its leave can be called. The reactor's
 * thread.
 */
struct tgt_pending *tgt_pending_create(struct tgt_reactor *reactor, size_t bytes, struct tgt_request *request,
				       struct tgt_volume *volume, bool barrier);
/* It goes no further; that frees it. */
void tgt_pending_end(struct tgt_pending *pending);

/* -- open.c, fence.c --------------------------------------------------------------------------- */

/* The session's OPENs that wait for the handle's slot end, ABORTED. */
void tgt_open_drop(struct tgt_session *session, uint32_t handle);
/* A queue of this slot has ended entirely: answer the FENCEs that waited for nothing else. */
void tgt_fence_done(struct tgt_queue_slot *slot);

#endif
