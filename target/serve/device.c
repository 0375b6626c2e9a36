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

static int device_fill(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
		       struct tgt_device *device)
{
	uint32_t count = reactor->config.receive_buffers;
	uint32_t most = fab_device_limits(device->device)->max_srq_wr;
	size_t bytes;
	int err;

	if (count > most)
		count = most;
	bytes = (size_t)count * TGT_COMMAND_BYTES;
	err = tgt_region_map(&device->region, bytes, reactor->config.memory_lock, reactor->ring);
	if (err)
		return err;
	err = fab_mr_register(fabric->fab, device->region.base, bytes, IBV_ACCESS_LOCAL_WRITE,
			      &device->mr);
	if (err)
		return err;
	err = tgt_receives_init(&device->receives, &reactor->turn.idle, device->region.base,
				TGT_COMMAND_BYTES, count, fab_mr_lkey(device->mr, device->device));
	if (err)
		return err;
	device->receives.device = device->device;
	device->receives.region = &device->region;
	device->receives.number = fab_device_index(device->device);
	return tgt_receives_post(&device->receives);
}

struct tgt_device *tgt_device_get(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				  struct fab_device *fab_device)
{
	unsigned int index = fab_device_index(fab_device);
	struct tgt_device *device = fabric->devices[index];
	int err;

	if (device)
		return device;
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	device->device = fab_device;
	err = device_fill(reactor, fabric, device);
	if (err) {
		tgt_log(TGT_LOG_ERROR,
			"device %s: reactor %u has no receive buffers: %s (memlock limit? ulimit "
			"-l, LimitMEMLOCK=)",
			fab_device_name(fab_device), reactor->index, strerror(-err));
		tgt_device_free(device);
		return NULL;
	}
	fabric->devices[index] = device;
	fabric->receives[index] = &device->receives;
	return device;
}
