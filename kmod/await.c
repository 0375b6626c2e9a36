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
	awaiter->released = false;
	WRITE_ONCE(io->awaiter, awaiter);
	return true;
}

void rblk_await_cancel(struct rblk_io *io)
{
	WRITE_ONCE(io->awaiter, NULL);
}

struct rblk_awaiter *rblk_await_take(struct rblk_io *io)
{
	return READ_ONCE(io->awaiter) ? xchg(&io->awaiter, NULL) : NULL;
}

void rblk_await_release(struct rblk_awaiter *awaiter)
{
	if (awaiter)
		smp_store_release(&awaiter->released, true);
}

/* False: it gave up, and no handler touches the awaiter any more. */
static bool rblk_await_spin(struct rblk_awaiter *awaiter, struct rblk_io *io)
{
	u64 until_ns = ktime_get_ns() + CORE_AWAIT_MOST_NS;
	bool released;

	while (!(released = smp_load_acquire(&awaiter->released)) && !rblk_compat_need_resched() && ktime_get_ns() < until_ns)
		cpu_relax();
	if (!released && cmpxchg(&io->awaiter, awaiter, NULL) == awaiter)
		return false;
	/* A handler on another processor has just taken it. It runs with softirqs off, so nobody preempts it. */
	while (!smp_load_acquire(&awaiter->released))
		cpu_relax();
	return true;
}

void rblk_await_answer(struct rblk_awaiter *awaiter, struct rblk_queue *queue, struct rblk_io *io)
{
	bool answered;

	/* Soft-RoCE before 6.4 works in softirqs. They run here: left to ksoftirqd, they would take the processor from the waiter. */
	local_bh_disable();
	rblk_queue_kick(queue);
	local_bh_enable();
	answered = rblk_await_spin(awaiter, io);
	core_await_waited(&queue->await, answered);
	queue->awaited++;
	if (!answered)
		queue->awaited_in_vain++;
}
