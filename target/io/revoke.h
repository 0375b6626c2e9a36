/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reservation has removed rights of an initiator: what happens to its outstanding commands on a
 * volume. The reactor's thread only.
 */
#ifndef RBLK_TARGET_REVOKE_H
#define RBLK_TARGET_REVOKE_H

#include "target/io/lane.h"

/*
 * access->refused is up to date. Commands that have not begun and are refused now are answered.
 * Writes that the store has begun count as the volume's orphans until they end, so that the change
 * can wait for them. `aborts`: all other commands that have not begun are answered ABORTED, and
 * reads count, too. Returns true if RDMA READs into the store's own memory are in flight: only the
 * end of the connection bounds how long they take.
 */
bool tgt_lane_revoke(struct tgt_lane *lane, struct tgt_access *access, bool aborts);

#endif
