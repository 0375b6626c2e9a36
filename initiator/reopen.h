/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A session's volumes in a new epoch, which has none of the old one's handles: all are opened again before it is LIVE. One
 * that the target cannot serve for now is late: it is asked for again beside the others' I/O, and only its own commands
 * wait. After give_up_ms it is gone.
 */
#ifndef RBLK_INITIATOR_REOPEN_H
#define RBLK_INITIATOR_REOPEN_H

#include "initiator/volume.h"

/* The session is named in a new epoch. core_session_named() or core_session_misled() follows. */
void ini_reopen(struct rblk_session *session);
/* Is this a command of ini_reopen()'s? The volume asks again, without a tag in between, if it is refused. */
bool ini_reopen_is(rblk_callback done);
/* 0: commands can be sent; -EBUSY: they wait; -EIO: they have waited for fail_fast_ms; -ENODEV: it is gone. */
int ini_reopen_ready(const struct rblk_volume *volume);
/* Once a turn: late volumes. And when it is due; UINT64_MAX: never. */
void ini_reopen_run(struct rblk_session *session);
u64 ini_reopen_due_ns(const struct rblk_session *session);

#endif
