// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * OPEN, on queue 0, by drive_work: nobody waits for its answer, which is taken by drive_work, too.
 * A disk's volume is opened at attach; again in a new epoch, and when the target has removed or
 * replaced it, until the disk gives up, whatever becomes of other disks; and again while it is
 * open, to look whether it has changed.
 *
 * Each disk has a slot of the session's handles. OPEN of the same number is sent again when the
 * answer was lost.
 */
#include <linux/log2.h>

#include "kmod/volume.h"
#include "kmod/attach_limits.h"
#include "kmod/blk_mq.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/queue.h"
#include "kmod/tell.h"
#include "kmod/waiting.h"
#include "proto/core/trace.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* No reserved tag was free, or the last commands of a volume that is gone are not answered. */
#define RBLK_VOLUME_AGAIN_MS 10u
/*
 * A change of a volume may cause a line in the log and a uevent: as often at most, whatever the
 * target tells.
 */
#define RBLK_VOLUME_REFRESH_MS 200u

void rblk_volume_number(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;

	lockdep_assert_held(&session->core_lock);
	WRITE_ONCE(disk->handle, ++session->handles * RBLK_HANDLES_MAX + disk->index + 1);
}

void rblk_volume_want(struct rblk_disk *disk, unsigned long at)
{
	lockdep_assert_held(&disk->session->core_lock);
	rblk_due_at(&disk->opening.due, at);
	rblk_drive_kick(disk->session);
}

static void rblk_volume_again(struct rblk_disk *disk, unsigned int ms)
{
	spin_lock_irq(&disk->session->core_lock);
	rblk_volume_want(disk, jiffies + msecs_to_jiffies(ms) + 1);
	spin_unlock_irq(&disk->session->core_lock);
}

/*
 * Takes over what may change in the same volume, as when its machine boots. No command of the disk
 * is being prepared.
 */
static void rblk_volume_take_limits(struct rblk_disk *disk, const struct rblk_wire_volume *v)
{
	WRITE_ONCE(disk->volume_flags, rblk_le32(v->flags));
	/* what a queue receives may be less */
	disk->max_capsule_bytes = rblk_le32(v->max_capsule_bytes);
	disk->max_discard_blocks = rblk_le32(v->max_discard_blocks);
	disk->untorn_min_bytes = rblk_le32(v->untorn_min_bytes);
	disk->untorn_max_bytes = rblk_le32(v->untorn_max_bytes);
}

static void rblk_volume_take(struct rblk_disk *disk, const struct rblk_wire_volume *v)
{
	rblk_volume_take_limits(disk, v);
	disk->block_bytes = rblk_le32(v->block_bytes);
	disk->block_shift = ilog2(disk->block_bytes);
	disk->blocks = rblk_le64(v->blocks);
	disk->max_io_bytes = rblk_le32(v->max_io_bytes);
	disk->physical_bytes = rblk_le32(v->physical_bytes);
	disk->optimal_bytes = rblk_le32(v->optimal_bytes);
	disk->discard_granularity = rblk_le32(v->discard_granularity_bytes);
	memcpy(disk->uuid, v->uuid, sizeof(disk->uuid));
	smp_store_release(&disk->opened, true);
}

void rblk_volume_recheck(struct rblk_disk *disk)
{
	unsigned long next = disk->refreshed + msecs_to_jiffies(RBLK_VOLUME_REFRESH_MS);

	rblk_volume_want(disk, time_after(next, jiffies) ? next : jiffies);
}

/* Does the volume still have what the disk has promised? NULL: yes; else why not. */
static const char *rblk_volume_differs(const struct rblk_disk *disk,
				       const struct rblk_wire_volume *v)
{
	u32 flags = rblk_le32(v->flags), was = READ_ONCE(disk->volume_flags);
	const u32 able = RBLK_VOLUME_FLUSH | RBLK_VOLUME_FUA;
	bool admits;

	/*
	 * F10: may it be used at the target that queue 0 has reached? An instance is of its epoch,
	 * which the caller checks later.
	 */
	spin_lock_irq(&disk->session->core_lock);
	admits = core_domain_admits(&disk->domain, disk->session->core.instance, v->fence_domain);
	spin_unlock_irq(&disk->session->core_lock);
	if (memcmp(v->uuid, disk->uuid, sizeof(disk->uuid)))
		return "another volume has its name now";
	if (!admits)
		return CORE_DOMAIN_TEXT;
	if (rblk_le32(v->block_bytes) != disk->block_bytes)
		return "its blocks have another size now";
	if (rblk_le32(v->max_io_bytes) < disk->disk_bytes)
		return "its longest command is shorter now";
	/* No FLUSH comes for a cache that blk-mq was not told of: each write has FUA then. */
	if (was & ~flags & able ||
	    (flags & ~was & RBLK_VOLUME_VOLATILE_CACHE && !disk->flushes && (flags & able) != able))
		return "it can make less durable now";
	return NULL;
}

