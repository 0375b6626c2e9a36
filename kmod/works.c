// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Connects a queue and closes it, fences what it lost, asks whether the target is there, and tells
 * it who we are; see drive.h.
 */
#include <linux/jiffies.h>
#include <linux/sched/mm.h>

#include "kmod/drive.h"
#include "kmod/blk_mq.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "kmod/tell.h"
#include "kmod/volume.h"
#include "kmod/waiting.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_names.h"

/* -- connect, close -- */

/*
 * Requests of the queue's own hardware context have their own tags; the rest is for those of queues
 * that are lost, and for large ones of others: two at least, so that no disk has all. A lone queue
 * needs them only if it is granted fewer than the first time.
 */
static void rblk_works_share_tags(struct rblk_queue *queue)
{
	const struct rblk_session *session = queue->session;
	unsigned int borrow = clamp(queue->credits / 8u, 2u, (unsigned int)RBLK_BORROW_MAX);

	if (session->queue_count == 1 && queue->credits >= READ_ONCE(session->credits))
		borrow = 0;
	queue->home_tags = queue->credits - borrow;
}

int rblk_works_accepted(struct rblk_queue *queue)
{
	u32 bytes = min(rblk_memory_max_bytes(queue), queue->max_io_bytes);
	struct rblk_session *session = queue->session;
	struct core_session *core = &session->core;

	rblk_works_share_tags(queue);
	spin_lock_irq(&session->core_lock);
	/*
	 * Disks that exist keep their limits: a queue that can do less is of no use. Until it is
	 * accepted no disk takes its limits from it; a new disk's are seen here.
	 */
	if (bytes < session->disk_bytes) {
		rblk_tell_attempt(queue, "commands of %u bytes, the disks have %u", bytes,
				  session->disk_bytes);
		core_session_unreached(core, queue->index, rblk_drive_now());
	} else {
		queue->accepted_bytes = bytes;
		if (!core_session_accepted(core, queue->index, queue->accept.target_instance,
					   queue->keepalive_ms, queue->features, rblk_drive_now()))
			rblk_tell_attempt(queue, "the target is not that of the other queues (or was restarted)");
	}
	rblk_tell_mended(session);
	rblk_drive_follow(session);
	spin_unlock_irq(&session->core_lock);
	return 0;
}

/*
 * F4, in this order: no request is being dispatched or sent again on it, the queue pair is in ERR
 * and drained, every key is invalid; only then is anything unmapped. The requests stay started, and
 * wait. Other queues, and all disks' I/O on them, go on.
 */
