/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a lane, in two steps: closed, when nothing of the peer is taken any more; drained,
 * when the fabric no longer touches any memory. serve/ calls both. The reactor's thread only.
 */
#ifndef RBLK_TARGET_LANE_END_H
#define RBLK_TARGET_LANE_END_H

#include "target/io/lane.h"

/*
 * Closes the connection. What has not begun is dropped; what the store or the fabric owns is
 * counted as the volumes' orphans until it ends (F5). Idempotent.
 */
void tgt_lane_close(struct tgt_lane *lane);
/* The fabric has drained: what the outstanding work requests used is given back. */
void tgt_lane_drained(struct tgt_lane *lane);

#endif
