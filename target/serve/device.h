/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fabric device as one reactor uses it: the buffers of its shared receive queue. Made with the
 * first connection that comes in on the device. Buffers are added, a chunk at a time and up to
 * --receive-buffers, when logins need them. Freed with the reactor: when the device is removed, its
 * memory, which the ring cannot release, is kept for the next one with the same index. The
 * reactor's thread only.
 */
#ifndef RBLK_TARGET_DEVICE_H
#define RBLK_TARGET_DEVICE_H

#include "target/serve/reactor_impl.h"

struct tgt_device {
	struct fab_device *device; /* NULL: removed, and so are its queues */
	bool removed;		   /* its queues are ending */
	unsigned int queues;	   /* connections on it */
	struct tgt_receives receives; /* whose chunks are mapped once */
};

/* The device with at least one chunk of receive buffers, made at its first use. NULL: no memory
 * (logged). */
struct tgt_device *tgt_device_get(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				  struct fab_device *device);
/* Receive buffers that are posted and not promised, `wanted` of them if memory, the limit and the
 * device allow it. */
uint32_t tgt_device_remaining(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
			      struct tgt_device *device, uint32_t wanted);
/* FAB_EVENT_DEVICE_GONE; its queues are being closed. */
void tgt_device_removed(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
			struct fab_device *device);
/* reactor->retire: release removed devices whose last queue has ended. */
void tgt_device_retire_all(struct tgt_reactor *reactor);
void tgt_device_free(struct tgt_device *device); /* NULL: nothing */

#endif
