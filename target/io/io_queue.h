/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An I/O queue: the half of a queue that moves I/O. It has the command slots (a request each), the lists
 * of requests, the accounts of the send queue, the ring of replies. The other half (login,
 * incarnation, the end) is serve/queue.h, which embeds an I/O queue, creates and ends it. Calls to the
 * upper room go through struct tgt_io_queue_ops. The reactor's thread only.
 */
#ifndef RBLK_TARGET_IO_QUEUE_H
#define RBLK_TARGET_IO_QUEUE_H

#include <sys/queue.h>
#include "proto/fabric/fabric.h"
#include "proto/wire/wire.h"
#include "target/io/access.h"
#include "target/io/loop.h"
#include "target/io/receive.h"
#include "target/store/store.h"

/* In-capsule data of one message, and the longest message: four pages and 64 descriptors. */
#define TGT_CAPSULE_BYTES 16384u
#define TGT_COMMAND_BYTES (TGT_CAPSULE_BYTES + 4096u)
/* Send-side work requests per tag: a READ or WRITE of data, and the reply. Splits wait for room. */
#define TGT_SENDS_PER_TAG 2u
/* Outstanding reports of one I/O queue: an initiator that accepts none cannot hold all of them. */
#define TGT_REPORTS_MAX (2u * RBLK_RESERVED_TAGS)

/* Requests that wait, those with priority apart; each list in the order in which they came. */
struct tgt_request_turns {
	struct tgt_request_list plain, priority;
	uint8_t passed; /* with priority while others wait, since one of these */
};

/* -- requests: a slot for each tag, allocated at login ----------------------------------------- */

enum tgt_request_state {
	TGT_REQUEST_FREE = 0, /* unused; the tag may be used */
	TGT_REQUEST_RECEIVED, /* being checked: this turn's call chain owns it */
	TGT_REQUEST_WAITING,  /* for data memory; in its portion's list */
	TGT_REQUEST_DATA_IN,  /* RDMA READs to post (in io_queue->fetching) or posted (owned by the
				 fabric) */
	TGT_REQUEST_STORING,  /* the store owns io and data; or, put off, in loop->resumed */
	TGT_REQUEST_HELD,     /* a session command: the upper room holds it until something ends */
	TGT_REQUEST_DATA_OUT, /* RDMA WRITEs to post, then the completion; in io_queue->done */
	TGT_REQUEST_REPLYING, /* the completion to post; in io_queue->done, or io_queue->chained (F2) */
	TGT_REQUEST_LIMITED,  /* checked, or a CHECKSUM between its pieces; waits for its limit; in loop->limited */
	TGT_REQUEST_STATES
};

/* Where the data is. */
enum tgt_home {
	TGT_HOME_NONE,
	TGT_HOME_POOL,	  /* a block of loop->pool, ours */
	TGT_HOME_REPORT,  /* a block of loop->reports, ours */
	TGT_HOME_CAPSULE, /* in the receive buffer, which is held */
	TGT_HOME_DIRECT,  /* the store's own memory */
};

struct tgt_request {
	struct tgt_io io;	       /* first, so that the store's io leads back here */
	TAILQ_ENTRY(tgt_request) link; /* in the one list that its state says */
	struct tgt_io_queue *io_queue; /* fixed */
	uint16_t tag;		       /* fixed: its slot */
	uint8_t state;		       /* enum tgt_request_state */
	uint8_t opcode;
	uint8_t flags;	    /* enum rblk_command_flag */
	uint8_t home;	    /* enum tgt_home */
	uint16_t status;    /* enum rblk_status */
	bool aborted;	    /* ABORT has come: stop at the next piece */
	bool holds_capsule; /* a receive buffer is held for it */
	uint8_t orphan;	    /* STORING, and counted as the volume's; or 0 */
	bool numbered;	    /* F8: its operation number is under way in io_queue->answers */

	/*
	 * Set by whoever lists it or holds it, NULL from the next state on: takes it out of there. True: nothing else has it.
	 * False: it has begun, and runs on.
	 */
	bool (*leave)(struct tgt_request *request);

	/* The command, decoded. */
	uint32_t sequence;
	uint32_t blocks;
	uint64_t lba;
	uint64_t address;
	uint64_t argument;
	uint32_t rkey;
	uint32_t length; /* of the segment */
	uint32_t digest; /* told; then: of the data read */

