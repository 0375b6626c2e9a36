// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Attached volumes: the registry, and the one state machine that a lost connection runs through.
 * attach.c adds and removes devices; queue.c, connect.c and disk.c report losses.
 */
#include <linux/crash_dump.h>
#include <linux/idr.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "kmod/device.h"
#include "kmod/attach_limits.h"
#include "kmod/disk.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/refused.h"
#include "kmod/session.h"
#include "kmod/trace.h"

#define RBLK_DEVICES_MAX 256

static DEFINE_MUTEX(rblk_registry_lock);
static LIST_HEAD(rblk_registry);
static DEFINE_IDA(rblk_indexes);

/* -- state -------------------------------------------------------------------------------------- */

static const char *const rblk_device_states[RBLK_DEVICE_STATES] = {
	[RBLK_DEVICE_CONNECTING] = "connecting", [RBLK_DEVICE_LIVE] = "live",
	[RBLK_DEVICE_LOST] = "lost",		 [RBLK_DEVICE_FAILED] = "failed",
	[RBLK_DEVICE_REMOVING] = "removing",
};

/* [from] has a bit for each state that may follow. */
static const u8 rblk_device_next[RBLK_DEVICE_STATES] = {
	[RBLK_DEVICE_CONNECTING] = BIT(RBLK_DEVICE_LIVE) | BIT(RBLK_DEVICE_REMOVING),
	[RBLK_DEVICE_LIVE] = BIT(RBLK_DEVICE_LOST) | BIT(RBLK_DEVICE_REMOVING),
	[RBLK_DEVICE_LOST] = BIT(RBLK_DEVICE_FAILED) | BIT(RBLK_DEVICE_REMOVING),
	[RBLK_DEVICE_FAILED] = BIT(RBLK_DEVICE_REMOVING),
	[RBLK_DEVICE_REMOVING] = 0,
};

const char *rblk_device_state_name(enum rblk_device_state state)
{
	return state < RBLK_DEVICE_STATES ? rblk_device_states[state] : "unknown";
}

/* True if the change was made; a loss that comes second is no change. state_lock is held. */
static bool rblk_device_set_state(struct rblk_device *device, enum rblk_device_state state)
{
	lockdep_assert_held(&device->state_lock);
	if (!(rblk_device_next[device->state] & BIT(state)))
		return false;
	trace_rblk_state(device, device->state, state);
	smp_store_release(&device->state, state);
	return true;
}

static bool rblk_device_change(struct rblk_device *device, enum rblk_device_state state)
{
	unsigned long flags;
	bool changed;

	spin_lock_irqsave(&device->state_lock, flags);
	changed = rblk_device_set_state(device, state);
	spin_unlock_irqrestore(&device->state_lock, flags);
	wake_up_all(&device->session_wait);
	return changed;
}

/* -- lifetime ------------------------------------------------------------------------------------ */

static void rblk_device_free(struct kref *refs)
{
	struct rblk_device *device = container_of(refs, struct rblk_device, refs);

	put_net(device->net);
	ida_free(&rblk_indexes, device->index);
	kfree(device->queues);
	kfree(device);
}

void rblk_device_get(struct rblk_device *device)
{
	kref_get(&device->refs);
}

void rblk_device_put(struct rblk_device *device)
{
	kref_put(&device->refs, rblk_device_free);
}

int rblk_device_open(struct rblk_device *device)
{
	int error = 0;

	mutex_lock(&device->opens_lock);
	if (device->closing) {
		error = -ENXIO;
	} else {
		device->openers++;
		kref_get(&device->refs);
	}
	mutex_unlock(&device->opens_lock);
	return error;
}

void rblk_device_release(struct rblk_device *device)
{
	mutex_lock(&device->opens_lock);
	device->openers--;
	mutex_unlock(&device->opens_lock);
	rblk_device_put(device);
}

/* -- losing and giving up ------------------------------------------------------------------------- */

