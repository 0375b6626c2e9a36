/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A reactor's turn as its commands see it: the clock of the turn, the memory for data, and the
 * I/O queues and requests that have something to do in this turn or the next. serve/ embeds one in each
 * reactor; what is done with the lists is work.c's. The reactor's thread only.
 */
#ifndef RBLK_TARGET_LOOP_H
#define RBLK_TARGET_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include "proto/fabric/fabric.h"
#include "proto/wire/message.h"
#include "target/base/list.h"
#include "target/base/log.h"
#include "target/io/limit.h"
#include "target/io/receive.h"
#include "target/store/pool.h"
#include "target/store/dma_memory.h"

/* A command waits this long for data memory. Then it is answered BUSY. */
#define TGT_MEMORY_WAIT_NS 5000000000ull
/* C8: the connection of a peer that accepts nothing for so long is ended. */
#define TGT_TAKE_NS 30000000000ull
#define TGT_LATE_NS 1000000000ull
/* Bytes of stores' own memory that one turn reads or zeroes for new commands, and for those put
 * off: digests and copies of more would keep other sessions waiting. */
#define TGT_DIRECT_BYTES (2u << 20)
/* Sessions of one host that may do one command each beyond that. */
#define TGT_DIRECT_EXTRA 4u
/* Work requests of one chain. */
#define TGT_CHAIN_MAX 64u

/* Why connections end, as far as it is counted. */
enum tgt_end {
	TGT_END_TARGET,	      /* by this end: a drain, a fence, a removed device, a fault */
	TGT_END_DISCONNECTED, /* by the peer */
	TGT_END_LOST,	      /* the fabric reports it lost */
	TGT_END_SILENT,	      /* keep-alive timeout */
	TGT_END_VIOLATION,    /* the peer broke a rule */
	TGT_ENDS
};

/* The results of logins, as far as they are counted. */
enum tgt_login_result {
	TGT_LOGIN_ACCEPTED,
	TGT_LOGIN_RETURNED,  /* of a session that is not known, mostly since a restart: it begins anew */
	TGT_LOGIN_DENIED,    /* by the rules, or without a right proof; an OPEN that the rules deny is counted, too */
	TGT_LOGIN_MALFORMED, /* not this protocol, or not this version */
	TGT_LOGIN_FULL,	     /* no room: it is told to try again, or to want less */
	TGT_LOGIN_STALE,     /* a newer one of its queue or session has come */
	TGT_LOGIN_DRAINING,  /* the daemon ends */
	TGT_LOGIN_RESULTS
};

struct tgt_io_queue;
struct tgt_request;
struct tgt_share;
struct tgt_portion;

TAILQ_HEAD(tgt_io_queue_list, tgt_io_queue);
TAILQ_HEAD(tgt_request_list, tgt_request);
TAILQ_HEAD(tgt_share_list, tgt_share);
TAILQ_HEAD(tgt_portion_list, tgt_portion);

/* Work requests gathered for one I/O queue in one turn. A reactor has one, and reuses it. */
struct tgt_chain {
	struct ibv_send_wr wr[TGT_CHAIN_MAX];
	struct ibv_sge sge[TGT_CHAIN_MAX];
	unsigned int count;
	bool failed; /* a post was refused: nothing more is posted, the I/O queue is closed at the end */
};

struct tgt_loop {
	/* Fixed after creation. */
	const struct tgt_dma_memory *memory; /* that the pools lie in */
	struct tgt_pool *pool;		 /* data */
	struct tgt_pool *reports;	 /* what session commands report: I/O cannot take it */
	uint32_t max_io_bytes;		 /* of one command */

	uint64_t now_ns;   /* read once a turn */
	uint64_t timer_ns; /* when to look at the timers again; see tgt_loop_timer() */
	bool draining;	   /* new commands are answered DRAINING */

	struct tgt_io_queue_list alive;	 /* open I/O queues, least recently heard first */
	struct tgt_io_queue_list dirty;	 /* has something to post in this turn */
	struct tgt_share_list starving;	 /* sessions with commands that wait for memory, in turn */
	struct tgt_portion_list bounded; /* volumes of sessions with commands that wait for the volume's share */
	bool memory_freed;		 /* since they were last looked at */
	bool short_of_memory;		 /* it is gathered for one of them: no other overtakes it */
	uint64_t gather_begun_ns;	 /* start of the present TGT_GATHER_PERIOD_NS */
	uint64_t gathered_ns;		 /* how long memory was gathered in that period */
	uint64_t gather_seen_ns;	 /* when gathered_ns was last brought up to date */
	struct tgt_request_list resumed; /* continue in the next turn: work in stores' memory */
	struct tgt_request_list limited; /* wait for a limit (throttle.c), in the order they came */
	uint64_t limited_ns;		 /* when to look at them again */
	struct tgt_token_bucket_list buckets; /* at limits */
	uint64_t direct_bytes;		 /* of TGT_DIRECT_BYTES, in this turn */
	struct tgt_receives_list idle;	 /* has receive buffers to post */
	struct tgt_chain chain;
	uint64_t refused[RBLK_E_MAX]; /* commands without an open volume, by status */
	uint64_t ends[TGT_ENDS];      /* connections that have ended */
	uint64_t logins[TGT_LOGIN_RESULTS];
	/* For messages that a peer can trigger. Connects and disconnects must not hide errors. */
	struct tgt_log_limit log_limit, chat_limit;
};

/* Something is due at due_ns: the timers are looked at by then. Call it when something with a
 * deadline begins; each check finds the next deadline by itself. */
static inline void tgt_loop_timer(struct tgt_loop *loop, uint64_t due_ns)
{
	if (loop->timer_ns > due_ns)
		loop->timer_ns = due_ns;
}

#endif
