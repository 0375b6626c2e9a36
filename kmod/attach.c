// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Attach and detach: a volume becomes a disk over a session, step by step, and goes again. Called
 * by control.c, and when the module is unloaded. Between them the session is drive.c's.
 */
#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/queue.h"
#include "kmod/tell.h"
#include "kmod/volume.h"
#include "kmod/waiting.h"

/* -- detach -- */

/* Take the right to detach: only one caller gets it. */
static int rblk_detach_claim(struct rblk_disk *disk, bool force, char *text)
{
	int error = 0;

	mutex_lock(&disk->opens_lock);
	if (disk->detaching || !disk->added)
		error = rblk_refuse(text, -EBUSY, "rblk%d: being attached or detached already",
				    disk->index);
	else if (disk->openers && !force)
		error = rblk_refuse(text, -EBUSY, "rblk%d: in use: open %u times (mounted?)",
				    disk->index, disk->openers);
	else
		disk->detaching = true;
	mutex_unlock(&disk->opens_lock);
	return error;
}

/* How long the target has to answer or drop what it has of a disk that is detached by force. */
#define RBLK_DETACH_WAIT_MS 5000u
#define RBLK_DETACH_LOOK_MS 10u

/*
 * The disk's I/O ends, with an error. The target is asked to drop what it has of it; where that
 * does not help the connection is cut, because the memory is the target's until then (F4), and
 * other disks' I/O on it is sent again.
 */
static void rblk_detach_cut(struct rblk_disk *disk, const char *why)
{
	struct rblk_session *session = disk->session;
	unsigned long end = jiffies + msecs_to_jiffies(RBLK_DETACH_WAIT_MS), busy;
	unsigned int i;

	if (rblk_session_close(session)) {
		rblk_drive_abandon(session, why);
		return;
	}
	rblk_disk_fail(disk, why);
	while ((busy = rblk_disk_queues(disk)) && time_before(jiffies, end)) {
		for_each_set_bit(i, &busy, session->queue_count)
			rblk_overdue_drop(session->queues[i], disk);
		msleep(RBLK_DETACH_LOOK_MS);
	}
	for_each_set_bit(i, &busy, session->queue_count)
		rblk_queue_lost(session->queues[i], "no answer to a command of rblk%d: %s",
				disk->index, why);
}

/*
 * The end of everything but the struct, and of the registry's reference. No I/O is left or comes.
 */
static void rblk_detach_dismantle(struct rblk_disk *disk)
{
	rblk_disk_leave(disk);
	rblk_close(disk);
	rblk_disk_destroy(disk);
	rblk_session_leave(disk->session);
	rblk_disk_unregister(disk);
}

/* Holds no lock while the disk's I/O ends: a connection lost meanwhile must be able to fail it. */
static void rblk_detach_run(struct rblk_disk *disk, bool force, const char *why)
{
	if (force)
		rblk_detach_cut(disk, why);
	rblk_disk_remove(disk);
	pr_info("rblk%d: detached\n", disk->index);
	rblk_detach_dismantle(disk);
}

/* -- attach -- */

/*
 * Until there is a session, and every queue was tried. One that others use already may be lost just
 * now: then it has as long to come back as a new one has to be made.
 */
static int rblk_attach_connect(struct rblk_disk *disk, char *text)
{
	struct rblk_session *session = disk->session;
	unsigned long timeout = READ_ONCE(session->endures) ?
					msecs_to_jiffies(session->options.connect_ms) :
					MAX_SCHEDULE_TIMEOUT;

	if (wait_event_killable_timeout(session->wait, rblk_drive_settled(session), timeout) < 0)
		return rblk_refuse(text, -EINTR, "%s: killed", rblk_session_peer(session));
	if (READ_ONCE(session->core.state) == CORE_SESSION_LIVE) /* it may be lost right after */
		return 0;
	text[0] = '\0';
	if (!rblk_tell_reason(session, text))
		scnprintf(text, RBLK_TEXT_BYTES, "%s: no session in " RBLK_TIME,
			  rblk_session_peer(session), RBLK_TIME_OF(session->options.connect_ms));
	return -ECONNREFUSED;
}