/* While the disk is being added, the kernel reads its partitions: the attach fails, and at once. */
static unsigned int rblk_device_give_up_ms(const struct rblk_device *device)
{
	return READ_ONCE(device->disk_added) ? device->options.give_up_ms : 0;
}

void rblk_device_lost(struct rblk_device *device, const char *format, ...)
{
	unsigned long flags;
	va_list args;

	spin_lock_irqsave(&device->state_lock, flags);
	if (!device->reason[0]) {
		va_start(args, format);
		vscnprintf(device->reason, sizeof(device->reason), format, args);
		va_end(args);
	}
	if (rblk_device_set_state(device, RBLK_DEVICE_LOST)) {
		atomic64_inc(&device->losses);
		queue_work(rblk_workqueue, &device->loss_work);
	}
	wake_up_all(&device->session_wait);
	spin_unlock_irqrestore(&device->state_lock, flags);
}

bool rblk_device_say_reason(struct rblk_device *device, char *text)
{
	unsigned long flags;
	bool is;

	spin_lock_irqsave(&device->state_lock, flags);
	is = device->reason[0];
	if (is)
		scnprintf(text, RBLK_TEXT_BYTES, "%s: %s", device->options.address_text,
			  device->reason);
	spin_unlock_irqrestore(&device->state_lock, flags);
	return is;
}

/*
 * F4, in this order: no request is being dispatched or sent again, every queue pair is in ERR and drained, every
 * key is invalid; only then is anything unmapped. The requests stay started: held.
 */
static void rblk_device_take_down(struct rblk_device *device)
{
	unsigned int i;

	lockdep_assert_held(&device->lifecycle);
	for (i = 0; i < device->queue_count; i++)
		if (device->queues[i])
			rblk_queue_stop(device->queues[i]);
	rblk_refused_stop(device);
	rblk_disk_settle(device);
	for (i = 0; i < device->queue_count; i++)
		if (device->queues[i])
			rblk_queue_release_keys(device->queues[i]);
	rblk_disk_unmap_held(device);
	for (i = 0; i < device->queue_count; i++)
		if (device->queues[i])
			rblk_queue_release_hardware(device->queues[i]);
}

static void rblk_device_loss_work(struct work_struct *work)
{
	struct rblk_device *device = container_of(work, struct rblk_device, loss_work);
	/* Memory writeback may wait for this. */
	unsigned int noio = memalloc_noio_save();

	/* Here and not where it was noticed: a console is slow, and interrupts were off. The reason stays. */
	pr_err("rblk%d [%s]: %s; I/O waits for %u ms, then fails\n", device->index,
	       device->options.address_text, device->reason, rblk_device_give_up_ms(device));
	mutex_lock(&device->lifecycle);
	if (device->state == RBLK_DEVICE_LOST) {
		rblk_disk_quiesce(device);
		rblk_device_take_down(device);
		rblk_disk_fail_held(device, true);
		rblk_disk_unquiesce(device); /* what comes now is held, or fails fast */
		queue_delayed_work(rblk_workqueue, &device->give_up_work,
				   msecs_to_jiffies(rblk_device_give_up_ms(device)));
	}
	mutex_unlock(&device->lifecycle);
	memalloc_noio_restore(noio);
}

/* LOST and taken down: everything that waits fails, and so does whatever comes. */
static void rblk_device_give_up(struct rblk_device *device)
{
	lockdep_assert_held(&device->lifecycle);
	if (!rblk_device_change(device, RBLK_DEVICE_FAILED))
		return;
	pr_err("rblk%d [%s]: gave up; I/O fails until it is detached\n", device->index,
	       device->options.address_text);
	/* After this no thread that has seen LOST is about to hold another request. */
	rblk_disk_quiesce(device);
	rblk_disk_fail_held(device, false);
	rblk_disk_unquiesce(device);
}

static void rblk_device_give_up_work(struct work_struct *work)
{
	struct rblk_device *device =
		container_of(to_delayed_work(work), struct rblk_device, give_up_work);

	mutex_lock(&device->lifecycle);
	rblk_device_give_up(device);
	mutex_unlock(&device->lifecycle);
}