static void rblk_works_close(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;
	bool open = !queue->down; /* else no command ever came */

	/*
	 * The queue is no request's route any more. Who has still read it as one has its command on
	 * it after this: drive_work, which has asked for this, has sent what waited; blk-mq
	 * dispatches under RCU.
	 */
	if (open)
		synchronize_rcu();
	rblk_queue_stop(queue);
	cancel_delayed_work_sync(&queue->late_work);
	if (open)
		rblk_mq_settle(queue);
	rblk_queue_release_keys(queue);
	rblk_waiting_take_lost(queue);
	rblk_queue_release_id(queue);
	spin_lock_irq(&session->core_lock);
	core_session_drained(&session->core, queue->index, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irq(&session->core_lock);
}

/* It never waits for the target, and closes behind a step of connecting. */
void rblk_works_run(struct work_struct *work)
{
	struct rblk_queue *queue = container_of(work, struct rblk_queue, work);
	struct rblk_session *session = queue->session;
	/* Writeback of memory may wait for this work. */
	unsigned int noio = memalloc_noio_save();
	bool connects, closes;

	spin_lock_irq(&session->core_lock);
	connects = queue->connects;
	closes = queue->closes;
	queue->closes = false;
	spin_unlock_irq(&session->core_lock);
	if (closes)
		rblk_works_close(queue);
	/* Hardware that stays is nobody's now, or an earlier connection's. */
	if (READ_ONCE(queue->device_goes) && (!queue->cm_id || queue->device_id)) {
		rblk_queue_release_hardware(queue);
		/* Without an id there is no handler that would set it. */
		queue->device_goes = queue->cm_id;
	}
	if (connects && !closes)
		rblk_queue_connect(queue);
	memalloc_noio_restore(noio);
}

/* -- commands of the session, which drive_work sends -- */

static void rblk_works_fenced(struct rblk_session *session, unsigned int queue, u64 epoch,
			      unsigned int via, u32 incarnation, bool success)
{
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (epoch == session->core.epoch && session->core.queue[queue].lost.via == via) {
		core_session_fenced(&session->core, queue, incarnation, success,
				    rblk_drive_now());
		rblk_drive_follow(session);
	}
	spin_unlock_irqrestore(&session->core_lock, flags);
}

/*
 * rblk_left_fn of FENCE. Without an answer its carrier is lost, which the machine knows. The answer
 * counts for what was asked for alone: the queue may have been connected and lost again meanwhile.
 */
static void rblk_works_fence_answered(struct rblk_session *session, const struct rblk_call *call,
				      void *arg)
{
	const struct rblk_command *command = &call->command;
	const struct rblk_queue *queue = arg;

	if (command->error)
		return;
	rblk_trace_fence_answered(command);
	rblk_works_fenced(session, queue->index, command->queue->epoch, command->queue->index,
			  (u32)rblk_le64(command->wire.argument), command->status == RBLK_OK);
}

void rblk_works_fence(struct rblk_session *session, const struct core_action *action)
{
	const struct rblk_session_command sc = {
		.opcode = RBLK_OP_FENCE,
		.epoch = action->epoch,
		.lba = action->queue,
		.argument = action->incarnation,
		.left = rblk_works_fence_answered,
		.left_arg = session->queues[action->queue],
	};

	/* Without a tag it is to be asked for again. */
	if (rblk_call_send(session->queues[action->via], &sc, 0) == -EBUSY)
		rblk_works_fenced(session, action->queue, action->epoch, action->via,
				  action->incarnation, false);
}

/* rblk_left_fn of the FENCE of a volume; the next one has its turn. */
static void rblk_works_volume_answered(struct rblk_session *session, const struct rblk_call *call,
				       void *arg)
{
	const struct rblk_command *command = &call->command;
	u32 volume = rblk_le32(command->wire.volume);
	struct rblk_queue *queue = arg;

	if (!command->error)
		rblk_trace_fence_answered(command);
	if (!command->error && command->status == RBLK_OK)
		rblk_waiting_release_volume(session, queue->index, volume, command->queue->epoch,
					    (u32)rblk_le64(command->wire.argument));
	WRITE_ONCE(queue->volumes.asked, volume);
	smp_store_release(&queue->volumes.asks, false);
}

void rblk_works_ask_volumes(struct rblk_queue *queue)
{
	lockdep_assert_held(&queue->session->core_lock);
	queue->volumes.due = (struct rblk_due){ true, jiffies };
	rblk_drive_kick(queue->session);
}

/* Is it time to ask for the next one, over queue *via? */
static bool rblk_works_volumes_due(struct rblk_queue *queue, struct rblk_session_command *sc,
				   int *via)
{
	struct rblk_volume_fences *v = &queue->volumes;
	struct rblk_session *session = queue->session;
	bool due;

	if (smp_load_acquire(&v->asks))
		return false;
	spin_lock_irq(&session->core_lock);
	sc->epoch = v->epoch;
	sc->argument = v->incarnation;
	*via = core_session_carrier(&session->core);
	v->due.set &= core_session_owes_fence(&session->core, queue->index, v->epoch,
					      v->incarnation);
	due = rblk_drive_is_due(session, &v->due);
	/* Who has more to ask for meanwhile sets it again. */
	v->due.set &= !due;
	spin_unlock_irq(&session->core_lock);
	return due;
}

void rblk_works_fence_volumes(struct rblk_queue *queue)
{
	struct rblk_volume_fences *v = &queue->volumes;
	struct rblk_session *session = queue->session;
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_FENCE,
		.lba = queue->index,
		.volume = v->asked,
		.left = rblk_works_volume_answered,
		.left_arg = queue,
	};
	int via, error = -EAGAIN;

	if (!rblk_works_volumes_due(queue, &sc, &via))
		return;
	if (!rblk_waiting_next_volume(session, queue->index, &sc.volume)) {
		v->rounds = 0;
		return;
	}
	if (sc.volume && via >= 0) {
		/* It is fixed while the carrier is up; if that goes down, the call fails. */
		if (!(READ_ONCE(session->queues[via]->features) & RBLK_FEATURE_VOLUME_FENCE))
			return;
		v->asks = true;
		error = rblk_call_send(session->queues[via], &sc, session->options.command_ms);
	}
	spin_lock_irq(&session->core_lock);
	/* A round is over. Some may have no handle now, because their volumes are not open. */
	if (error) {
		unsigned int pause_ms = rblk_waiting_pause_ms(min(++v->rounds, 4u));

		v->asks = false;
		v->asked = 0;
		rblk_due_at(&v->due, jiffies + msecs_to_jiffies(pause_ms));
		rblk_drive_is_due(session, &v->due);
	}
	v->due.set = true;
	spin_unlock_irq(&session->core_lock);
}