/*
 * The disk takes over its volume's size, and whether it may write.
 */
static void rblk_volume_take_changes(struct rblk_disk *disk, const struct rblk_wire_volume *v)
{
	lockdep_assert_held(&disk->opens_lock);
	if (!READ_ONCE(disk->added))
		return;
	if (rblk_le64(v->blocks) != disk->blocks)
		rblk_disk_resize(disk, rblk_le64(v->blocks));
	rblk_disk_permit(disk, !(rblk_le32(v->flags) & RBLK_VOLUME_READ_ONLY));
}

/* From here on commands are sent, unless the epoch is over already. */
static int rblk_volume_use(struct rblk_disk *disk, u64 epoch, const struct rblk_wire_volume *v)
{
	struct rblk_session *session = disk->session;
	bool valid, lost = false;

	mutex_lock(&disk->opens_lock);
	rblk_volume_take_changes(disk, v);
	spin_lock_irq(&session->core_lock);
	valid = session->core.epoch == epoch && !core_session_over(&session->core);
	if (valid) {
		core_domain_opened(&disk->domain, session->core.instance, v->fence_domain);
		rblk_volume_take_limits(disk, v);
		/* F7: what the disk has been told of, and what its next commands owe. */
		lost = rblk_durable_learn(disk, v->cache_epoch,
					  rblk_le32(v->flags) & RBLK_VOLUME_VOLATILE_CACHE);
		disk->epoch = epoch;
		if (disk->gate != RBLK_GATE_FAIL) {
			disk->reason[0] = '\0';
			WRITE_ONCE(disk->gate, RBLK_GATE_HOLD);
			disk->volume_lost = false;
			smp_store_release(&disk->ready, true);
		}
		if (disk->changed && READ_ONCE(disk->added))
			rblk_volume_recheck(disk);
	}
	spin_unlock_irq(&session->core_lock);
	mutex_unlock(&disk->opens_lock);
	if (lost)
		rblk_durable_say_lost(disk);
	return valid ? 0 : -ENOTCONN;
}

static const char *rblk_volume_error_text(int error, const struct rblk_opening *answer)
{
	return answer->status ? rblk_refusal_text(answer->status, answer->denied) :
	       error == -EPROTO ? "the target broke the protocol" : "out of memory";
}

/*
 * The volume cannot be used at the target that answers in this epoch: it may be at another one
 * (F10), or it is to be attached and no disk of the session is open here. If that is so of all
 * disks, the session goes on to the next target; at attach to each once. A restarted target that
 * lacks the volume looks the same. True: an attach's OPEN is to be sent again.
 */
static bool rblk_volume_foreign(struct rblk_disk *disk, u64 epoch, u16 status)
{
	struct rblk_session *session = disk->session;
	struct core_session *core = &session->core;
	const struct core_domain *domain = &disk->domain;
	bool first = !disk->opened, goes, all = true;
	const struct rblk_disk *other;

	spin_lock_irq(&session->core_lock);
	if (first)
		goes = core_session_elsewhere(core);
	else
		goes = domain->known &&
		       core_session_may_be_elsewhere(core, domain->instance, status);
	if (core->epoch != epoch) {
		goes = first && !core_session_over(core);
		goto out;
	}
	disk->foreign = goes ? epoch : disk->foreign;
	list_for_each_entry(other, &session->disks, peer) {
		goes &= !first || !other->opened;
		all &= other->foreign == epoch || other->gate == RBLK_GATE_FAIL;
	}
	if (goes && all) {
		if (first)
			disk->first_by = jiffies + msecs_to_jiffies(session->options.connect_ms);
		else
			rblk_tell_attempt(session->queues[0], "its disks cannot be used there");
		core_session_misled(core, rblk_drive_now());
		rblk_drive_follow(session);
	}
out:
	spin_unlock_irq(&session->core_lock);
	return goes;
}

/* The handle is, or was, another volume's: the next OPEN is by another one. */
static void rblk_volume_replaced(struct rblk_disk *disk)
{
	spin_lock_irq(&disk->session->core_lock);
	disk->gone = true;
	spin_unlock_irq(&disk->session->core_lock);
}

