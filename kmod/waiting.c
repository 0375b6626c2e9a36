// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Requests that wait; see waiting.h. blk-mq's own list of requests to be sent again is not used for
 * them: it is put back as a whole, so that no request could wait for something of its own.
 */
#include <linux/blk-mq.h>

#include "kmod/waiting.h"
#include "kmod/blk_mq.h"
#include "kmod/command.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "kmod/volume.h"
#include "proto/core/digest.h"

/* -- ending -- */

#define RBLK_WAITING_ERROR (-ENOLINK) /* BLK_STS_TRANSPORT: another path may do better */

/*
 * A gate is closed before rblk_waiting_sweep() takes the lock: a request that comes after the sweep
 * sees it here.
 */
static bool rblk_waiting_too_late(struct rblk_io *io)
{
	const struct rblk_disk *disk = rblk_disk_of(rblk_io_rq(io));
	u8 gate = max(READ_ONCE(disk->session->gate), READ_ONCE(disk->gate));

	lockdep_assert_held(&disk->session->waiting_lock);
	return gate == RBLK_GATE_FAIL ||
	       (gate == RBLK_GATE_FAIL_FAST && blk_noretry_request(rblk_io_rq(io)));
}

static bool rblk_waiting_needs_fence(struct rblk_io *io)
{
	return core_lost_needs_fence(io->command.wire.opcode);
}

/* All disks of that volume owe the fences of these queues, or do not owe those any more. */
static void rblk_waiting_mark(struct rblk_session *session, const u8 uuid[16], unsigned long owed,
			      unsigned long fenced)
{
	struct rblk_disk *disk;

	lockdep_assert_held(&session->waiting_lock);
	lockdep_assert_held(&session->core_lock);
	list_for_each_entry(disk, &session->disks, peer)
		if (smp_load_acquire(&disk->opened) &&
		    !memcmp(disk->uuid, uuid, sizeof(disk->uuid))) {
			WRITE_ONCE(disk->unfenced, (disk->unfenced | owed) & ~fenced);
			disk->reserve_unfenced &= ~fenced;
		}
}

/*
 * The request ends, and is not sent again; the target may still carry it out. F5: no disk of the
 * same volume sends anything before its fence is acknowledged.
 */
static void rblk_waiting_note_unfenced(struct rblk_session *session, struct rblk_io *io)
{
	const struct rblk_disk *disk = rblk_disk_of(rblk_io_rq(io));
	unsigned long queue = 1ul << io->lost_queue;

	lockdep_assert_held(&session->waiting_lock);
	if (!rblk_waiting_needs_fence(io) || disk->unfenced & queue)
		return;
	spin_lock(&session->core_lock);
	session->unfenced |= queue;
	rblk_waiting_mark(session, disk->uuid, queue, 0);
	spin_unlock(&session->core_lock);
}

static void rblk_waiting_note_fenced(struct rblk_session *session, unsigned int queue)
{
	struct rblk_disk *disk;

	lockdep_assert_held(&session->waiting_lock);
	spin_lock(&session->core_lock);
	session->unfenced &= ~(1ul << queue);
	list_for_each_entry(disk, &session->disks, peer) {
		WRITE_ONCE(disk->unfenced, disk->unfenced & ~(1ul << queue));
		disk->reserve_unfenced &= ~(1ul << queue);
	}
	if (!session->unfenced) {
		session->operations &= ~session->operations_lost;
		session->operations_lost = 0;
	}
	spin_unlock(&session->core_lock);
}

void rblk_waiting_sweep(struct rblk_session *session)
{
	unsigned long flags;
	struct rblk_io *io, *after;
	LIST_HEAD(ended);

	spin_lock_irqsave(&session->waiting_lock, flags);
	list_for_each_entry_safe(io, after, &session->waiting, command.entry) {
		if (!rblk_waiting_too_late(io))
			continue;
		if (io->wait == RBLK_WAIT_LOST)
			rblk_waiting_note_unfenced(session, io);
		list_move_tail(&io->command.entry, &ended);
	}
	spin_unlock_irqrestore(&session->waiting_lock, flags);
	list_for_each_entry_safe(io, after, &ended, command.entry) {
		list_del_init(&io->command.entry);
		rblk_io_fail(io, RBLK_WAITING_ERROR);
	}
}

