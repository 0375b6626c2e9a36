// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sessions: the registry, who shares one, events, a session's beginning and end. attach.c joins and
 * leaves them; their connections are drive.c's.
 */
#include <linux/crash_dump.h>
#include <linux/idr.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "kmod/session.h"
#include "kmod/attach_limits.h"
#include "kmod/blk_mq.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/key.h"
#include "kmod/memory.h"
#include "kmod/queue.h"
#include "kmod/volume.h"

/* A session for each disk, if none is shared. */
#define RBLK_SESSIONS_MAX 256

static DEFINE_MUTEX(rblk_sessions_lock);
static LIST_HEAD(rblk_sessions);
static DEFINE_IDA(rblk_session_numbers);

/* -- lifetime -- */

static void rblk_session_free(struct kref *refs)
{
	struct rblk_session *session = container_of(refs, struct rblk_session, refs);
	unsigned int i;

	for (i = 0; session->queues && i < session->queue_count; i++)
		if (session->queues[i])
			rblk_queue_free(session->queues[i]);
	kfree(session->queues);
	if (!IS_ERR(session->prover))
		rblk_prover_destroy(session->prover);
	put_net(session->net);
	ida_free(&rblk_session_numbers, session->number);
	kfree(session);
}

void rblk_session_put(struct rblk_session *session)
{
	kref_put(&session->refs, rblk_session_free);
}

/* -- events -- */

/*
 * The handle may be a new epoch's by the time that the work runs: it asks by the volume's name.
 * What comes before the connection is accepted, by a target that may not have proven itself yet, is
 * confirmed then; all disks are asked about their volumes then, too.
 */
void rblk_session_event(struct rblk_session *session, u16 event, u32 handle)
{
	struct rblk_disk *disk;
	unsigned long flags;

	spin_lock_irqsave(&session->core_lock, flags);
	if (session->core.queue[0].state != CORE_QUEUE_LIVE)
		goto out;
	if (event == RBLK_EVENT_DRAINING)
		core_session_leaves(&session->core, rblk_drive_now());
	list_for_each_entry(disk, &session->disks, peer) {
		if (disk->handle != handle)
			continue;
		disk->changed = true;
		if (event == RBLK_EVENT_VOLUME_CHANGED && disk->ready)
			rblk_volume_recheck(disk);
		else if (event == RBLK_EVENT_VOLUME_REMOVED)
			rblk_volume_gone(disk, handle);
	}
	/* It is acknowledged, so that the target may tell the next one. */
	rblk_drive_kick(session);
out:
	spin_unlock_irqrestore(&session->core_lock, flags);
}

/* -- beginning and end -- */

static int rblk_session_make_queues(struct rblk_session *session)
{
	unsigned int i;

	session->queues = kcalloc(session->queue_count, sizeof(*session->queues), GFP_KERNEL);
	if (!session->queues)
		return -ENOMEM;
	for (i = 0; i < session->queue_count; i++) {
		session->queues[i] = rblk_queue_alloc(session, i);
		if (!session->queues[i])
			return -ENOMEM;
	}
	return 0;
}

static void rblk_session_count_queues(struct rblk_session *session)
{
	const struct rblk_session_options *o = &session->options;

	session->queue_count = o->queues;
	if (!o->queues)
		session->queue_count = min3(num_online_cpus(), RBLK_ATTACH_QUEUES + 0u,
					    RBLK_QUEUES_MAX - o->poll_queues);
	/* blk-mq would never use more, and a kernel that only dumps has one queue of one kind. */
	session->queue_count = min(session->queue_count, nr_cpu_ids);
	session->options.poll_queues = is_kdump_kernel() ? 0 : min(o->poll_queues, nr_cpu_ids);
	session->queue_count += session->options.poll_queues;
}

static struct rblk_session *rblk_session_alloc(const struct rblk_session_options *options, bool own)
{
	struct rblk_session *session = kzalloc(sizeof(*session), GFP_KERNEL);
	int error;

	if (!session)
		return ERR_PTR(-ENOMEM);
	session->number = ida_alloc_max(&rblk_session_numbers, RBLK_SESSIONS_MAX - 1, GFP_KERNEL);
	if (session->number < 0) {
		error = session->number;
		kfree(session);
		return ERR_PTR(error);
	}
	kref_init(&session->refs);
	session->users = 1;
	session->own = own;
	session->wanted = *options;
	session->options = *options;
	session->slot_bytes = rblk_memory_slot_bytes();
	session->net = get_net(current->nsproxy->net_ns);
	mutex_init(&session->lifecycle);
	spin_lock_init(&session->core_lock);
	INIT_LIST_HEAD(&session->disks);
	init_waitqueue_head(&session->wait);
	get_random_bytes(session->session_id, sizeof(session->session_id));
	session->session_id[0] |= 1; /* never all zero */
	spin_lock_init(&session->waiting_lock);
	INIT_LIST_HEAD(&session->waiting);
	rblk_session_count_queues(session);
	if (session->options.key[0])
		session->prover = rblk_prover_create(session->options.key);
	error = PTR_ERR_OR_ZERO(session->prover) ?: rblk_session_make_queues(session);
	if (error) {
		rblk_session_put(session);
		return ERR_PTR(error);
	}
	return session;
}

/* May another disk be attached over it? A session that is over does not come back. */
static bool rblk_session_may_share(const struct rblk_session *session,
				   const struct rblk_session_options *options)
{
	return !session->own && !session->no_joins && !core_session_over(&session->core) &&
	       session->net == current->nsproxy->net_ns &&
	       session->slot_bytes == rblk_memory_slot_bytes() &&
	       !memcmp(&session->wanted, options, sizeof(*options));
}

struct rblk_session *rblk_session_join(const struct rblk_session_options *options, bool own)
{
	struct rblk_session *session;

	mutex_lock(&rblk_sessions_lock);
	list_for_each_entry(session, &rblk_sessions, entry) {
		if (own || !rblk_session_may_share(session, options))
			continue;
		session->users++;
		goto out;
	}
	session = rblk_session_alloc(options, own);
	if (!IS_ERR(session)) {
		list_add_tail(&session->entry, &rblk_sessions);
		rblk_drive_start(session);
	}
out:
	mutex_unlock(&rblk_sessions_lock);
	return session;
}

bool rblk_session_close(struct rblk_session *session)
{
	bool alone;

	mutex_lock(&rblk_sessions_lock);
	alone = session->users == 1;
	if (alone)
		session->no_joins = true;
	mutex_unlock(&rblk_sessions_lock);
	return alone;
}

void rblk_session_leave(struct rblk_session *session)
{
	bool last;

	mutex_lock(&rblk_sessions_lock);
	last = !--session->users;
	if (last)
		list_del(&session->entry);
	mutex_unlock(&rblk_sessions_lock);
	if (!last)
		return;
	rblk_drive_stop(session);
	rblk_mq_destroy(session);
	rblk_session_put(session);
}
