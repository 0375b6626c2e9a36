// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Requests that wait; see waiting.h. blk-mq's own list of requests to be sent again is not used: it is
 * put back as a whole, so that no request could wait for something of its own.
 */
#include <linux/blk-mq.h>
#include <linux/sched/mm.h>

#include "kmod/waiting.h"
#include "kmod/command.h"
#include "kmod/device.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/overdue.h"
#include "kmod/queue.h"

/* Have the work run at that time, or earlier. waiting_lock is held. */
static void rblk_waiting_schedule(struct rblk_device *device, unsigned long at)
{
	unsigned long now = jiffies;

	lockdep_assert_held(&device->waiting_lock);
	if (device->waiting_armed && !time_before(at, device->waiting_next))
		return;
	device->waiting_armed = true;
	device->waiting_next = at;
	mod_delayed_work(rblk_workqueue, &device->waiting_work, time_after(at, now) ? at - now : 0);
}

/* -- ending -------------------------------------------------------------------------------------- */

static void rblk_waiting_end(struct rblk_io *io)
{
	io->command.error = -ENOLINK; /* BLK_STS_TRANSPORT: another path may do better */
	blk_mq_complete_request(rblk_io_rq(io));
}

static void rblk_waiting_end_all(struct list_head *list)
{
	struct rblk_io *io, *after;

	list_for_each_entry_safe(io, after, list, command.entry) {
		list_del_init(&io->command.entry);
		rblk_waiting_end(io);
	}
}

/* The gate is closed before rblk_waiting_fail() takes the lock: whoever comes after that sees it here. */
static bool rblk_waiting_too_late(struct rblk_device *device, struct rblk_io *io)
{
	u8 gate = READ_ONCE(device->gate);

	lockdep_assert_held(&device->waiting_lock);
	return gate == RBLK_GATE_FAIL ||
	       (gate == RBLK_GATE_FAIL_FAST && blk_noretry_request(rblk_io_rq(io)));
}

void rblk_waiting_fail(struct rblk_device *device, bool fail_fast_only)
{
	struct rblk_io *io, *after;
	LIST_HEAD(ended);

	spin_lock_irq(&device->waiting_lock);
	list_for_each_entry_safe(io, after, &device->waiting, command.entry)
		if (!fail_fast_only || blk_noretry_request(rblk_io_rq(io)))
			list_move_tail(&io->command.entry, &ended);
	spin_unlock_irq(&device->waiting_lock);
	rblk_waiting_end_all(&ended);
}

/* -- coming -------------------------------------------------------------------------------------- */

/* False: it cannot wait any more. */
static bool rblk_waiting_add(struct rblk_device *device, struct rblk_io *io, enum rblk_wait wait,
			     unsigned long at)
{
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&device->waiting_lock, flags);
	late = rblk_waiting_too_late(device, io);
	if (!late) {
		io->wait = wait;
		io->again_at = at;
		list_add_tail(&io->command.entry, &device->waiting);
		if (wait != RBLK_WAIT_LOST)
			rblk_waiting_schedule(device, at);
	}
	spin_unlock_irqrestore(&device->waiting_lock, flags);
	return !late;
}

void rblk_waiting_hold(struct rblk_device *device, struct rblk_io *io)
{
	if (!rblk_waiting_add(device, io, RBLK_WAIT_READY, jiffies))
		rblk_waiting_end(io);
}

unsigned int rblk_waiting_give_up_ms(struct rblk_io *io)
{
	const struct rblk_options *o = &io->command.queue->device->options;

	return o->fail_fast_ms && blk_noretry_request(rblk_io_rq(io)) ?
		       min(o->fail_fast_ms, o->give_up_ms) : o->give_up_ms;
}

/* Has the target refused it for too long? */
static bool rblk_waiting_refused_enough(struct rblk_device *device, struct rblk_io *io)
{
	/* A target that drains is a path that is about to be lost. */
	unsigned int limit_ms = io->command.status == RBLK_E_DRAINING ?
					rblk_waiting_give_up_ms(io) : device->options.command_ms;

	return io->refusals &&
	       time_after(jiffies, io->refused_since + msecs_to_jiffies(limit_ms));
}

/* Nobody but blk-mq's timer asks for ABORT; a preempted reservation has commands dropped, too. */
static bool rblk_waiting_dropped(const struct rblk_io *io)
{
	return io->command.status == RBLK_E_ABORTED && io->abort_asked;
}

bool rblk_waiting_refused(struct rblk_io *io)
{
	struct rblk_device *device = io->command.queue->device;
	u16 status = io->command.status;
	unsigned long pause;

	if (rblk_waiting_dropped(io)) {
		io->command.queue->stats.dropped++;
		if (rblk_overdue_ends(io)) {
			io->command.error = -ETIMEDOUT;
			return false;
		}
	} else if (status != RBLK_E_DRAINING && status != RBLK_E_BUSY) {
		io->refusals = 0;
		return false;
	} else if (rblk_waiting_refused_enough(device, io)) {
		return false;
	}
	if (!io->refusals)
		io->refused_since = jiffies;
	io->refusals = min(io->refusals + 1, U8_MAX);
	rblk_memory_unmap(io);
	pause = msecs_to_jiffies(rblk_waiting_pause_ms(io->refusals));
	return rblk_waiting_add(device, io, RBLK_WAIT_TIME, jiffies + pause);
}

