// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * OPEN and CLOSE, on queue 0. A disk's open_work opens its volume again in a new epoch,
 * and when the target has removed or replaced it, and tries until the disk gives up, whatever
 * becomes of other disks; drive_work enforces its times meanwhile; its refresh_work opens an open
 * handle again, to look whether its volume has changed. The session's closes_work sends CLOSE again.
 *
 * Each disk has a slot of the session's handles. OPEN and CLOSE of the same number are sent again
 * when the answer was lost.
 */
#include <linux/delay.h>
#include <linux/log2.h>
#include <linux/sched/mm.h>

#include "kmod/volume.h"
#include "kmod/attach_limits.h"
#include "kmod/call.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/durable.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/tell.h"
#include "kmod/waiting.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* How often open_work looks whether the last commands of a volume that is gone are answered. */
#define RBLK_VOLUME_SETTLE_MS 10u
/*
 * A change of a volume may cause a line in the log and a uevent: as often at most, whatever the
 * target tells.
 */
#define RBLK_VOLUME_REFRESH_MS 200u
/* So much later a CLOSE is sent again that the target refused, or that no reserved tag was free for. */
#define RBLK_VOLUME_CLOSE_MS 100u

/*
 * One command until it is answered with anything but BUSY (C6), for connect_ms, after pauses that
 * grow. A single answer may take longer than that, as a target first waits by itself, for instance
 * for the writes of an initiator that has died; other disks have their turn after each answer.
 */
static int rblk_volume_run(struct rblk_session *session, struct rblk_session_command *sc)
{
	unsigned long end = jiffies + msecs_to_jiffies(session->options.connect_ms);
	unsigned int times = 0;
	int error;

	for (;;) {
		sc->status = RBLK_OK;
		if (mutex_lock_killable(&session->volume_lock))
			return -EINTR;
		/* It closes what is open in its slot. */
		clear_bit(RBLK_HANDLE_SLOT(sc->volume), session->closes);
		error = rblk_call_run(session->queues[0], sc, session->options.command_ms);
		mutex_unlock(&session->volume_lock);
		if (!error || (sc->status ? sc->status != RBLK_E_BUSY : error != -EBUSY) ||
		    time_after(jiffies, end) || core_session_over(&session->core))
			return error;
		msleep(rblk_waiting_pause_ms(++times));
	}
}

/* -- opening -- */

void rblk_volume_number(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;

	lockdep_assert_held(&session->core_lock);
	WRITE_ONCE(disk->handle, ++session->handles * RBLK_HANDLES_MAX + disk->index + 1);
}

/* The target's answer to OPEN. */
struct rblk_volume_answer {
	u16 status;
	u16 denied; /* RBLK_E_DENIED: why */
};

/* Open the volume as it is now; it may be open. */
static int rblk_volume_ask(struct rblk_disk *disk, u64 epoch, struct rblk_wire_volume *volume,
			   struct rblk_volume_answer *answer)
{
	struct rblk_wire_open open = {};
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_OPEN,
		.epoch = epoch,
		.volume = READ_ONCE(disk->handle),
		.payload = &open,
		.payload_bytes = sizeof(open),
		.report = volume,
		.report_bytes = sizeof(*volume),
		.left = rblk_call_forget,
	};
	int error;

	strscpy(open.name, disk->options.volume, sizeof(open.name));
	open.flags = rblk_to_le32(disk->options.read_only ? RBLK_OPEN_READ_ONLY : 0);
	error = rblk_volume_run(disk->session, &sc);
	answer->status = sc.status;
	answer->denied = sc.denied;
	if (!error &&
	    (rblk_check_volume(volume, sizeof(*volume), disk->session->queues[0]->features) ||
	     rblk_le32(volume->handle) != sc.volume ||
	     memcmp(volume->name, open.name, sizeof(open.name))))
		error = -EPROTO;
	return error;
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
	unsigned long now = jiffies,
		      next = READ_ONCE(disk->refreshed) + msecs_to_jiffies(RBLK_VOLUME_REFRESH_MS);

	queue_delayed_work(rblk_opens, &disk->refresh_work, time_after(next, now) ? next - now : 0);
}

/*
 * F10: may it be used at the target that queue 0 has reached? An instance is of its epoch, which
 * the caller checks later.
 */
static bool rblk_volume_admits(const struct rblk_disk *disk, const struct rblk_wire_volume *v)
{
	bool admits;

	spin_lock_irq(&disk->session->core_lock);
	admits = core_domain_admits(&disk->domain, disk->session->core.instance, v->fence_domain);
	spin_unlock_irq(&disk->session->core_lock);
	return admits;
}

