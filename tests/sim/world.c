/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of a world: its faults, its calm, and its end.
 */
#include "tests/sim/world.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/world_impl.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/history.h"
#include "tests/sim/rados.h"
#include "tests/sim/random.h"
#include "tests/sim/socket_sim.h"
#include "tests/sim/thread.h"
#include "tests/sim/trace.h"

/* A world that takes longer than this is stuck: several times what every time-out there is adds up
 * to when nothing more goes wrong. */
#define PROGRESS_NS (180 * SIM_S)
#define STEPS_MAX 4000000u

struct sim_totals sim_totals;
struct sim_world sim_world;

/* -- faults -------------------------------------------------------------------------------- */

/* arg: the machine's heal event; its place tells which. */
static void on_heal(void *arg)
{
	unsigned int machine = (unsigned int)((struct sim_event *)arg - sim_world.heal);

	sim_trace("network", "machine %u is reached again", machine);
	sim_link_cut(machine, 0);
}

static void machine_cut(void)
{
	static const char *const names[] = {"", "no way out", "no way in", "cut off"};
	unsigned int ways = (unsigned int)sim_between(1, 3);
	unsigned int others = sim_world.host_count + sim_world.app_count + sim_world.raw_initiator_count +
			      sim_world.module_count;
	unsigned int machine = (unsigned int)sim_below(others + sim_world.nvme_count);

	if (machine >= others)
		machine += MACHINES_MAX - others;
	sim_trace("network", "machine %u: %s", machine, names[ways]);
	sim_reached("machine", names[ways], NULL);
	sim_link_cut(machine, ways);
	sim_event_in(&sim_world.heal[machine],
		     sim_chance(700000) ? sim_below(20 * SIM_MS) : sim_below(5 * SIM_S));
	sim_totals.cuts++;
}

/* arg: the portal's heal event; its place tells which. */
static void on_portal_heal(void *arg)
{
	size_t place = (size_t)((struct sim_event *)arg - sim_world.portal_heal[0]);
	unsigned int host = (unsigned int)(place / SIM_PORTALS_MAX);
	unsigned int portal = (unsigned int)(place % SIM_PORTALS_MAX);

	sim_trace("network", "target %u: portal %u is reached again", host, portal);
	sim_portal_cut(host, portal, 0);
}

/* One way or both, of one of the target's addresses; what goes by the others goes on. */
static void portal_cut(const struct sim_host *host)
{
	static const char *const names[] = {"", "no way out", "no way in", "cut off"};
	unsigned int portal = (unsigned int)sim_below(host->portal_count);
	unsigned int ways = (unsigned int)sim_between(1, 3);

	if (host->portal_count < 2)
		return;
	sim_trace("network", "%s: portal %u: %s", host->name, portal, names[ways]);
	sim_reached("portal", names[ways], NULL);
	sim_portal_cut(host->machine, portal, ways);
	sim_event_in(&sim_world.portal_heal[host->machine][portal],
		     sim_chance(500000) ? sim_below(50 * SIM_MS) : sim_below(10 * SIM_S));
	sim_totals.cuts++;
}

/* Of a target, or now and then of an application. */
static void device_unplug(struct sim_host *host)
{
	if (sim_chance(300000))
		sim_fabric_unplug(&sim_world.apps[sim_below(sim_world.app_count)].actor);
	else if (host->running)
		sim_fabric_unplug(&host->reactors[sim_below(host->config.reactors)].thread.actor);
}

static void on_fault(void *arg)
{
	struct sim_host *host = &sim_world.hosts[sim_below(sim_world.host_count)];
	enum fault fault = (enum fault)sim_below(sim_world.late ? FAULTS : FAULT_LATE);

	(void)arg;
	sim_event_in(&sim_world.fault, sim_below(2 * sim_world.fault_ns));
	if (!(sim_world.faults & 1u << fault))
		return;
	if (sim_world.kick && sim_chance(sim_world.kick)) {
		sim_host_kick(host);
		return;
	}
	switch (fault) {
	case FAULT_BREAK:
		if (sim_world.nvme_count && sim_chance(500000))
			sim_totals.breaks += sim_socket_break();
		else
			sim_totals.breaks += sim_fabric_break(sim_random());
		break;
	case FAULT_CUT:
		machine_cut();
		break;
	case FAULT_KILL:
		sim_totals.kills += host->running;
		sim_host_kill(host, false, sim_below(10 * SIM_MS));
		break;
	case FAULT_POWER:
		sim_totals.power_losses += host->running;
		sim_host_kill(host, true, sim_below(100 * SIM_MS));
		break;
	case FAULT_DRAIN:
		sim_totals.drains += host->running;
		sim_host_drain(host);
		break;
	case FAULT_RELOAD:
		sim_totals.reloads += host->running;
		sim_host_reload(host, false);
		break;
	case FAULT_UNPLUG:
		device_unplug(host);
		break;
	case FAULT_PORTAL:
		portal_cut(host);
		break;
	case FAULT_LATE:
		sim_host_late(host, sim_below(100 * SIM_MS));
		break;
	case FAULTS:
		break;
	}
}