	struct tgt_access *access; /* counted */
	struct tgt_compare *compare; /* COMPARE_AND_WRITE, from its range lock on; compare.c's */
	union {
		void *held;	     /* a session command that is HELD: the upper room's own state */
		uint64_t limited_ns; /* a block command: when its last wait for a limit began; 0: none has */
	};
	char *data;
	uint32_t data_bytes;
	uint32_t lkey;
	uint32_t moved;		/* bytes for which a READ or WRITE was posted */
	uint32_t reads_pending; /* RDMA READs posted and not completed */
	uint32_t capsule_buffer;
	uint64_t done_bytes; /* checksum: of the range */
	uint64_t result;
	uint64_t received_ns, submitted_ns;
	uint64_t waiting_ns; /* since when it is WAITING */
	uint32_t queued_us, stored_us;
};

struct tgt_replay; /* replay.h */

/* -- I/O queues -------------------------------------------------------------------------------- */

/*
 * The memory that a posted work request uses until it has completed. Completions of a send queue
 * come in order, so that a signalled one gives back everything before it.
 */
struct tgt_sent {
	struct tgt_request *reads; /* an RDMA READ of this request */
	struct tgt_access *access; /* the store's memory is the source or target */
	void *block;		   /* to be freed, of loop->pool or of loop->reports */
	uint32_t block_bytes;
	uint16_t replies; /* completions in the reply ring */
	uint8_t orphan;	  /* counted as the volume's; or 0 */
	uint32_t read_bytes;	/* of an RDMA READ; else 0 */
	struct tgt_write write; /* into the store's own memory: in flight until it has completed */
	bool report;
};

/* A session command has these besides the fields of its request. */
struct tgt_arguments {
	const char *capsule; /* its payload; NULL: none */
	uint32_t capsule_bytes;
	uint32_t volume; /* a handle, or 0 */
};

/* The calls by which the upper room serves an I/O queue. One table for each kind of queue. */
struct tgt_io_queue_ops {
	/* A command that is not block I/O. The request is RECEIVED; it is answered or held. */
	void (*begin)(struct tgt_request *request, const struct tgt_arguments *arguments);
	/* The open volume that a command names. Otherwise NULL and why not. */
	struct tgt_access *(*find)(struct tgt_io_queue *io_queue, uint32_t handle,
				   enum rblk_status *status);
	/* The next event, into a reply; io_queue->event_due says that there is one. */
	void (*event)(struct tgt_io_queue *io_queue, struct rblk_wire_completion *event);
	/* Begin to end the connection. reason: for the log; NULL: it was logged. */
	void (*close)(struct tgt_io_queue *io_queue, const char *reason);
	/* The volume of a command that the store had is lost: the connection is closed when this returns. */
	void (*lost)(struct tgt_io_queue *io_queue);
	/* A closed I/O queue's last request has become free: the queue may be over. */
	void (*over)(struct tgt_io_queue *io_queue);
};

/* The sums of all that a queue, or several, have done (counts.h). */
struct tgt_totals {
	uint64_t commands, messages_in, bytes_read, bytes_written, queued_us, stored_us;
	struct fab_counters out;
};

struct tgt_io_queue {
	/* Fixed after creation. */
	const struct tgt_io_queue_ops *ops;
	struct tgt_loop *loop;
	struct tgt_share *share; /* the session's */
	struct tgt_replay *answers; /* likewise (F8) */
	struct tgt_receives *receives;
	struct fab_conn *conn;
	unsigned int fabric;  /* index of the fabric among the reactor's */
	unsigned int session_number; /* for log lines */
	uint64_t owner;		     /* the session, for stores that are full: tgt_inflight_owner() */
	uint16_t index;	      /* the queue's in its session */
	uint16_t credits, tags;
	uint16_t reply_batch; /* completions in one reply message */
	uint32_t features;
	uint32_t command_bytes; /* the longest message */
	uint32_t lkey;		/* of the memory that data and replies lie in */
	uint64_t max_msg_bytes;
	uint32_t read_bytes; /* of struct fab_limits */
	uint64_t beside_ns;  /* when a command came last that passes READs: transfer_is_bounded() */

	bool open; /* false: closing; nothing is accepted from the peer, nothing is posted */
	uint8_t end; /* enum tgt_end: why it closes, set before it does */
	bool is_dirty;
	TAILQ_ENTRY(tgt_io_queue) alive_link, dirty_link;

	struct tgt_request *requests;	  /* by tag */
	unsigned int active;		  /* not FREE */
	uint32_t sequence;		  /* of the next command */
	struct tgt_request_turns fetching; /* RDMA READs to post */
	struct tgt_request_turns done;	   /* to be replied */
	struct tgt_request_list chained;  /* F2: replies behind READs into the store's memory */
	bool event_due; /* ops->event has something to say in the next reply */

