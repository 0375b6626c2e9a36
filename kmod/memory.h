/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a command's data is shown to the target: small I/O through a slot that is registered once
 * per tag (a copy is cheaper than a registration and an invalidation), large I/O by fast
 * registration of its own pages. Never the global rkey.
 */
#ifndef RBLK_KMOD_MEMORY_H
#define RBLK_KMOD_MEMORY_H

#include "kmod/command.h"

struct rblk_queue;

/* A slot's size, and with it the largest I/O that is copied: module parameter slot_bytes. */
#define RBLK_SLOT_BYTES_MIN 4096u
#define RBLK_SLOT_BYTES_MAX 65536u
/* A slot's pages are 1 << order of them: what the parameter is now, to be asked once per device. */
unsigned int rblk_memory_slot_order(void);
/* Pages that the RDMA device must be able to register at once. */
u32 rblk_memory_pages_needed(unsigned int slot_order);
/* Work requests that register the slots of so many tags; they leave with the first SENDs. */
u32 rblk_memory_slot_registrations(const struct ib_device *ibdev, unsigned int slot_order,
				   u32 tags);
u32 rblk_memory_slot_bytes(const struct rblk_queue *queue);

/* Sleeps. Slots for `tags` commands, registrations for `credits` of them. Registers the slots with
 * work requests posted on queue->qp, so after it has been connected: rblk_memory_register(). */
int rblk_memory_create(struct rblk_queue *queue, unsigned int credits, unsigned int tags);
int rblk_memory_register(struct rblk_queue *queue);
void rblk_memory_destroy(struct rblk_queue *queue);
u32 rblk_memory_max_bytes(const struct rblk_queue *queue);

/*
 * Make the request's data reachable and fill the descriptor's segment. Atomic context. 0 or
 * negative errno (-ENOMEM: try later). Undone by rblk_memory_unmap().
 */
int rblk_memory_map(struct rblk_command *command, struct request *rq);
/* After the rkey has ended, or the queue has been drained. Copies nothing. */
void rblk_memory_unmap(struct rblk_command *command);
/* A read that went through its slot: copy it to the request's pages. */
void rblk_memory_copy_out(struct rblk_command *command);

/* The slot of a tag: address for the CPU, for the device's SGEs, and for the wire. */
void *rblk_memory_slot(struct rblk_queue *queue, u16 tag);
void rblk_memory_slot_sge(struct rblk_queue *queue, u16 tag, u32 bytes, struct ib_sge *sge);
void rblk_memory_slot_segment(struct rblk_queue *queue, u16 tag, u32 bytes,
			      struct rblk_wire_segment *segment);
void rblk_memory_sync_slot(struct rblk_queue *queue, u16 tag, bool for_device);

#endif
