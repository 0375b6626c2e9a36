// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A device's own commands on queue 0: IDENTIFY, OPEN and CLOSE, KEEPALIVE, and the refresh of a
 * volume that changed. Called by device.c, and by the device's works, which device.c cancels.
 */
#include <linux/delay.h>
#include <linux/log2.h>

#include "kmod/session.h"
#include "kmod/call.h"
#include "kmod/device.h"
#include "kmod/disk.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/refused.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

/* A target cannot make us send without a pause. */
#define RBLK_KEEPALIVE_PAUSE_MS 10u

void rblk_session_schedule_keepalive(struct rblk_device *device)
{
	u32 pause_ms = max(device->keepalive_ms / 2, RBLK_KEEPALIVE_PAUSE_MS);

	if (device->keepalive_ms && rblk_device_live(device))
		queue_delayed_work(rblk_workqueue, &device->keepalive_work,
				   msecs_to_jiffies(pause_ms));
}

void rblk_session_keepalive_work(struct work_struct *work)
{
	struct rblk_device *device =
		container_of(to_delayed_work(work), struct rblk_device, keepalive_work);
	u32 event = READ_ONCE(device->event_seen);
	struct rblk_session_command sc = { .opcode = RBLK_OP_KEEPALIVE, .argument = event };

	if (!rblk_device_live(device))
		return;
	WRITE_ONCE(device->event_told, event); /* from its SEND on, the target may tell the next */
	/* The queue's struct outlives this work: detach cancels it before anything is freed. */
	rblk_call_run(device->queues[0], &sc, device->options.command_ms);
	rblk_session_schedule_keepalive(device);
}

/*
 * One of the session's own commands until it is answered with anything but BUSY (C6), for
 * connect_ms, after pauses that grow. A single answer may take longer than that, as a target first waits by itself, for
 * instance for the writes of an initiator that has died.
 */
static int rblk_session_run(struct rblk_device *device, struct rblk_session_command *sc)
{
	unsigned long end = jiffies + msecs_to_jiffies(device->options.connect_ms);
	unsigned int times = 0;
	int error;

	for (;;) {
		sc->status = RBLK_OK;
		error = rblk_call_run(device->queues[0], sc, device->options.command_ms);
		if (!error || sc->status != RBLK_E_BUSY || time_after(jiffies, end) ||
		    READ_ONCE(device->state) == RBLK_DEVICE_REMOVING)
			return error;
		msleep(rblk_refused_pause_ms(++times));
	}
}

static int rblk_session_identify(struct rblk_device *device, u16 *status)
{
	struct rblk_wire_identify identify = {};
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_IDENTIFY,
		.payload = &identify,
		.payload_bytes = sizeof(identify),
	};
	int error;

	strscpy(identify.initiator, device->options.initiator, sizeof(identify.initiator));
	strscpy(identify.software, "rblk.ko-" RBLK_VERSION, sizeof(identify.software));
	error = rblk_session_run(device, &sc);
	*status = sc.status;
	return error;
}

/* Ask for the volume as it is now. */
static int rblk_session_ask(struct rblk_device *device, struct rblk_wire_volume *volume, u16 *status)
{
	struct rblk_wire_open open = {};
	struct rblk_session_command sc = {
		.opcode = RBLK_OP_OPEN,
		.payload = &open,
		.payload_bytes = sizeof(open),
		.report = volume,
		.report_bytes = sizeof(*volume),
	};
	int error;

	strscpy(open.name, device->options.volume, sizeof(open.name));
	open.flags = rblk_to_le32(device->options.read_only ? RBLK_OPEN_READ_ONLY : 0);
	error = rblk_session_run(device, &sc);
	*status = sc.status;
	if (!error && rblk_check_volume(volume, sizeof(*volume)))
		error = -EPROTO;
	return error;
}

/* The longest data of one WRITE that fits a message of any queue, beside its descriptor. */
static u32 rblk_session_capsule_room(const struct rblk_device *device)
{
	u32 bytes = RBLK_CAPSULE_DATA_MAX;
	unsigned int i;

	for (i = 0; i < device->queue_count; i++) {
		struct core_batch_limits limits = rblk_queue_limits(device->queues[i]);

		bytes = min(bytes, core_batch_capsule_max(&limits));
	}
	return bytes;
}

static void rblk_session_take_volume(struct rblk_device *device, const struct rblk_wire_volume *v)
{
	device->handle = rblk_le32(v->handle);
	device->block_bytes = rblk_le32(v->block_bytes);
	device->block_shift = ilog2(device->block_bytes);
	device->blocks = rblk_le64(v->blocks);
	device->volume_flags = rblk_le32(v->flags);
	device->max_io_bytes = rblk_le32(v->max_io_bytes);
	/* Announced for the volume, received by the queue: a target may be more generous with one. */
	device->max_capsule_bytes = min(rblk_le32(v->max_capsule_bytes),
					rblk_session_capsule_room(device));
	device->physical_bytes = rblk_le32(v->physical_bytes);
	device->optimal_bytes = rblk_le32(v->optimal_bytes);
	device->discard_granularity = rblk_le32(v->discard_granularity_bytes);
	device->max_discard_blocks = rblk_le32(v->max_discard_blocks);
	memcpy(device->uuid, v->uuid, sizeof(device->uuid));
	memcpy(device->cache_epoch, v->cache_epoch, sizeof(device->cache_epoch));
}

int rblk_session_open_volume(struct rblk_device *device, char *text)
{
	struct rblk_wire_volume volume;
	u16 status = RBLK_OK;
	int error = rblk_session_identify(device, &status);

	if (!error)
		error = rblk_session_ask(device, &volume, &status);
	if (error && status)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s%s", device->options.address_text,
			  device->options.volume, rblk_status_text(status),
			  status == RBLK_E_BUSY ? " for longer than connect_ms" : "");
	else if (error && !rblk_device_say_reason(device, text))
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: the target broke the protocol",
			  device->options.address_text, device->options.volume);
	if (error)
		return error;
	rblk_session_take_volume(device, &volume);
	return 0;
}

void rblk_session_close_handle(struct rblk_device *device, u32 handle)
{
	struct rblk_session_command sc = { .opcode = RBLK_OP_CLOSE, .volume = handle };

	rblk_call_run(device->queues[0], &sc, device->options.connect_ms);
}

/* The volume's size may have changed: open it again to learn it, and close the second handle. */
void rblk_session_refresh_work(struct work_struct *work)
{
	struct rblk_device *device = container_of(work, struct rblk_device, refresh_work);
	struct rblk_wire_volume volume;
	u16 status;
	int error;

	if (!rblk_device_live(device))
		return;
	error = rblk_session_ask(device, &volume, &status);
	if (error) {
		if (!rblk_device_live(device))
			return; /* the loss is what is logged */
		if (status == RBLK_E_BUSY) {
			queue_work(rblk_workqueue, work);
			return;
		}
		pr_warn("rblk%d: its volume has changed, but its new size cannot be read: %s\n",
			device->index, status ? rblk_status_text(status) : "no valid answer");
		return;
	}
	rblk_session_close_handle(device, rblk_le32(volume.handle));
	/* The name may mean another volume by now. */
	if (memcmp(volume.uuid, device->uuid, sizeof(device->uuid)) ||
	    rblk_le32(volume.block_bytes) != device->block_bytes)
		return;
	if (rblk_le64(volume.blocks) != device->blocks)
		rblk_disk_resize(device, rblk_le64(volume.blocks));
}
