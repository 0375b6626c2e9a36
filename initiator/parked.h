/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Commands without a queue: they were on a connection that is lost and wait for its fence (F5), or
 * they came while no queue takes commands. parked.c keeps them, starts them on a queue that does,
 * or ends them. There are never more than the session's queues can have outstanding.
 */
#ifndef RBLK_INITIATOR_PARKED_H
#define RBLK_INITIATOR_PARKED_H

#include "initiator/io.h"

struct rblk_session;
struct ini_buffer;
struct ini_queue;
struct ini_slot;

enum ini_parked_state {
	INI_PARKED_FREE,
	INI_PARKED_LOST,  /* of `queue`, whose fence is not acknowledged yet */
	INI_PARKED_READY, /* may be sent */
	INI_PARKED_DONE,  /* waits for its callback */
};

struct ini_parked {
	struct ini_parked *next;
	struct rblk_volume *volume; /* counts it as in flight */
	struct ini_io io;
	struct ini_buffer *buffer; /* held; NULL: none */
	struct rblk_result result; /* DONE */
	u16 queue;		   /* LOST */
	u8 state;		   /* enum ini_parked_state */
};

/* The session's. */
struct ini_parking {
	struct ini_parked *all;
	struct ini_parked *free;
	struct ini_parked *waiting, **waiting_end; /* LOST and READY, the oldest first */
	struct ini_parked *done, **done_end;
	u32 capacity, used, ready;
};

int ini_parking_init(struct rblk_session *session, u32 capacity);
void ini_parking_fini(struct rblk_session *session);

/* With what is in slots, are there as many commands as the session takes? Then no new one is. */
bool ini_parking_full(const struct rblk_session *session);
/* Keep a command that has just come. 0 or -EAGAIN: full. `buffer` may be NULL. */
int ini_park_new(struct rblk_volume *volume, const struct ini_io *io, struct ini_buffer *buffer);
/*
 * The queue's connection is drained: its I/O goes from slots to here. LOST if the target had it;
 * what it did not have is READY.
 */
void ini_park_queue(struct ini_queue *queue);
/* The fence of what was lost with this queue is acknowledged. `renewed`: in a new epoch. */
void ini_parked_release(struct rblk_session *session, u16 queue, bool renewed);
/* Start what is READY, as far as queues take it. */
void ini_parked_start(struct rblk_session *session);
/* All of it ends with this error. */
void ini_parked_fail(struct rblk_session *session, int error);
/* FLUSHes of a volume whose acknowledged writes may be lost end with EIO (F7). */
void ini_parked_fail_flushes(struct rblk_volume *volume);
/* Call back at most `max` (0: all); how many were the program's own. */
unsigned int ini_parked_deliver(struct rblk_session *session, unsigned int max);

#endif
