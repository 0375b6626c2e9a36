// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Attached volumes: the registry, who has a disk open, RDMA devices that go away, a device's beginning
 * and end. attach.c adds and removes devices; their sessions are drive.c's.
 */
#include <linux/crash_dump.h>
#include <linux/idr.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "kmod/device.h"
#include "kmod/attach_limits.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/memory.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/session.h"
#include "kmod/waiting.h"

#define RBLK_DEVICES_MAX 256

static DEFINE_MUTEX(rblk_registry_lock);
static LIST_HEAD(rblk_registry);
static DEFINE_IDA(rblk_indexes);

/* -- lifetime ------------------------------------------------------------------------------------ */

static void rblk_device_free(struct kref *refs)
{
	struct rblk_device *device = container_of(refs, struct rblk_device, refs);

	unsigned int i;

	for (i = 0; device->queues && i < device->queue_count; i++)
		if (device->queues[i])
			rblk_queue_free(device->queues[i]);
	kfree(device->queues);
	put_net(device->net);
	ida_free(&rblk_indexes, device->index);
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

bool rblk_device_acknowledge(struct rblk_device *device)
{
	unsigned long flags;
	bool lost;

	spin_lock_irqsave(&device->core_lock, flags);
	lost = device->durable.lost;
	core_durable_acknowledge(&device->durable);
	spin_unlock_irqrestore(&device->core_lock, flags);
	return lost;
}

void rblk_device_release(struct rblk_device *device)
{
	mutex_lock(&device->opens_lock);
	/* F7: everyone who had it open has closed it. */
	if (!--device->openers)
		rblk_device_acknowledge(device);
	mutex_unlock(&device->opens_lock);
	rblk_device_put(device);
}

bool rblk_device_say_reason(struct rblk_device *device, char *text)
{
	unsigned long flags;

	spin_lock_irqsave(&device->core_lock, flags);
	scnprintf(text, RBLK_TEXT_BYTES, "%s%s%s", device->reason,
		  device->reason[0] && device->attempt[0] ? "; then " : "", device->attempt);
	spin_unlock_irqrestore(&device->core_lock, flags);
	return text[0];
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

	spin_lock_irqsave(&device->core_lock, flags);
	device->ibdevs[queue] = ibdev;
	spin_unlock_irqrestore(&device->core_lock, flags);
}

static bool rblk_device_uses(struct rblk_device *device, unsigned int queue,
			     const struct ib_device *ibdev)
{
	unsigned long flags;
	bool uses;

	spin_lock_irqsave(&device->core_lock, flags);
	uses = device->ibdevs[queue] == ibdev;
	spin_unlock_irqrestore(&device->core_lock, flags);
	return uses;
}

/*
 * One number after the other, so that other devices can be attached and detached meanwhile. A queue that
 * begins to connect behind this walk is told by the connection manager, whose turn is after ours and
 * which waits until every id is destroyed.
 */
void rblk_device_ib_removed(struct ib_device *ibdev)
{
	unsigned int i;
	int index;

	for (index = 0; index < RBLK_DEVICES_MAX; index++) {
		struct rblk_device *device = rblk_device_find(index);

		if (!device)
			continue;
		for (i = 0; i < device->queue_count; i++)
			if (rblk_device_uses(device, i, ibdev))
				rblk_drive_leave_ibdev(device->queues[i]);
		rblk_device_put(device);
	}
}

/* -- events -------------------------------------------------------------------------------------- */

/* None comes once queue 0 is drained, and only then are these works cancelled (drive.c). */
void rblk_device_event(struct rblk_device *device, u16 event, u32 handle)
{
	if (event == RBLK_EVENT_VOLUME_CHANGED && handle == READ_ONCE(device->handle))
		queue_work(rblk_calls, &device->refresh_work);
	/* Acknowledge, so that the target may tell the next one. */
	queue_work(rblk_calls, &device->queues[0]->probe_work);
}

/* -- beginning and end ------------------------------------------------------------------------------ */

static int rblk_device_make_queues(struct rblk_device *device)
{
	unsigned int i;

	device->queues = kcalloc(device->queue_count, sizeof(*device->queues), GFP_KERNEL);
	if (!device->queues)
		return -ENOMEM;
	for (i = 0; i < device->queue_count; i++) {
		device->queues[i] = rblk_queue_alloc(device, i);
		if (!device->queues[i])
			return -ENOMEM;
		rblk_drive_init_queue(device->queues[i]);
	}
	return 0;
}

static void rblk_device_count_queues(struct rblk_device *device)
{
	const struct rblk_options *o = &device->options;

	device->queue_count = o->queues;
	if (!o->queues)
		device->queue_count = min3(num_online_cpus(), RBLK_ATTACH_QUEUES + 0u,
					   RBLK_QUEUES_MAX - o->poll_queues);
	/* blk-mq would never use more, and a kernel that only dumps has one queue of one kind. */
	device->queue_count = min(device->queue_count, nr_cpu_ids);
	device->options.poll_queues = is_kdump_kernel() ? 0 : min(o->poll_queues, nr_cpu_ids);
	device->queue_count += device->options.poll_queues;
}

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
	mutex_init(&device->reservation_lock);
	spin_lock_init(&device->core_lock);
	init_waitqueue_head(&device->session_wait);
	get_random_bytes(&device->attachment, sizeof(device->attachment));
	get_random_bytes(device->session_id, sizeof(device->session_id));
	device->session_id[0] |= 1; /* never all zero */
	INIT_WORK(&device->refresh_work, rblk_session_refresh_work);
	rblk_waiting_init(device);
	rblk_device_count_queues(device);
	rblk_drive_init(device);
	if (rblk_device_make_queues(device)) {
		rblk_device_put(device);
		return ERR_PTR(-ENOMEM);
	}
	return device;
}

void rblk_device_register(struct rblk_device *device)
{
	mutex_lock(&rblk_registry_lock);
	list_add_tail(&device->entry, &rblk_registry);
	mutex_unlock(&rblk_registry_lock);
}

void rblk_device_dismantle(struct rblk_device *device)
{
	rblk_drive_stop(device);
	rblk_waiting_stop(device);
	rblk_disk_destroy(device);
	mutex_lock(&rblk_registry_lock);
	list_del(&device->entry);
	mutex_unlock(&rblk_registry_lock);
	rblk_device_put(device);
}
