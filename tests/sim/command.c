/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What commands of model.h have in common, whoever asks for them, an application (app_op.c) or a user of the
 * module's disks: their names, which one is next, and the data of a WRITE or a COMPARE.
 */
#include <string.h>
#include "tests/sim/disk.h"
#include "tests/sim/guard.h"
#include "tests/sim/model.h"
#include "tests/sim/random.h"

const char *sim_command_kind_name(enum sim_command_kind kind)
{
	static const char *const names[SIM_COMMAND_KINDS] = {
		[SIM_COMMAND_READ] = "READ",	     [SIM_COMMAND_WRITE] = "WRITE",
		[SIM_COMMAND_ZEROES] = "ZEROES",     [SIM_COMMAND_DISCARD] = "DISCARD",
		[SIM_COMMAND_FLUSH] = "FLUSH",	     [SIM_COMMAND_COMPARE] = "COMPARE_AND_WRITE",
	};

	return names[kind];
}

static bool some_have_priority;

void sim_commands_prioritise(bool some)
{
	some_have_priority = some;
}

bool sim_sector_priority(uint64_t sector)
{
	return some_have_priority && sector % 3 == 0;
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

void sim_compare_fill(const struct sim_command *compare, uint8_t *data)
{
	uint8_t *after = data + compare->sectors * SIM_SECTOR;

	for (uint64_t i = 0; i < compare->sectors; i++) {
		uint64_t number = compare->sector + i;

		if (compare->expected[i])
			sim_sector_fill(data + i * SIM_SECTOR, compare->expected[i], number);
		else
			memset(data + i * SIM_SECTOR, 0, SIM_SECTOR);
		sim_sector_fill(after + i * SIM_SECTOR, compare->id, number);
	}
}

struct sim_command sim_load_choose(const struct sim_load *load, const struct sim_scope *scope)
{
	uint64_t block = scope->block_bytes / SIM_SECTOR, blocks = scope->blocks, count;
	uint64_t most = (scope->max_bytes < SIM_SLOT_BYTES ? scope->max_bytes : SIM_SLOT_BYTES) /
			scope->block_bytes;
	struct sim_command command = {.kind = SIM_COMMAND_WRITE};

	if (scope->flush && sim_chance(load->flush)) {
		command.kind = SIM_COMMAND_FLUSH;
		return command;
	}
	count = sim_chance(load->large) ? sim_between(1, most) : sim_between(1, 4);
	count = count > most ? most : count;
	count = count > blocks ? blocks : count;
	command.sectors = count * block;
	command.sector =
		sim_below(sim_chance(500000) && blocks - count > 4 ? 4 : blocks - count + 1) *
		block;
	if (sim_chance(load->read))
		command.kind = SIM_COMMAND_READ;
	else if (scope->zeroes && sim_chance(load->zeroes))
		command.kind = SIM_COMMAND_ZEROES;
	else if (scope->discard && sim_chance(load->discard))
		command.kind = SIM_COMMAND_DISCARD;
	command.fua = scope->fua && sim_chance(load->fua) &&
		      (command.kind == SIM_COMMAND_WRITE || command.kind == SIM_COMMAND_ZEROES);
	return command;
}
