// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Attached disks: the registry, what state each is in. attach.c adds and removes them; whether
 * their volumes are open is volume.c's.
 */
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/xarray.h>

#include "kmod/disk.h"
#include "kmod/blk_mq.h"
#include "kmod/drive.h"
#include "kmod/queue.h"
#include "kmod/tell.h"
#include "kmod/volume.h"
#include "kmod/waiting.h"

#define RBLK_DISKS_MAX 256

static DEFINE_MUTEX(rblk_disks_lock);
/* By index, which keeps its place, empty, while a disk that is detached has references. */
static DEFINE_XARRAY_ALLOC(rblk_disks);

/* -- lifetime -- */

static void rblk_disk_free(struct kref *refs)
{
	struct rblk_disk *disk = container_of(refs, struct rblk_disk, refs);

	if (disk->session)
		rblk_session_put(disk->session);
	rblk_durable_put(disk);
	xa_erase(&rblk_disks, disk->index);
	kfree(disk);
}

void rblk_disk_put(struct rblk_disk *disk)
{
	kref_put(&disk->refs, rblk_disk_free);
}

struct rblk_disk *rblk_disk_alloc(const struct rblk_disk_options *options)
{
	struct rblk_disk *other, *disk = kzalloc(sizeof(*disk), GFP_KERNEL);
	unsigned long index;
	int error = 0;

	if (!disk)
		return ERR_PTR(-ENOMEM);
	kref_init(&disk->refs);
	disk->options = *options;
	mutex_init(&disk->opens_lock);
	mutex_init(&disk->reservation_lock);
	get_random_bytes(&disk->attachment, sizeof(disk->attachment));
	disk->refreshed = jiffies;
	mutex_lock(&rblk_disks_lock);
	xa_for_each(&rblk_disks, index, other)
		if (disk->options.name[0] && !strcmp(other->options.name, disk->options.name))
			error = -EEXIST;
	if (!error)
		error = xa_alloc(&rblk_disks, &disk->index, disk, XA_LIMIT(0, RBLK_DISKS_MAX - 1),
				 GFP_KERNEL);
	mutex_unlock(&rblk_disks_lock);
	if (!error)
		return disk;
	kfree(disk);
	return ERR_PTR(error == -EBUSY ? -ENOSPC : error);
}

void rblk_disk_join(struct rblk_disk *disk, struct rblk_session *session)
{
	kref_get(&session->refs);
	disk->session = session;
	mutex_lock(&session->lifecycle);
	spin_lock_irq(&session->core_lock);
	list_add_tail(&disk->peer, &session->disks);
	rblk_volume_number(disk);
	spin_unlock_irq(&session->core_lock);
	mutex_unlock(&session->lifecycle);
}

void rblk_disk_leave(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;

	mutex_lock(&session->lifecycle);
	spin_lock_irq(&session->core_lock);
	list_del(&disk->peer);
	spin_unlock_irq(&session->core_lock);
	if (list_is_singular(&session->disks))
		rblk_mq_unshare(session);
	mutex_unlock(&session->lifecycle);
	/* The session no longer lists the disk, so drive_work does not find it again. */
	flush_work(&session->drive_work.work);
}

void rblk_disk_unregister(struct rblk_disk *disk)
{
	mutex_lock(&rblk_disks_lock);
	xa_store(&rblk_disks, disk->index, NULL, GFP_KERNEL);
	mutex_unlock(&rblk_disks_lock);
	rblk_disk_put(disk);
}

struct rblk_disk *rblk_disk_find(unsigned long first, unsigned long last)
{
	struct rblk_disk *disk;

	mutex_lock(&rblk_disks_lock);
	disk = xa_find(&rblk_disks, &first, last, XA_PRESENT);
	if (disk)
		kref_get(&disk->refs);
	mutex_unlock(&rblk_disks_lock);
	return disk;
}

unsigned long rblk_disk_queues(const struct rblk_disk *disk)
{
	const struct rblk_session *session = disk->session;
	unsigned long queues = 0;
	unsigned int i;

	for (i = 0; i < session->queue_count; i++)
		if (rblk_queue_serves(session->queues[i], disk))
			__set_bit(i, &queues);
	return queues;
}

/* -- state -- */

static void rblk_disk_close_gate(struct rblk_disk *disk)
{
	lockdep_assert_held(&disk->session->core_lock);
	WRITE_ONCE(disk->ready, false);
	/*
	 * Before the sweep: a request that begins to wait after the sweep reads the gate under
	 * waiting_lock.
	 */
	WRITE_ONCE(disk->gate, RBLK_GATE_FAIL);
}

