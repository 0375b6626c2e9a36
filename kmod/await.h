/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The submitter of one request at a time may wait for its answer on the processor, where that is found to be faster than
 * sleeping (proto/core/await.h). The completion handlers find the answer and end the request as always, in a softirq of
 * this processor or another, and then let the waiter go: nobody has to wake it.
 */
#ifndef RBLK_KMOD_AWAIT_H
#define RBLK_KMOD_AWAIT_H

#include <linux/types.h>

struct rblk_io;
struct rblk_queue;

/*
 * On the waiter's stack. io->awaiter points to it until a handler takes it from there by xchg, or the waiter takes it back by
 * cmpxchg and gives up. So no handler writes to a stack that its owner has left.
 */
struct rblk_awaiter {
	bool released; /* the handler's release, the waiter's acquire */
};

/*
 * Decides whether the answer to a request is waited for, which is about to be sent on its own queue. True: io->awaiter is
 * set, and one of the next two is to be called. For queue_rq alone, and the last request of a batch.
 */
bool rblk_await_begin(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io);
/* It was not sent. */
void rblk_await_cancel(struct rblk_io *io);
/*
 * Ring the doorbell, and wait for the answer: CORE_AWAIT_MOST_NS at most, and only until the scheduler wants the processor for
 * another thread. The request may be another's afterwards.
 */
void rblk_await_answer(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io);

/*
 * By the CQ's handlers, in a softirq, for each answer: first take the waiter, if there is one (else NULL), then end the request,
 * or have it go again, and then release whom they took. It spins meanwhile, and may have left its stack afterwards.
 */
struct rblk_awaiter *rblk_await_take(struct rblk_io *io);
void rblk_await_release(struct rblk_awaiter *awaiter);

#endif
