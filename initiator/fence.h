/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * FENCE (F5): of all that was lost with a queue, when the session's machine asks for it; and of one volume at a time,
 * so that what others have lost does not wait for one whose storage hangs. The target answers the latter soon, with
 * BUSY while it may still change the volume; then it is asked again after a pause, until the queue has lost nothing
 * that waits, or the machine says that all of it is fenced.
 */
#ifndef RBLK_INITIATOR_FENCE_H
#define RBLK_INITIATOR_FENCE_H

#include "proto/core/session.h"

struct rblk_session;

/* CORE_ACTION_FENCE. core_session_fenced() follows, unless the connection that carries it is lost. */
void ini_fence_send(struct rblk_session *session, const struct core_action *action);
/* CORE_ACTION_RELEASE_HARMLESS: from now on volumes that have lost commands are asked about. */
void ini_fence_volumes(struct rblk_session *session, const struct core_action *action);
/* At least when it is due: asks. UINT64_MAX: never. */
void ini_fence_run(struct rblk_session *session);
u64 ini_fence_due_ns(const struct rblk_session *session);

#endif
