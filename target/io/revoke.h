/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reservation has taken rights from an initiator: what becomes of its commands that are under way
 * on a volume. The reactor's thread only.
 */
#ifndef RBLK_TARGET_REVOKE_H
#define RBLK_TARGET_REVOKE_H

#include "target/io/lane.h"

/*
 * access->refused is up to date. What has not begun and is refused now is answered; what the store
 * has begun of writes counts as the volume's orphans until it ends, so that it can be waited for.
 * `aborts`: everything else that has not begun is answered ABORTED, and reads count, too.
 * Returns true if RDMA READs into the store's own memory are under way: nothing but the end of the
 * connection bounds how long they take.
 */
bool tgt_lane_revoke(struct tgt_lane *lane, struct tgt_access *access, bool aborts);

#endif
