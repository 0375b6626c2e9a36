// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends behind a SEND that may be lost, asks the target to drop what it does not answer, and
 * whether it is alive; see waiting.h.
 */
#include <linux/jiffies.h>

#include "kmod/waiting.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/tell.h"
#include "proto/wire/wire_names.h"

/* An ABORT is answered at once by a target that is alive. */
#define RBLK_ABORT_MS 5000u
/* No reserved tag was free: so much later. */
#define RBLK_ABORT_AGAIN_MS 100u

void rblk_overdue_watch_send(struct rblk_queue *queue)
{
	lockdep_assert_held(&queue->lock);
	queue->late_send = queue->clock.last;
	queue_delayed_work(rblk_workqueue, &queue->late_work, msecs_to_jiffies(CORE_CLOCK_LATE_MS));
}

void rblk_overdue_send(struct work_struct *work)
{
	struct rblk_queue *queue =
		container_of(to_delayed_work(work), struct rblk_queue, late_work);
	bool late, waits;

	spin_lock_irq(&queue->lock);
	waits = !queue->down && queue->clock.owed;
	late = queue->late_send == queue->clock.last;
	if (waits && !late)
		rblk_overdue_watch_send(queue);
	spin_unlock_irq(&queue->lock);
	if (waits && late)
		rblk_queue_kick(queue, true);
}

bool rblk_overdue_ends(struct rblk_io *io)
{
	unsigned int limit_ms = rblk_waiting_give_up_ms(io);

	return io->overdue &&
	       time_after_eq(jiffies, io->overdue_since + msecs_to_jiffies(limit_ms));
}

/*
 * blk-mq holds the request, so it is not another one's yet; but it may be answered meanwhile, or be
 * sent again on another connection. What is noted under the lock is a command of this one.
 */
