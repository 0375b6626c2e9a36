/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * NVMe hosts in a world: beside its other initiators, or with a target of their own, whose paths and connections are
 * lost while its disk is slow, or with paths to several gateways of an image (world_gateways.c). How they are is drawn
 * aside, so that the rest of the world is as it would be without them.
 */
#include <stdlib.h>
#include "proto/core/env.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/world_impl.h"

bool sim_world_has_nvme(void)
{
	return sim_world.seed % 32 == 0 || sim_world.seed % 32 == 8;
}

void sim_world_nvme_hosts(void)
{
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		sim_host_serve_nvme(&sim_world.hosts[i]);
}

static void build_nvme(unsigned int i)
{
	struct sim_nvme *nvme = calloc(1, sizeof(*nvme));

	if (!nvme)
		sim_fail("out of memory");
	sim_world.nvmes[i] = nvme;
	nvme->host = &sim_world.hosts[sim_below(sim_world.host_count)];
	nvme->volume = (unsigned int)sim_below(nvme->host->volume_count);
	/* It has no word for a volume that is for reading alone. */
	nvme->host->turns[nvme->volume] = false;
	nvme->path_count = (unsigned int)sim_between(1, nvme->host->portal_count < 2 ? 1 : 2);
	nvme->queue_count = (unsigned int)sim_between(2, SIM_NVME_QUEUES);
	nvme->digests = (uint8_t)(sim_chance(500000) ? 0 : sim_below(4));
	nvme->keep_alive_ms = (uint32_t)sim_between(20, sim_chance(500000) ? 200 : 2000);
	/* Shorter than a slow disk's time, so that it gives up what goes on. */
	nvme->command_ms = (uint32_t)sim_between(3, sim_chance(500000) ? 30 : sim_chance(500000) ? 300 : 2000);
	nvme->connect_ns = 2 * SIM_S;
	nvme->reconnect_ns = sim_chance(700000) ? SIM_MS : 50 * SIM_MS;
	nvme->think_ns = sim_chance(500000) ? 20 * SIM_US : 2 * SIM_MS;
	env_random(nvme->host_id, sizeof(nvme->host_id));
	nvme->load = (struct sim_load){
		.ops_left = (unsigned int)sim_between(10, sim_chance(500000) ? 100 : 300),
		.depth = (unsigned int)sim_between(1, SIM_NVME_REQUESTS),
		.flush = sim_world_rate(20000, 200000),
		.fua = sim_world_rate(50000, 500000),
		.zeroes = sim_world_rate(50000, 400000),
		.discard = sim_world_rate(0, 100000),
		.read = (uint32_t)sim_between(100000, 700000),
		.large = sim_world_rate(100000, 500000),
	};
	nvme->abort = sim_world_rate(100000, 700000);
	nvme->reboot = sim_world_rate(1000, 10000);
	nvme->compare = sim_world_rate(50000, 300000);
	sim_nvme_start(nvme, MACHINES_MAX + i);
	sim_world.nvme_count++;
}

/* So that there is something under way whenever it loses a path. */
static void work_more(struct sim_nvme *nvme)
{
	if (sim_chance(500000))
		nvme->path_count = nvme->host->portal_count;
	nvme->load.ops_left = (unsigned int)sim_between(100, 500);
	nvme->load.depth = (unsigned int)sim_between(4, SIM_NVME_REQUESTS);
	nvme->load.read = (uint32_t)sim_between(50000, 400000);
}

void sim_world_nvme(void)
{
	uint64_t was = sim_random_aside(sim_world.seed);
	unsigned int count = (unsigned int)sim_between(1, NVMES_MAX);

	sim_world.apps[0].alone = false;
	for (unsigned int i = 0; i < count; i++) {
		build_nvme(i);
		if (!sim_world.app_count)
			work_more(sim_world.nvmes[i]);
	}
	sim_random_back(was);
}

/* -- several gateways ----------------------------------------------------------------------- */

bool sim_world_gateways_have_nvme(void)
{
	return sim_world.seed % 128 == 82;
}

/* Its time is theirs: seconds, in which a gateway is lost, or found to be dead by another one. */
static void use_gateways(struct sim_nvme *nvme)
{
	unsigned int first = (unsigned int)sim_below(sim_world.host_count);

	nvme->path_count = sim_world.host_count;
	for (unsigned int i = 0; i < nvme->path_count; i++) {
		nvme->paths[i].host = &sim_world.hosts[(first + i) % sim_world.host_count];
		nvme->paths[i].portal = 0;
	}
	nvme->keep_alive_ms = (uint32_t)sim_between(200, sim_chance(500000) ? 1000 : 5000);
	nvme->command_ms = (uint32_t)sim_between(20, sim_chance(500000) ? 300 : 5000);
	nvme->connect_ns = 10 * SIM_S;
	nvme->reconnect_ns = sim_chance(500000) ? 100 * SIM_MS : 2 * SIM_S;
	nvme->think_ns = 2 * SIM_MS;
	nvme->rests = (uint32_t)sim_between(900000, 970000);
	nvme->load.ops_left = (unsigned int)sim_between(200, 800);
	nvme->load.depth = (unsigned int)sim_between(4, SIM_NVME_REQUESTS);
	nvme->load.read = (uint32_t)sim_between(50000, 400000);
	/*
	 * What a killed host had is over for its next life, which OSDs may learn after others have been there: so only
	 * where there are none.
	 */
	nvme->reboot = sim_world.app_count ? 0 : sim_world_rate(100, 1000);
}

