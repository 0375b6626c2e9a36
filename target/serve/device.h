/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fabric device as one reactor uses it: the buffers of its shared receive queue. Made with the
 * first connection that comes in on the device, freed with the reactor. The reactor's thread only.
 */
#ifndef RBLK_TARGET_DEVICE_H
#define RBLK_TARGET_DEVICE_H

#include "target/serve/reactor_impl.h"

struct tgt_device {
	struct fab_device *device;
	struct tgt_region region; /* the receive buffers */
	struct fab_mr *mr;
	struct tgt_receives receives;
};

/* The device's receive buffers, made at its first use. NULL: no memory (logged). */
struct tgt_device *tgt_device_get(struct tgt_reactor *reactor, struct tgt_fabric *fabric,
				  struct fab_device *device);
void tgt_device_free(struct tgt_device *device); /* NULL: nothing */

#endif
