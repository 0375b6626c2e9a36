/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receive buffers of a fabric device.
 */
#include "target/serve/device.h"

#include <stdlib.h>
#include <string.h>
#include "target/io/lane.h"

void tgt_device_free(struct tgt_device *device)
{
	if (!device)
		return;
	fab_mr_deregister(device->mr);
	tgt_receives_fini(&device->receives);
	tgt_region_unmap(&device->region);
	free(device);
}

/* Mapped once: the ring has its buffers for life. A later device may take fewer of them. */
static int device_map(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
		      struct tgt_device *device, size_t bytes)
{
	int err;

	if (device->mr && device->region.bytes >= bytes)
		return 0;
	fab_mr_deregister(device->mr);
	device->mr = NULL;
	tgt_region_unmap(&device->region);
	err = tgt_region_map(&device->region, bytes, reactor->config.memory_lock, reactor->ring);
	if (err)
		return err;
	return fab_mr_register(fabric->fab, device->region.base, bytes, IBV_ACCESS_LOCAL_WRITE,
			       &device->mr);
}

static int device_fill(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
		       struct tgt_device *device, struct fab_device *fab_device)
{
	uint32_t count = reactor->config.receive_buffers;
	uint32_t most = fab_device_limits(fab_device)->max_srq_wr;
	int err;

	if (count > most)
		count = most;
	err = device_map(reactor, fabric, device, (size_t)count * TGT_COMMAND_BYTES);
	if (err)
		return err;
	err = tgt_receives_init(&device->receives, &reactor->turn.idle, device->region.base,
				TGT_COMMAND_BYTES, count, fab_mr_lkey(device->mr, fab_device));
	if (err)
		return err;
	device->receives.device = fab_device;
	device->receives.region = &device->region;
	device->receives.number = fab_device_index(fab_device);
	err = tgt_receives_post(&device->receives);
	if (err)
		tgt_receives_fini(&device->receives);
	return err;
}

struct tgt_device *tgt_device_get(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				  struct fab_device *fab_device)
{
	unsigned int index = fab_device_index(fab_device);
	struct tgt_device *device = fabric->devices[index];
	int err;

	if (device && device->device == fab_device)
		return device;
	if (!device)
		device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	fabric->devices[index] = device;
	fabric->receives[index] = &device->receives;
	err = device_fill(reactor, fabric, device, fab_device);
	if (err) {
		tgt_log(TGT_LOG_ERROR,
			"device %s: reactor %u has no receive buffers: %s (memlock limit? ulimit "
			"-l, LimitMEMLOCK=)",
			fab_device_name(fab_device), reactor->index, strerror(-err));
		return NULL;
	}
	device->device = fab_device;
	return device;
}

/* -- removal ------------------------------------------------------------------------------------- */

void tgt_device_removed(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
			struct fab_device *fab_device)
{
	struct tgt_device *device = fabric->devices[fab_device_index(fab_device)];

	if (!device || device->device != fab_device) {
		fab_device_release(fab_device);
		return;
	}
	device->removed = true;
	reactor->retire = true;
}

void tgt_device_retire_all(struct tgt_reactor *reactor)
{
	bool waiting = false;

	for (unsigned int i = 0; i < reactor->fabric_count * FAB_DEVICES_MAX; i++) {
		struct tgt_device *device =
			reactor->fabrics[i / FAB_DEVICES_MAX].devices[i % FAB_DEVICES_MAX];

		if (!device || !device->removed)
			continue;
		/* Each queue has promises until it is destroyed, and then no command. */
		if (device->receives.promised) {
			waiting = true;
			continue;
		}
		tgt_receives_fini(&device->receives);
		fab_device_release(device->device);
		device->device = NULL;
		device->removed = false;
	}
	reactor->retire = waiting;
}