/* The volume is as it was, and in use; or, with one line in text, why not. */
static int rblk_volume_judge(struct rblk_disk *disk, const struct rblk_opening *a, int error,
			     char *text)
{
	const char *differs;

	if (!error && !disk->opened) {
		error = rblk_durable_get(disk, a->volume.uuid);
		if (!error)
			rblk_volume_take(disk, &a->volume);
	}
	if (error) {
		if (!a->error)
			scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s%s",
				  rblk_queue_peer(disk->session->queues[0]), disk->options.volume,
				  rblk_volume_error_text(error, a),
				  a->status == RBLK_E_BUSY ? " for longer than connect_ms" : "");
		if (a->status == RBLK_E_GONE)
			rblk_volume_replaced(disk);
		return error;
	}
	differs = rblk_volume_differs(disk, &a->volume);
	if (!differs)
		return rblk_volume_use(disk, a->epoch, &a->volume);
	scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s", rblk_queue_peer(disk->session->queues[0]),
		  disk->options.volume, differs);
	rblk_close_add(disk->session, a->handle);
	rblk_volume_replaced(disk);
	return -ENODEV;
}

int rblk_volume_open(struct rblk_disk *disk, char *text)
{
	struct rblk_session *session = disk->session;
	const struct rblk_session_options *o = &session->options;
	long left;
	int error;

	spin_lock_irq(&session->core_lock);
	disk->first_by = jiffies + msecs_to_jiffies(o->connect_ms);
	disk->open_error = -EINPROGRESS;
	core_session_search(&session->core);
	rblk_volume_want(disk, jiffies);
	spin_unlock_irq(&session->core_lock);
	left = wait_event_killable_timeout(session->wait,
					   READ_ONCE(disk->open_error) != -EINPROGRESS ||
						   READ_ONCE(session->ended),
					   msecs_to_jiffies(o->connect_ms * o->portal_count +
							    o->command_ms));
	spin_lock_irq(&session->core_lock);
	error = disk->open_error;
	disk->opening.due.set &= !error;
	strscpy(text, disk->reason, RBLK_TEXT_BYTES);
	spin_unlock_irq(&session->core_lock);
	if (error != -EINPROGRESS || left > 0)
		return error == -EINPROGRESS ? -ENOTCONN : error;
	scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s", rblk_queue_peer(session->queues[0]),
		  disk->options.volume,
		  left < 0 ? "killed" : "no answer to OPEN in command_ms");
	return left < 0 ? -EINTR : -ETIMEDOUT;
}

/* -- opening again -- */

void rblk_volume_closed(struct rblk_disk *disk)
{
	lockdep_assert_held(&disk->session->core_lock);
	WRITE_ONCE(disk->ready, false);
	disk->volume_lost = true;
	disk->volume_lost_since = jiffies;
	disk->opening.tries = 0;
	disk->opening.grace = false;
	rblk_drive_kick(disk->session);
}

void rblk_volume_gone(struct rblk_disk *disk, u32 handle)
{
	lockdep_assert_held(&disk->session->core_lock);
	/* Before it is added, the attach fails. */
	if (!disk->ready || disk->handle != handle || !smp_load_acquire(&disk->added))
		return;
	disk->gone = true;
	rblk_volume_closed(disk);
	rblk_volume_want(disk, jiffies);
}

/* rblk_left_fn of OPEN. That of a disk that has left is closed by its handle. */
static void rblk_volume_answered(struct rblk_session *session, const struct rblk_call *call,
				 void *arg)
{
	const struct rblk_command *command = &call->command;
	u32 handle = rblk_le32(command->wire.volume);
	struct rblk_opening *o;
	struct rblk_disk *disk;
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	list_for_each_entry(disk, &session->disks, peer) {
		o = &disk->opening;
		if (!o->asks || o->answered || o->handle != handle)
			continue;
		o->error = command->error;
		o->status = command->status;
		o->denied = command->detail;
		if (!o->error && !o->status) {
			memcpy(&o->volume, rblk_call_report(call), sizeof(o->volume));
			rblk_trace_opened(command->queue, &o->volume);
		}
		o->answered = true;
		break;
	}
	spin_unlock_irqrestore(&session->core_lock, flags);
}

