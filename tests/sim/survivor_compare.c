/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The survivor's COMPARE_AND_WRITEs: what it expects the volume to hold, from what it has read and
 * written, and the operation numbers that keep a retry from being done twice (F8). Called by
 * survivor_work.c, which sends them like its other block commands.
 */
#include "tests/sim/survivor.h"

#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"

#define UNKNOWN UINT64_MAX

/* -- what it knows ------------------------------------------------------------------------- */

void sim_survivor_learn(const struct sim_errand *errand, bool done)
{
	struct sim_survivor *survivor = errand->survivor;

	for (uint64_t i = 0; i < errand->sectors; i++) {
		uint64_t *known = &survivor->known[errand->sector + i];

		if (errand->kind == SIM_COMMAND_READ && done)
			memcpy(known, errand->memory + i * SIM_SECTOR, sizeof(*known));
		else if (errand->kind == SIM_COMMAND_ZEROES && done)
			*known = 0;
		else if (errand->kind == SIM_COMMAND_WRITE || errand->kind == SIM_COMMAND_COMPARE)
			*known = done ? errand->id : UNKNOWN;
		else if (errand->kind != SIM_COMMAND_READ)
			*known = UNKNOWN;
	}
}

void sim_survivor_forget(struct sim_survivor *survivor)
{
	memset(survivor->known, 0xff, sizeof(survivor->known));
}

bool sim_compare_expect(struct sim_errand *errand)
{
	const uint64_t *known = &errand->survivor->known[errand->sector];

	if (errand->sectors > SIM_COMPARE_SECTORS)
		return false;
	for (uint64_t i = 0; i < errand->sectors; i++)
		if (known[i] == UNKNOWN)
			return false;
	memcpy(errand->expected, known, errand->sectors * sizeof(*known));
	/* Now and then what nobody has ever written there. */
	if (sim_chance(50000))
		errand->expected[sim_below(errand->sectors)] = sim_model_id();
	return true;
}

/* -- numbers (F8) -------------------------------------------------------------------------- */

/* The oldest number that may still be sent again. */
static uint64_t oldest_operation(const struct sim_survivor *survivor)
{
	uint64_t oldest = survivor->operation + 1;

	for (unsigned int i = 0; i < SIM_SURVIVOR_ERRANDS; i++) {
		const struct sim_errand *errand = &survivor->errands[i];

		if (errand->state != SIM_ERRAND_FREE && errand->operation &&
		    errand->operation_epoch == survivor->epoch && errand->operation < oldest)
			oldest = errand->operation;
	}
	if (survivor->reserve.state != SIM_ERRAND_FREE && survivor->reserve.operation &&
	    survivor->reserve.epoch == survivor->epoch && survivor->reserve.operation < oldest)
		oldest = survivor->reserve.operation;
	return oldest;
}

uint64_t sim_survivor_operation(struct sim_survivor *survivor)
{
	if (survivor->operation + 1 >= oldest_operation(survivor) + RBLK_OPERATIONS_MAX) {
		sim_reached("compare", "has to wait for an older operation's answer", NULL);
		return 0;
	}
	return ++survivor->operation;
}

bool sim_compare_may_go(struct sim_errand *errand)
{
	struct sim_survivor *survivor = errand->survivor;

	if (!errand->operation || errand->operation_epoch != survivor->epoch) {
		errand->operation = sim_survivor_operation(survivor);
		errand->operation_epoch = survivor->epoch;
	}
	return errand->operation;
}

bool sim_compare_is_unknown(const struct sim_errand *errand)
{
	return errand->kind == SIM_COMMAND_COMPARE && errand->state != SIM_ERRAND_SENT &&
	       errand->lost_once && errand->operation_epoch != errand->survivor->epoch;
}
