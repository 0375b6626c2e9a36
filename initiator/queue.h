/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue: one RC connection of a session, with its tags, its command slots, and the registered
 * block in which replies arrive and descriptors leave. These files each call only those below them:
 * complete.c receives and completes, connect.c connects and closes, login.c checks the acceptance,
 * command.c packs and sends, slot.c has memory, state and slots.
 *
 * A command's slot goes: taken (fields filled) -> pending -> sent -> [held, retry] -> done -> free.
 * Which list it is on is its place; its tag's state (core/tags.h) says which end may access its
 * memory.
 */
#ifndef RBLK_INITIATOR_QUEUE_H
#define RBLK_INITIATOR_QUEUE_H

#include "initiator/fabrics.h"
#include "initiator/rblk.h"
#include "proto/core/batch.h"
#include "proto/core/tags.h"
#include "proto/fabric/fabric.h"

struct ini_buffer;
struct ini_portal;
struct ini_queue;

enum ini_queue_state {
	INI_QUEUE_CLOSED,     /* no connection; nothing else uses the memory */
	INI_QUEUE_CONNECTING, /* the fabric uses the receive buffers, the target nothing */
	INI_QUEUE_LIVE,       /* logged in; the target uses the memory of SENT commands */
	INI_QUEUE_DRAINING,   /* in ERR; no memory is given back before DRAINED (F4) */
	INI_QUEUE_STATES
};

enum ini_place {
	INI_PLACE_NONE,    /* free, being filled, or sent */
	INI_PLACE_PENDING, /* waits for the doorbell */
	INI_PLACE_RETRY,   /* was answered BUSY, waits for retry_ns */
	INI_PLACE_HELD,    /* answered, but its SEND still may read the data (F4) */
	INI_PLACE_DONE,    /* on the session's list of callbacks to make */
};

#define INI_CHAIN_MAX 16   /* messages of one doorbell */
#define INI_SEGMENTS_MAX 16 /* of a message: 15 of in-capsule data, the descriptors */

/* In-capsule data that lies in several buffers; in its vector (vector.c). */
struct ini_gather {
	struct ibv_sge sge[INI_SEGMENTS_MAX - 1];
	u16 count;
	struct ini_buffer *const *buffers; /* that the pieces lie in */
	const struct fab_device *device;   /* whose keys they have */
};

/* A command. Indexed by tag; belongs to its queue, which belongs to the session's thread. */
struct ini_slot {
	struct rblk_wire_command command; /* but for index, sequence and capsule offset */
	rblk_callback done;
	void *arg;
	struct ini_queue *queue;     /* fixed */
	struct rblk_volume *volume;  /* of I/O; NULL: a control command */
	struct ini_buffer *buffer;   /* that its data lies in; NULL: none */
	const void *capsule;         /* in-capsule data, capsule_bytes; 0: none */
	u32 capsule_bytes, capsule_lkey;
	struct ini_gather *gather;   /* in place of capsule: in-capsule data in several pieces */
	u32 data_bytes;              /* to or from the target by RDMA */
	u32 message;                 /* number of the SEND that carried it last */
	u64 first_ns, sent_ns;       /* first sent (0: never), last sent */
	u64 retry_ns;
	u64 overdue_ns;              /* its time was over then; 0: it is not */
	bool canceled;               /* it was sent, and the program has aborted it */
	bool abort_sent;             /* for either: the target was asked to drop it, in asked_ns */
	u64 asked_ns; /* 0: never; of one that lasts (FENCE): whether the target is alive */
	struct ini_slot *next;       /* in the list of its place */
	u64 flush;                   /* FLUSH: its number (core/durable.h) */
	u32 owes;                    /* 0, or by which generation its success counts (core/durable.h) */
	struct rblk_result result;
	u16 tag;                     /* fixed */
	u8 tries;                    /* BUSY answers */
	u8 digests;                  /* times that the data did not match its digest */
	u8 place;                    /* enum ini_place */
	bool answered;
	bool lost;  /* the target had it when its connection was lost */
	bool piece; /* of a vector, whose own callback is the program's */
};

struct ini_list {
	struct ini_slot *head, *tail;
};

/* Lost with the queue's connection, and not fenced yet (fence.c). Zero: nothing is asked for. */
struct ini_fence {
	u32 whole; /* incarnation of the FENCE of all volumes that is not called back yet; 0: there is none */

