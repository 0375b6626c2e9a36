// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Attach and detach: a volume becomes a disk, step by step, and goes again. Called by control.c, and
 * when the module is unloaded. Between them the device's session is drive.c's.
 */
#include <linux/delay.h>
#include <linux/sched/signal.h>

#include "kmod/device.h"
#include "kmod/disk.h"
#include "kmod/drive.h"
#include "kmod/module.h"
#include "kmod/queue.h"
#include "kmod/session.h"

/* -- detach --------------------------------------------------------------------------------------- */

/* Take the right to detach: only one caller gets it. */
static int rblk_detach_claim(struct rblk_device *device, bool force, char *text)
{
	int error = 0;

	mutex_lock(&device->opens_lock);
	if (device->closing || !device->disk_added) {
		scnprintf(text, RBLK_TEXT_BYTES, "rblk%d: being attached or detached already",
			  device->index);
		error = -EBUSY;
	} else if (device->openers && !force) {
		scnprintf(text, RBLK_TEXT_BYTES, "rblk%d: in use: open %u times (mounted?)",
			  device->index, device->openers);
		error = -EBUSY;
	} else {
		device->closing = true;
	}
	mutex_unlock(&device->opens_lock);
	return error;
}

/* Holds no lock while the disk's I/O ends: a connection lost meanwhile must be able to fail it. */
static void rblk_detach_run(struct rblk_device *device, bool force, const char *why)
{
	if (force)
		rblk_drive_abandon(device, why);
	rblk_disk_remove(device);
	if (rblk_device_live(device))
		rblk_session_close_handle(device, device->handle);
	pr_info("rblk%d: detached\n", device->index);
	rblk_device_dismantle(device);
}

/* -- attach --------------------------------------------------------------------------------------- */

/*
 * A volume that cannot be flushed is attached only on request: the block layer would let fsync()
 * succeed.
 */
static int rblk_attach_check_volatile(const struct rblk_device *device, char *text)
{
	if (device->options.accept_volatile || device->options.read_only ||
	    device->volume_flags & (RBLK_VOLUME_FLUSH | RBLK_VOLUME_READ_ONLY) ||
	    !(device->volume_flags & RBLK_VOLUME_VOLATILE_CACHE))
		return 0;
	scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: cannot be flushed, and is lost with the target: "
		  "attach it as volatile, or not at all", rblk_device_peer(device),
		  device->options.volume);
	return -EOPNOTSUPP;
}

static int rblk_attach_make_disk(struct rblk_device *device, char *text)
{
	int error = rblk_disk_create(device);

	if (error)
		scnprintf(text, RBLK_TEXT_BYTES, "%s/%s: creating the disk: %s (error %d)",
			  rblk_device_peer(device), device->options.volume,
			  error == -EOPNOTSUPP ? "the target's longest command is less than a page"
			  : error == -ENOTCONN ? "the connection was lost"
					       : "the kernel refuses", error);
	return error;
}

/* Until there is a session, with the volume open, and every queue was tried. */
static int rblk_attach_connect(struct rblk_device *device, char *text)
{
	rblk_drive_start(device);
	if (wait_event_killable(device->session_wait, rblk_drive_settled(device))) {
		scnprintf(text, RBLK_TEXT_BYTES, "%s: killed", rblk_device_peer(device));
		return -EINTR;
	}
	if (rblk_device_live(device))
		return 0;
	if (!rblk_device_say_reason(device, text))
		scnprintf(text, RBLK_TEXT_BYTES, "%s: no session in %u ms", rblk_device_peer(device),
			  device->options.connect_ms);
	return -ECONNREFUSED;
}

/* The disk becomes visible. */
static int rblk_attach_add_disk(struct rblk_device *device, char *text)
{
	int error = rblk_disk_add(device);

	if (error)
		scnprintf(text, RBLK_TEXT_BYTES, "rblk%d: adding the disk: error %d",
			  device->index, error);
	/* An event that came before was only confirmed. */
	else if (READ_ONCE(device->event_seen))
		queue_work(rblk_calls, &device->refresh_work);
	return error;
}

/*
 * While the kernel read its partitions the attach may have been killed, or the connection lost; and
 * a disk that exists can be detached.
 */
static int rblk_attach_check_end(struct rblk_device *device, char *text)
{
	bool killed = fatal_signal_pending(current);

	rblk_drive_endure(device);
	if (!killed && !core_session_over(&device->core))
		return 0;
	if (!rblk_detach_claim(device, true, text)) {
		rblk_drive_abandon(device, "the attach was killed");
		rblk_device_say_reason(device, text);
		rblk_detach_run(device, true, "");
	}
	return killed ? -EINTR : -ECONNRESET;
}

/* From nothing to a disk that nobody sees yet. */
static int rblk_attach_build(struct rblk_device *device, char *text)
{
	int error = rblk_attach_connect(device, text);

	if (!error)
		error = rblk_attach_check_volatile(device, text);
	if (!error)
		error = rblk_attach_make_disk(device, text);
	return error;
}

int rblk_device_attach(const struct rblk_options *options, char *text)
{
	struct rblk_device *device = rblk_device_alloc(options);
	int error;

	if (IS_ERR(device)) {
		scnprintf(text, RBLK_TEXT_BYTES, "attach: %s",
			  PTR_ERR(device) == -ENOSPC ? "too many devices" : "out of memory");
		return PTR_ERR(device);
	}
	rblk_device_get(device); /* ours, besides the registry's */
	rblk_device_register(device);
	error = rblk_attach_build(device, text);
	if (!error)
		error = rblk_attach_add_disk(device, text);
	if (error) {
		rblk_device_dismantle(device);
		goto out;
	}
	error = rblk_attach_check_end(device, text);
	if (error)
		goto out;
	scnprintf(text, RBLK_TEXT_BYTES, "rblk%d", device->index);
	pr_info("rblk%d: attached %s/%s, %u queues of %u\n", device->index,
		rblk_device_peer(device), device->options.volume, device->hw_queues,
		device->credits);
out:
	rblk_device_put(device);
	return error;
}

/* -- by name, and all ----------------------------------------------------------------------------- */

/* A referenced device by "rblk0" or "/dev/rblk0". */
static struct rblk_device *rblk_detach_find(const char *name)
{
	char own[16];
	int index;

	if (!strncmp(name, "/dev/", 5))
		name += 5;
	if (sscanf(name, "rblk%d", &index) != 1)
		return NULL;
	snprintf(own, sizeof(own), "rblk%d", index);
	return strcmp(own, name) ? NULL : rblk_device_find(index);
}

int rblk_device_detach(const char *name, bool force, char *text)
{
	struct rblk_device *device = rblk_detach_find(name);
	int error;

	if (!device) {
		scnprintf(text, RBLK_TEXT_BYTES, "%.64s: no such device", name);
		return -ENODEV;
	}
	error = rblk_detach_claim(device, force, text);
	if (!error) {
		scnprintf(text, RBLK_TEXT_BYTES, "rblk%d", device->index);
		rblk_detach_run(device, force, "detached by force");
	}
	rblk_device_put(device);
	return error;
}

void rblk_device_detach_all(void)
{
	struct rblk_device *device;
	char text[RBLK_TEXT_BYTES];

	while ((device = rblk_device_find_any())) {
		if (!rblk_detach_claim(device, true, text))
			rblk_detach_run(device, false, "");
		else
			msleep(20); /* another detach is at it */
		rblk_device_put(device);
	}
}
