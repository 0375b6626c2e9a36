/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The inside of a world: world_build.c makes it, world.c lets faults happen to it and sees it end.
 */
#ifndef RBLK_TESTS_SIM_WORLD_IMPL_H
#define RBLK_TESTS_SIM_WORLD_IMPL_H

#include "tests/sim/app.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/host.h"
#include "tests/sim/module.h"
#include "tests/sim/survivor.h"
#include "tests/sim/world.h"

#define HOSTS_MAX 2u
#define APPS_MAX 3u
#define SURVIVORS_MAX 2u
#define MACHINES_MAX (HOSTS_MAX + APPS_MAX + SURVIVORS_MAX + 1u)

enum fault {
	FAULT_BREAK,
	FAULT_CUT,
	FAULT_KILL,
	FAULT_POWER,
	FAULT_DRAIN,
	FAULT_RELOAD,
	FAULT_UNPLUG,
	FAULT_PORTAL,
	FAULTS
};

/* Of the seed that runs. */
extern struct sim_world {
	struct sim_host hosts[HOSTS_MAX];
	struct sim_app apps[APPS_MAX];
	struct sim_survivor survivors[SURVIVORS_MAX];
	struct sim_module module;
	unsigned int host_count, app_count, survivor_count, module_count;
	struct sim_event fault, calm, heal[MACHINES_MAX], portal_heal[HOSTS_MAX][SIM_PORTALS_MAX];
	unsigned int ops_max;
	unsigned int faults; /* bit per enum fault: those that happen here */
	uint64_t fault_ns;   /* mean time between them */
} sim_world;

/* All of it but what its events do, which are set before this and begin here. */
void sim_world_build(void);

/* -- world_history.c ------------------------------------------------------------------------ */

void sim_world_build_fence(void);
void sim_world_build_durable(void);

#endif