void rblk_device_fail_now(struct rblk_device *device, const char *why)
{
	rblk_device_lost(device, "%s", why);
	flush_work(&device->loss_work);
	mutex_lock(&device->lifecycle);
	rblk_device_give_up(device);
	mutex_unlock(&device->lifecycle);
}

struct rblk_device *rblk_device_find(int index)
{
	struct rblk_device *device, *found = NULL;

	mutex_lock(&rblk_registry_lock);
	list_for_each_entry(device, &rblk_registry, entry) {
		if (device->index != index)
			continue;
		kref_get(&device->refs);
		found = device;
		break;
	}
	mutex_unlock(&rblk_registry_lock);
	return found;
}

struct rblk_device *rblk_device_find_any(void)
{
	struct rblk_device *device;

	mutex_lock(&rblk_registry_lock);
	device = list_first_entry_or_null(&rblk_registry, struct rblk_device, entry);
	if (device)
		kref_get(&device->refs);
	mutex_unlock(&rblk_registry_lock);
	return device;
}

/* -- an RDMA device goes away ---------------------------------------------------------------------- */

void rblk_device_note_ibdev(struct rblk_device *device, unsigned int queue,
			    const struct ib_device *ibdev)
{
	unsigned long flags;

	spin_lock_irqsave(&device->state_lock, flags);
	device->ibdevs[queue] = ibdev;
	spin_unlock_irqrestore(&device->state_lock, flags);
}

static bool rblk_device_uses(struct rblk_device *device, const struct ib_device *ibdev)
{
	unsigned long flags;
	bool uses = false;
	unsigned int i;

	spin_lock_irqsave(&device->state_lock, flags);
	for (i = 0; i < RBLK_QUEUES_MAX; i++)
		uses |= device->ibdevs[i] == ibdev;
	spin_unlock_irqrestore(&device->state_lock, flags);
	return uses;
}

/*
 * One number after the other, so that other devices can be attached and detached meanwhile; and no
 * lock of theirs is waited for, since their attach may take long. A device that is being attached on
 * this one, or behind this walk, is told by the connection manager, whose turn is after ours and
 * which waits until every id is destroyed; so is one that is being dismantled.
 */
void rblk_device_ib_removed(struct ib_device *ibdev)
{
	int index;

	for (index = 0; index < RBLK_DEVICES_MAX; index++) {
		struct rblk_device *device = rblk_device_find(index);

		if (!device)
			continue;
		if (rblk_device_uses(device, ibdev)) {
			rblk_device_lost(device, "RDMA device %s was removed", ibdev->name);
			flush_work(&device->loss_work);
		}
		rblk_device_put(device);
	}
}

/* -- events -------------------------------------------------------------------------------------- */

void rblk_device_event(struct rblk_device *device, u16 event, u32 handle)
{
	unsigned long flags;

	/*
	 * A target can send events until its queue is drained, which is after the works have been
	 * cancelled. With state_lock, none is queued once the state has left LIVE.
	 */
	spin_lock_irqsave(&device->state_lock, flags);
	if (device->state == RBLK_DEVICE_LIVE) {
		if (event == RBLK_EVENT_VOLUME_CHANGED && handle == device->handle)
			queue_work(rblk_workqueue, &device->refresh_work);
		/* Acknowledge, so that the target may tell the next one. */
		mod_delayed_work(rblk_workqueue, &device->keepalive_work, 0);
	}
	spin_unlock_irqrestore(&device->state_lock, flags);
}

/* -- beginning and end ------------------------------------------------------------------------------ */

struct rblk_device *rblk_device_alloc(const struct rblk_options *options)
{
	struct rblk_device *device = kzalloc(sizeof(*device), GFP_KERNEL);