void rblk_waiting_take_lost(struct rblk_queue *queue)
{
	struct rblk_device *device = queue->device;
	unsigned int tag;

	lockdep_assert_held(&device->lifecycle);
	for (tag = 0; tag < queue->credits; tag++) {
		struct rblk_command *command = queue->commands[tag];
		struct rblk_io *io;

		if (!command)
			continue;
		io = rblk_command_io(command);
		queue->commands[tag] = NULL;
		list_del_init(&command->entry);
		WRITE_ONCE(command->account.state, CORE_TAG_FREE);
		rblk_memory_unmap(io);
		io->lost_queue = queue->index;
		io->refusals = 0;
		io->expired = io->abort_asked && rblk_overdue_ends(io);
		if (!rblk_waiting_add(device, io, RBLK_WAIT_LOST, jiffies))
			rblk_waiting_end(io);
	}
}

void rblk_waiting_release(struct rblk_device *device, unsigned int queue)
{
	struct rblk_io *io;

	spin_lock_irq(&device->waiting_lock);
	list_for_each_entry(io, &device->waiting, command.entry) {
		if (io->wait != RBLK_WAIT_LOST || io->lost_queue != queue)
			continue;
		io->wait = RBLK_WAIT_READY;
		io->retry = true;
		atomic64_inc(&device->retries);
	}
	rblk_waiting_schedule(device, jiffies);
	spin_unlock_irq(&device->waiting_lock);
}

void rblk_waiting_kick(struct rblk_device *device)
{
	spin_lock_irq(&device->waiting_lock);
	if (!list_empty(&device->waiting))
		rblk_waiting_schedule(device, jiffies);
	spin_unlock_irq(&device->waiting_lock);
}

/* -- going --------------------------------------------------------------------------------------- */

static u8 rblk_waiting_route(struct rblk_device *device, struct rblk_io *io)
{
	return smp_load_acquire(&device->route[rblk_io_rq(io)->mq_hctx->queue_num]);
}

/*
 * Take what can be sent off the list. The work comes again for those whose time has not come; those that
 * wait for a queue are kicked when there is one.
 */
static void rblk_waiting_take(struct rblk_device *device, struct list_head *due)
{
	unsigned long now = jiffies;
	struct rblk_io *io, *after;

	spin_lock_irq(&device->waiting_lock);
	device->waiting_armed = false;
	list_for_each_entry_safe(io, after, &device->waiting, command.entry) {
		if (io->wait == RBLK_WAIT_LOST)
			continue;
		if (time_before(now, io->again_at))
			rblk_waiting_schedule(device, io->again_at);
		else if (rblk_waiting_route(device, io) != RBLK_NO_ROUTE)
			list_move_tail(&io->command.entry, due);
	}
	spin_unlock_irq(&device->waiting_lock);
}

static void rblk_waiting_send(struct rblk_device *device, struct rblk_io *io)
{
	u8 route = rblk_waiting_route(device, io);
	blk_status_t status;

	if (io->expired) {
		io->command.error = -ETIMEDOUT;
		blk_mq_complete_request(rblk_io_rq(io));
		return;
	}
	if (route == RBLK_NO_ROUTE) {
		rblk_waiting_hold(device, io); /* it went meanwhile */
		return;
	}
	if (!rblk_queue_take_tag(device->queues[route], io)) {
		if (!rblk_waiting_add(device, io, RBLK_WAIT_READY, jiffies + 1))
			rblk_waiting_end(io);
		return;
	}
	status = rblk_io_send(io, device->queues[route]);
	switch (status) {
	case BLK_STS_OK:
		break;
	case BLK_STS_TRANSPORT:
		rblk_waiting_hold(device, io);
		break;
	case BLK_STS_RESOURCE:
		if (!rblk_waiting_add(device, io, RBLK_WAIT_READY,
				      jiffies + msecs_to_jiffies(rblk_waiting_pause_ms(1))))
			rblk_waiting_end(io);
		break;
	default:
		io->command.error = blk_status_to_errno(status);
		blk_mq_complete_request(rblk_io_rq(io));
	}
}

/* With lifecycle held: no queue is taken down meanwhile. */
static void rblk_waiting_work(struct work_struct *work)
{
	struct rblk_device *device =
		container_of(to_delayed_work(work), struct rblk_device, waiting_work);
	/* Memory writeback may wait for this. */
	unsigned int noio = memalloc_noio_save();
	struct rblk_io *io, *after;
	LIST_HEAD(due);
	unsigned int i;

	mutex_lock(&device->lifecycle);
	rblk_waiting_take(device, &due);
	list_for_each_entry_safe(io, after, &due, command.entry) {
		list_del_init(&io->command.entry);
		rblk_waiting_send(device, io);
	}
	for (i = 0; i < device->queue_count; i++)
		rblk_queue_kick(device->queues[i]);
	mutex_unlock(&device->lifecycle);
	memalloc_noio_restore(noio);
}

/* -- beginning and end ----------------------------------------------------------------------------- */

void rblk_waiting_init(struct rblk_device *device)
{
	spin_lock_init(&device->waiting_lock);
	INIT_LIST_HEAD(&device->waiting);
	INIT_DELAYED_WORK(&device->waiting_work, rblk_waiting_work);
}

void rblk_waiting_stop(struct rblk_device *device)
{
	cancel_delayed_work_sync(&device->waiting_work);
}