/*
 * F5: commands of a disk that was detached by force, or whose attach failed, have ended with errors
 * although they were lost with a connection. The target may carry them out until it acknowledges
 * the fence of that for this volume: the new disk's commands, which may be for the same blocks,
 * come after it.
 */
static int rblk_attach_await_fence(struct rblk_disk *disk, char *text)
{
	struct rblk_session *session = disk->session;
	unsigned int limit_ms = session->options.connect_ms;

	rblk_waiting_owe(disk);
	if (wait_event_killable_timeout(session->wait,
					!READ_ONCE(disk->unfenced) || READ_ONCE(session->ended),
					msecs_to_jiffies(limit_ms)) < 0)
		return rblk_refuse(text, -EINTR, "%s: killed", rblk_session_peer(session));
	if (!READ_ONCE(disk->unfenced) || READ_ONCE(session->ended))
		return 0;
	return rblk_refuse(text, -EBUSY,
			   "%s/%s: the target has not ended in " RBLK_TIME " what was lost of a disk that is detached",
			   rblk_session_peer(session), disk->options.volume,
			   RBLK_TIME_OF(limit_ms));
}

static int rblk_attach_open(struct rblk_disk *disk, char *text)
{
	int error = rblk_volume_open(disk, text);

	/* It may have been refused by one target, and no other one was reached. */
	if (error && (!text[0] || error == -ENOTCONN) && !rblk_tell_reason(disk->session, text))
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: the connection was lost",
			  rblk_session_peer(disk->session), disk->options.volume);
	return error;
}

/*
 * A volume that cannot be flushed is attached only on request: the block layer would let fsync()
 * succeed.
 */
static int rblk_attach_check_volatile(const struct rblk_disk *disk, char *text)
{
	if (disk->options.accept_volatile || disk->options.read_only ||
	    disk->volume_flags & (RBLK_VOLUME_FLUSH | RBLK_VOLUME_READ_ONLY) ||
	    !(disk->volume_flags & RBLK_VOLUME_VOLATILE_CACHE))
		return 0;
	return rblk_refuse(text, -EOPNOTSUPP,
			   "%s/%s: cannot be flushed, and is lost with the target: attach it as volatile, or not at all",
			   rblk_session_peer(disk->session), disk->options.volume);
}

static int rblk_attach_make_disk(struct rblk_disk *disk, char *text)
{
	int error = rblk_disk_create(disk);

	if (error)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: creating the disk: %s (error %d)",
			  rblk_session_peer(disk->session), disk->options.volume,
			  error == -EOPNOTSUPP ? "the target's longest command is less than a page"
			  : error == -ENOTCONN ? "the connection was lost"
					       : "the kernel refuses", error);
	return error;
}

/* The disk becomes visible. */
static int rblk_attach_add_disk(struct rblk_disk *disk, char *text)
{
	int error = rblk_disk_add(disk);

	if (error)
		return rblk_refuse(text, error, "rblk%d: adding the disk: error %d", disk->index,
				   error);
	/* An event that came before it was added was only confirmed. */
	spin_lock_irq(&disk->session->core_lock);
	if (disk->changed)
		rblk_volume_recheck(disk);
	spin_unlock_irq(&disk->session->core_lock);
	return 0;
}

/*
 * While the kernel read its partitions the attach may have been killed, or the connection lost; and
 * a disk that exists can be detached.
 */
static int rblk_attach_check_end(struct rblk_disk *disk, char *text)
{
	bool killed = fatal_signal_pending(current);

	rblk_drive_endure(disk);
	if (!killed && !core_session_over(&disk->session->core) &&
	    READ_ONCE(disk->gate) != RBLK_GATE_FAIL)
		return 0;
	if (!rblk_detach_claim(disk, true, text)) {
		text[0] = '\0';
		if (!rblk_tell_reason(disk->session, text))
			scnprintf(text, RBLK_TEXT_BYTES, "rblk%d: %s", disk->index,
				  killed ? "the attach was killed" : "the connection was lost");
		rblk_detach_run(disk, true, "the attach has failed");
	}
	return killed ? -EINTR : -ECONNRESET;
}

