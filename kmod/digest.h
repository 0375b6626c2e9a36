/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CRC32C of requests' data, on queues where it is agreed (RBLK_FEATURE_DIGEST): of what goes
 * out, for the target to check before it stores anything, and of what came in, to be compared with
 * the target's.
 */
#ifndef RBLK_KMOD_DIGEST_H
#define RBLK_KMOD_DIGEST_H

#include "kmod/command.h"
#include "proto/core/digest.h"

/*
 * Adds the digest of its data to a command whose data is mapped, or the request for a read's. Any
 * context.
 */
void rblk_digest_add(struct rblk_io *io);
/*
 * Its command has ended well: is the data what the target has read? The device has no more to do
 * with the data from then on. The queue's CQ handlers.
 */
bool rblk_digest_matches(struct rblk_io *io);

#endif
