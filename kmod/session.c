// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A device's own commands on queue 0: IDENTIFY, OPEN and CLOSE, and the refresh of a volume that changed.
 * Called by works of the device, which drive.c begins and cancels.
 */
#include <linux/delay.h>
#include <linux/log2.h>

#include "kmod/session.h"
#include "kmod/call.h"
#include "kmod/device.h"
#include "kmod/disk.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/waiting.h"
#include "proto/wire/wire_check.h"
#include "proto/wire/wire_names.h"

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
		    core_session_over(&device->core))
			return error;
		msleep(rblk_waiting_pause_ms(++times));
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
	if (!error && (rblk_check_volume(volume, sizeof(*volume)) || !volume->handle ||
		       memcmp(volume->name, open.name, sizeof(open.name))))
		error = -EPROTO;
	return error;
}

static void rblk_session_take_volume(struct rblk_device *device, const struct rblk_wire_volume *v)
{
	device->block_bytes = rblk_le32(v->block_bytes);
	device->block_shift = ilog2(device->block_bytes);
	device->blocks = rblk_le64(v->blocks);
	device->volume_flags = rblk_le32(v->flags);
	device->max_io_bytes = rblk_le32(v->max_io_bytes);
	/* Announced for the volume; what a queue receives may be less. */
	device->max_capsule_bytes = rblk_le32(v->max_capsule_bytes);
	device->physical_bytes = rblk_le32(v->physical_bytes);
	device->optimal_bytes = rblk_le32(v->optimal_bytes);
	device->discard_granularity = rblk_le32(v->discard_granularity_bytes);
	device->max_discard_blocks = rblk_le32(v->max_discard_blocks);
	memcpy(device->uuid, v->uuid, sizeof(device->uuid));
	device->opened = true;
}

/* F7: is something lost that was acknowledged and not flushed, and has anyone the volume open? */
static void rblk_session_learn_epoch(struct rblk_device *device, const struct rblk_wire_volume *v)
{
	bool dirty = false, lost;
	unsigned int i;

	mutex_lock(&device->opens_lock);
	spin_lock_irq(&device->core_lock);
	for (i = 0; i < device->queue_count; i++)
		dirty |= core_durable_dirty(&device->durable, READ_ONCE(device->queues[i]->written));
	lost = core_durable_opened(&device->durable, v->cache_epoch, dirty && device->openers);
	spin_unlock_irq(&device->core_lock);
	mutex_unlock(&device->opens_lock);
	if (lost)
		pr_err("rblk%d [%s]: writes that were acknowledged and not flushed may be lost: "
		       "FLUSH fails until all have closed it, or acknowledge\n",
		       device->index, rblk_device_peer(device));
}

/* What the disk has promised must still hold. NULL: it does. */
static const char *rblk_session_differs(const struct rblk_device *device,
					const struct rblk_wire_volume *v)
{
	u32 flags = rblk_le32(v->flags), was = device->volume_flags;
	const u32 able = RBLK_VOLUME_FLUSH | RBLK_VOLUME_FUA;

	if (memcmp(v->uuid, device->uuid, sizeof(device->uuid)))
		return "another volume has its name now";
	if (rblk_le32(v->block_bytes) != device->block_bytes)
		return "its blocks have another size now";
	if (rblk_le32(v->max_io_bytes) < device->disk_bytes)
		return "its longest command is shorter now";
	if (was & ~flags & able || flags & ~was & RBLK_VOLUME_VOLATILE_CACHE)
		return "what it can make durable has changed";
	return NULL;
}

/* It is the same volume: take over what may change. */
static void rblk_session_take_changes(struct rblk_device *device, const struct rblk_wire_volume *v)
{
	rblk_session_learn_epoch(device, v);
	if (rblk_le64(v->blocks) != device->blocks && READ_ONCE(device->disk_added))
		rblk_disk_resize(device, rblk_le64(v->blocks));
}

int rblk_session_open_volume(struct rblk_device *device, char *text)
{
	const char *peer = rblk_queue_peer(device->queues[0]), *differs;
	struct rblk_wire_volume volume;
	u16 status = RBLK_OK;
	int error = rblk_session_identify(device, &status);

	if (!error)
		error = rblk_session_ask(device, &volume, &status);
	if (error && status)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s%s", peer, device->options.volume,
			  rblk_status_text(status),
			  status == RBLK_E_BUSY ? " for longer than connect_ms" : "");
	else if (error == -EPROTO)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: the target broke the protocol", peer,
			  device->options.volume);
	if (error)
		return error; /* without a status the connection is lost: the machine knows why */
	differs = device->opened ? rblk_session_differs(device, &volume) : NULL;
	if (differs) {
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: %s", peer, device->options.volume, differs);
		return -ENODEV;
	}
	if (!device->opened) {
		rblk_session_take_volume(device, &volume);
		rblk_session_learn_epoch(device, &volume);
	} else {
		rblk_session_take_changes(device, &volume);
	}
	WRITE_ONCE(device->handle, rblk_le32(volume.handle));
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
			queue_work(rblk_calls, work);
			return;
		}
		pr_warn("rblk%d: its volume has changed, but its new size cannot be read: %s\n",
			device->index, status ? rblk_status_text(status) : "no valid answer");
		return;
	}
	rblk_session_close_handle(device, rblk_le32(volume.handle));
	/* The name may mean another volume by now. */
	if (!rblk_session_differs(device, &volume))
		rblk_session_take_changes(device, &volume);
}
