// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * blk-mq's side of a session: one hardware context per queue, requests become commands, commit_rqs
 * rings the doorbell. Owns the tag set, which all disks of the session share. What becomes of
 * commands is command.c's.
 */
#include <linux/blk-mq.h>
#include <linux/delay.h>

#include "kmod/blk_mq.h"
#include "kmod/compat.h"
#include "kmod/disk.h"
#include "kmod/queue.h"
#include "kmod/waiting.h"

/* With so many large requests on a queue, the next ones go to the queue that has the fewest. */
#define RBLK_MQ_LARGE 2

/* -- operations -- */

/*
 * All requests of a processor go to one queue, and a queue is served by one thread of the target,
 * whose processor moves the data of large ones at a fraction of the link's speed. So large requests
 * are spread over the queues; they hardly ever share a message anyway. One or two at a time stay,
 * where the target is awake.
 */
static u8 rblk_mq_spread(const struct rblk_session *session, u8 route, struct request *rq)
{
	unsigned int i, plain = session->hw_queues - session->options.poll_queues;
	int count, fewest = atomic_read(&session->queues[route]->large);

	if (fewest < RBLK_MQ_LARGE || blk_rq_payload_bytes(rq) <= session->slot_bytes ||
	    session->queues[route]->polled)
		return route;
	for (i = 0; i < plain; i++) {
		if (smp_load_acquire(&session->route[i]) != i)
			continue; /* it is lost */
		count = atomic_read(&session->queues[i]->large);
		if (count >= fewest)
			continue;
		fewest = count;
		route = i;
	}
	return route;
}

/* Its own queue is lost, and the one that takes its requests has no tag left for them. */
static bool rblk_mq_borrow(struct rblk_session *session, struct rblk_io *io, u8 *route)
{
	unsigned int i, plain = session->hw_queues - session->options.poll_queues;

	for (i = 1; i < plain; i++) {
		u8 other = (*route + i) % plain;

		if (smp_load_acquire(&session->route[other]) == other &&
		    rblk_queue_take_tag(session->queues[other], io)) {
			*route = other;
			return true;
		}
	}
	return false;
}

bool rblk_mq_take_tag(struct rblk_session *session, struct rblk_io *io, u8 *route)
{
	struct request *rq = rblk_io_rq(io);
	u8 other = rblk_mq_spread(session, *route, rq);

	if (other != *route && rblk_queue_take_tag(session->queues[other], io)) {
		*route = other;
		return true;
	}
	if (rblk_queue_take_tag(session->queues[*route], io))
		return true;
	return *route != rq->mq_hctx->queue_num && rblk_mq_borrow(session, io, route);
}

static blk_status_t rblk_mq_queue_rq(struct blk_mq_hw_ctx *hctx,
				     const struct blk_mq_queue_data *bd)
{
	struct rblk_queue *home = hctx->driver_data;
	struct rblk_session *session = home->session;
	struct rblk_io *io = blk_mq_rq_to_pdu(bd->rq);
	u8 route = rblk_waiting_route(io);
	blk_status_t status;

	io->command.queue = home;
	io->refusals = 0;
	io->digests = 0;
	io->retry = false;
	io->overdue = false;
	io->expired = false;
	io->flush = req_op(bd->rq) == REQ_OP_FLUSH ? rblk_durable_number(rblk_disk_of(bd->rq)) : 0;
	if (unlikely(route == RBLK_NO_ROUTE)) {
		blk_mq_start_request(bd->rq);
		rblk_waiting_hold(io, jiffies);
		if (bd->last)
			rblk_queue_kick(home, false); /* those before it had a route */
		return BLK_STS_OK;
	}
	if (!rblk_mq_take_tag(session, io, &route))
		return BLK_STS_RESOURCE;
	/* Started before it is sent: its answer may come at once. */
	blk_mq_start_request(bd->rq);
	status = rblk_io_send(io, session->queues[route]);
	/*
	 * Another queue's doorbell is nobody's to ring later: the route may have changed by then.
	 */
	if (route != home->index)
		rblk_queue_kick(session->queues[route], false);
	/* Those before the last one may be on their own queue, wherever this one went. */
	if (bd->last)
		rblk_queue_kick(home, false);
	if (status == BLK_STS_OK || status == BLK_STS_RESOURCE)
		return status;
	if (status == BLK_STS_TRANSPORT)
		rblk_waiting_hold(io, jiffies); /* the queue went down meanwhile */
	else /* no error of ours: that would leave a started request of dm-multipath's behind */
		rblk_io_fail(io, blk_status_to_errno(status));
	return BLK_STS_OK;
}

