/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A command from its descriptor to its end. One of block I/O is the request's blk-mq payload
 * (struct rblk_io); one of the session's own (OPEN, KEEPALIVE, ...) belongs to the queue and is
 * waited for (call.h).
 *
 * In flight it holds two references: the SEND that carries it (its descriptor and in-capsule data
 * are the device's until that SEND is acknowledged) and the target's answer. The answer's reference
 * is dropped only after the rkey has ended (F4). The last one ends the command.
 *
 * A request that is started and whose command is FREE waits: waiting.c has it.
 */
#ifndef RBLK_KMOD_COMMAND_H
#define RBLK_KMOD_COMMAND_H

#include <linux/blk-mq.h>
#include <linux/refcount.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>

#include "proto/core/tags.h"
#include "proto/wire/wire.h"

struct rblk_queue;

#define RBLK_TEXT_SHORT 160

/* How the command's data is shown to the target. */
enum rblk_data_kind {
	RBLK_MEMORY_NONE,
	RBLK_MEMORY_CAPSULE, /* write: copied to the slot, travels in the message */
	RBLK_MEMORY_SLOT,    /* copied through the slot, which is registered beforehand */
	RBLK_MEMORY_FAST,    /* registered for this command; struct rblk_io alone */
};

struct rblk_command {
	struct rblk_queue *queue;
	u16 tag; /* below queue->credits: of struct rblk_io; beyond: of struct rblk_call */
	u8 memory; /* enum rblk_data_kind */
	/*
	 * FREE: nothing of it is known to the RDMA device. TAKEN: on queue->pending, memory is
	 * mapped. SENT: the target may touch its memory. ANSWERED: its rkey is being ended.
	 * queue->lock until SENT, then the completion handlers.
	 */
	struct core_tag account;
	refcount_t refs;
	struct list_head entry; /* queue->pending; session->waiting */
	struct rblk_wire_command wire; /* copied into a message when it is sent */
	u32 bytes; /* of its data; in the capsule a multiple of RBLK_CAPSULE_ALIGN */

	/* the answer */
	u16 status;
	/* RBLK_E_DENIED: enum rblk_denied; of ABORT: enum rblk_abort_result; else 0: unsaid */
	u16 detail;
	int error; /* instead of a status: the connection was lost */
	u32 queued_us, stored_us;
	u32 digest; /* of a read that asked for it and succeeded */
};

#define RBLK_INLINE_SG 2

enum rblk_wait {
	RBLK_WAIT_TIME,
	RBLK_WAIT_READY,
	RBLK_WAIT_LOST, /* the fence of lost_queue */
};

/* A request's; blk-mq's payload, with the data's scatterlist behind it. */
struct rblk_io {
	struct rblk_command command;
	unsigned long sent_at; /* jiffies */

	bool borrowed; /* its tag is one for the requests of other queues */
	bool retry;    /* it was sent before, on a connection that was lost */
	bool answered; /* and not ended: it uses its queue's memory (rblk_mq_ends()) */
	bool abort_asked; /* the target was, or will be, asked to drop it, since it was sent last */
	/* it was not answered in time, since it was sent in overdue_since (jiffies) */
	bool overdue;
	bool expired;                /* it is not sent again: it fails when it may (F5) */
	unsigned long overdue_since;
	u64 flush;     /* FLUSH: its number (core/durable.h) */
	u32 owes;      /* 0, or by which generation its success counts (core/durable.h) */

	/* waiting.c */
	u8 wait;                     /* enum rblk_wait */
	u16 lost_queue;              /* LOST: of which */
	unsigned long again_at;      /* jiffies: TIME, READY: not before */
	u8 refusals;                 /* by the target, one after the other */
	unsigned long refused_since; /* jiffies: the first of them */
	u8 digests;                  /* times that its data did not match its digest */

	/* memory.c: RBLK_MEMORY_FAST */
	/* registered and not yet invalidated; the sender's release, the handlers' acquire */
	bool mr_valid;
	struct ib_mr *mr; /* the queue's for this tag */
	struct ib_reg_wr reg_wr;
	struct ib_send_wr inv_wr;
	struct rblk_io *inv_first; /* of the last invalidation of a chain: whose is the first */
	struct ib_cqe reg_cqe, inv_cqe;
	int nents;
	enum dma_data_direction direction;
	struct sg_table table;
	struct scatterlist first_sgl[RBLK_INLINE_SG];
};

static inline struct rblk_io *rblk_command_io(struct rblk_command *command)
{
	return container_of(command, struct rblk_io, command);
}

static inline struct request *rblk_io_rq(struct rblk_io *io)
{
	return blk_mq_rq_from_pdu(io);
}

/* Once for each request. */
void rblk_io_init(struct rblk_io *io, struct rblk_queue *queue);
/*
 * Make the request, which has a tag of the queue, a command of it and have it sent with the next
 * doorbell. Not to be called for one that is not FREE. BLK_STS_RESOURCE: no memory, try later.
 * BLK_STS_TRANSPORT: the queue is down. Where it fails, nothing is mapped, nor the tag taken. Any
 * context.
 */
blk_status_t rblk_io_send(struct rblk_io *io, struct rblk_queue *queue);
/* A request that is started and on no queue ends with this error (negative). Any context. */
void rblk_io_fail(struct rblk_io *io, int error);
/* blk-mq's .complete: the data is copied out where it went through a slot, the request is ended. */
void rblk_io_complete(struct request *rq);

/* Descriptor and answer are as new. */
void rblk_command_reset(struct rblk_command *command, u16 tag, u8 opcode);

/* The SEND that carried it is done; the target answered; either may come first. Softirq. */
void rblk_command_put(struct rblk_command *command);
void rblk_command_answered(struct rblk_command *command,
			   const struct rblk_wire_completion *completion, u32 invalidated_rkey);
/* The same for a read that came WITH IMMEDIATE. */
void rblk_command_answered_immediate(struct rblk_command *command, u8 queued_code, u8 stored_code);
/*
 * -- digest.c: the CRC32C of requests' data, on queues where it is agreed (RBLK_FEATURE_DIGEST): of
 * what goes out, for the target to check before it stores anything, and of what came in, to be
 * compared with the target's
 */

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

/* -- command.c */

/* Has it a key of its own that is valid, or may be? */
bool rblk_command_has_valid_key(struct rblk_command *command);
/* Is it this command's key that the target has invalidated? V8. */
bool rblk_command_has_key(struct rblk_command *command, u32 rkey);

#endif
