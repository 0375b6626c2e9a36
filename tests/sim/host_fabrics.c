/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fabrics of a target's reactors: the simulated one, and that of NVMe hosts, if it serves those. What they have
 * lent must be back at the end.
 */
#include "tests/sim/host_impl.h"

#include <stdio.h>
#include <string.h>
#include "proto/fabric/fabric_tcp_fab.h"
#include "target/control/address.h"
#include "target/serve/device.h"
#include "target/serve/reactor_impl.h"
#include "target/store/pool.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/trace.h"

void sim_host_serve_nvme(struct sim_host *host)
{
	char text[64];

	for (unsigned int portal = 0; portal < host->portal_count; portal++) {
		snprintf(text, sizeof(text), "nvme+tcp://10.0.%u.%u:4420", portal, host->machine + 1);
		if (tgt_address_parse(text, &host->config.listen[host->config.listen_count++]))
			sim_fail("%s: not an address", text);
	}
	/* Who asks whose name has to be proven. */
	if (!host->rules)
		sim_host_rule(host, NULL);
	for (unsigned int i = 0; i < host->volume_count; i++) {
		if (!host->disks[i])
			sim_model_tears(host->volumes[i]);
		if (host->gateway)
			continue; /* the image's */
		memset(host->config.volumes[i].uuid, (int)(16 * host->machine + i + 1),
		       sizeof(host->config.volumes[i].uuid));
	}
}

const struct tgt_fabric *sim_host_fabric(const struct tgt_reactor *reactor, bool simulated)
{
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		if ((reactor->fabrics[i].fab->ops == &sim_fabric_ops) == simulated)
			return &reactor->fabrics[i];
	return NULL;
}

static void fabric_check_home(const struct sim_host_thread *thread, bool simulated)
{
	const struct tgt_fabric *fabric = sim_host_fabric(thread->reactor, simulated);

	for (unsigned int i = 0; fabric && i < FAB_DEVICES_MAX; i++) {
		const struct tgt_device *device = fabric->devices[i];
		const struct tcp_rq *rq = &((const struct tcp_fab *)fabric->fab)->srq;
		uint32_t posted = simulated ? ((const struct sim_fab *)fabric->fab)->srq_count : rq->tail - rq->head;

		if (!device || !device->device)
			continue;
		if (device->receives.promised)
			sim_fail("%s: %u receives are promised to nobody", thread->thread.actor.name,
				 device->receives.promised);
		if (device->receives.idle_count + posted != device->receives.count)
			sim_fail("%s: receive buffers are lost: %u idle, %u posted, of %u", thread->thread.actor.name,
				 device->receives.idle_count, posted, device->receives.count);
	}
}

void sim_host_check_home(const struct sim_host_thread *thread)
{
	const struct tgt_reactor *reactor = thread->reactor;

	if (tgt_pool_free_bytes(reactor->loop.pool) != thread->pool_bytes)
		sim_fail("%s: %zu bytes of its pool were not given back", thread->thread.actor.name,
			 thread->pool_bytes - tgt_pool_free_bytes(reactor->loop.pool));
	if (tgt_pool_free_bytes(reactor->reserve) != thread->reserve_bytes)
		sim_fail("%s: its reserve was not given back", thread->thread.actor.name);
	fabric_check_home(thread, true);
	fabric_check_home(thread, false);
}