static void rblk_mq_commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	rblk_queue_kick(hctx->driver_data, false);
}

static int rblk_mq_poll(struct blk_mq_hw_ctx *hctx, struct io_comp_batch *batch)
{
	return rblk_queue_poll(hctx->driver_data, batch);
}

/* Polled I/O has the last queues, all other I/O those before them. */
static void rblk_mq_map_queues(struct blk_mq_tag_set *set)
{
	struct rblk_session *session = set->driver_data;
	unsigned int polled = session->options.poll_queues;

	set->map[HCTX_TYPE_DEFAULT].nr_queues = set->nr_hw_queues - polled;
	blk_mq_map_queues(&set->map[HCTX_TYPE_DEFAULT]);
	if (!polled)
		return;
	set->map[HCTX_TYPE_READ].nr_queues = 0; /* no queues of their own */
	set->map[HCTX_TYPE_POLL].nr_queues = polled;
	set->map[HCTX_TYPE_POLL].queue_offset = set->nr_hw_queues - polled;
	blk_mq_map_queues(&set->map[HCTX_TYPE_POLL]);
}

static int rblk_mq_init_hctx(struct blk_mq_hw_ctx *hctx, void *data, unsigned int index)
{
	struct rblk_session *session = data;

	hctx->driver_data = session->queues[index];
	return 0;
}

static int rblk_mq_init_request(struct blk_mq_tag_set *set, struct request *rq,
				unsigned int hctx, rblk_compat_node_t node)
{
	struct rblk_session *session = set->driver_data;

	rblk_io_init(blk_mq_rq_to_pdu(rq), session->queues[hctx]);
	return 0;
}

static const struct blk_mq_ops rblk_mq_ops = {
	.queue_rq = rblk_mq_queue_rq,
	.commit_rqs = rblk_mq_commit_rqs,
	.complete = rblk_io_complete,
	.timeout = rblk_overdue_check,
	.poll = rblk_mq_poll,
	.map_queues = rblk_mq_map_queues,
	.init_hctx = rblk_mq_init_hctx,
	.init_request = rblk_mq_init_request,
};

/* -- beginning and end -- */

/*
 * A hardware context for each queue that the target allows, and a request for each tag that a queue
 * has for its own; *node: where the first one's device is. 0: no queue is connected. (Under
 * core_lock a queue that is live has its limits, memory and device.)
 */
static unsigned int rblk_mq_count_queues(struct rblk_session *session, int *node)
{
	unsigned int i, depth = UINT_MAX,
			plain = session->queue_count - session->options.poll_queues;

	session->hw_queues = session->core.queues;
	session->options.poll_queues = session->hw_queues > plain ? session->hw_queues - plain : 0;
	session->credits = UINT_MAX;
	spin_lock_irq(&session->core_lock);
	for (i = 0; i < session->hw_queues; i++) {
		const struct rblk_queue *queue = session->queues[i];

		if (session->core.queue[i].state != CORE_QUEUE_LIVE)
			continue;
		session->credits = min_t(unsigned int, session->credits, queue->credits);
		if (depth == UINT_MAX)
			*node = ibdev_to_node(queue->ibdev);
		depth = min(depth, queue->home_tags);
	}
	spin_unlock_irq(&session->core_lock);
	return depth == UINT_MAX ? 0 : depth;
}

int rblk_mq_create(struct rblk_session *session)
{
	struct blk_mq_tag_set *set = &session->tag_set;
	unsigned int depth;
	int error = 0, node;

	mutex_lock(&session->lifecycle);
	if (session->tag_set_ready)
		goto out;
	error = -ENOTCONN;
	depth = rblk_mq_count_queues(session, &node);
	if (!depth)
		goto out;
	memset(set, 0, sizeof(*set));
	set->ops = &rblk_mq_ops;
	set->nr_hw_queues = session->hw_queues;
	set->nr_maps = session->options.poll_queues ? HCTX_MAX_TYPES : 1;
	set->queue_depth = depth + RBLK_MQ_RESERVED;
	set->reserved_tags = RBLK_MQ_RESERVED;
	set->numa_node = node;
	set->cmd_size = sizeof(struct rblk_io);
	/*
	 * No I/O scheduler by default, even with one queue: it would hand each request to a worker,
	 * which has to be woken.
	 */
	set->flags = RBLK_COMPAT_TAG_FLAGS | BLK_MQ_F_NO_SCHED_BY_DEFAULT;
	set->timeout = msecs_to_jiffies(session->options.command_ms);
	set->driver_data = session;
	error = blk_mq_alloc_tag_set(set);
	if (error)
		goto out;
	/*
	 * A set that goes from one user to two, or back, waits until all requests of that one have
	 * ended. The placeholder, which never has any, is always one of two or more: so no attach
	 * or detach waits for another disk's I/O. (nvme's connect queue has the same effect.)
	 */
	session->placeholder = rblk_compat_alloc_queue(set);
	error = PTR_ERR_OR_ZERO(session->placeholder);
	if (error)
		blk_mq_free_tag_set(set);
	else
		smp_store_release(&session->tag_set_ready, true);
out:
	mutex_unlock(&session->lifecycle);
	return error;
}

