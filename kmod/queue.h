/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue: one RC connection, its completion queue, its receive buffers, its commands, its memory.
 * Queue i serves blk-mq's hardware context i; queue 0 also carries the session's own commands.
 *
 * Made by session.c for as long as the session; connected and taken down, again and again, by
 * works.c. While it is connected: queue->lock owns the list of commands waiting to be sent, the
 * message ring and all posting to the send queue; a command in flight belongs to the completion
 * handlers (softirq of this queue's CQ, or its poller: on one CPU at a time).
 */
#ifndef RBLK_KMOD_QUEUE_H
#define RBLK_KMOD_QUEUE_H

#include <linux/bitmap.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "kmod/command.h"
#include "kmod/ring.h"
#include "kmod/session.h"
#include "proto/core/batch.h"
#include "proto/wire/wire.h"

struct rblk_call;
struct rblk_disk;
struct rblk_session;
struct rblk_io;

/* Tags of a queue for other queues' requests: those of queues that are lost, and large ones. */
#define RBLK_BORROW_MAX 128
#define RBLK_MESSAGE_SGE 8       /* descriptors + in-capsule data of up to 7 commands */
#define RBLK_MESSAGE_SGE_MIN 2   /* a descriptor and its data */
#define RBLK_DESCRIPTORS_PER_MESSAGE 32
#define RBLK_REPLY_BYTES (RBLK_REPLY_BATCH_MAX * sizeof(struct rblk_wire_completion))

/* One SEND. Used by queue->lock's holder from packing to posting, then by its send completion. */
struct rblk_message {
	struct ib_cqe cqe;
	struct ib_send_wr wr;
	struct ib_sge sge[RBLK_MESSAGE_SGE];
	u16 tags[RBLK_DESCRIPTORS_PER_MESSAGE];
	u16 count;
	u8 waited_by; /* enum core_waited_by; by none: all its commands have PRIORITY */
	struct rblk_queue *queue;
	struct rblk_wire_command *descriptors; /* its own RBLK_DESCRIPTORS_PER_MESSAGE */
	u64 descriptors_dma;
	struct list_head free; /* queue->free_messages */
};

struct rblk_receive {
	struct ib_cqe cqe;
	struct rblk_queue *queue;
	struct rblk_wire_completion *data;
	u64 dma;
};

/*
 * The facts that are known of the command with a tag, without looking at the command: only
 * queue->lock is held, and it may end meanwhile, be another disk's, or be freed.
 */
struct rblk_owner {
	const struct rblk_disk *disk; /* only compared; NULL: one of the session's own */
	u32 sequence;
	bool sent;    /* it has a sequence */
	bool dropped; /* an ABORT was asked for because its disk is detached */
	bool aborts; /* an ABORT of it is to be sent */
};

/* A proof of both ends, step by step, by the queue's work; and the last answer (authenticate.c). */
struct rblk_proving {
	struct rblk_wire_proof proof;
	u8 right[RBLK_PROOF_BYTES]; /* the target's, if it has the secret */
	struct rblk_wire_authenticate report;
	u16 status, denied;
};

struct rblk_queue_stats {
	u64 commands, messages, replies, immediates, registrations, invalidations,
		remote_invalidations, digest_retries;
	u64 doorbells;       /* calls that post to the send queue */
	u64 aborts, dropped; /* ABORTs sent; commands that ended by one */
};

/*
 * Lost commands are fenced volume by volume. core_lock owns the first three; the rest is
 * drive_work's, and while `asks` is set its answer's.
 */
struct rblk_volume_fences {
	u32 incarnation; /* of which incarnation, in this epoch */
	u64 epoch;
	struct rblk_due due; /* the next volume is to be asked for */
	bool asks; /* one is, and there is no answer yet */
	u32 asked; /* by its handle: the last one of this round; 0: none was */
	unsigned int rounds;
};

struct rblk_queue {
	struct rblk_session *session;
	unsigned int index;
	bool polled; /* no interrupts: its CQ is looked at by rblk_queue_poll() alone */
	/* The login that is sent next, or was last; drive.c's while no attempt runs. */
	u32 incarnation, fence_incarnation;
	u64 epoch;
	u16 session_queues;
	u16 portal;
	struct rblk_wire_login login;   /* as it was sent */
	struct rblk_wire_accept accept; /* that answered it */

	struct rdma_cm_id *cm_id; /* of the connection, or of the attempt */
	unsigned int attempt_ms; /* drive.c: how long the attempt may take */
	unsigned int step;	 /* of connect.c: under way, or next */
	unsigned int next_step;	 /* that was not begun yet */
	struct rblk_proving proving; /* authenticate.c */
	unsigned long leave_by;  /* jiffies, of a queue that is to move; drive_work */

	struct ib_qp *qp;
	/*
	 * Stays for the next connection on the same device, with the rings and the memory: made by
	 * connect.c, all or nothing (pd), and owned by the queue's work. The id that has led to the
	 * device is told when that goes, and keeps it until then: cm_id, or, when that is no
	 * connection's any more, device_id.
	 */
	struct ib_device *ibdev; /* NULL: there is nothing */
	struct rdma_cm_id *device_id;
	bool device_goes; /* nothing stays */
	struct ib_pd *pd;
	struct ib_cq *cq;
	unsigned int message_sge; /* segments of a SEND: RBLK_MESSAGE_SGE or the device's fewer */

	/* agreed at login; fixed afterwards */
	u16 credits;  /* I/O tags 0..credits-1; reserved tags follow */
	u16 wanted;   /* what receives and memory were made for */
	u16 max_batch;
	u32 features, command_bytes, max_io_bytes, keepalive_ms;
	u32 accepted_bytes; /* the longest command that it could do when last accepted; core_lock */
	u32 capsule_bytes; /* data of one WRITE that fits a message, beside its descriptor */

	spinlock_t lock; /* what is posted, and in what order; innermost */
	bool down;                    /* lock: nothing may be posted any more */
	/* lock: the target has proven itself, or need not; until then AUTHENTICATE alone is sent */
	bool proven;
	u32 next_sequence;            /* lock: of the next command to be packed */
	struct list_head pending;     /* lock: commands to be sent */
	struct core_clock clock;      /* lock: when they are */
	struct delayed_work late_work; /* pending or running while some wait for a SEND */
	u32 late_send;                /* lock: if that is the last one still, it is late */
	struct list_head free_messages; /* lock */
	struct rblk_message *messages; /* one for each command; fixed */
	struct rblk_ring descriptors; /* RBLK_DESCRIPTORS_PER_MESSAGE for each message */

	/*
	 * One buffer more than is posted: it takes the place of the one that has just been filled,
	 * before what that brought is acted upon (C3). The CQ's handlers own it.
	 */
	struct rblk_receive *receives; /* fixed */
	struct rblk_receive *spare;
	struct rblk_ring replies; /* RBLK_REPLY_BYTES for each receive */

	struct rblk_command **commands; /* by tag: wanted + RBLK_RESERVED_TAGS; see command.h */
	struct rblk_owner *owners;       /* by tag, of those in `commands`; lock */
	struct rblk_call *reserved; /* RBLK_RESERVED_TAGS of them, for the session's commands */
	unsigned long reserved_used;    /* bitmap, lock */
	/* of its RESERVE's volume, if it is in session->reserving; core_lock */
	u8 reserve_uuid[16];
	struct rblk_memory *memory;     /* slots and registrations; memory.c */

	spinlock_t poll_lock; /* one poller at a time, as there is one softirq; outside of lock */
	bool poll_ended;      /* poll_lock: being drained */
	/* poll_lock: of who polls now: requests that have ended, to be ended together; or NULL */
	struct io_comp_batch *batch;

	/*
	 * The CQ's handlers own them: keys to be ended behind the reply that is being read; chained
	 * by inv_wr.
	 */
	struct rblk_io *ending_first, *ending_last;

	/*
	 * Commands of requests of other queues have the tags from home_tags on. lock: which are in
	 * use.
	 */
	unsigned int home_tags;
	DECLARE_BITMAP(borrowed, RBLK_BORROW_MAX);

	/* works.c */
	struct work_struct work;
	bool connects, closes; /* core_lock: what it is to do */
	struct rblk_volume_fences volumes;

	bool aborting; /* lock: an ABORT is under way (overdue.c) */

	/* commands that have registrations of their own (memory.c); blk_mq.c spreads by it */
	atomic_t large;

	/* lock, or the CQ's softirq or poller, or drive_work: each has one writer */
	struct rblk_queue_stats stats;
};

/* Without a connection; NULL: out of memory. */
struct rblk_queue *rblk_queue_alloc(struct rblk_session *session, unsigned int index);
/*
 * By its work. Goes on to connect, from step 0 until the machine is told that the queue was
 * accepted, as far as it gets without waiting. A failure is reported as a loss. Either way
 * rblk_queue_stop() and release end it.
 */
void rblk_queue_connect(struct rblk_queue *queue);
/* The step that the attempt is at, in words. */
const char *rblk_queue_connect_step(const struct rblk_queue *queue);
/* Any context: the step that waits for this has ended, if one does: its work goes on. */
void rblk_queue_connect_next(struct rblk_queue *queue, int what);
/* An event of the connection manager's, or: */
#define RBLK_CONNECT_ANSWER (-1) /* to AUTHENTICATE */
#define RBLK_CONNECT_NOTHING (-2)
/*
 * Sleeps. QP to ERR and drained: afterwards no completion of it will come (F4), and each of the
 * session's own commands on it has ended. Idempotent.
 */
void rblk_queue_stop(struct rblk_queue *queue);
/* Without a connection. */
void rblk_queue_free(struct rblk_queue *queue);
/*
 * Sleeps. After stop: the QP is destroyed and every key invalid, so that held commands may be
 * unmapped. Then the rest of the connection: the queue can be connected again, and what stays for
 * that is there.
 */
void rblk_queue_release_keys(struct rblk_queue *queue);
void rblk_queue_release_id(struct rblk_queue *queue);
/* Sleeps. There is no QP: nothing stays. Idempotent. */
void rblk_queue_release_hardware(struct rblk_queue *queue);

/* The portal that it is at, or was last tried at, for messages. */
const char *rblk_queue_peer(const struct rblk_queue *queue);
/* The limits of a message of this queue; after login. */
struct core_batch_limits rblk_queue_limits(const struct rblk_queue *queue);

/*
 * A tag of the queue for a request: its own, if this is the queue of its hardware context, or a
 * borrowed one, which rblk_memory_unmap() gives back. False: none is free. Any context.
 */
bool rblk_queue_take_tag(struct rblk_queue *queue, struct rblk_io *io);
void rblk_queue_put_tag(struct rblk_queue *queue, u16 tag);

/* Add a prepared command to those to be sent. Any context. -ENOTCONN when the queue is down. */
int rblk_queue_add(struct rblk_queue *queue, struct rblk_command *command);
/* With queue->lock held, while it is not down. */
void rblk_queue_add_locked(struct rblk_queue *queue, struct rblk_command *command);
/*
 * Ring the doorbell: send what was added in as few messages as it fits in. What has no PRIORITY may
 * wait for earlier SENDs (core_clock_waits()), but for `now`: the session's commands do not depend
 * on a device that completes its SENDs. Any context.
 */
void rblk_queue_kick(struct rblk_queue *queue, bool now);

/* Has it a command of the disk's, or of any (NULL), sent or to be sent? */
bool rblk_queue_serves(struct rblk_queue *queue, const struct rblk_disk *disk);

/* Has it no command? It may have one right after, if it is asked for any. */
static inline bool rblk_queue_idle(struct rblk_queue *queue)
{
	return !READ_ONCE(queue->reserved_used) && !rblk_queue_serves(queue, NULL);
}

/*
 * A polled queue: end what has been answered, or add it to the batch, if there is one, which the
 * caller then ends. How many completions there were. Process context.
 */
int rblk_queue_poll(struct rblk_queue *queue, struct io_comp_batch *batch);
/* The same without a batch, behind any other poller, and for all that has been answered by then. */
void rblk_queue_poll_all(struct rblk_queue *queue);

/*
 * Between login.c and connect.c: the login, as a step of connecting, and its answer. 0 or a
 * negative errno, for an acceptance with text (RBLK_TEXT_SHORT); a refusal is told to the machine.
 */
int rblk_login_send(struct rblk_queue *queue);
int rblk_login_accepted(struct rblk_queue *queue, const struct rdma_conn_param *param, char *text);
void rblk_login_rejected(struct rblk_queue *queue, struct rdma_cm_event *event);

/*
 * -- authenticate.c: on each new connection of a session with a key the initiator proves its
 * name, and the target that it has the secret, before the state machine is told that it was
 * accepted. Nothing else is sent until then. Steps of connect.c, between which the target's
 * answers come: 0 or negative errno, told already as a loss, or, where the target refuses or does
 * not prove itself, as if it had rejected the login. rblk_authenticate_prove() sleeps.
 */
int rblk_authenticate_begin(struct rblk_queue *queue);
int rblk_authenticate_prove(struct rblk_queue *queue);
int rblk_authenticate_end(struct rblk_queue *queue);

/* Between queue.c, connect.c and command.c. */
void rblk_queue_send_done(struct ib_cq *cq, struct ib_wc *wc);
void rblk_queue_receive_done(struct ib_cq *cq, struct ib_wc *wc);
int rblk_queue_post_receive(struct rblk_queue *queue, struct rblk_receive *receive);
void rblk_queue_wc_error(struct rblk_queue *queue, const char *what, const struct ib_wc *wc);
void rblk_queue_invalidate(struct rblk_queue *queue, struct rblk_io *io);

#endif
