/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A queue: one RC connection with its command slots, its send queue's accounts and its lists of
 * requests. Allocated whole at login; ends in two phases: closed (QP to ERR, what has not begun is
 * dropped), then, when the fabric has drained and no store owns a request, destroyed. Its
 * reactor's thread only.
 */
#ifndef RBLK_TARGET_QUEUE_H
#define RBLK_TARGET_QUEUE_H

#include "target/io/request.h"
#include "target/serve/session.h"

/*
 * What a posted work request uses until it has completed. Completions of a send queue come in
 * order, so that a signalled one gives back everything before it.
 */
struct tgt_sent {
	struct tgt_request *reads; /* an RDMA READ of this request */
	struct tgt_handle *handle; /* the store's memory is the source or target */
	void *block;		   /* to be freed, of pool or reports */
	uint32_t block_bytes;
	uint16_t replies; /* completions in the reply ring */
	bool orphan;	  /* counted as the volume's: its queue is closed, not yet drained */
	bool read;	  /* counts against the READ depth */
	bool report;
};

enum tgt_queue_state {
	TGT_QUEUE_OPEN,	   /* accepted; takes commands */
	TGT_QUEUE_CLOSING, /* QP in ERR; waits for DRAINED and for stores */
};

struct tgt_queue {
	/* Fixed after creation. */
	struct tgt_reactor *reactor;
	struct tgt_session *session;
	struct tgt_fabric *fabric;
	struct tgt_device *device; /* NULL: a measuring connection with receives of its own */
	struct fab_conn *conn;
	uint16_t index;
	uint32_t incarnation;
	uint32_t features;
	uint16_t credits, tags;
	uint16_t reply_batch; /* completions in one reply message */
	uint32_t command_bytes;
	uint32_t lkey; /* of the reactor's region on this device; or of the arena */
	uint64_t max_msg_bytes;

	enum tgt_queue_state state;
	bool drained; /* nothing of the fabric's will come any more */
	bool is_dirty, is_starving, is_ended;
	TAILQ_ENTRY(tgt_queue) alive_link, dirty_link, starving_link, ended_link;

	struct tgt_request *requests;	  /* by tag */
	unsigned int active;		  /* not FREE */
	uint32_t sequence;		  /* of the next command */
	struct tgt_request_list waiting;  /* for memory */
	struct tgt_request_list fetching; /* RDMA READs to post */
	struct tgt_request_list done;	  /* to be replied */
	struct tgt_request_list chained;  /* F2: replies behind READs into the store's memory */
	unsigned int done_count;

	/* Send queue: entries [sent_tail, sent_head) are outstanding. */
	struct tgt_sent *sent;
	uint32_t sent_mask, send_depth;
	uint32_t sent_head, sent_tail;
	uint32_t reads_out; /* RDMA READs outstanding */
	uint32_t reports;   /* blocks of reactor->reports */
	/* Reply ring: completions being sent; slots [reply_tail, reply_head). */
	struct rblk_wire_completion *replies;
	uint32_t reply_mask, reply_head, reply_tail;
	size_t reply_bytes; /* of the ring: as allocated */

	/* A measuring connection's own memory: receives, replies, a report and the scratch page. */
	struct tgt_region arena;
	struct fab_mr *arena_mr, *scratch_mr;
	struct tgt_inbox inbox;

	uint64_t heard_ns;   /* last sign of life */
	uint64_t suspect_ns; /* since when its silence is looked into; 0: it is not */
	bool established;    /* both ends have said so: may be probed before its first message */

	uint64_t commands, messages_in, bytes_read, bytes_written, queued_us, stored_us;
};

/* What a login has agreed. */
struct tgt_queue_terms {
	uint16_t index, credits;
	uint32_t incarnation, features, reply_bytes;
	bool scratch;
};

/*
 * Accept the request with these terms: slots, accounts, connection, receives. Does not answer yet
 * (fab_conn_establish). Negative errno with *queue NULL: the request is still the caller's; with
 * *queue set: the connection is there, to be refused and closed.
 */
int tgt_queue_create(struct tgt_session *session, struct tgt_fabric *fabric,
		     struct tgt_device *device, struct fab_request *request,
		     const struct tgt_queue_terms *terms, struct tgt_queue **queue);

/* A message has arrived in buffer `index` of `inbox`. */
void tgt_queue_receive(struct tgt_queue *queue, struct tgt_inbox *inbox, uint32_t index,
		       uint32_t bytes);

/* Begin to end it, with one log line unless reason is NULL. Idempotent. */
void tgt_queue_close(struct tgt_queue *queue, const char *reason);
/* The peer broke a rule of the specification: one line, then close. */
void tgt_queue_violation(struct tgt_queue *queue, const char *rule);
/* FAB_EVENT_DRAINED. */
void tgt_queue_drained(struct tgt_queue *queue);
/* A request of a closing queue has become free: it may be over now. */
void tgt_queue_check_end(struct tgt_queue *queue);
/* The second phase; from the reactor's turn only, when nothing is on the stack that uses it. */
void tgt_queue_destroy(struct tgt_queue *queue);

static inline void tgt_queue_mark_dirty(struct tgt_queue *queue)
{
	if (!queue->is_dirty) {
		queue->is_dirty = true;
		TAILQ_INSERT_TAIL(&queue->reactor->dirty, queue, dirty_link);
	}
}

static inline void tgt_queue_heard(struct tgt_queue *queue)
{
	queue->heard_ns = queue->reactor->now_ns;
	queue->suspect_ns = 0;
	if (queue->state == TGT_QUEUE_OPEN && TAILQ_NEXT(queue, alive_link)) {
		TAILQ_REMOVE(&queue->reactor->alive, queue, alive_link);
		TAILQ_INSERT_TAIL(&queue->reactor->alive, queue, alive_link);
	}
}

/* Keep-alive: silent queues are probed, then closed. Returns when to look again. */
uint64_t tgt_queue_check_alive(struct tgt_reactor *reactor);
/* A login found no room: without a keep-alive time, too, those who are gone may not keep it. */
void tgt_queue_check_pressed(struct tgt_reactor *reactor);

#endif
