/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One seed: builds a world of targets, disks and applications, lets faults happen to it for a
 * while, then waits until all work is done, and checks that nothing is left over.
 */
#ifndef RBLK_TESTS_SIM_WORLD_H
#define RBLK_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* What the seeds have done so far, so that a run can be seen to have tested something. */
struct sim_totals {
	uint64_t seeds, commands, kills, power_losses, drains, reloads, breaks, cuts;
	uint64_t module_commands, module_sends; /* that it has sent; in so many SENDs */
};
extern struct sim_totals sim_totals;

/*
 * A FENCE or RESERVE has come to this actor. Where nobody sends KEEPALIVE, its machine may lose its power before the
 * answer, and nobody is told.
 */
struct sim_actor;
void sim_world_lasts(const struct sim_actor *actor);
/* Returns if all went well; else does not (sim_fail). False: this build has no such world. */
bool sim_world_run(uint64_t seed);
/* In a world of which this model speaks, with its history to stdout. False: there is no such model. */
bool sim_world_run_history(uint64_t seed, const char *model);
/* Commands that wait, with priority and without: who overtakes whom, to stdout. False: priority makes no difference. */
bool sim_world_run_priority(uint64_t first, uint64_t seeds);
/* Initiators at gateways, of which one is killed or stops: what that meant, to stdout. False: it cannot. */
bool sim_world_run_crowd(unsigned int gateways, unsigned int initiators, bool stops, bool together);

#endif