static void rblk_overdue_ask(struct rblk_queue *queue, struct rblk_io *io)
{
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	if (!queue->down && queue->commands[io->command.tag] == &io->command &&
	    READ_ONCE(io->command.account.state) == CORE_TAG_SENT) {
		queue->owners[io->command.tag].aborts = true;
		if (!io->overdue)
			io->overdue_since = io->sent_at;
		io->overdue = true;
		io->abort_asked = true;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	rblk_drive_kick(queue->session);
}

/*
 * The requests themselves are not looked at, nor marked: nobody holds them here, and they may be
 * other disks' by now.
 */
void rblk_overdue_drop(struct rblk_queue *queue, const struct rblk_disk *disk)
{
	unsigned long flags;
	unsigned int tag;

	spin_lock_irqsave(&queue->lock, flags);
	for (tag = 0; !queue->down && tag < queue->credits; tag++) {
		struct rblk_owner *owner = &queue->owners[tag];

		if (READ_ONCE(queue->commands[tag]) && owner->disk == disk && owner->sent) {
			owner->aborts |= !owner->dropped;
			owner->dropped = true;
		}
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	rblk_drive_kick(queue->session);
}

enum blk_eh_timer_return rblk_overdue_check(struct request *rq)
{
	struct rblk_io *io = blk_mq_rq_to_pdu(rq);
	struct rblk_queue *queue = READ_ONCE(io->command.queue);
	unsigned long age, once = rq->timeout - rq->timeout / 8;
	u8 state;

	/*
	 * The polling task may have been stopped with the answer there; or another poller has ended
	 * this request meanwhile. blk-mq holds it, so it is not reused yet.
	 */
	if (queue->polled) {
		rblk_queue_poll_all(queue);
		if (!blk_mq_request_started(rq) || blk_mq_request_completed(rq))
			return BLK_EH_DONE;
	}
	state = READ_ONCE(io->command.account.state);
	age = jiffies - READ_ONCE(io->sent_at);
	/* It waits, or was sent again later than blk-mq knows of. */
	if (state == CORE_TAG_FREE || age < once)
		return BLK_EH_RESET_TIMER;
	if (state == CORE_TAG_SENT || age < once + rq->timeout)
		rblk_overdue_ask(queue, io);
	else /* our device does not send it, or does not end its key */
		rblk_queue_lost(queue, "a command was not answered in " RBLK_TIME,
				RBLK_TIME_OF(jiffies_to_msecs(age)));
	if (state == CORE_TAG_SENT && io->abort_asked && age >= once + rq->timeout &&
	    age < once + 2 * rq->timeout)
		pr_warn_ratelimited("rblk%d [%s]: no answer to a command for " RBLK_TIME ": the target has begun it, and its storage takes that long\n",
				    rblk_disk_of(rq)->index, rblk_queue_peer(queue),
				    RBLK_TIME_OF(jiffies_to_msecs(age)));
	return BLK_EH_RESET_TIMER;
}

/* A command that is to be dropped now, NULL: none is. One ABORT at a time. */
static struct rblk_owner *rblk_overdue_next(struct rblk_queue *queue, u32 *sequence)
{
	struct rblk_owner *owner = NULL;
	unsigned int tag;

	spin_lock_irq(&queue->lock);
	for (tag = 0; !owner && !queue->aborting && !queue->down && tag < queue->credits; tag++)
		if (queue->owners[tag].aborts && READ_ONCE(queue->commands[tag]))
			owner = &queue->owners[tag];
	if (owner) {
		owner->aborts = false;
		queue->aborting = true;
		*sequence = owner->sequence;
	}
	spin_unlock_irq(&queue->lock);
	return owner;
}

/* Is the command with this number still without an answer? */
static bool rblk_overdue_waits(struct rblk_queue *queue, u32 sequence)
{
	unsigned long flags;
	bool waits = false;
	unsigned int tag;

	spin_lock_irqsave(&queue->lock, flags);
	for (tag = 0; !waits && tag < queue->credits; tag++) {
		const struct rblk_command *command = READ_ONCE(queue->commands[tag]);

		waits = command && READ_ONCE(command->account.state) == CORE_TAG_SENT &&
			command->account.sequence == sequence;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	return waits;
}

/*
 * rblk_left_fn of ABORT. The answer says that the target lives: what was dropped has a completion
 * of its own, and what has begun takes as long as its storage, which is no reason to take the
 * connection from other disks. What the target does not have any more was answered before.
 */
static void rblk_overdue_answered(struct rblk_session *session, const struct rblk_call *call,
				  void *arg)
{
	const struct rblk_command *command = &call->command;
	struct rblk_queue *queue = command->queue;
	u32 sequence = (u32)rblk_le64(command->wire.lba);
	unsigned int limit_ms = session->options.command_ms;
	unsigned long flags;

	spin_lock_irqsave(&queue->lock, flags);
	queue->aborting = false;
	spin_unlock_irqrestore(&queue->lock, flags);
	if (command->error)
		return;
	if (command->status && command->status != RBLK_E_DRAINING)
		rblk_queue_lost(queue, "a command was not answered in " RBLK_TIME ", and ABORT: %s",
				RBLK_TIME_OF(limit_ms), rblk_status_text(command->status));
	else if (!command->status && command->detail == RBLK_ABORT_UNKNOWN &&
		 rblk_overdue_waits(queue, sequence))
		rblk_queue_lost(queue,
				"a command was not answered in " RBLK_TIME ", and the target does not have it",
				RBLK_TIME_OF(limit_ms));
}

void rblk_overdue_abort(struct rblk_queue *queue)
{
	unsigned int timeout_ms = min(queue->session->options.command_ms, RBLK_ABORT_MS);
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_ABORT,
		.left = rblk_overdue_answered,
	};
	struct rblk_owner *owner;
	u32 sequence;
	int error;

	owner = rblk_overdue_next(queue, &sequence);
	if (!owner)
		return;
	sc.lba = sequence;
	error = rblk_call_send(queue, &sc, timeout_ms);
	if (!error) {
		queue->stats.aborts++;
		return;
	}
	spin_lock_irq(&queue->lock);
	queue->aborting = false;
	/* Unless its tag is another one's by now; of this connection, while drive_work runs. */
	owner->aborts |= error == -EBUSY && owner->sent && owner->sequence == sequence;
	spin_unlock_irq(&queue->lock);
	rblk_drive_in(queue->session, msecs_to_jiffies(RBLK_ABORT_AGAIN_MS));
}