/*
 * blk-mq divides the tags among the disks that have asked for one of late. Where one disk alone
 * has, and its I/O is held, another one that was idle would find all of them taken. So the
 * placeholder takes part, too, and never uses its share: one disk alone gets a half, and two of
 * them still leave some. (nvme's connect queue does not, once it is idle: there the namespaces of a
 * controller are lost and come back together, here a disk whose volume is missing or hangs is held
 * alone.) It takes part from its first request until its timer finds it idle; a request that is
 * never started sets no timer. (The kernel wants a request for a certain hardware context to be a
 * reserved one.)
 */
void rblk_mq_share(struct rblk_session *session)
{
	struct request *rq;
	unsigned int i;

	lockdep_assert_held(&session->lifecycle);
	WRITE_ONCE(session->tags_shared, true); /* of those that queues lend (queue.c) */
	blk_sync_queue(session->placeholder); /* the timer that rblk_mq_unshare() has set */
	for (i = 0; i < session->hw_queues; i++) {
		rq = blk_mq_alloc_request_hctx(session->placeholder, REQ_OP_DRV_OUT,
					       BLK_MQ_REQ_NOWAIT | BLK_MQ_REQ_RESERVED, i);
		/* A hardware context without a processor has no I/O, either. */
		if (!IS_ERR(rq))
			blk_mq_free_request(rq);
	}
}

/*
 * The timer that finds the placeholder idle is set by a request that is started; this one ends at
 * once. The timer runs some seconds later. If there is no request to be had the tags stay divided,
 * which is no error.
 */
void rblk_mq_unshare(struct rblk_session *session)
{
	struct request *rq;

	lockdep_assert_held(&session->lifecycle);
	WRITE_ONCE(session->tags_shared, false);
	if (!session->tag_set_ready)
		return;
	rq = blk_mq_alloc_request(session->placeholder, REQ_OP_DRV_OUT,
				  BLK_MQ_REQ_NOWAIT | BLK_MQ_REQ_RESERVED);
	if (IS_ERR(rq))
		return;
	blk_mq_start_request(rq);
	blk_mq_end_request(rq, BLK_STS_OK);
}

void rblk_mq_destroy(struct rblk_session *session)
{
	if (!session->tag_set_ready)
		return;
	blk_mq_destroy_queue(session->placeholder);
	blk_put_queue(session->placeholder);
	blk_mq_free_tag_set(&session->tag_set);
	session->tag_set_ready = false;
}

/* -- what has been answered -- */

struct rblk_ending {
	const struct rblk_queue *queue; /* or: */
	const struct rblk_disk *disk;
	bool found;
};

static bool rblk_mq_find_ending(struct request *rq, void *data)
{
	struct rblk_ending *ending = data;
	const struct rblk_io *io = blk_mq_rq_to_pdu(rq);

	ending->found = smp_load_acquire(&io->answered) &&
			(READ_ONCE(io->command.queue) == ending->queue ||
			 rblk_disk_of(rq) == ending->disk);
	return !ending->found;
}

bool rblk_mq_ends(struct rblk_session *session, const struct rblk_queue *queue,
		  const struct rblk_disk *disk)
{
	struct rblk_ending ending = { .queue = queue, .disk = disk };

	/* One that is just being made has had no request yet. */
	if (smp_load_acquire(&session->tag_set_ready))
		blk_mq_tagset_busy_iter(&session->tag_set, rblk_mq_find_ending, &ending);
	return ending.found;
}

void rblk_mq_settle(struct rblk_queue *queue)
{
	while (rblk_mq_ends(queue->session, queue, NULL))
		fsleep(USEC_PER_MSEC);
}
