/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A command from its descriptor to its end. For block I/O it is the request's blk-mq payload; for
 * the session's own (OPEN, KEEPALIVE, ...) it belongs to the queue and is waited for.
 *
 * In flight it holds two references: the SEND that carries it (its descriptor and in-capsule data
 * are the device's until that SEND is acknowledged) and the target's answer. The answer's reference
 * is dropped only after the rkey has ended (F4). The last one ends the command.
 */
#ifndef RBLK_KMOD_COMMAND_H
#define RBLK_KMOD_COMMAND_H

#include <linux/blk-mq.h>
#include <linux/completion.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

#include "proto/core/tags.h"
#include "proto/wire/wire.h"

struct rblk_queue;
struct rblk_device;

#define RBLK_TEXT_SHORT 160

/* How the command's data is shown to the target. */
enum rblk_data_kind {
	RBLK_MEMORY_NONE,
	RBLK_MEMORY_CAPSULE, /* write: copied to the slot, travels in the message */
	RBLK_MEMORY_SLOT,    /* copied through the slot, which is registered for the queue's life */
	RBLK_MEMORY_FAST,    /* registered for this command */
};

struct rblk_command {
	struct rblk_queue *queue;
	struct request *rq; /* NULL: the session's own */
	u16 tag;
	/*
	 * FREE: blk-mq's or free, nothing of it is known to the RDMA device. TAKEN: on queue->pending,
	 * memory is mapped. SENT: the target may touch its memory. ANSWERED: its rkey is being ended.
	 * queue->lock until SENT, then the completion handlers.
	 */
	struct core_tag account;
	atomic_t refs;
	struct list_head entry; /* queue->pending */
	struct rblk_wire_command wire; /* copied into a message when it is sent */

	/* the answer */
	u16 status;
	int error; /* instead of a status: the connection was lost */
	u64 result;
	u32 queued_us, stored_us;
	bool finished; /* session's own; device->session_wait */
	unsigned long busy_since; /* jiffies of the first BUSY; with RQF_DONTPREP */

	/* memory.c */
	enum rblk_data_kind memory;
	u32 bytes; /* in the capsule: a multiple of RBLK_CAPSULE_ALIGN */
	struct ib_mr *mr;   /* FAST: taken from the queue's for this tag */
	bool mr_valid;      /* registered and not yet invalidated */
	struct ib_reg_wr reg_wr;
	struct ib_send_wr inv_wr;
	struct ib_cqe reg_cqe, inv_cqe;
	int nents;
	enum dma_data_direction direction;
	struct sg_table table;
	struct scatterlist *first_sgl; /* the payload's tail: RBLK_INLINE_SG entries */
};

#define RBLK_INLINE_SG 2

/* blk-mq payload size. */
#define RBLK_COMMAND_BYTES (sizeof(struct rblk_command) + RBLK_INLINE_SG * sizeof(struct scatterlist))

/* Once for each command: rq is NULL for the session's own. */
void rblk_command_init(struct rblk_command *command, struct rblk_queue *queue, struct request *rq);

/* Fill command->wire from the request. 0, or the status to end the request with. */
blk_status_t rblk_command_prepare(struct rblk_command *command, struct request *rq);

/* The SEND that carried it is done; the target answered; either may come first. Softirq. */
void rblk_command_put(struct rblk_command *command);
void rblk_command_answered(struct rblk_command *command,
			   const struct rblk_wire_completion *completion, u32 invalidated_rkey);
/* The same for a read that came WITH IMMEDIATE. */
void rblk_command_answered_immediate(struct rblk_command *command, u8 queued_code, u8 stored_code);

/* One of the session's own has been answered, or never will be. Any context. */
void rblk_command_finish(struct rblk_command *command);

/* blk-mq's .complete: the data is copied out where it went through a slot, the request is ended. */
void rblk_command_complete_rq(struct request *rq);

/*
 * Send one of the session's own commands on queue 0 and wait. `payload` goes in the capsule
 * (payload_bytes, zero filled to RBLK_CAPSULE_ALIGN); the report, if any, is copied to `report`.
 * Sleeps, killably. 0 or negative errno; -ETIMEDOUT and -EINTR also report the connection as lost.
 */
struct rblk_session_command {
	u8 opcode;
	u32 volume;
	u64 lba, argument;
	const void *payload;
	size_t payload_bytes;
	void *report;
	size_t report_bytes;
	u16 status; /* out */
	u64 result; /* out */
};
int rblk_command_session(struct rblk_queue *queue, struct rblk_session_command *sc,
			 unsigned int timeout_ms);

#endif
