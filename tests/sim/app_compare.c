/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An application's COMPARE_AND_WRITEs: what it expects a volume to hold, from what it has read and written
 * by this session. Called by app_op.c. Whether the answers are right is the model's.
 */
#include <string.h>
#include "tests/sim/app.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

#define UNKNOWN UINT64_MAX

void sim_mount_forget(struct sim_mount *mount)
{
	memset(mount->known, 0xff, sizeof(mount->known));
}

static uint64_t sector_after(const struct sim_command *command, bool done, const uint8_t *data,
			     uint64_t before)
{
	uint64_t id;

	switch (command->kind) {
	case SIM_COMMAND_READ:
		if (!done)
			return before;
		memcpy(&id, data, sizeof(id));
		return id;
	case SIM_COMMAND_WRITE:
	case SIM_COMMAND_COMPARE:
		return done ? command->id : UNKNOWN;
	case SIM_COMMAND_ZEROES:
		return done ? 0 : UNKNOWN;
	default:
		return UNKNOWN;
	}
}

void sim_mount_learn(struct sim_mount *mount, const struct sim_command *command, bool done,
		     const uint8_t *data)
{
	if (command->sector + command->sectors > SIM_APP_SECTORS)
		sim_fail("a volume of more than %u sectors", SIM_APP_SECTORS);
	for (uint64_t i = 0; i < command->sectors; i++) {
		uint64_t *known = &mount->known[command->sector + i];

		*known = sector_after(command, done, data ? data + i * SIM_SECTOR : NULL, *known);
	}
}

void sim_mount_compare(const struct sim_app *app, const struct sim_mount *mount,
		       struct sim_command *command, uint64_t expected[SIM_COMPARE_SECTORS])
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);

	if ((command->kind != SIM_COMMAND_READ && command->kind != SIM_COMMAND_WRITE) ||
	    !info->can_compare_and_write || !app->compare || !sim_chance(app->compare) ||
	    command->sectors > SIM_COMPARE_SECTORS ||
	    command->sectors * SIM_SECTOR > info->max_compare_bytes)
		return;
	for (uint64_t i = 0; i < command->sectors; i++) {
		expected[i] = mount->known[command->sector + i];
		if (expected[i] == UNKNOWN)
			return;
	}
	/* Now and then what nobody has ever written there. */
	if (sim_chance(50000))
		expected[sim_below(command->sectors)] = sim_model_id();
	command->kind = SIM_COMMAND_COMPARE;
	command->expected = expected;
}