	/* The loss whose volumes are asked about one by one; incarnation 0: there is none. */
	u64 epoch;
	u32 incarnation;
	u32 handle;   /* that was asked about last in this round; 0: it begins */
	u32 rounds;   /* that have left some */
	bool left;    /* this round leaves some */
	bool waiting; /* for the callback of one, which is of this loss: */
	u64 asked_epoch;
	u32 asked_incarnation;
	u64 due_ns; /* the next round's */
};

/* Created with the session, freed with it; connected any number of times. */
struct ini_queue {
	struct rblk_session *session;
	u16 index;
	enum ini_queue_state state;
	bool again;      /* closed, and then the portal's next address is tried, in the same attempt */
	bool drained;    /* the session is told when the last callback was made */
	bool proven;	 /* both ends of this connection have proven themselves */
	bool distrusted; /* the target broke the protocol here: its further messages are ignored */
	u32 incarnation; /* of this connection or attempt, and the one that it fences */
	u32 fence_incarnation;
	struct ini_fence fence;
	u16 address;	    /* of the portal: tried last */
	u16 addresses_left; /* of the portal, for this attempt */

	struct fab_conn *conn;     /* NULL in CLOSED */
	struct fab_device *device; /* known from `prepare` on */
	/* Which completions are its own: the fab's place in the session, and the queue pair's
	 * number; UINT64_MAX: none are. */
	u64 conn_id;
	u32 inline_bytes;

	struct rblk_wire_login login; /* as sent, and its answer */
	struct rblk_wire_accept accept;
	struct rblk_wire_proof proof; /* while it authenticates (authenticate.c) */

	/* Agreed at login. */
	u8 target_instance[16];
	u32 features, keepalive_ms, max_io_bytes;
	u32 capsule_max; /* in-capsule data of one command, as message, device and target have it */
	struct core_batch_limits limits;

	struct core_tags tags;
	struct core_tag *tag_array;
	struct ini_slot *slots; /* slot_count, by tag */
	u32 slot_count;         /* wanted credits + RBLK_RESERVED_TAGS; granted may be fewer */
	struct ini_list pending, priority; /* not sent yet; the latter share no message with others, and never wait */
	struct ini_list retry, held;
	u32 pending_count; /* in both */
	struct core_clock clock; /* when those in `pending` are sent */
	bool urgent;		 /* a session command is among them, or they are late: none waits */

	/* The registered block: receive buffers, then the ring of descriptors. */
	u8 *block;
	size_t block_bytes;
	struct ini_mr mr;
	u32 lkey;

	struct ibv_recv_wr *receive_wr; /* receive_count, one per buffer, linked when posted */
	struct ibv_sge *receive_sge;
	u32 receive_count;
	struct ibv_recv_wr *repost_head, *repost_tail;

	/*
	 * Messages are numbered; message_end[n % send_depth] is where the ring stands behind
	 * message n. Ring entries are reused when a signalled SEND behind them has completed.
	 */
	struct rblk_wire_command *ring;
	u32 ring_size, ring_head, ring_tail;
	u32 *message_end;
	u32 send_depth, messages_sent, messages_done, messages_signalled;

	u64 last_send_ns; /* CORE_CLOCK_LATE_MS after this, what waits for a SEND is late */
	u64 check_ns;     /* no SENT command times out before this */
	struct fab_counters counters; /* of earlier connections */
};

#define INI_REPLY_BYTES (RBLK_REPLY_BATCH_MAX * (u32)sizeof(struct rblk_wire_completion))

/*
 * wr_id: what it is, of which queue, and which receive buffer or message. A SEND's kind is INI_WR_SEND + enum
 * core_waited_by; so that one is the last.
 */
enum ini_wr_kind { INI_WR_RECEIVE = 1, INI_WR_SEND = 2 };
static inline u64 ini_wr_id(unsigned int kind, u16 queue, u32 number)
{
	return (u64)kind << 48 | (u64)queue << 32 | number;
}

/* -- slot.c ------------------------------------------------------------------------------------ */

/* Pieces of memory that its in-capsule data lies in; ignored where there is none. */
static inline u16 ini_slot_segments(const struct ini_slot *slot)
{
	return slot->gather ? slot->gather->count : 1;
}

u32 ini_queue_send_depth(u16 credits);
int ini_queue_init(struct ini_queue *queue, struct rblk_session *session, u16 index);
void ini_queue_fini(struct ini_queue *queue); /* in CLOSED */
const char *ini_queue_state_name(enum ini_queue_state state);
/* False: there is no such transition, and the session has failed. */
bool ini_queue_set_state(struct ini_queue *queue, enum ini_queue_state state);

