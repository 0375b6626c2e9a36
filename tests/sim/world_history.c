/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Worlds whose histories tests/model is asked about: as little as a model speaks of. One target,
 * one disk, one application with librblk, which writes the same block again and again, one command
 * at a time. Nothing happens that a model does not know of: errors of the disk, short transfers,
 * a target that lacks memory or drains.
 */
#include "tests/sim/world_impl.h"

#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"

static void build_net(void)
{
	sim_net = (struct sim_net){
		.limits =
			{
				SIM_WORLD_PLAIN_LIMITS,
			},
		.latency_min_ns = SIM_US,
		.latency_max_ns = sim_chance(500000) ? 10 * SIM_US : 2 * SIM_MS,
		.lose = sim_chance(500000) ? 10000 : 0,
		.lose_ack = sim_chance(500000) ? 50000 : 0,
		.lose_response = sim_chance(500000) ? 50000 : 0,
		.resend_ns = sim_chance(500000) ? 200 * SIM_US : 20 * SIM_MS,
		.resends = 7,
		.stray_ns = sim_chance(500000) ? 5 * SIM_MS : 0,
		.again = sim_chance(300000),
		.linger_ns = sim_chance(300000) ? 20 * SIM_MS : 0,
	};
}

static void build_host(void)
{
	struct sim_host *host = &sim_world.hosts[0];
	struct sim_disk *disk;

	sim_host_init(host, 0);
	sim_host_portals(host, (unsigned int)sim_between(1, 2));
	sim_world_plain_config(&host->config);
	host->remembers = true;
	host->pause = sim_chance(300000) ? 5000 : 0;
	host->preempt = sim_chance(300000) ? 100000 : 0;
	host->pause_ns = 200 * SIM_MS;
	sim_host_add_volume(host, 8 * 4096, 512, false);
	disk = host->disks[0];
	disk->fault_rates = (struct sim_disk_fault_rates){
		.delay_min_ns = 5 * SIM_US,
		.delay_max_ns = sim_chance(500000) ? 100 * SIM_US : 5 * SIM_MS,
		.stall = sim_chance(700000) ? 200000 : 0,
		.stall_ns = sim_chance(500000) ? 50 * SIM_MS : SIM_S,
	};
}

static void build_app(void)
{
	struct sim_app *app = &sim_world.apps[0];

	app->host = &sim_world.hosts[0];
	app->mount_count = 1;
	app->portals = (unsigned int)sim_between(1, app->host->portal_count);
	app->options.connect_timeout_ms = (uint32_t)sim_between(50, 1000);
	app->options.command_timeout_ms = 60000;
	app->options.credits = 8;
	app->options.queues = 2;
	app->options.give_up_ms = 600000;
	app->load.ops_left = (unsigned int)sim_between(5, 30);
	app->load.depth = 1;
	app->think_ns = sim_chance(500000) ? 20 * SIM_US : 5 * SIM_MS;
	app->steady = true;
	sim_app_start(app, sim_world.host_count);
}

static void build_world(unsigned int faults)
{
	build_net();
	sim_world.host_count = 1;
	sim_world.app_count = 1;
	build_host();
	sim_host_start(&sim_world.hosts[0]);
	build_app();
	sim_world.faults = ((unsigned int)sim_random() | 1u << FAULT_BREAK) & faults;
	sim_world.fault_ns = sim_chance(500000) ? 2 * SIM_MS : 20 * SIM_MS;
	sim_event_in(&sim_world.fault, sim_below(sim_world.fault_ns));
	sim_event_in(&sim_world.calm, sim_between(20 * SIM_MS, 300 * SIM_MS));
}

/* Two queues, and a target that is killed. */
void sim_world_build_fence(void)
{
	build_world(1u << FAULT_BREAK | 1u << FAULT_CUT | 1u << FAULT_KILL | 1u << FAULT_PORTAL |
		    1u << FAULT_UNPLUG);
}

/* One queue, FLUSHes, and a machine that loses its power. */
void sim_world_build_durable(void)
{
	build_world(1u << FAULT_BREAK | 1u << FAULT_CUT | 1u << FAULT_POWER | 1u << FAULT_PORTAL);
	sim_world.faults |= 1u << FAULT_POWER;
	sim_world.apps[0].options.queues = 1;
	sim_world.apps[0].load.flush = sim_chance(500000) ? 100000 : 400000;
}