static void on_power(void *arg)
{
	(void)arg;
	if (sim_world.lasting->calm)
		return;
	sim_reached("target", "loses its power", "before it answers what may last");
	sim_totals.power_losses += sim_world.lasting->running;
	sim_host_kill(sim_world.lasting, true, 50 * SIM_MS);
}

void sim_world_lasts(const struct sim_actor *actor)
{
	/* Not by chance: the histories of all others stay what they are. */
	if (sim_world.seed % 4 != 3 || !sim_world.faults)
		return;
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		for (unsigned int r = 0; r < sim_world.hosts[i].config.reactors; r++)
			if (actor == &sim_world.hosts[i].reactors[r].thread.actor && !sim_world.hosts[i].config.keepalive_ms) {
				sim_world.lasting = &sim_world.hosts[i];
				sim_event_in(&sim_world.power, 2 * SIM_US);
			}
}

/* No faults from here on: everything must come to its end. */
static void on_calm(void *arg)
{
	(void)arg;
	sim_trace("world", "faults have stopped");
	sim_event_cancel(&sim_world.fault);
	sim_net.calm = true;
	for (unsigned int i = 0; i < MACHINES_MAX + NVMES_MAX; i++) {
		sim_event_cancel(&sim_world.heal[i]);
		sim_link_cut(i, 0);
	}
	for (unsigned int i = 0; i < sim_world.host_count; i++) {
		for (unsigned int p = 0; p < SIM_PORTALS_MAX; p++) {
			sim_event_cancel(&sim_world.portal_heal[i][p]);
			sim_portal_cut(i, p, 0);
		}
		sim_world.hosts[i].calm = true;
		sim_host_reload(&sim_world.hosts[i], true);
		for (unsigned int j = 0; j < sim_world.hosts[i].volume_count; j++)
			if (sim_world.hosts[i].disks[j])
				sim_world.hosts[i].disks[j]->calm = true;
	}
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		sim_world.apps[i].calm = true;
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++)
		sim_world.raw_initiators[i].calm = true;
	sim_world.module.calm = true;
	for (unsigned int i = 0; i < sim_world.nvme_count; i++)
		sim_world.nvmes[i]->calm = true;
}

/* Before anything of the world can happen. */
static void world_events(void)
{
	for (unsigned int i = 0; i < MACHINES_MAX + NVMES_MAX; i++)
		sim_world.heal[i] = (struct sim_event){.run = on_heal, .arg = &sim_world.heal[i]};
	for (unsigned int i = 0; i < GATEWAYS_MAX * SIM_PORTALS_MAX; i++) {
		struct sim_event *heal =
			&sim_world.portal_heal[i / SIM_PORTALS_MAX][i % SIM_PORTALS_MAX];

		*heal = (struct sim_event){.run = on_portal_heal, .arg = heal};
	}
	sim_world.fault.run = on_fault;
	sim_world.power.run = on_power;
	sim_world.calm.run = on_calm;
}

/* -- running ------------------------------------------------------------------------------- */

static bool initiators_finished(void)
{
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		if (!sim_world.apps[i].fiber.finished)
			return false;
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++)
		if (!sim_world.raw_initiators[i].fiber.finished)
			return false;
	for (unsigned int i = 0; i < sim_world.nvme_count; i++)
		if (!sim_world.nvmes[i]->fiber.finished)
			return false;
	return !sim_world.module_count || sim_world.module.fiber.finished;
}

static bool hosts_ended(void)
{
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		if (sim_world.hosts[i].running || sim_world.hosts[i].opening || sim_world.hosts[i].closing)
			return false;
	return true;
}

static void world_stuck(const char *why)
{
	for (unsigned int i = 0; i < sim_world.app_count; i++)
		sim_trace(sim_world.apps[i].actor.name, "%s, %u under way, %u to be begun",
			  sim_world.apps[i].doing, sim_world.apps[i].under_way,
			  sim_world.apps[i].load.ops_left);
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++)
		sim_trace(sim_world.raw_initiators[i].actor.name, "%s, %u under way, %u to be begun",
			  sim_world.raw_initiators[i].doing, sim_world.raw_initiators[i].under_way,
			  sim_world.raw_initiators[i].ops_left);
	for (unsigned int i = 0; i < sim_world.nvme_count; i++)
		sim_trace(sim_world.nvmes[i]->actor.name, "%s, %u under way, %u to be begun", sim_world.nvmes[i]->doing,
			  sim_world.nvmes[i]->under_way, sim_world.nvmes[i]->load.ops_left);
	if (sim_world.module_count)
		sim_trace(sim_world.module.actor.name, "%s, %u under way, %u to be begun",
			  sim_world.module.doing, sim_world.module.under_way,
			  sim_world.module.load.ops_left);
	sim_fail("no progress: %s", why);
}