/* From nothing to a disk that nobody sees yet. */
static int rblk_attach_build(struct rblk_disk *disk, char *text)
{
	return rblk_attach_connect(disk, text) ?:
	       rblk_attach_open(disk, text) ?:
	       rblk_attach_await_fence(disk, text) ?:
	       rblk_attach_check_volatile(disk, text) ?:
	       rblk_attach_make_disk(disk, text);
}

/* A disk over a session that may be new. */
static struct rblk_disk *rblk_attach_begin(const struct rblk_options *options)
{
	struct rblk_disk *disk = rblk_disk_alloc(&options->disk);
	struct rblk_session *session;

	if (IS_ERR(disk))
		return disk;
	session = rblk_session_join(&options->session, options->disk.own_session);
	if (IS_ERR(session)) {
		rblk_disk_unregister(disk);
		return ERR_CAST(session);
	}
	kref_get(&disk->refs); /* the attach's, besides the registry's */
	rblk_disk_join(disk, session);
	return disk;
}

int rblk_disk_attach(const struct rblk_options *options, char *text)
{
	struct rblk_disk *disk = rblk_attach_begin(options);
	int error;

	if (IS_ERR(disk))
		return rblk_refuse(text, PTR_ERR(disk), "attach: %s",
				   PTR_ERR(disk) == -ENOSPC   ? "too many disks"
				   : PTR_ERR(disk) == -EEXIST ? "another disk has this name"
				   : PTR_ERR(disk) == -ENOMEM ? "out of memory"
							      : "this kernel has no HMAC-SHA256");
	error = rblk_attach_build(disk, text);
	if (!error)
		error = rblk_attach_add_disk(disk, text);
	if (error) {
		rblk_detach_dismantle(disk);
		goto out;
	}
	error = rblk_attach_check_end(disk, text);
	if (error)
		goto out;
	scnprintf(text, RBLK_TEXT_BYTES, "rblk%d", disk->index);
	pr_info("rblk%d: attached %s/%s over session %d, %u queues of %u\n", disk->index,
		rblk_session_peer(disk->session), disk->options.volume, disk->session->number,
		disk->session->hw_queues, disk->session->credits);
out:
	rblk_disk_put(disk);
	return error;
}

/* -- by name, and all -- */

/* A referenced disk by "rblk0" or "/dev/rblk0". */
static struct rblk_disk *rblk_detach_find(const char *name)
{
	char own[16];
	unsigned int index;

	if (!strncmp(name, "/dev/", 5))
		name += 5;
	if (sscanf(name, "rblk%u", &index) != 1)
		return NULL;
	snprintf(own, sizeof(own), "rblk%u", index);
	return strcmp(own, name) ? NULL : rblk_disk_find(index, index);
}

int rblk_disk_detach(const char *name, bool force, char *text)
{
	struct rblk_disk *disk = rblk_detach_find(name);
	int error;

	if (!disk)
		return rblk_refuse(text, -ENODEV, "%.64s: no such device", name);
	error = rblk_detach_claim(disk, force, text);
	if (!error) {
		scnprintf(text, RBLK_TEXT_BYTES, "rblk%d", disk->index);
		rblk_detach_run(disk, force, "detached by force");
	}
	rblk_disk_put(disk);
	return error;
}

void rblk_disk_detach_all(void)
{
	struct rblk_disk *disk;
	char text[RBLK_TEXT_BYTES];

	while ((disk = rblk_disk_find(0, ULONG_MAX))) {
		if (!rblk_detach_claim(disk, true, text))
			rblk_detach_run(disk, false, "");
		else
			msleep(20); /* another caller detaches it */
		rblk_disk_put(disk);
	}
}