/* Does the volume still have what the disk has promised? NULL: yes; else why not. */
static const char *rblk_volume_differs(const struct rblk_disk *disk,
				       const struct rblk_wire_volume *v)
{
	u32 flags = rblk_le32(v->flags), was = READ_ONCE(disk->volume_flags);
	const u32 able = RBLK_VOLUME_FLUSH | RBLK_VOLUME_FUA;

	if (memcmp(v->uuid, disk->uuid, sizeof(disk->uuid)))
		return "another volume has its name now";
	if (!rblk_volume_admits(disk, v))
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
 * With opens_lock held: what open_work has learnt in a later epoch is set after what refresh_work
 * has of an older one, or that is not set any more.
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

/*
 * From here on commands are sent, unless the epoch is over already. A volume that has changed since
 * OPEN was sent may be this one: the event named a handle that the disk did not have yet.
 */
static int rblk_volume_use(struct rblk_disk *disk, u64 epoch, u32 changes,
			   const struct rblk_wire_volume *v)
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
			disk->closed = false;
			smp_store_release(&disk->ready, true);
		}
		if (session->changes != changes && READ_ONCE(disk->added))
			rblk_volume_recheck(disk);
	}
	spin_unlock_irq(&session->core_lock);
	mutex_unlock(&disk->opens_lock);
	if (lost)
		rblk_durable_say_lost(disk);
	return valid ? 0 : -ENOTCONN;
}

static void rblk_volume_say_refused(const struct rblk_disk *disk, int error,
				    const struct rblk_volume_answer *answer, char *text)
{
	const char *peer = rblk_queue_peer(disk->session->queues[0]),
		   *volume = disk->options.volume;

	if (answer->status)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s%s", peer, volume,
			  rblk_refusal_text(answer->status, answer->denied),
			  answer->status == RBLK_E_BUSY ? " for longer than connect_ms" : "");
	else if (error == -EPROTO)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: the target broke the protocol", peer,
			  volume);
	else if (error == -EBUSY)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: no tag for OPEN in connect_ms", peer,
			  volume);
	else if (error == -ENOMEM)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: out of memory", peer, volume);
	else if (error == -ETIMEDOUT)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: no answer to OPEN in command_ms", peer,
			  volume);
	else if (error == -EINTR)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: killed", peer, volume);
}

static void rblk_volume_say_unread(const struct rblk_disk *disk, int error,
				   const struct rblk_volume_answer *answer)
{
	const char *why = error == -ENOMEM ? "out of memory" : "no valid answer";

	if (answer->status)
		why = rblk_refusal_text(answer->status, answer->denied);
	pr_warn_ratelimited("rblk%d: its volume has changed, but its new size cannot be read: %s\n",
			    disk->index, why);
}

/*
 * The volume was open at another target, and cannot be used at the one that answers in this epoch:
 * if no disk of the session can, it goes on to the next portal (F10). A restarted target that lacks
 * the volume looks the same.
 */
static void rblk_volume_foreign(struct rblk_disk *disk, u64 epoch)
{
	struct rblk_session *session = disk->session;
	const struct core_session *core = &session->core;
	const struct rblk_disk *other;
	bool all = true;

	spin_lock_irq(&session->core_lock);
	if (core->epoch != epoch || core->options.portals == 1 || !disk->domain.known ||
	    !memcmp(disk->domain.instance, core->instance, sizeof(core->instance)))
		goto out;
	disk->foreign = epoch;
	list_for_each_entry(other, &session->disks, peer)
		all &= other->foreign == epoch || other->gate == RBLK_GATE_FAIL;
	if (all) {
		rblk_tell_attempt(session->queues[0], "its disks cannot be used there");
		core_session_misled(&session->core, rblk_drive_now());
		rblk_drive_follow(session);
	}
out:
	spin_unlock_irq(&session->core_lock);
}

/* The handle is, or was, another volume's: the next OPEN is by another one. */
static void rblk_volume_replaced(struct rblk_disk *disk)
{
	spin_lock_irq(&disk->session->core_lock);
	disk->gone = true;
	spin_unlock_irq(&disk->session->core_lock);
}