static void world_step(uint64_t until_ns, unsigned int *steps)
{
	if (!sim_clock_step())
		world_stuck("everybody waits, nothing is to come");
	if (sim_now_ns() > until_ns)
		world_stuck("faults have stopped long ago");
	if (++*steps > STEPS_MAX)
		world_stuck("something spins");
}

static void world_end(void)
{
	for (unsigned int i = 0; i < sim_world.app_count; i++) {
		sim_totals.commands += sim_world.apps[i].completed;
		sim_app_fini(&sim_world.apps[i]);
	}
	for (unsigned int i = 0; i < sim_world.raw_initiator_count; i++) {
		sim_totals.commands += sim_world.raw_initiators[i].completed;
		sim_raw_fini(&sim_world.raw_initiators[i]);
	}
	if (sim_world.module_count) {
		sim_totals.commands += sim_world.module.completed;
		sim_module_fini(&sim_world.module);
	}
	for (unsigned int i = 0; i < sim_world.nvme_count; i++) {
		sim_totals.commands += sim_world.nvmes[i]->completed;
		sim_nvme_fini(sim_world.nvmes[i]);
		free(sim_world.nvmes[i]);
	}
	sim_event_cancel(&sim_world.fault);
	sim_event_cancel(&sim_world.calm);
	sim_event_cancel(&sim_world.manager);
	if (sim_fabric_count() || sim_ring_count() || sim_socket_count())
		sim_fail("%u fabrics, %u rings and %u sockets are left", sim_fabric_count(), sim_ring_count(),
			 sim_socket_count());
	while (sim_clock_step())
		; /* I/O of processes that are no more */
	sim_rados_fini();
	for (unsigned int i = 0; i < sim_world.host_count; i++)
		sim_host_fini(&sim_world.hosts[i]);
	sim_model_fini();
}

void sim_world_run_as(uint64_t seed, void (*build)(void), bool (*finished)(void))
{
	unsigned int steps = 0;
	uint64_t until_ns;

	sim_random_seed(seed);
	sim_coverage_seed();
	sim_clock_reset();
	sim_trace_seed(seed);
	sim_model_reset();
	sim_fabric_reset();
	sim_eventfds_reset();
	sim_sockets_reset();
	sim_reservation_files_reset();
	memset(&sim_world, 0, sizeof(sim_world));
	sim_stranger = UINT_MAX;
	/* Whoever wants the module's faults says so. */
	sim_disk_kill_sending = sim_disk_starve = sim_disk_killed = sim_disk_unmapped = 0;
	sim_blk_fake_timeouts = 0;
	sim_world.seed = seed;
	sim_commands_prioritise(seed % 4 == 1);
	world_events();
	build();
	until_ns = sim_world.calm.at_ns + PROGRESS_NS;
	while (!(finished ? finished() : initiators_finished())) {
		world_step(until_ns, &steps);
		steps = finished ? 0 : steps; /* as many as it takes */
	}
	for (unsigned int i = 0; i < sim_world.host_count; i++) {
		sim_world.hosts[i].wanted = false;
		sim_event_cancel(&sim_world.manager);
		sim_event_cancel(&sim_world.power);
		sim_event_cancel(&sim_world.hosts[i].restart);
		sim_host_drain(&sim_world.hosts[i]);
	}
	while (!hosts_ended())
		world_step(until_ns + PROGRESS_NS, &steps);
	world_end();
	sim_totals.seeds++;
}

bool sim_world_run(uint64_t seed)
{
	/* A seed is one world wherever it runs: not another one where this one cannot. */
	if (seed % 32 == 18 && !sim_rados_can())
		return false;
	/* Not by chance: the histories of all others stay what they are. */
	sim_world_run_as(seed, seed % 32 == 30	  ? sim_world_build_two
			: seed % 32 == 24 ? sim_world_build_nvme
			: seed % 32 == 18 ? sim_world_build_gateways
					  : sim_world_build, NULL);
	return true;
}

bool sim_world_run_history(uint64_t seed, const char *model)
{
	static const struct {
		const char *name;
		void (*build)(void);
	} models[] = {{"fence", sim_world_build_fence},
		      {"durable", sim_world_build_durable},
		      {"domain", sim_world_build_domain}};

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		if (strcmp(models[i].name, model))
			continue;
		sim_history_start();
		sim_world_run_as(seed, models[i].build, NULL);
		sim_history_print();
		return true;
	}
	return false;
}