/* -- coming -- */

/* False: it cannot wait any more. */
static bool rblk_waiting_add(struct rblk_io *io, enum rblk_wait wait, unsigned long at)
{
	struct rblk_session *session = rblk_disk_of(rblk_io_rq(io))->session;
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&session->waiting_lock, flags);
	late = rblk_waiting_too_late(io);
	io->wait = wait;
	if (!late) {
		io->again_at = at;
		list_add_tail(&io->command.entry, &session->waiting);
		if (wait != RBLK_WAIT_LOST && rblk_due_at(&session->waiting_due, at))
			rblk_drive_kick(session);
	} else if (wait == RBLK_WAIT_LOST) {
		rblk_waiting_note_unfenced(session, io);
	}
	spin_unlock_irqrestore(&session->waiting_lock, flags);
	return !late;
}

void rblk_waiting_hold(struct rblk_io *io, unsigned long at)
{
	if (!rblk_waiting_add(io, RBLK_WAIT_READY, at))
		rblk_io_fail(io, RBLK_WAITING_ERROR);
}

unsigned int rblk_waiting_give_up_ms(struct rblk_io *io)
{
	const struct rblk_session_options *o = &io->command.queue->session->options;

	return o->fail_fast_ms && blk_noretry_request(rblk_io_rq(io)) ?
		       min(o->fail_fast_ms, o->give_up_ms) : o->give_up_ms;
}

/*
 * The target did nothing. The request waits until the volume is open again, or the disk's gate ends
 * it.
 */
static bool rblk_waiting_gone(struct rblk_io *io)
{
	struct rblk_disk *disk = rblk_disk_of(rblk_io_rq(io));
	unsigned long flags;

	if (io->command.status != RBLK_E_GONE)
		return false;
	spin_lock_irqsave(&disk->session->core_lock, flags);
	rblk_volume_gone(disk, rblk_le32(io->command.wire.volume));
	spin_unlock_irqrestore(&disk->session->core_lock, flags);
	/* Before the disk is added nobody opens the volume again: the attach fails. */
	return smp_load_acquire(&disk->added);
}

bool rblk_waiting_refused(struct rblk_io *io)
{
	u16 status = io->command.status;
	/* The target may take it later: it is overloaded, or drains. */
	bool later = status == RBLK_E_BUSY || status == RBLK_E_NO_RESOURCES ||
		     status == RBLK_E_DRAINING;
	unsigned long pause;

	/*
	 * Dropped by an ABORT of ours, for its own sake or its disk's? The target also drops those
	 * of a preempted reservation.
	 */
	if (status == RBLK_E_ABORTED &&
	    (io->abort_asked || READ_ONCE(rblk_disk_of(rblk_io_rq(io))->gate) == RBLK_GATE_FAIL)) {
		io->command.queue->stats.dropped++;
		if (rblk_overdue_ends(io)) {
			io->command.error = -ETIMEDOUT;
			return false;
		}
	} else if (status == RBLK_E_DIGEST && io->digests < CORE_DIGEST_RETRIES) {
		/* Nothing was stored, or nothing that was read counts. */
		io->digests++;
		io->command.queue->stats.digest_retries++;
	} else if (!rblk_waiting_gone(io) && !later) {
		io->refusals = 0;
		return false;
	} else if (io->refusals && time_after(jiffies, io->refused_since +
					      msecs_to_jiffies(rblk_waiting_give_up_ms(io)))) {
		return false; /* refused for as long as a lost connection would be waited for */
	}
	if (!io->refusals)
		io->refused_since = jiffies;
	io->refusals = min(io->refusals + 1, U8_MAX);
	rblk_memory_unmap(io);
	smp_store_release(&io->answered, false);
	pause = msecs_to_jiffies(rblk_waiting_pause_ms(io->refusals));
	if (rblk_waiting_add(io, RBLK_WAIT_TIME, jiffies + pause))
		return true;
	/* It could go again, and cannot wait for that: another path may do better. */
	if (status == RBLK_E_DIGEST || status == RBLK_E_ABORTED)
		io->command.error = RBLK_WAITING_ERROR;
	return false;
}

