/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who submits one request at a time may wait for its answer on the processor, where that is found to be faster than
 * sleeping (proto/core/await.h). The completion handlers find the answer as always, in a softirq of this processor or
 * another, and leave the request's end to whoever waits: nobody has to be woken.
 */
#ifndef RBLK_KMOD_AWAIT_H
#define RBLK_KMOD_AWAIT_H

#include <linux/types.h>

struct rblk_io;
struct rblk_queue;

enum rblk_await_state { RBLK_AWAIT_OPEN, RBLK_AWAIT_ANSWERED, RBLK_AWAIT_REFUSED };

/* On the stack of whoever waits; io->awaiter points to it until a handler or its owner takes it from there. */
struct rblk_awaiter {
	u8 state; /* enum rblk_await_state; the handler's release, the owner's acquire */
};

/*
 * The request is about to be sent on the queue of its hardware context. Is its answer to be waited for? Then io->awaiter is
 * set, and one of the next two is to be called. By queue_rq alone, for the last request of a batch.
 */
bool rblk_await_begin(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io);
/* It was not sent. */
void rblk_await_cancel(struct rblk_io *io);
/* Ring the doorbell, wait, and end the request if it is answered meanwhile. It may be another's afterwards. */
void rblk_await_answer(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io);

/*
 * By the handlers, for each answer. True: `ends`, and who waits ends the request. Otherwise nobody waits for it any
 * more.
 */
bool rblk_await_take(struct rblk_io *io, bool ends);

#endif