int rblk_volume_open(struct rblk_disk *disk, char *text)
{
	struct rblk_session *session = disk->session;
	struct rblk_wire_volume volume;
	const char *differs;
	struct rblk_volume_answer answer = {};
	u32 changes;
	bool live;
	u64 epoch;
	int error;

	text[0] = '\0';
	spin_lock_irq(&session->core_lock);
	changes = session->changes;
	epoch = session->core.epoch;
	live = session->core.state == CORE_SESSION_LIVE;
	spin_unlock_irq(&session->core_lock);
	/* In a new epoch IDENTIFY comes first. */
	error = live ? rblk_volume_ask(disk, epoch, &volume, &answer) : -ENOTCONN;
	if (error) {
		rblk_volume_say_refused(disk, error, &answer, text);
		if (answer.status == RBLK_E_GONE)
			rblk_volume_replaced(disk);
		if (answer.status && answer.status != RBLK_E_BUSY)
			rblk_volume_foreign(disk, epoch);
		return error;
	}
	differs = disk->opened ? rblk_volume_differs(disk, &volume) : NULL;
	if (differs) {
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s", rblk_queue_peer(session->queues[0]),
			  disk->options.volume, differs);
		rblk_volume_close(disk);
		rblk_volume_replaced(disk);
		rblk_volume_foreign(disk, epoch);
		return -ENODEV;
	}
	if (!disk->opened) {
		error = rblk_durable_get(disk, volume.uuid);
		if (error) {
			rblk_volume_say_refused(disk, error, &answer, text);
			return error;
		}
		rblk_volume_take(disk, &volume);
	}
	return rblk_volume_use(disk, epoch, changes, &volume);
}

/* -- opening again -- */

/* The first try is logged; sysfs has the reason of the last one. */
static void rblk_volume_refused(struct rblk_disk *disk, const char *text)
{
	struct rblk_session *session = disk->session;

	if (!text[0])
		return; /* the connection was lost, and the session says why */
	spin_lock_irq(&session->core_lock);
	if (disk->gate != RBLK_GATE_FAIL)
		strscpy(disk->reason, text, sizeof(disk->reason));
	spin_unlock_irq(&session->core_lock);
	if (disk->open_tries == 1)
		pr_warn_ratelimited("rblk%d: the volume cannot be opened again: %s\n", disk->index,
				    text);
}

void rblk_volume_closed(struct rblk_disk *disk)
{
	lockdep_assert_held(&disk->session->core_lock);
	WRITE_ONCE(disk->ready, false);
	disk->closed = true;
	disk->closed_since = jiffies;
	disk->open_tries = 0;
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
	mod_delayed_work(rblk_opens, &disk->open_work, 0);
}

/*
 * True: no command with the old handle is outstanding, and none will be sent. So the handle can be
 * closed, and what the volume that is gone has acknowledged is counted before the next one's cache
 * epoch is learnt (F7).
 */
static bool rblk_volume_settled(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	unsigned int i;

	/*
	 * Who saw the disk ready has its command on a queue after this: drive_work sends what
	 * waited, blk-mq dispatches under RCU.
	 */
	flush_work(&session->drive_work.work);
	synchronize_rcu();
	for (i = 0; i < session->queue_count; i++)
		if (rblk_queue_serves(session->queues[i], disk))
			return false;
	/* A handler may be at one that its queue has let go of already. */
	synchronize_rcu();
	return true;
}

static void rblk_volume_open_work(struct work_struct *work)
{
	struct rblk_disk *disk = container_of(to_delayed_work(work), struct rblk_disk, open_work);
	struct rblk_session *session = disk->session;
	unsigned int noio = memalloc_noio_save();
	char text[RBLK_TEXT_BYTES] = "";
	unsigned int pause;

	if (READ_ONCE(disk->ready) || READ_ONCE(disk->gate) == RBLK_GATE_FAIL ||
	    core_session_over(&session->core))
		goto out;
	if (!rblk_volume_settled(disk)) {
		queue_delayed_work(rblk_opens, &disk->open_work,
				   msecs_to_jiffies(RBLK_VOLUME_SETTLE_MS) + 1);
		goto out;
	}
	spin_lock_irq(&session->core_lock);
	if (disk->gone)
		rblk_volume_number(disk);
	disk->gone = false;
	spin_unlock_irq(&session->core_lock);
	rblk_disk_notify(disk); /* it is renewing */
	if (!rblk_volume_open(disk, text)) {
		disk->open_tries = 0;
		rblk_disk_notify(disk);
		rblk_drive_kick(session);
		goto out;
	}
	disk->open_tries++;
	rblk_volume_refused(disk, text);
	pause = RBLK_ATTACH_RECONNECT_MS_MIN << min(disk->open_tries, 8u);
	pause = min(pause, session->options.reconnect_ms);
	/* A new epoch may have queued it for now: then it stays so. */
	queue_delayed_work(rblk_opens, &disk->open_work, msecs_to_jiffies(pause) + 1);
out:
	memalloc_noio_restore(noio);
}