	/* Send queue: entries [sent_tail, sent_head) are outstanding. */
	struct tgt_sent *sent;
	uint32_t sent_mask, send_depth;
	uint32_t sent_head, sent_tail;
	uint64_t taken_ns; /* when one of them completed last, or the first was posted */
	bool is_late;	   /* C8: nothing was accepted in time; it has one more second */
	uint32_t reads_out, read_bytes_out; /* RDMA READs outstanding, and what they fetch */
	uint32_t reports_out; /* blocks of loop->reports, TGT_REPORTS_MAX at most */
	/* Reply ring: completions being sent; slots [reply_tail, reply_head). */
	struct rblk_wire_completion *replies;
	uint32_t reply_mask, reply_head, reply_tail;

	uint64_t heard_ns;   /* when the peer was last heard */
	uint64_t suspect_ns; /* since when it is probed; 0: it is not */

	struct tgt_totals totals; /* without `out`, which the connection counts */
};

/* Bytes of the reply ring of a queue with so many credits: for tgt_io_queue_init(). */
size_t tgt_io_queue_ring_bytes(uint16_t credits);
/*
 * `credits`, or fewer, so that `pool` has memory for their reply ring now, and after that still a
 * page for each of `others` more queues. At least RBLK_CREDITS_MIN, even if memory is short.
 */
uint16_t tgt_io_queue_ring_credits(struct tgt_pool *pool, uint16_t credits, unsigned int others);

/*
 * Slots and accounts of one whose loop and credits are set. `ring`: tgt_io_queue_ring_bytes() of registered memory, the
 * caller's. reply_bytes: the longest reply. The other fixed fields are for the caller to set before the first message.
 * 0 or -ENOMEM.
 */
int tgt_io_queue_init(struct tgt_io_queue *io_queue, uint32_t reply_bytes, void *ring);
void tgt_io_queue_fini(struct tgt_io_queue *io_queue); /* closed, drained and without a request; or never open */

/* It takes commands from now on. */
void tgt_io_queue_open(struct tgt_io_queue *io_queue);
/* The peer broke a rule of the specification: one line in the log, then close. */
void tgt_io_queue_violation(struct tgt_io_queue *io_queue, const char *rule);

static inline bool tgt_request_priority(const struct tgt_request *request)
{
	return request->flags & RBLK_CMD_PRIORITY;
}

static inline void tgt_turns_init(struct tgt_request_turns *turns)
{
	TAILQ_INIT(&turns->plain);
	TAILQ_INIT(&turns->priority);
	turns->passed = 0;
}

/* Where a request of that kind waits. */
static inline struct tgt_request_list *tgt_turns_list(struct tgt_request_turns *turns,
						      const struct tgt_request *request)
{
	return tgt_request_priority(request) ? &turns->priority : &turns->plain;
}

/* The next: one with priority, or after TGT_PRIORITY_MOST of these one without. NULL: there is none. */
static inline struct tgt_request *tgt_turns_first(const struct tgt_request_turns *turns)
{
	struct tgt_request *plain = TAILQ_FIRST(&turns->plain), *first = TAILQ_FIRST(&turns->priority);

	return !first || (plain && turns->passed >= TGT_PRIORITY_MOST) ? plain : first;
}

/* It has had its turn. */
static inline void tgt_turns_take(struct tgt_request_turns *turns, struct tgt_request *request)
{
	TAILQ_REMOVE(tgt_turns_list(turns, request), request, link);
	if (tgt_request_priority(request) && !TAILQ_EMPTY(&turns->plain))
		turns->passed++;
	else
		turns->passed = 0;
}

static inline void tgt_io_queue_mark_dirty(struct tgt_io_queue *io_queue)
{
	if (!io_queue->is_dirty) {
		io_queue->is_dirty = true;
		TAILQ_INSERT_TAIL(&io_queue->loop->dirty, io_queue, dirty_link);
	}
}

/* Put an event into the next reply, if the connecting side, which sends first, has sent. */
static inline bool tgt_io_queue_event_due(const struct tgt_io_queue *io_queue)
{
	return io_queue->event_due && io_queue->totals.messages_in;
}

/* The peer was heard. */
static inline void tgt_io_queue_heard(struct tgt_io_queue *io_queue)
{
	io_queue->heard_ns = io_queue->loop->now_ns;
	io_queue->suspect_ns = 0;
	if (io_queue->open && TAILQ_NEXT(io_queue, alive_link)) {
		TAILQ_REMOVE(&io_queue->loop->alive, io_queue, alive_link);
		TAILQ_INSERT_TAIL(&io_queue->loop->alive, io_queue, alive_link);
	}
}

#endif