void ini_list_append(struct ini_list *list, struct ini_slot *slot, enum ini_place place);
struct ini_slot *ini_list_pop(struct ini_list *list);

/* A free slot, zeroed but for what is fixed; NULL: no tag of that kind is free. */
struct ini_slot *ini_slot_take(struct ini_queue *queue, bool reserved);
/* Give back a slot that was never started. */
void ini_slot_put(struct ini_slot *slot);
/* Filled: wait for the doorbell. */
void ini_slot_start(struct ini_slot *slot);
/* On the list of callbacks, with the answer that it has. From any place but DONE. */
void ini_slot_finish(struct ini_slot *slot);
/* Likewise, with `error` and no answer. */
void ini_slot_fail(struct ini_slot *slot, int error);
/* As ini_slot_finish(); it may have to be held for its SEND first (F4). */
void ini_slot_release(struct ini_slot *slot);

/* -- login.c ----------------------------------------------------------------------------------- */

/* queue->login, of this incarnation. */
void ini_login_fill(struct ini_queue *queue);
/* CONNECTING -> LIVE if the acceptance is right, else negative errno and the session's message. */
int ini_queue_established(struct ini_queue *queue, const void *data, size_t bytes);
/* The target's rejection; reason 0: none that could be read. */
struct ini_refusal {
	u16 reason; /* enum rblk_reject_reason */
	u32 detail;
};
/* Words for a refusal. Returns the errno that fits it. */
int ini_queue_rejected(struct ini_queue *queue, const void *data, size_t bytes,
		       struct ini_refusal *refusal);

/* -- connect.c --------------------------------------------------------------------------------- */

static inline u64 ini_conn_id(u16 fab, u32 qp_num)
{
	return (u64)fab << 32 | qp_num;
}

struct core_action;

/* CORE_ACTION_CONNECT: an attempt begins. */
void ini_connect(struct ini_queue *queue, const struct core_action *action);
/* The queue's connection is there, and has proven what it has to. */
void ini_queue_accepted(struct ini_queue *queue);
/* An attempt to connect failed; the session's words say why. */
void ini_queue_unreached(struct ini_queue *queue, int error);
/* -> DRAINING, unless CLOSED or there already. */
void ini_queue_close(struct ini_queue *queue);
/* The fabric has reported DRAINED: -> CLOSED. */
void ini_queue_ended(struct ini_queue *queue);
/* Removed devices that no queue is connected through any more. */
void ini_devices_release(struct rblk_session *session);

/* -- command.c --------------------------------------------------------------------------------- */

/* Ring it: send what is pending as far as there is room. Negative errno: the queue is broken. */
int ini_queue_doorbell(struct ini_queue *queue);
/* All queues that have gathered some; one that fails is lost, and the session goes on. */
void ini_session_doorbells(struct rblk_session *session);
/* A signalled SEND completed: everything up to `message` has. */
void ini_queue_sent(struct ini_queue *queue, u32 message);

/* -- digest.c ---------------------------------------------------------------------------------- */

struct ini_io;

/*
 * Adds the digest of its data to a command, or the request for a read's. The command's memory and keys are set. No effect where
 * digests are not agreed, or without data.
 */
void ini_digest_add(struct ini_slot *slot, const struct ini_io *io);
/* Is the data in memory what the target has read? The answer has no core_digest_fault(); true without a digest. */
bool ini_digest_matches(const struct ini_slot *slot, const struct rblk_wire_completion *completion);

/* -- abort.c ----------------------------------------------------------------------------------- */

/* Asks the target to drop a command that was sent. No tag is free for that: abort_sent stays false. */
void ini_slot_abort(struct ini_slot *slot);

/* -- complete.c -------------------------------------------------------------------------------- */

/* Process the fabric's completions. Returns how many there were. */
unsigned int ini_complete_poll(struct rblk_session *session);
/* Post the receives that have been read. */
int ini_queue_repost(struct ini_queue *queue);
/* Send what was BUSY again, or give up on it. Returns when the next is due, 0: none. */
u64 ini_queue_retry(struct ini_queue *queue, u64 now_ns);
/* Make at most `max` (0: all) of the callbacks; returns how many were I/O. */
unsigned int ini_complete_deliver(struct rblk_session *session, unsigned int max);

#endif