void rblk_waiting_take_lost(struct rblk_queue *queue)
{
	unsigned int tag;

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
		if (!rblk_waiting_add(io, RBLK_WAIT_LOST, jiffies))
			rblk_io_fail(io, RBLK_WAITING_ERROR);
	}
}

/* By which the disk's volume is open in this epoch; 0: by none. */
static u32 rblk_waiting_handle(const struct rblk_disk *disk)
{
	lockdep_assert_held(&disk->session->core_lock);
	return disk->epoch == disk->session->core.epoch ? disk->handle : 0;
}

/*
 * Requests that are LOST with this queue become READY: those that are fenced, all or those of one
 * volume (0: all), or those that need no fence.
 */
static void rblk_waiting_let_go(struct rblk_session *session, unsigned int queue, bool fenced,
				u32 handle)
{
	struct rblk_io *io;

	lockdep_assert_held(&session->waiting_lock);
	list_for_each_entry(io, &session->waiting, command.entry) {
		if (io->wait != RBLK_WAIT_LOST || io->lost_queue != queue ||
		    (!fenced && rblk_waiting_needs_fence(io)))
			continue;
		if (handle && rblk_waiting_handle(rblk_disk_of(rblk_io_rq(io))) != handle)
			continue;
		io->wait = RBLK_WAIT_READY;
		io->retry |= fenced;
		atomic64_inc(&session->retries);
	}
	rblk_drive_kick(session);
}

void rblk_waiting_release(struct rblk_session *session, unsigned int queue, bool fenced)
{
	spin_lock_irq(&session->waiting_lock);
	if (fenced)
		rblk_waiting_note_fenced(session, queue);
	rblk_waiting_let_go(session, queue, fenced, 0);
	spin_unlock_irq(&session->waiting_lock);
}

static u32 rblk_waiting_nearer(u32 next, u32 handle, u32 other)
{
	return other > handle && (!next || other < next) ? other : next;
}

/*
 * A volume that was replaced since is another one to the target, with another handle; but that is
 * served only when nothing holds the store of the one before any more (F6).
 */
bool rblk_waiting_next_volume(struct rblk_session *session, unsigned int queue, u32 *handle)
{
	const struct rblk_disk *disk;
	struct rblk_io *io;
	u32 after = *handle;
	bool owes = false;

	*handle = 0;
	spin_lock_irq(&session->waiting_lock);
	spin_lock(&session->core_lock);
	list_for_each_entry(io, &session->waiting, command.entry) {
		if (io->wait != RBLK_WAIT_LOST || io->lost_queue != queue ||
		    !rblk_waiting_needs_fence(io))
			continue;
		owes = true;
		disk = rblk_disk_of(rblk_io_rq(io));
		*handle = rblk_waiting_nearer(*handle, after, rblk_waiting_handle(disk));
	}
	list_for_each_entry(disk, &session->disks, peer) {
		if (!((disk->unfenced | disk->reserve_unfenced) & 1ul << queue))
			continue;
		owes = true;
		*handle = rblk_waiting_nearer(*handle, after, rblk_waiting_handle(disk));
	}
	spin_unlock(&session->core_lock);
	spin_unlock_irq(&session->waiting_lock);
	return owes;
}

void rblk_waiting_release_volume(struct rblk_session *session, unsigned int queue, u32 handle,
				 u64 epoch, u32 incarnation)
{
	const struct rblk_disk *disk;
	unsigned long flags;

	spin_lock_irqsave(&session->waiting_lock, flags);
	/*
	 * Requests that are lost with a later incarnation are not on the list before the machine
	 * knows that incarnation.
	 */
	spin_lock(&session->core_lock);
	if (core_session_owes_fence(&session->core, queue, epoch, incarnation)) {
		list_for_each_entry(disk, &session->disks, peer)
			if (rblk_waiting_handle(disk) == handle)
				rblk_waiting_mark(session, disk->uuid, 0, 1ul << queue);
		rblk_waiting_let_go(session, queue, true, handle);
	}
	spin_unlock(&session->core_lock);
	spin_unlock_irqrestore(&session->waiting_lock, flags);
	wake_up_all(&session->wait); /* attach.c, reservation.c */
}

