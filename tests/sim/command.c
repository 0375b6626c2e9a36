/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What commands of model.h have in common, whoever asks for them, an application (app_op.c) or a user of the
 * module's disks: their names, and a WRITE's data.
 */
#include "tests/sim/disk.h"
#include "tests/sim/model.h"

const char *sim_command_kind_name(enum sim_command_kind kind)
{
	static const char *const names[SIM_COMMAND_KINDS] = {
		[SIM_COMMAND_READ] = "READ",	     [SIM_COMMAND_WRITE] = "WRITE",
		[SIM_COMMAND_ZEROES] = "ZEROES",     [SIM_COMMAND_DISCARD] = "DISCARD",
		[SIM_COMMAND_FLUSH] = "FLUSH",	     [SIM_COMMAND_COMPARE] = "COMPARE_AND_WRITE",
	};

	return names[kind];
}

const char *sim_outcome_name(enum sim_outcome outcome)
{
	static const char *const names[] = {
		[SIM_OUTCOME_DONE] = "is done",
		[SIM_OUTCOME_FAILED] = "has failed",
		[SIM_OUTCOME_NOTHING] = "was not begun",
		[SIM_OUTCOME_LOST] = "is lost",
	};

	return names[outcome];
}

void sim_command_fill(struct sim_command *write, uint8_t *data)
{
	write->id = sim_model_id();
	for (uint64_t i = 0; i < write->sectors; i++)
		sim_sector_fill(data + i * SIM_SECTOR, write->id, write->sector + i);
}