void rblk_works_probe(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;
	u32 event = READ_ONCE(session->event_seen), told = READ_ONCE(session->event_told);
	struct rblk_session_command sc = { .opcode = RBLK_OP_KEEPALIVE };

	if (!queue->index) {
		sc.argument = event;
		/* from its SEND on, the target may tell the next */
		WRITE_ONCE(session->event_told, event);
	}
	/* Without an answer the connection is lost by its keep-alive time, or by this one. */
	if (rblk_call_send(queue, &sc, session->options.command_ms) && !queue->index)
		WRITE_ONCE(session->event_told, told);
}

/* rblk_left_fn of IDENTIFY. Without an answer queue 0 is lost: its next acceptance asks again. */
static void rblk_works_named(struct rblk_session *session, const struct rblk_call *call, void *arg)
{
	const struct rblk_command *command = &call->command;
	struct rblk_naming *naming = &session->naming;
	struct rblk_disk *disk;
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (command->error)
		goto out;
	if (command->status == RBLK_E_BUSY && time_before(jiffies, naming->by)) {
		rblk_due_at(&naming->due,
			    jiffies + msecs_to_jiffies(rblk_waiting_pause_ms(++naming->tries)));
		goto out;
	}
	if (command->status)
		rblk_tell_attempt(command->queue, "IDENTIFY: %s",
				  rblk_refusal_text(command->status, command->detail));
	/* In a new epoch each disk's volume is opened, once the target knows us. */
	list_for_each_entry(disk, &session->disks, peer)
		if (!command->status && disk->opened && !disk->ready)
			rblk_volume_want(disk, jiffies);
	core_session_named(&session->core, !command->status, rblk_drive_now());
	rblk_tell_mended(session);
	rblk_drive_follow(session);
out:
	spin_unlock_irqrestore(&session->core_lock, flags);
}

void rblk_works_name(struct rblk_session *session)
{
	struct rblk_naming *naming = &session->naming;
	struct rblk_wire_identify identify = {};
	const struct rblk_session_command sc = {
		.opcode = RBLK_OP_IDENTIFY,
		.payload = &identify,
		.payload_bytes = sizeof(identify),
		.left = rblk_works_named,
	};
	bool due;

	spin_lock_irq(&session->core_lock);
	due = rblk_drive_is_due(session, &naming->due);
	naming->due.set &= !due;
	spin_unlock_irq(&session->core_lock);
	if (!due)
		return;
	strscpy(identify.initiator, session->options.initiator, sizeof(identify.initiator));
	strscpy(identify.software, "rblk.ko-" RBLK_VERSION, sizeof(identify.software));
	/* Else queue 0 is going down, or its next tag has its turn. */
	if (rblk_call_send(session->queues[0], &sc, session->options.command_ms) == -EBUSY) {
		spin_lock_irq(&session->core_lock);
		rblk_due_at(&naming->due, jiffies + msecs_to_jiffies(rblk_waiting_pause_ms(1)));
		rblk_drive_is_due(session, &naming->due);
		spin_unlock_irq(&session->core_lock);
	}
}

/* -- the end -- */

void rblk_works_stop(struct rblk_session *session)
{
	unsigned int i;

	for (i = 0; i < session->queue_count; i++) {
		struct rblk_queue *queue = session->queues[i];

		/* As if the device went. Its id's handler may queue the work until that ends it. */
		WRITE_ONCE(queue->device_goes, true);
		queue_work(rblk_workqueue, &queue->work);
		flush_work(&queue->work);
		cancel_work_sync(&queue->work);
		cancel_delayed_work_sync(&queue->late_work);
	}
}
