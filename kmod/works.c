// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The works that connect a queue, close it, move it to another portal and fence what it lost, ask
 * whether the target is there, and name the initiator; see works.h. Each is a work of its own: it
 * runs once at a time, and drive.c has written what it reads.
 */
#include <linux/jiffies.h>
#include <linux/sched/mm.h>

#include "kmod/works.h"
#include "kmod/authenticate.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/overdue.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "kmod/tagset.h"
#include "kmod/tell.h"
#include "kmod/volume.h"
#include "kmod/waiting.h"

/* -- connect, close, move -- */

static void rblk_works_accepted(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;

	lockdep_assert_held(&session->core_lock);
	if (!core_session_accepted(&session->core, queue->index, queue->accept.target_instance,
				   queue->keepalive_ms, queue->features, rblk_drive_now()))
		rblk_tell_attempt(queue,
				  "the target is not that of the other queues (or was restarted)");
	rblk_tell_mended(session);
	/*
	 * All that came before is confirmed now: nothing was to be sent before the target had
	 * proven itself.
	 */
	if (!queue->index && READ_ONCE(session->event_seen))
		queue_work(rblk_calls, &queue->probe_work);
}

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

/* Disks that exist keep their limits: a queue that can do less is of no use. */
static int rblk_works_check_limits(struct rblk_queue *queue, char *text)
{
	const struct rblk_session *session = queue->session;
	u32 bytes = min(rblk_memory_max_bytes(queue), queue->max_io_bytes);

	lockdep_assert_held(&session->core_lock);
	if (!session->disk_bytes || bytes >= session->disk_bytes)
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "%s: queue %u: commands of %u bytes, the disks have %u",
		  rblk_queue_peer(queue), queue->index, bytes, session->disk_bytes);
	return -EOPNOTSUPP;
}

