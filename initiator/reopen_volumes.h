/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session in a new epoch: IDENTIFY names it, and then its volumes, whose handles ended with the old epoch, are opened
 * again. Each is late until it is open again, and only its own commands wait. A few are asked for at a time, the one that
 * has waited longest first; one that the target cannot serve for now is asked for again, until it is gone after give_up_ms.
 * The session is LIVE when the first of them is open, or when all have an answer.
 */
#ifndef RBLK_INITIATOR_REOPEN_VOLUMES_H
#define RBLK_INITIATOR_REOPEN_VOLUMES_H

#include "initiator/volume.h"

/* CORE_ACTION_NAME. core_session_named() or core_session_misled() follows, unless the connection is lost. Negative errno: nothing
 * was sent. */
int ini_reopen(struct rblk_session *session);
/* Is this a command of ini_reopen()'s? The volume asks again, without a tag in between, if it is refused. */
bool ini_reopen_is(rblk_callback done);
/* 0: commands can be sent; -EBUSY: they wait; -EIO: they have waited for fail_fast_ms; -ENODEV: it is gone. */
int ini_reopen_ready(const struct rblk_volume *volume);
/* Once a turn: late volumes. And when it is due; UINT64_MAX: never. */
void ini_reopen_run(struct rblk_session *session);
u64 ini_reopen_due_ns(const struct rblk_session *session);

#endif