static void rblk_disk_failed(struct rblk_disk *disk)
{
	rblk_waiting_sweep(disk->session);
	rblk_disk_notify(disk);
	wake_up_all(&disk->session->wait); /* reservation.c */
}

void rblk_disk_fail(struct rblk_disk *disk, const char *why)
{
	struct rblk_session *session = disk->session;
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (disk->gate != RBLK_GATE_FAIL)
		strscpy(disk->reason, why, sizeof(disk->reason));
	rblk_disk_close_gate(disk);
	spin_unlock_irqrestore(&session->core_lock, flags);
	rblk_disk_failed(disk);
}

/* Unless its volume is open by now, or it has failed before. */
static void rblk_disk_give_up(struct rblk_disk *disk)
{
	struct rblk_session *session = disk->session;
	char text[RBLK_TEXT_BYTES];
	bool late;

	spin_lock_irq(&session->core_lock);
	late = !disk->ready && disk->gate != RBLK_GATE_FAIL;
	if (late && !disk->reason[0])
		strscpy(disk->reason, "its volume was not opened again in time",
			sizeof(disk->reason));
	if (late)
		rblk_disk_close_gate(disk);
	spin_unlock_irq(&session->core_lock);
	if (!late)
		return;
	rblk_disk_failed(disk);
	rblk_disk_say_reason(disk, text);
	pr_err_ratelimited("rblk%d [%s]: gave up, I/O fails until it is detached: %s\n",
			   disk->index, rblk_session_peer(session), text);
}

/*
 * A disk whose volume is not open for fail_fast_ms fails what is to fail fast: *sweep. True: it is
 * to give up.
 */
static bool rblk_disk_is_late(struct rblk_disk *disk, bool *sweep)
{
	struct rblk_session *session = disk->session;
	const struct rblk_session_options *o = &session->options;
	unsigned int waited = jiffies_to_msecs(jiffies - disk->volume_lost_since);
	unsigned int limit = o->give_up_ms;

	lockdep_assert_held(&session->core_lock);
	if (!disk->volume_lost || disk->gate == RBLK_GATE_FAIL || core_session_over(&session->core))
		return false;
	if (waited >= limit)
		return true;
	if (o->fail_fast_ms > waited) {
		limit = min(limit, o->fail_fast_ms);
	} else if (o->fail_fast_ms && disk->gate == RBLK_GATE_HOLD) {
		WRITE_ONCE(disk->gate, RBLK_GATE_FAIL_FAST);
		*sweep = true;
	}
	rblk_drive_in(session, msecs_to_jiffies(limit - waited) + 1);
	return false;
}

void rblk_disk_late(struct rblk_session *session)
{
	struct rblk_disk *disk, *late;
	bool sweep = false;

	do {
		late = NULL;
		spin_lock_irq(&session->core_lock);
		list_for_each_entry(disk, &session->disks, peer)
			if (!late && rblk_disk_is_late(disk, &sweep))
				late = disk;
		spin_unlock_irq(&session->core_lock);
		if (late) /* one that leaves the session waits for us (rblk_disk_leave()) */
			rblk_disk_give_up(late);
	} while (late);
	if (sweep)
		rblk_waiting_sweep(session);
}

const char *rblk_disk_state(const struct rblk_disk *disk)
{
	u8 state = READ_ONCE(disk->session->core.state);

	if (state != CORE_SESSION_ENDED && READ_ONCE(disk->gate) == RBLK_GATE_FAIL)
		state = CORE_SESSION_FAILED;
	else if (state == CORE_SESSION_LIVE && !READ_ONCE(disk->ready))
		state = CORE_SESSION_RENEWING;
	return core_session_state_name(state);
}

bool rblk_disk_say_reason(struct rblk_disk *disk, char *text)
{
	struct rblk_session *session = disk->session;
	unsigned long flags;

	text[0] = '\0';
	if (rblk_tell_reason(session, text) && READ_ONCE(disk->gate) != RBLK_GATE_FAIL)
		return true;
	spin_lock_irqsave(&session->core_lock, flags);
	if (disk->reason[0])
		strscpy(text, disk->reason, RBLK_TEXT_BYTES);
	spin_unlock_irqrestore(&session->core_lock, flags);
	return text[0];
}

void rblk_disk_notify(struct rblk_disk *disk)
{
	if (smp_load_acquire(&disk->added) && disk->state_node)
		sysfs_notify_dirent(disk->state_node);
}
