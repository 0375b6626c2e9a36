// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Requests that are sent again; see refused.h. blk-mq's own list for that is not used: it is put
 * back as a whole, so that no request would have a delay of its own.
 */
#include <linux/blk-mq.h>
#include <linux/sched/mm.h>

#include "kmod/refused.h"
#include "kmod/command.h"
#include "kmod/device.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/queue.h"

/* In the order in which they were refused; the work is due when the first delay has ended. */
static void rblk_refused_add(struct rblk_device *device, struct rblk_io *io)
{
	unsigned long pause = msecs_to_jiffies(rblk_refused_pause_ms(io->refusals));
	unsigned long flags;

	io->again_at = jiffies + pause;
	spin_lock_irqsave(&device->refused_lock, flags);
	list_add_tail(&io->command.entry, &device->refused);
	if (list_is_singular(&device->refused) ||
	    time_before(io->again_at, device->refused_next)) {
		device->refused_next = io->again_at;
		mod_delayed_work(rblk_workqueue, &device->refused_work, pause);
	}
	spin_unlock_irqrestore(&device->refused_lock, flags);
}

bool rblk_refused(struct rblk_io *io)
{
	struct rblk_device *device = io->command.queue->device;
	bool draining = io->command.status == RBLK_E_DRAINING;
	unsigned int limit_ms = draining ? device->options.give_up_ms : device->options.command_ms;

	if (!draining && io->command.status != RBLK_E_BUSY) {
		io->refusals = 0;
		return false;
	}
	/* A target that drains is a failed path. */
	if (draining && blk_noretry_request(rblk_io_rq(io)))
		return false;
	if (!io->refusals)
		io->refused_since = jiffies;
	else if (time_after(jiffies, io->refused_since + msecs_to_jiffies(limit_ms)))
		return false;
	io->refusals = min(io->refusals + 1, U8_MAX);
	rblk_memory_unmap(io);
	rblk_refused_add(device, io);
	return true;
}

/* Take what is due off the list; the work comes again for the rest. */
static void rblk_refused_take(struct rblk_device *device, struct list_head *due)
{
	unsigned long now = jiffies, next = now + MAX_JIFFY_OFFSET;
	struct rblk_io *io, *after;

	spin_lock_irq(&device->refused_lock);
	list_for_each_entry_safe(io, after, &device->refused, command.entry) {
		if (time_after_eq(now, io->again_at))
			list_move_tail(&io->command.entry, due);
		else if (time_before(io->again_at, next))
			next = io->again_at;
	}
	if (!list_empty(&device->refused)) {
		device->refused_next = next;
		mod_delayed_work(rblk_workqueue, &device->refused_work, next - now);
	}
	spin_unlock_irq(&device->refused_lock);
}

static void rblk_refused_send(struct rblk_device *device, struct rblk_io *io)
{
	switch (rblk_io_send(io, io->command.queue)) {
	case BLK_STS_OK:
	case BLK_STS_TRANSPORT: /* the queue is down: held, like all that had been sent */
		break;
	case BLK_STS_RESOURCE:
		rblk_refused_add(device, io);
		break;
	default:
		io->command.error = -EIO;
		blk_mq_complete_request(rblk_io_rq(io));
	}
}

void rblk_refused_work(struct work_struct *work)
{
	struct rblk_device *device =
		container_of(to_delayed_work(work), struct rblk_device, refused_work);
	/* Memory writeback may wait for this. */
	unsigned int noio = memalloc_noio_save();
	struct rblk_io *io, *after;
	LIST_HEAD(due);
	unsigned int i;

	rblk_refused_take(device, &due);
	list_for_each_entry_safe(io, after, &due, command.entry) {
		list_del_init(&io->command.entry);
		rblk_refused_send(device, io);
	}
	for (i = 0; i < device->queue_count; i++)
		rblk_queue_kick(device->queues[i]);
	memalloc_noio_restore(noio);
}

void rblk_refused_stop(struct rblk_device *device)
{
	struct rblk_io *io, *after;

	lockdep_assert_held(&device->lifecycle);
	cancel_delayed_work_sync(&device->refused_work);
	spin_lock_irq(&device->refused_lock);
	list_for_each_entry_safe(io, after, &device->refused, command.entry)
		list_del_init(&io->command.entry);
	spin_unlock_irq(&device->refused_lock);
}
