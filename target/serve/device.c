/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receive buffers of a fabric device.
 */
#include "target/serve/device.h"

#include <stdlib.h>
#include <string.h>
#include "target/io/io_queue.h"

void tgt_device_free(struct tgt_device *device)
{
	if (!device)
		return;
	tgt_receives_fini(&device->receives);
	for (unsigned int i = 0; i < TGT_RECEIVES_CHUNKS; i++) {
		fab_mr_deregister(device->receives.chunks[i].mr);
		tgt_dma_memory_unmap(&device->receives.chunks[i].memory);
	}
	free(device);
}

/* Mapped once: the ring has its buffers for life. A later device may take fewer of them. */
static int device_map(struct tgt_reactor *reactor, struct tgt_fabric *fabric, struct tgt_device *device,
		      unsigned int index)
{
	uint32_t count = reactor->config.receive_buffers - index * TGT_RECEIVES_CHUNK;
	struct tgt_receives_chunk *chunk = &device->receives.chunks[index];
	struct tgt_dma_memory *memory = &chunk->memory;
	int err = 0;

	if (chunk->mr)
		return 0;
	if (count > TGT_RECEIVES_CHUNK)
		count = TGT_RECEIVES_CHUNK;
	if (!memory->base)
		err = tgt_dma_memory_map(memory, (size_t)count * TGT_COMMAND_BYTES,
				     reactor->config.memory_lock, reactor->ring);
	return err ? err : fab_mr_register(fabric->fab, memory->base, memory->bytes, IBV_ACCESS_LOCAL_WRITE, &chunk->mr);
}

/* Adds a chunk. Negative errno: logged. */
static int device_grow(struct tgt_reactor *reactor, struct tgt_fabric *fabric, struct tgt_device *device,
		       struct fab_device *fab_device)
{
	struct tgt_receives *receives = &device->receives;
	unsigned int index = receives->count / TGT_RECEIVES_CHUNK;
	uint32_t count = receives->most - receives->count;
	int err = device_map(reactor, fabric, device, index);

	if (err) {
		tgt_log_limited(&reactor->loop.log_limit, TGT_LOG_ERROR,
				"device %s: reactor %u cannot add to its %u receive buffers: %s "
				"(memlock limit? ulimit -l, LimitMEMLOCK=)",
				fab_device_name(fab_device), reactor->index, receives->count,
				strerror(-err));
		return err;
	}
	receives->chunks[index].lkey = fab_mr_lkey(receives->chunks[index].mr, fab_device);
	tgt_receives_add(receives, count < TGT_RECEIVES_CHUNK ? count : TGT_RECEIVES_CHUNK);
	/* Buffers that cannot be posted now are tried again each turn. */
	tgt_receives_post(receives);
	return 0;
}

/* C5: no credit is granted for what could not be posted. */
static uint32_t device_unpromised(struct tgt_receives *receives)
{
	uint32_t posted;

	tgt_receives_post(receives);
	posted = receives->count - receives->idle_count;
	return posted > receives->promised ? posted - receives->promised : 0;
}

uint32_t tgt_device_remaining(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
			      struct tgt_device *device, uint32_t wanted)
{
	struct tgt_receives *receives = &device->receives;
	uint32_t unpromised = device_unpromised(receives);

	/* More would not help if the device does not take those that exist. */
	while (unpromised < wanted && receives->count < receives->most && !receives->idle_count) {
		if (device_grow(reactor, fabric, device, device->device))
			break;
		unpromised = device_unpromised(receives);
	}
	return unpromised;
}

static int device_fill(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
		       struct tgt_device *device, struct fab_device *fab_device)
{
	uint32_t most = fab_device_limits(fab_device)->max_srq_wr;
	int err;

	if (most > reactor->config.receive_buffers)
		most = reactor->config.receive_buffers;
	err = tgt_receives_init(&device->receives, &reactor->loop.idle, TGT_COMMAND_BYTES, most);
	if (err)
		return err;
	device->receives.device = fab_device;
	device->receives.number = fab_device_index(fab_device);
	err = device_grow(reactor, fabric, device, fab_device);
	if (err)
		tgt_receives_fini(&device->receives);
	return err;
}

struct tgt_device *tgt_device_get(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				  struct fab_device *fab_device)
{
	unsigned int index = fab_device_index(fab_device);
	struct tgt_device *device = fabric->devices[index];

	if (device && device->device == fab_device)
		return device;
	if (!device)
		device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	fabric->devices[index] = device;
	if (device_fill(reactor, fabric, device, fab_device))
		return NULL;
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
		if (device->queues) {
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