/* By the disk's handle; that may be open. */
static void rblk_volume_ask(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	struct rblk_opening *o = &disk->opening;
	struct rblk_wire_open open = {};
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_OPEN,
		.payload = &open,
		.payload_bytes = sizeof(open),
		.report_bytes = sizeof(o->volume),
		.left = rblk_volume_answered,
	};

	spin_lock_irq(&session->core_lock);
	o->looks = disk->ready;
	if (o->looks)
		disk->refreshed = jiffies;
	else if (disk->gone)
		rblk_volume_number(disk);
	disk->gone &= o->looks;
	disk->changed &= o->looks;
	rblk_close_mark(session, disk->handle, false);
	o->due.set = false;
	o->asks = true;
	o->answered = false;
	o->epoch = session->core.epoch;
	o->handle = disk->handle;
	sc.epoch = o->epoch;
	sc.volume = o->handle;
	spin_unlock_irq(&session->core_lock);
	if (!o->looks)
		rblk_disk_notify(disk); /* it is renewing */
	strscpy(open.name, disk->options.volume, sizeof(open.name));
	open.flags = rblk_to_le32(disk->options.read_only ? RBLK_OPEN_READ_ONLY : 0);
	if (!rblk_call_send(session->queues[0], &sc, 0))
		return;
	spin_lock_irq(&session->core_lock);
	o->asks = false;
	spin_unlock_irq(&session->core_lock);
	rblk_volume_again(disk, RBLK_VOLUME_AGAIN_MS);
}

/* At attach, in a new epoch, or after it was gone. */
static void rblk_volume_take_opened(struct rblk_disk *disk, const struct rblk_opening *a, int error)
{
	const struct rblk_session_options *options = &disk->session->options;
	bool first = READ_ONCE(disk->open_error) == -EINPROGRESS;
	struct rblk_opening *o = &disk->opening;
	char text[RBLK_TEXT_BYTES] = "";
	unsigned int pause_ms;
	bool goes = false;
	size_t length;

	error = rblk_volume_judge(disk, a, error, text);
	o->tries = error ? o->tries + 1 : 0;
	if (error && first && a->status == RBLK_E_BUSY && time_before(jiffies, disk->first_by)) {
		rblk_volume_again(disk, rblk_waiting_pause_ms(o->tries));
		return;
	}
	if (error && (a->status ? first || a->status != RBLK_E_BUSY : error == -ENODEV))
		goes = rblk_volume_foreign(disk, a->epoch, a->status);
	/* The first try is logged; sysfs has the reason of the last one, an attach those of all. */
	spin_lock_irq(&disk->session->core_lock);
	length = first ? strlen(disk->reason) : 0;
	if (error && text[0] && disk->gate != RBLK_GATE_FAIL &&
	    (!length || !strstr(disk->reason, text)))
		scnprintf(disk->reason + length, RBLK_TEXT_BYTES - length, "%s%s",
			  length ? "; " : "", text);
	spin_unlock_irq(&disk->session->core_lock);
	if (error && !first && text[0] && o->tries == 1) /* else the session says that it is lost */
		pr_warn_ratelimited("rblk%d: the volume cannot be opened again: %s\n", disk->index,
				    text);
	if (error && (!first || goes)) {
		pause_ms = (unsigned int)RBLK_ATTACH_RECONNECT_MS_MIN << min(o->tries, 8u);
		rblk_volume_again(disk, min(pause_ms, options->reconnect_ms));
		return;
	}
	spin_lock_irq(&disk->session->core_lock);
	WRITE_ONCE(disk->open_error, error);
	spin_unlock_irq(&disk->session->core_lock);
	rblk_disk_notify(disk);
	rblk_drive_kick(disk->session); /* what waits is sent */
}

/* While it is open: its size, or what the target allows, may have changed. */
static void rblk_volume_take_looked(struct rblk_disk *disk, const struct rblk_opening *a, int error)
{
	struct rblk_session *session = disk->session;
	bool valid;

	if (error) {
		/* A loss is logged; of the other volume that has its name there is an event. */
		if (a->status == RBLK_E_BUSY)
			rblk_volume_again(disk, RBLK_VOLUME_REFRESH_MS);
		else if (!a->error && a->status != RBLK_E_GONE)
			pr_warn_ratelimited("rblk%d: its volume has changed, but its new size cannot be read: %s\n",
					    disk->index, rblk_volume_error_text(error, a));
		return;
	}
	if (rblk_volume_differs(disk, &a->volume))
		return;
	mutex_lock(&disk->opens_lock);
	spin_lock_irq(&session->core_lock);
	/* Else it is being opened again, or will be. */
	valid = session->core.epoch == a->epoch && disk->ready && disk->handle == a->handle;
	/* Writes may be lost: that is learnt when what the old handle has is answered (F7). */
	if (valid && memcmp(a->volume.cache_epoch, disk->cache_epoch, sizeof(disk->cache_epoch))) {
		rblk_volume_gone(disk, a->handle);
		valid = false;
	}
	/* F10: a session learns a domain that has changed before it needs it. */
	if (valid)
		core_domain_opened(&disk->domain, session->core.instance, a->volume.fence_domain);
	spin_unlock_irq(&session->core_lock);
	if (valid)
		rblk_volume_take_changes(disk, &a->volume);
	mutex_unlock(&disk->opens_lock);
}