	if (!device)
		return ERR_PTR(-ENOMEM);
	device->index = ida_alloc_max(&rblk_indexes, RBLK_DEVICES_MAX - 1, GFP_KERNEL);
	if (device->index < 0) {
		int error = device->index;

		kfree(device);
		return ERR_PTR(error);
	}
	kref_init(&device->refs);
	device->options = *options;
	device->slot_bytes = rblk_memory_slot_bytes();
	device->net = get_net(current->nsproxy->net_ns);
	mutex_init(&device->lifecycle);
	mutex_init(&device->opens_lock);
	spin_lock_init(&device->state_lock);
	spin_lock_init(&device->refused_lock);
	INIT_LIST_HEAD(&device->refused);
	init_waitqueue_head(&device->session_wait);
	device->state = RBLK_DEVICE_CONNECTING;
	get_random_bytes(&device->attachment, sizeof(device->attachment));
	get_random_bytes(device->session_id, sizeof(device->session_id));
	device->session_id[0] |= 1; /* never all zero */
	device->session_epoch = 1;
	INIT_WORK(&device->loss_work, rblk_device_loss_work);
	INIT_WORK(&device->refresh_work, rblk_session_refresh_work);
	INIT_DELAYED_WORK(&device->give_up_work, rblk_device_give_up_work);
	INIT_DELAYED_WORK(&device->keepalive_work, rblk_session_keepalive_work);
	INIT_DELAYED_WORK(&device->refused_work, rblk_refused_work);
	device->queue_count = options->queues;
	if (!options->queues) {
		device->queue_count = min_t(unsigned int, num_online_cpus(), RBLK_ATTACH_QUEUES);
		device->queue_count = min(device->queue_count,
					  RBLK_QUEUES_MAX - options->poll_queues);
	}
	/* blk-mq would never use more, and a kernel that only dumps has one queue of one kind. */
	device->queue_count = min(device->queue_count, nr_cpu_ids);
	device->options.poll_queues = is_kdump_kernel() ? 0 : min(options->poll_queues, nr_cpu_ids);
	device->queue_count += device->options.poll_queues;
	device->queues = kcalloc(device->queue_count, sizeof(*device->queues), GFP_KERNEL);
	if (!device->queues) {
		rblk_device_put(device);
		return ERR_PTR(-ENOMEM);
	}
	return device;
}

void rblk_device_register_locked(struct rblk_device *device)
{
	mutex_lock(&rblk_registry_lock);
	mutex_lock(&device->lifecycle);
	list_add_tail(&device->entry, &rblk_registry);
	mutex_unlock(&rblk_registry_lock);
}

int rblk_device_go_live(struct rblk_device *device, char *text)
{
	unsigned long flags;
	bool broken;

	spin_lock_irqsave(&device->state_lock, flags);
	broken = device->reason[0] || !rblk_device_set_state(device, RBLK_DEVICE_LIVE);
	spin_unlock_irqrestore(&device->state_lock, flags);
	if (!broken)
		return 0;
	rblk_device_say_reason(device, text);
	return -ECONNRESET;
}

static void rblk_device_end_works(struct rblk_device *device)
{
	/*
	 * In LIVE the works requeue each other; in REMOVING each ends without doing anything, but a loss
	 * still says its reason.
	 */
	flush_work(&device->loss_work);
	cancel_delayed_work_sync(&device->keepalive_work);
	cancel_work_sync(&device->refresh_work);
	cancel_delayed_work_sync(&device->give_up_work);
}

void rblk_device_dismantle(struct rblk_device *device)
{
	unsigned int i;

	rblk_device_change(device, RBLK_DEVICE_REMOVING);
	rblk_device_end_works(device);
	mutex_lock(&device->lifecycle);
	rblk_device_take_down(device);
	rblk_disk_destroy(device);
	for (i = 0; i < device->queue_count; i++)
		if (device->queues[i])
			rblk_queue_destroy(device->queues[i]);
	mutex_unlock(&device->lifecycle);
	mutex_lock(&rblk_registry_lock);
	list_del(&device->entry);
	mutex_unlock(&rblk_registry_lock);
	rblk_device_put(device);
}
