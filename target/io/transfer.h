/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lane's send side: posts in a turn, and releases on completion. Called by work.c, request_end.c and
 * serve/. The reactor's thread only.
 */
#ifndef RBLK_TARGET_TRANSFER_H
#define RBLK_TARGET_TRANSFER_H

#include "target/io/lane.h"

/* Post what is due on a dirty lane: replies, READs, chained replies; one chain, one doorbell. */
void tgt_transfer_flush(struct tgt_lane *lane);

/* A signalled work request has completed well: so have all before it. */
void tgt_transfer_completed(struct tgt_lane *lane, uint64_t wr_id);
/*
 * READs into a store's memory may still land there after the connection was closed, or after the
 * initiator has lost its right to write: they count as the volume's orphans until they end. access:
 * those of one volume; NULL: all. Returns whether there are any.
 */
bool tgt_transfer_orphan(struct tgt_lane *lane, const struct tgt_access *access);
/* The connection is drained: release what the outstanding ones use. */
void tgt_transfer_abandon(struct tgt_lane *lane);

/* Keep-alive: an empty RDMA WRITE, which the peer's adapter answers. */
void tgt_transfer_probe(struct tgt_lane *lane);

#endif
