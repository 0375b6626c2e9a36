/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a command's data is shown to the target: small I/O through a slot that is registered once
 * per tag (a copy is cheaper than a registration and an invalidation), large I/O by fast
 * registration of its own pages. Never the global rkey.
 */
#ifndef RBLK_KMOD_MEMORY_H
#define RBLK_KMOD_MEMORY_H

#include "kmod/command.h"

struct rblk_io;
struct rblk_queue;

/* A slot's size, and with it the largest I/O that is copied: module parameter slot_bytes. */
#define RBLK_SLOT_BYTES_MIN 4096u
#define RBLK_SLOT_BYTES_MAX 65536u
/* The parameter's value now, to be asked once per session. */
u32 rblk_memory_slot_bytes(void);
/* Pages of 4 KiB that the RDMA device must be able to register at once. */
u32 rblk_memory_pages_needed(u32 slot_bytes);
/* Work requests that register the slots of so many tags; they leave with the first SENDs. */
u32 rblk_memory_slot_registrations(const struct ib_device *ibdev, u32 slot_bytes, u32 tags);

/*
 * Sleeps. A slot for each command that may be outstanding, room for registrations of those of
 * requests. Where it fails, rblk_memory_destroy() is due, too, which does nothing where there is
 * nothing.
 */
int rblk_memory_create(struct rblk_queue *queue);
void rblk_memory_destroy(struct rblk_queue *queue);
/*
 * Sleep. For each connection: makes the registrations that are missing; registers the slots with
 * work requests posted on queue->qp, so after it has been connected; and when that queue pair has
 * been destroyed, ends every key that may be valid.
 */
int rblk_memory_make_keys(struct rblk_queue *queue);
int rblk_memory_register(struct rblk_queue *queue);
void rblk_memory_end_keys(struct rblk_queue *queue);
u32 rblk_memory_max_bytes(const struct rblk_queue *queue);

/*
 * Make the first `bytes` of the request's data reachable and fill the descriptor's segment. Atomic
 * context. 0 or negative errno (-ENOMEM: try later). Undone by rblk_memory_unmap().
 */
int rblk_memory_map(struct rblk_io *io, u32 bytes);
/*
 * After the rkey has ended, or the queue has been drained. Copies nothing; gives back a borrowed
 * tag; any context. Idempotent.
 */
void rblk_memory_unmap(struct rblk_io *io);
/* Unmaps only pages that were registered: the device has no more to do with them. */
void rblk_memory_unmap_pages(struct rblk_io *io);
/* A read that went through its slot: copy it to the request's pages. */
void rblk_memory_copy_out(struct rblk_io *io);

/* The slot of a tag: address for the CPU, for the device's SGEs, and for the wire. */
void *rblk_memory_slot(struct rblk_queue *queue, u16 tag);
void rblk_memory_slot_sge(struct rblk_queue *queue, u16 tag, u32 bytes, struct ib_sge *sge);
void rblk_memory_slot_segment(struct rblk_queue *queue, u16 tag, u32 bytes,
			      struct rblk_wire_segment *segment);
void rblk_memory_sync_slot(struct rblk_queue *queue, u16 tag, bool for_device);

#endif
