// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Waiting for answers on the processor; see await.h. */
#include <linux/blk-mq.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "kmod/await.h"
#include "kmod/command.h"
#include "kmod/compat.h"
#include "kmod/queue.h"

static bool await = true;
module_param(await, bool, 0644);
MODULE_PARM_DESC(await, "wait for answers on the processor where that is found to be faster than sleeping (default: Y)");

/*
 * Workers do not wait: they have other requests to send. Nor does anybody where the handler of the answer could not run: with
 * softirqs or interrupts off, or on a kernel for real-time, which can preempt handlers.
 */
static bool rblk_await_may(const struct rblk_queue *queue)
{
	return READ_ONCE(await) && !queue->polled && !in_interrupt() && !irqs_disabled() &&
	       !(current->flags & PF_WQ_WORKER) && !IS_ENABLED(CONFIG_PREEMPT_RT);
}

/* Does its submitter probably depend on it? Not for writeback or readahead. */
static bool rblk_await_is_wanted(const struct request *rq)
{
	return (req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE) && op_is_sync(rq->cmd_flags) &&
	       !(rq->cmd_flags & REQ_RAHEAD);
}

bool rblk_await_begin(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io)
{
	/* What others do with the queue at the same time may be seen or not. */
	bool alone = READ_ONCE(queue->next_sequence) == READ_ONCE(queue->ended) && list_empty(&queue->pending) &&
		     rblk_await_is_wanted(rblk_io_rq(io)) && rblk_await_may(queue);

	if (!core_await_submit(&queue->await, alone ? ktime_get_ns() : 0, alone))
		return false;
	preempt_disable();
	awaiter->state = RBLK_AWAIT_OPEN;
	io->awaiter = awaiter;
	return true;
}

void rblk_await_cancel(struct rblk_io *io)
{
	io->awaiter = NULL;
	preempt_enable();
}

bool rblk_await_take(struct rblk_io *io, bool ends)
{
	struct rblk_awaiter *awaiter = READ_ONCE(io->awaiter);

	if (awaiter)
		awaiter = xchg(&io->awaiter, NULL);
	if (!awaiter)
		return false;
	smp_store_release(&awaiter->state, ends ? RBLK_AWAIT_ANSWERED : RBLK_AWAIT_KEPT);
	return ends;
}

/* Waits. Returns the outcome; RBLK_AWAIT_OPEN: it gave up, and no handler touches the awaiter any more. */
static u8 rblk_await_spin(struct rblk_awaiter *awaiter, struct rblk_io *io)
{
	u64 until_ns = ktime_get_ns() + CORE_AWAIT_MOST_NS;
	u8 state;

	while (!(state = smp_load_acquire(&awaiter->state)) && !rblk_compat_need_resched() && ktime_get_ns() < until_ns)
		cpu_relax();
	if (state || cmpxchg(&io->awaiter, awaiter, NULL) == awaiter)
		return state;
	/* A handler on another processor has just taken it. It runs with softirqs off, so it is not preempted: some instructions more. */
	while (!(state = smp_load_acquire(&awaiter->state)))
		cpu_relax();
	return state;
}

/* The waiter ends the request, as a handler would have. */
static void rblk_await_end(struct request *rq)
{
	local_bh_disable(); /* for blk-mq's softirq, if it takes that */
	if (!blk_mq_complete_request_remote(rq))
		rblk_io_complete(rq);
	local_bh_enable();
}

void rblk_await_answer(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io)
{
	struct request *rq = rblk_io_rq(io);
	u8 state;

	/* Soft-RoCE before 6.4 works in softirqs. They run here: left to ksoftirqd, they would take the processor from the waiter. */
	local_bh_disable();
	rblk_queue_kick(queue);
	local_bh_enable();
	state = rblk_await_spin(awaiter, io);
	core_await_waited(&queue->await, state != RBLK_AWAIT_OPEN);
	queue->awaited++;
	if (state == RBLK_AWAIT_OPEN)
		queue->awaited_in_vain++;
	if (state == RBLK_AWAIT_ANSWERED)
		rblk_await_end(rq);
	preempt_enable();
}
