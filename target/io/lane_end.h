/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a lane, in two steps: closed, when nothing is accepted from the peer any more;
 * drained, when the fabric no longer accesses any memory. serve/ calls both. The reactor's thread
 * only.
 */
#ifndef RBLK_TARGET_LANE_END_H
#define RBLK_TARGET_LANE_END_H

#include "target/io/lane.h"

/*
 * Closes the connection. Requests that have not begun are dropped; those that the store or the
 * fabric owns count as the volumes' orphans until they end (F5). Idempotent.
 */
void tgt_lane_close(struct tgt_lane *lane);
/* The fabric has drained: release what the outstanding work requests used. */
void tgt_lane_drained(struct tgt_lane *lane);

#endif