static void rblk_volume_take_answer(struct rblk_disk *disk)
{
	const struct rblk_queue *queue = disk->session->queues[0];
	struct rblk_opening a;
	int error;

	spin_lock_irq(&disk->session->core_lock);
	a = disk->opening;
	disk->opening.asks = false;
	disk->opening.answered = false;
	spin_unlock_irq(&disk->session->core_lock);
	error = a.error ? a.error : rblk_status_errno(a.status);
	if (!error && (rblk_check_volume(&a.volume, sizeof(a.volume), queue->features) ||
		       rblk_le32(a.volume.handle) != a.handle ||
		       strncmp((const char *)a.volume.name, disk->options.volume,
			       sizeof(a.volume.name))))
		error = -EPROTO;
	if (a.looks)
		rblk_volume_take_looked(disk, &a, error);
	else
		rblk_volume_take_opened(disk, &a, error);
}

/*
 * A disk is opened again when no command with its old handle is outstanding, and none will be sent.
 * So what the volume that is gone has acknowledged is counted before the next one's cache epoch is
 * learnt (F7). One grace of RCU, of all such disks together: behind it whoever saw the disk ready
 * has its command on a queue, because drive_work sends what waited and blk-mq dispatches under RCU.
 * (That of a queue's close does not do: a volume may be gone while all queues stay.)
 */
static bool rblk_volume_grace(struct rblk_session *session)
{
	struct rblk_disk *disk;
	bool any = false;

	spin_lock_irq(&session->core_lock);
	list_for_each_entry(disk, &session->disks, peer) {
		struct rblk_opening *o = &disk->opening;

		if (!o->due.set || disk->ready || !disk->opened || o->grace)
			continue;
		o->grace = true;
		any = true;
	}
	spin_unlock_irq(&session->core_lock);
	if (any)
		synchronize_rcu();
	return any;
}

/* A disk that something is to be done for now. */
static struct rblk_disk *rblk_volume_next(struct rblk_session *session)
{
	bool live = session->core.state == CORE_SESSION_LIVE;
	struct rblk_disk *disk, *found = NULL;

	spin_lock_irq(&session->core_lock);
	list_for_each_entry(disk, &session->disks, peer) {
		struct rblk_opening *o = &disk->opening;
		bool due = !o->asks && live && disk->gate != RBLK_GATE_FAIL &&
			   rblk_drive_is_due(session, &o->due);

		/* The next grace is for it. */
		if (due && !disk->ready && disk->opened && !o->grace)
			due = false;
		if (!due && !o->answered)
			continue;
		found = disk;
		break;
	}
	spin_unlock_irq(&session->core_lock);
	return found;
}

static void rblk_volume_drive_disk(struct rblk_disk *disk)
{
	struct rblk_opening *o = &disk->opening;

	if (READ_ONCE(o->answered)) {
		rblk_volume_take_answer(disk);
	/* Has it commands with the old handle, or requests that those have answered just now? */
	} else if (READ_ONCE(disk->ready) || !disk->opened ||
		   !(rblk_disk_queues(disk) || rblk_mq_ends(disk->session, NULL, disk))) {
		rblk_volume_ask(disk);
	} else {
		spin_lock_irq(&disk->session->core_lock);
		o->due.at = jiffies + msecs_to_jiffies(RBLK_VOLUME_AGAIN_MS) + 1;
		spin_unlock_irq(&disk->session->core_lock);
	}
}

void rblk_volume_drive(struct rblk_session *session)
{
	struct rblk_disk *disk;

	/* One that leaves the session waits for us (rblk_disk_leave()). */
	do {
		while ((disk = rblk_volume_next(session)))
			rblk_volume_drive_disk(disk);
	} while (rblk_volume_grace(session));
}
