/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The contexts of devices that librdmacm has, which a driver that waits for its users (Soft-RoCE) waits for
 * when a device is removed. Any thread.
 */
#include "proto/fabric/fabric_verbs.h"

#include <stdatomic.h>

/* Whether librdmacm has opened all devices of this machine. */
static atomic_bool all_open;

bool verbs_devices_all_open(void)
{
	return atomic_load(&all_open);
}

/*
 * librdmacm has a context of its own of each device that an id was bound to, and looks whether it is still there
 * only when it meets an unknown device, or is asked for all. A driver that waits for its users would wait for that.
 * Asking for all opens all, and keeps them open: so it is asked only when one has gone, and from then on each time
 * that devices are checked, for any of them may be the next to go.
 */
void verbs_devices_sync(void)
{
	struct ibv_context **contexts;

	atomic_store(&all_open, true);
	contexts = rdma_get_devices(NULL);
	if (contexts)
		rdma_free_devices(contexts);
}