static void rblk_works_connect_run(struct work_struct *work)
{
	struct rblk_queue *queue = container_of(work, struct rblk_queue, connect_work);
	struct rblk_session *session = queue->session;
	unsigned int noio = memalloc_noio_save();
	char text[RBLK_TEXT_BYTES];
	int error = rblk_queue_connect(queue, text);
	unsigned long flags;

	if (!error && session->prover)
		error = rblk_authenticate(queue, text);
	if (!error)
		rblk_works_share_tags(queue);
	spin_lock_irqsave(&session->core_lock, flags);
	/* Until it is accepted no disk takes its limits from it; a new disk's are seen here. */
	if (!error)
		error = rblk_works_check_limits(queue, text);
	if (error && error != -ECANCELED)
		rblk_tell_attempt_line(session, text);
	if (!error)
		rblk_works_accepted(queue);
	else if (queue->reject_reason)
		core_session_rejected(&session->core, queue->index, queue->reject_reason,
				      queue->reject_detail, rblk_drive_now());
	else
		core_session_unreached(&session->core, queue->index, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irqrestore(&session->core_lock, flags);
	memalloc_noio_restore(noio);
}

/*
 * The queue is no request's route any more. Whoever has still read it as one has added its command
 * to the queue when this returns: waiting.c sends under lifecycle, blk-mq dispatches under RCU.
 */
static void rblk_works_await_senders(struct rblk_session *session)
{
	mutex_lock(&session->lifecycle);
	mutex_unlock(&session->lifecycle);
	synchronize_rcu();
}

/*
 * F4, in this order: no request is being dispatched or sent again on it, the queue pair is in ERR
 * and drained, every key is invalid; only then is anything unmapped. The requests stay started, and
 * wait. Other queues, and all disks' I/O on them, go on.
 */
static void rblk_works_close(struct rblk_queue *queue)
{
	struct rblk_session *session = queue->session;
	/* Writeback of memory may wait for this work. */
	unsigned int noio = memalloc_noio_save();
	unsigned long flags;
	bool open;

	rblk_queue_abort(queue);
	cancel_work_sync(&queue->connect_work);
	open = !queue->down; /* else no command ever came */
	if (open)
		rblk_works_await_senders(session);
	rblk_queue_stop(queue);
	if (open)
		rblk_tagset_settle(queue);
	rblk_queue_release_keys(queue);
	rblk_waiting_take_lost(queue);
	rblk_queue_release_hardware(queue);
	/* These works send on this connection: they end before the next one is made. */
	cancel_work_sync(&queue->probe_work);
	rblk_overdue_stop(queue);
	if (!queue->index)
		cancel_work_sync(&session->name_work);
	spin_lock_irqsave(&session->core_lock, flags);
	core_session_drained(&session->core, queue->index, rblk_drive_now());
	rblk_drive_follow(session);
	spin_unlock_irqrestore(&session->core_lock, flags);
	memalloc_noio_restore(noio);
}

static void rblk_works_close_run(struct work_struct *work)
{
	rblk_works_close(container_of(work, struct rblk_queue, close_work));
}

/* -- commands of the session -- */

/*
 * The answer comes when storage has ended what it had begun (F5), and until then from a living
 * target. It counts for what it was asked for alone: the queue may have been connected and lost
 * again meanwhile.
 */
static void rblk_works_fence_run(struct work_struct *work)
{
	struct rblk_queue *queue = container_of(work, struct rblk_queue, fence_work);
	struct rblk_session *session = queue->session;
	const struct core_lost *lost = &session->core.queue[queue->index].lost;
	struct rblk_session_command sc = { .opcode = RBLK_OP_FENCE, .lba = queue->index };
	unsigned int noio = memalloc_noio_save();
	u64 epoch;
	u16 via;
	int error;

	spin_lock_irq(&session->core_lock);
	sc.argument = queue->lost_incarnation;
	epoch = queue->lost_epoch;
	via = queue->via;
	spin_unlock_irq(&session->core_lock);
	error = rblk_call_run(session->queues[via], &sc, RBLK_CALL_FOREVER);
	spin_lock_irq(&session->core_lock);
	/*
	 * Without an answer its carrier is lost, which the machine knows (a queue that takes no
	 * command is going down); or there was no tag for it.
	 */
	if ((!error || sc.status || error == -EBUSY) && epoch == session->core.epoch &&
	    lost->via == via) {
		core_session_fenced(&session->core, queue->index, (u32)sc.argument, !error, rblk_drive_now());
		rblk_drive_follow(session);
	}
	spin_unlock_irq(&session->core_lock);
	memalloc_noio_restore(noio);
}

/*
 * Over a queue that is up, this one's next incarnation perhaps, if its target knows how. 0: it is
 * fenced for that volume; else it may be asked again.
 */
static int rblk_works_fence_volume(struct rblk_queue *queue, struct rblk_session_command *sc)
{
	struct rblk_session *session = queue->session;
	struct rblk_queue *carrier;
	int via = -1;

	spin_lock_irq(&session->core_lock);
	if (core_session_owes_fence(&session->core, queue->index, sc->epoch, (u32)sc->argument))
		via = core_session_carrier(&session->core);
	spin_unlock_irq(&session->core_lock);
	if (via < 0)
		return -ENOTCONN;
	carrier = session->queues[via];
	/* It is fixed while the queue is up; if it goes down, the call fails. */
	if (!(READ_ONCE(carrier->features) & RBLK_FEATURE_VOLUME_FENCE))
		return -EOPNOTSUPP;
	return rblk_call_run(carrier, sc, session->options.command_ms);
}

/*
 * F5, so that a volume whose storage hangs delays none but its own commands: the target is asked
 * for each volume that has lost some, also for those that have failed since, again and again, until
 * none has or the whole queue is fenced.
 */
static void rblk_works_volumes_run(struct work_struct *work)
{
	struct rblk_queue *queue =
		container_of(to_delayed_work(work), struct rblk_queue, volumes_work);
	struct rblk_session *session = queue->session;
	unsigned int noio = memalloc_noio_save();
	struct rblk_session_command sc = { .opcode = RBLK_OP_FENCE, .lba = queue->index };
	bool owes, able = true;
	unsigned long pause;
	int error;

	spin_lock_irq(&session->core_lock);
	sc.argument = queue->part_incarnation;
	sc.epoch = queue->part_epoch;
	owes = core_session_owes_fence(&session->core, queue->index, sc.epoch,
				       queue->part_incarnation);
	spin_unlock_irq(&session->core_lock);
	while (owes && rblk_waiting_next_volume(session, queue->index, &sc.volume) && sc.volume) {
		error = rblk_works_fence_volume(queue, &sc);
		able &= error != -EOPNOTSUPP;
		if (!error)
			rblk_waiting_release_volume(session, queue->index, sc.volume, sc.epoch,
						    (u32)sc.argument);
	}
	/* Those that are left: also one whose volume is not open now, which has no handle. */
	sc.volume = 0;
	owes = owes && able && rblk_waiting_next_volume(session, queue->index, &sc.volume);
	queue->part_rounds = owes ? queue->part_rounds + 1 : 0;
	pause = msecs_to_jiffies(rblk_waiting_pause_ms(min(queue->part_rounds, 4u)));
	if (owes)
		queue_delayed_work(rblk_calls, &queue->volumes_work, pause);
	memalloc_noio_restore(noio);
}

static void rblk_works_probe_run(struct work_struct *work)
{
	struct rblk_queue *queue = container_of(work, struct rblk_queue, probe_work);
	struct rblk_session *session = queue->session;
	u32 event = READ_ONCE(session->event_seen);
	struct rblk_session_command sc = { .opcode = RBLK_OP_KEEPALIVE };

	if (!queue->index) {
		sc.argument = event;
		/* from its SEND on, the target may tell the next */
		WRITE_ONCE(session->event_told, event);
	}
	/* Without an answer the connection is lost by its keep-alive time, or by this one. */
	rblk_call_run(queue, &sc, session->options.command_ms);
}

/* A new epoch: once the target knows us, each disk's volume is opened, by a work of its own. */
static void rblk_works_name_run(struct work_struct *work)
{
	struct rblk_session *session = container_of(work, struct rblk_session, name_work);
	unsigned int noio = memalloc_noio_save();
	char text[RBLK_TEXT_BYTES] = "";
	struct rblk_disk *disk;
	unsigned long flags;
	int error = rblk_volume_identify(session, text);

	spin_lock_irqsave(&session->core_lock, flags);
	if (error && text[0])
		rblk_tell_attempt_line(session, text);
	core_session_named(&session->core, !error, rblk_drive_now());
	rblk_tell_mended(session);
	rblk_drive_follow(session);
	list_for_each_entry(disk, &session->disks, peer)
		if (!error && disk->opened && !disk->ready)
			mod_delayed_work(rblk_opens, &disk->open_work, 0);
	spin_unlock_irqrestore(&session->core_lock, flags);
	memalloc_noio_restore(noio);
}

/* -- beginning and end -- */

void rblk_works_init_queue(struct rblk_queue *queue)
{
	INIT_WORK(&queue->connect_work, rblk_works_connect_run);
	INIT_WORK(&queue->close_work, rblk_works_close_run);
	INIT_WORK(&queue->fence_work, rblk_works_fence_run);
	INIT_WORK(&queue->probe_work, rblk_works_probe_run);
	INIT_DELAYED_WORK(&queue->volumes_work, rblk_works_volumes_run);
}

void rblk_works_init(struct rblk_session *session)
{
	INIT_WORK(&session->name_work, rblk_works_name_run);
}

void rblk_works_stop(struct rblk_session *session)
{
	unsigned int i;

	for (i = 0; i < session->queue_count; i++) {
		cancel_work_sync(&session->queues[i]->connect_work);
		cancel_work_sync(&session->queues[i]->fence_work);
		cancel_delayed_work_sync(&session->queues[i]->volumes_work);
		cancel_work_sync(&session->queues[i]->probe_work);
		flush_work(&session->queues[i]->close_work);
	}
	cancel_work_sync(&session->name_work);
}
