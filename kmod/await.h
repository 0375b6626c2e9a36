/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The submitter of one request at a time may wait for its answer on the processor, where that is found to be faster than
 * sleeping (proto/core/await.h). The completion handlers find the answer as always, in a softirq of this processor or
 * another, and leave the request's end to the waiter: nobody has to wake it.
 */
#ifndef RBLK_KMOD_AWAIT_H
#define RBLK_KMOD_AWAIT_H

#include <linux/types.h>

struct rblk_io;
struct rblk_queue;

enum rblk_await_state {
	RBLK_AWAIT_OPEN,     /* there is no answer */
	RBLK_AWAIT_ANSWERED, /* the waiter ends the request */
	RBLK_AWAIT_KEPT,     /* the handler keeps the request: it goes again, or fails */
};

/*
 * On the waiter's stack. io->awaiter points to it until a handler takes it from there by xchg, or the waiter takes it back by
 * cmpxchg and gives up. So one of them ends the request, and no handler writes to a stack that its owner has left.
 */
struct rblk_awaiter {
	u8 state; /* enum rblk_await_state; the handler's release, the waiter's acquire */
};

/*
 * Decides whether the answer to a request is waited for, which is about to be sent on its own queue. True: io->awaiter is
 * set and preemption is off (a waiter that does not run would hold up an answered request); one of the next two is to be
 * called. For queue_rq alone, and the last request of a batch.
 */
bool rblk_await_begin(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io);
/* It was not sent. */
void rblk_await_cancel(struct rblk_io *io);
/*
 * Ring the doorbell, wait (CORE_AWAIT_MOST_NS at most, and only while no other thread wants the processor), and end the
 * request if it is answered meanwhile. It may be another's afterwards.
 */
void rblk_await_answer(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io);

/*
 * By the CQ's handlers, in a softirq, for each answer. `ends`: the request is over, and does not go again. True: its waiter
 * ends it, and the handler must not touch it any more. False: the handler keeps it, and nobody waits for it any more.
 */
bool rblk_await_take(struct rblk_io *io, bool ends);

#endif