/* The volume's size, or what the target allows, may have changed: open it again to learn it. */
static void rblk_volume_refresh_work(struct work_struct *work)
{
	struct rblk_disk *disk =
		container_of(to_delayed_work(work), struct rblk_disk, refresh_work);
	struct rblk_session *session = disk->session;
	unsigned int noio = memalloc_noio_save();
	struct rblk_wire_volume volume;
	bool ready, valid;
	struct rblk_volume_answer answer = {};
	u64 epoch;
	u32 handle;
	int error;

	WRITE_ONCE(disk->refreshed, jiffies);
	spin_lock_irq(&session->core_lock);
	epoch = disk->epoch;
	handle = disk->handle;
	ready = disk->ready && session->core.state == CORE_SESSION_LIVE;
	spin_unlock_irq(&session->core_lock);
	if (!ready)
		goto out;
	error = rblk_volume_ask(disk, epoch, &volume, &answer);
	if (error) {
		/* A loss is logged; of the other volume that has its name there is an event. */
		if (!rblk_session_live(session) || answer.status == RBLK_E_GONE)
			goto out;
		if (answer.status == RBLK_E_BUSY || error == -EBUSY || error == -ETIMEDOUT)
			rblk_volume_recheck(disk);
		else
			rblk_volume_say_unread(disk, error, &answer);
		goto out;
	}
	if (rblk_volume_differs(disk, &volume))
		goto out;
	mutex_lock(&disk->opens_lock);
	spin_lock_irq(&session->core_lock);
	/* In a later epoch, or if the volume was replaced, open_work has asked, or will. */
	valid = session->core.epoch == epoch && disk->ready && disk->handle == handle;
	/* Writes may be lost: that is learnt when what the old handle has is answered (F7). */
	if (valid && memcmp(volume.cache_epoch, disk->cache_epoch, sizeof(disk->cache_epoch))) {
		rblk_volume_gone(disk, handle);
		valid = false;
	}
	/* F10: a session learns a domain that has changed before it needs it. */
	if (valid)
		core_domain_opened(&disk->domain, session->core.instance, volume.fence_domain);
	spin_unlock_irq(&session->core_lock);
	if (valid)
		rblk_volume_take_changes(disk, &volume);
	mutex_unlock(&disk->opens_lock);
out:
	memalloc_noio_restore(noio);
}

/* -- closing -- */

/* 0: no handle is open in the slot any more. */
static int rblk_volume_send_close(struct rblk_session *session, u32 slot)
{
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_CLOSE,
		.volume = slot,
		.left = rblk_call_forget,
	};
	int error;

	lockdep_assert_held(&session->volume_lock);
	error = rblk_call_run(session->queues[0], &sc, session->options.command_ms);
	if (error)
		set_bit(slot, session->closes);
	else
		clear_bit(slot, session->closes);
	return error;
}

void rblk_volume_close(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	int error;

	mutex_lock(&session->volume_lock);
	error = rblk_volume_send_close(session, RBLK_HANDLE_SLOT(disk->handle));
	mutex_unlock(&session->volume_lock);
	if (error)
		mod_delayed_work(rblk_opens, &session->closes_work, 0);
}

/* Each is tried once; then after a pause, or when the session is live again. */
static void rblk_volume_closes_work(struct work_struct *work)
{
	struct rblk_session *session =
		container_of(to_delayed_work(work), struct rblk_session, closes_work);
	unsigned int noio = memalloc_noio_save();
	unsigned long slot;
	bool left = false;

	for_each_set_bit(slot, session->closes, RBLK_HANDLES_MAX) {
		if (!rblk_session_live(session))
			break;
		mutex_lock(&session->volume_lock);
		/* An OPEN may have had its turn, and the slot. */
		if (test_bit(slot, session->closes) && rblk_volume_send_close(session, slot))
			left = true;
		mutex_unlock(&session->volume_lock);
	}
	if (left)
		queue_delayed_work(rblk_opens, &session->closes_work,
				   msecs_to_jiffies(RBLK_VOLUME_CLOSE_MS) + 1);
	memalloc_noio_restore(noio);
}

void rblk_volume_init_session(struct rblk_session *session)
{
	INIT_DELAYED_WORK(&session->closes_work, rblk_volume_closes_work);
}

void rblk_volume_init(struct rblk_disk *disk)
{
	INIT_DELAYED_WORK(&disk->open_work, rblk_volume_open_work);
	INIT_DELAYED_WORK(&disk->refresh_work, rblk_volume_refresh_work);
	disk->refreshed = jiffies - msecs_to_jiffies(RBLK_VOLUME_REFRESH_MS);
}

void rblk_volume_stop(struct rblk_disk *disk)
{
	flush_work(&disk->session->drive_work.work); /* rblk_disk_late() */
	cancel_delayed_work_sync(&disk->open_work);
	cancel_delayed_work_sync(&disk->refresh_work);
}
