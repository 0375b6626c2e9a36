/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Worlds of two targets that reach one disk and serve it with one uuid, and of one initiator that names both: librblk's
 * or the module's (F10). In some the two know nothing of each other, and the second must not be given any I/O,
 * whatever becomes of the first. In the others they have one fence domain, and a cluster manager keeps the promise that
 * goes with it: it kills one, waits for what that one has left with the disk, and starts the other.
 */
#include <limits.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/world_impl.h"

/* How often the manager looks whether it can go on. */
#define MANAGER_NS SIM_MS

static void build_host(unsigned int i)
{
	struct sim_host *host = &sim_world.hosts[i];

	sim_host_init(host, i);
	sim_world_plain_config(&host->config);
	host->config.drain_ms = (uint32_t)sim_between(1, 1000);
	host->pause = sim_chance(300000) ? 5000 : 0;
	host->preempt = sim_chance(300000) ? 100000 : 0;
	host->pause_ns = 200 * SIM_MS;
	if (i) {
		sim_host_borrow(host, &sim_world.hosts[0]);
		return;
	}
	sim_host_add_volume(host, 8 * 4096, 512, false);
	/* Or each restart is a loss (F7), after which the application begins anew, at any target. */
	host->remembers = true;
	/* Slow, so that much is left with it when the session goes elsewhere. */
	host->disks[0]->fault_rates = (struct sim_disk_fault_rates){
		.delay_min_ns = 5 * SIM_US,
		.delay_max_ns = 5 * SIM_MS,
		.stall = sim_chance(700000) ? 200000 : 0,
		.stall_ns = sim_chance(500000) ? 50 * SIM_MS : SIM_S,
	};
}

static void build_app(bool history)
{
	struct sim_app *app = &sim_world.apps[0];

	app->host = &sim_world.hosts[0];
	app->other = &sim_world.hosts[1];
	app->mount_count = 1;
	app->portals = 1;
	app->options.connect_timeout_ms = (uint32_t)sim_between(20, 500);
	app->options.command_timeout_ms = 60000;
	app->options.credits = 16;
	app->options.queues = (uint32_t)sim_between(1, 3);
	app->options.give_up_ms = 600000;
	app->load.ops_left = (unsigned int)sim_between(20, 200);
	app->load.depth = (unsigned int)sim_between(1, 8);
	app->load.read = (uint32_t)sim_between(100000, 700000);
	app->load.flush = sim_world_rate(20000, 200000);
	app->think_ns = sim_chance(500000) ? 20 * SIM_US : 5 * SIM_MS;
	app->alone = true;
	if (history) {
		app->options.queues = 1;
		app->load.depth = 1;
		app->load.flush = 0;
		app->load.ops_left = (unsigned int)sim_between(5, 30);
		app->steady = true;
	}
	sim_app_start(app, sim_world.host_count);
}

static void build_module(void)
{
	struct sim_module *module = &sim_world.module;

	module->host = &sim_world.hosts[0];
	module->disk_count = 1;
	module->attach = (struct sim_attach){
		.portals = 1,
		.other = 1,
		.queues = (unsigned int)sim_between(1, 3),
		.credits = 16,
		.slot_bytes = 4096u << sim_below(3),
		.connect_ms = (unsigned int)sim_between(100, 1000),
		.command_ms = 60000,
		.reconnect_ms = (unsigned int)sim_between(100, 1000),
		.give_up_ms = 600000,
	};
	module->load.ops_left = (unsigned int)sim_between(20, 200);
	module->load.depth = (unsigned int)sim_between(1, 8);
	module->load.read = (uint32_t)sim_between(100000, 700000);
	module->load.flush = sim_world_rate(20000, 200000);
	module->think_ns = sim_chance(500000) ? 20 * SIM_US : 5 * SIM_MS;
	sim_module_start(module, sim_world.host_count);
	sim_world.module_count = 1;
}

/* -- the cluster manager ------------------------------------------------------------------------- */

static struct sim_host *host_that_runs(void)
{
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		if (sim_world.hosts[i].running)
			return &sim_world.hosts[i];
	return NULL;
}

/* It kills the one, and starts the other when the disk has nothing of it any more. */
static void on_manager(void *arg)
{
	static struct sim_host *next;
	struct sim_host *host = host_that_runs();
	const struct sim_disk *disk = sim_world.hosts[0].disks[0];

	(void)arg;
	if (host && !sim_net.calm) {
		next = host == &sim_world.hosts[0] ? &sim_world.hosts[1] : &sim_world.hosts[0];
		sim_host_kill(host, false, 0);
		sim_event_cancel(&host->restart);
		sim_totals.kills++;
	} else if (!host && next && !disk->holder[0] && !disk->holder[1]) {
		sim_reached("target", "is started on another machine", NULL);
		sim_host_start(next);
	}
	if (!sim_net.calm || !host_that_runs())
		sim_event_in(&sim_world.manager, host_that_runs() ? sim_between(MANAGER_NS, 100 * SIM_MS) : MANAGER_NS);
}

static bool has_opened(void)
{
	return sim_world.module_count ? sim_world.module.disks[0].disk != NULL : sim_world.apps[0].mounts[0].rblk != NULL;
}

/* The session has begun at the first target: the other one comes, and faults. A new session might begin there. */
static void on_opened(void *arg)
{
	(void)arg;
	if (sim_net.calm)
		return;
	if (!has_opened()) {
		sim_event_in(&sim_world.manager, SIM_MS);
		return;
	}
	sim_host_start(&sim_world.hosts[1]);
	sim_event_in(&sim_world.fault, sim_below(sim_world.fault_ns));
}

static void build_domain(void)
{
	if (sim_chance(700000)) {
		sim_stranger = 1;
		sim_host_start(&sim_world.hosts[0]);
		sim_world.manager.run = on_opened;
		sim_event_in(&sim_world.manager, SIM_MS);
		return;
	}
	sim_world.hosts[1].remembers = true; /* a folder that both have */
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		memset(sim_world.hosts[i].config.volumes[0].fence_domain, 0xd0, 16);
	sim_host_start(&sim_world.hosts[0]);
	sim_world.manager.run = on_manager;
	sim_event_in(&sim_world.manager, sim_between(10 * SIM_MS, 50 * SIM_MS));
	sim_event_in(&sim_world.fault, sim_below(sim_world.fault_ns));
}

static void build_world(bool history)
{
	sim_world_plain_net(true);
	sim_world.host_count = 2;
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		build_host(i);
	sim_world.fault_ns = sim_chance(500000) ? 2 * SIM_MS : 20 * SIM_MS;
	build_domain();
	/* The module's user looks into its target, and knows but one. */
	if (!history && sim_stranger != UINT_MAX && sim_chance(500000)) {
		build_module();
	} else {
		sim_world.app_count = 1;
		build_app(history);
	}
	sim_world.faults = ((unsigned int)sim_random() | 1u << FAULT_CUT) & (1u << FAULT_BREAK | 1u << FAULT_CUT);
	/* Else by nobody but the manager. */
	if (sim_stranger != UINT_MAX)
		sim_world.faults |= 1u << FAULT_KILL;
	sim_event_in(&sim_world.calm, sim_between(50 * SIM_MS, SIM_S));
}

void sim_world_build_two(void)
{
	build_world(false);
}

void sim_world_build_domain(void)
{
	build_world(true);
}
