/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An I/O queue's send side: posts in a turn, and releases on completion. Called by work.c, request_end.c and
 * serve/. The reactor's thread only.
 */
#ifndef RBLK_TARGET_TRANSFER_H
#define RBLK_TARGET_TRANSFER_H

#include "target/io/io_queue.h"

/* Post what is due on a dirty I/O queue: replies, READs, chained replies; one chain, one doorbell. */
void tgt_transfer_flush(struct tgt_io_queue *io_queue);

/* The READ of that number has come with a digest of all the data of its request, which is compared with it as with one
 * that is told in a command. */
void tgt_transfer_digest(struct tgt_io_queue *io_queue, uint64_t wr_id, uint32_t digest);
/* A signalled work request has completed well: so have all before it. */
void tgt_transfer_completed(struct tgt_io_queue *io_queue, uint64_t wr_id);
/*
 * READs into a store's memory may still land there after the connection was closed, or after the
 * initiator has lost its right to write: they count as the volume's orphans until they end. access:
 * those of one volume; NULL: all. Returns whether there are any.
 */
bool tgt_transfer_orphan(struct tgt_io_queue *io_queue, const struct tgt_access *access);
/* The connection is drained: release what the outstanding ones use. */
void tgt_transfer_abandon(struct tgt_io_queue *io_queue);

/* Keep-alive: an empty RDMA WRITE, which the peer's adapter answers. */
void tgt_transfer_probe(struct tgt_io_queue *io_queue);

#endif