void rblk_waiting_owe(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	unsigned int i;

	spin_lock_irq(&session->waiting_lock);
	spin_lock(&session->core_lock);
	WRITE_ONCE(disk->unfenced, disk->unfenced | session->unfenced);
	for_each_set_bit(i, &disk->unfenced, session->queue_count)
		rblk_works_ask_volumes(session->queues[i]);
	spin_unlock(&session->core_lock);
	spin_unlock_irq(&session->waiting_lock);
}

void rblk_waiting_owe_reserve(struct rblk_session *session, unsigned int queue)
{
	struct rblk_disk *disk;
	unsigned long flags;

	spin_lock_irqsave(&session->waiting_lock, flags);
	spin_lock(&session->core_lock);
	/* Once the session is over, rblk_drive_stop() may have ended the work already. */
	if (session->core.queue[queue].lost.waits && !core_session_over(&session->core)) {
		session->unfenced |= 1ul << queue;
		list_for_each_entry(disk, &session->disks, peer)
			disk->reserve_unfenced |= 1ul << queue;
		rblk_works_ask_volumes(session->queues[queue]);
	}
	spin_unlock(&session->core_lock);
	spin_unlock_irqrestore(&session->waiting_lock, flags);
}

/* -- going -- */

u8 rblk_waiting_route(struct rblk_io *io)
{
	const struct request *rq = rblk_io_rq(io);
	const struct rblk_disk *disk = rblk_disk_of(rq);

	if (!smp_load_acquire(&disk->ready) || READ_ONCE(disk->unfenced))
		return RBLK_NO_ROUTE;
	return smp_load_acquire(&disk->session->route[rq->mq_hctx->queue_num]);
}

/*
 * Take what can be sent off the list. drive_work comes again for those whose time has not come, and
 * in any case when there is a queue for others.
 */
static void rblk_waiting_take(struct rblk_session *session, struct list_head *due)
{
	unsigned long now = jiffies;
	struct rblk_io *io, *after;

	spin_lock_irq(&session->waiting_lock);
	session->waiting_due.set = false;
	list_for_each_entry_safe(io, after, &session->waiting, command.entry) {
		if (io->wait == RBLK_WAIT_LOST)
			continue;
		if (time_before(now, io->again_at))
			rblk_due_at(&session->waiting_due, io->again_at);
		else if (rblk_waiting_route(io) != RBLK_NO_ROUTE)
			list_move_tail(&io->command.entry, due);
	}
	spin_unlock_irq(&session->waiting_lock);
}

static void rblk_waiting_send(struct rblk_session *session, struct rblk_io *io)
{
	u8 route = rblk_waiting_route(io);
	blk_status_t status;

	if (io->expired) {
		rblk_io_fail(io, -ETIMEDOUT);
		return;
	}
	if (route == RBLK_NO_ROUTE) {
		rblk_waiting_hold(io, jiffies); /* it went meanwhile */
		return;
	}
	if (!rblk_mq_take_tag(session, io, &route)) {
		rblk_waiting_hold(io, jiffies + 1);
		return;
	}
	status = rblk_io_send(io, session->queues[route]);
	switch (status) {
	case BLK_STS_OK:
		break;
	case BLK_STS_TRANSPORT:
		rblk_waiting_hold(io, jiffies);
		break;
	case BLK_STS_RESOURCE:
		rblk_waiting_hold(io, jiffies + msecs_to_jiffies(rblk_waiting_pause_ms(1)));
		break;
	default:
		rblk_io_fail(io, blk_status_to_errno(status));
	}
}

void rblk_waiting_send_due(struct rblk_session *session)
{
	struct rblk_io *io, *after;
	LIST_HEAD(due);
	unsigned int i;

	rblk_waiting_take(session, &due);
	list_for_each_entry_safe(io, after, &due, command.entry) {
		list_del_init(&io->command.entry);
		rblk_waiting_send(session, io);
	}
	for (i = 0; i < session->queue_count; i++)
		rblk_queue_kick(session->queues[i], false);
	spin_lock_irq(&session->waiting_lock);
	if (rblk_drive_is_due(session, &session->waiting_due))
		rblk_drive_in(session, 0);
	spin_unlock_irq(&session->waiting_lock);
}