void sim_world_gateways_nvme(void)
{
	uint64_t was = sim_random_aside(sim_world.seed);
	unsigned int count = (unsigned int)sim_between(1, NVMES_MAX);

	for (unsigned int i = 0; i < count; i++) {
		build_nvme(i);
		use_gateways(sim_world.nvmes[i]);
		sim_world.nvmes[i]->reboot = count > 1 ? 0 : sim_world.nvmes[i]->reboot;
	}
	sim_random_back(was);
}

/* -- a world of their own ------------------------------------------------------------------ */

static void build_host(void)
{
	struct sim_host *host = &sim_world.hosts[0];
	struct sim_disk *disk;
	uint32_t block_bytes;
	uint64_t bytes;

	sim_host_init(host, 0);
	sim_host_portals(host, 2);
	sim_world_plain_config(&host->config);
	host->config.reactors = SIM_HOST_REACTORS;
	host->config.drain_ms = (uint32_t)sim_between(1, 200);
	host->remembers = sim_chance(500000);
	host->preempt = sim_world_rate(5000, 100000);
	host->pause = sim_world_rate(100, 5000);
	host->pause_ns = 200 * SIM_MS;
	bytes = sim_between(8, 32) * 4096;
	block_bytes = sim_chance(700000) ? 512 : 4096;
	sim_host_add_volume(host, bytes, block_bytes, sim_chance(150000));
	sim_host_serve_nvme(host);
	disk = host->disks[0];
	if (!disk)
		return;
	disk->volatile_cache = sim_chance(800000);
	disk->can_discard = sim_chance(500000);
	sim_model_keeps(host->volumes[0], !disk->volatile_cache);
	disk->fault_rates = (struct sim_disk_fault_rates){
		.fail = sim_world_rate(2000, 30000),
		.shorten = sim_world_rate(20000, 200000),
		.again = sim_world_rate(10000, 100000),
		.early = 300000,
		.saved = (uint32_t)sim_below(1000000),
		.delay_min_ns = 5 * SIM_US,
		.delay_max_ns = sim_chance(300000) ? SIM_MS : 20 * SIM_MS,
		.stall = sim_chance(700000) ? 100000 : 0,
		.stall_ns = sim_chance(500000) ? 50 * SIM_MS : SIM_S,
	};
}

void sim_world_build_nvme(void)
{
	static const unsigned int always = 1u << FAULT_BREAK | 1u << FAULT_LATE;

	sim_net = (struct sim_net){
		.limits = {SIM_WORLD_PLAIN_LIMITS},
		.latency_min_ns = SIM_US,
		.latency_max_ns = sim_chance(700000) ? 20 * SIM_US : 2 * SIM_MS,
		.lose = sim_world_rate(1000, 30000),
		.resend_ns = sim_chance(500000) ? 200 * SIM_US : 20 * SIM_MS,
		.resends = 7,
		.refuse = sim_world_rate(0, 5000),
	};
	sim_world.host_count = 1;
	build_host();
	sim_host_start(&sim_world.hosts[0]);
	sim_world_nvme();
	sim_world.late = true;
	sim_world.faults = (unsigned int)sim_random() | always;
	if (sim_chance(500000))
		sim_world.faults &= always | 1u << FAULT_CUT | 1u << FAULT_PORTAL;
	sim_world.faults &= ~(1u << FAULT_UNPLUG);
	sim_world.fault_ns = sim_chance(500000) ? 3 * SIM_MS : 30 * SIM_MS;
	sim_event_in(&sim_world.calm, sim_between(50 * SIM_MS, SIM_S));
	/* Long enough for a silent host's time to be over. */
	if (sim_chance(300000)) {
		sim_world.fault_ns = 100 * SIM_MS;
		sim_world.faults |= 1u << FAULT_PORTAL;
		sim_event_in(&sim_world.calm, sim_between(3 * SIM_S, 8 * SIM_S));
		for (unsigned int i = 0; i < sim_world.nvme_count; i++)
			sim_world.nvmes[i]->rests = 950000;
	}
	sim_event_in(&sim_world.fault, sim_below(sim_world.fault_ns));
}
