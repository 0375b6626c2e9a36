/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A program on the machine with the module that has two disks of one volume, and writes by the other what a connection
 * was lost with and has failed on one (F5): at once, while the target may still store the first write, and while the
 * disk that has failed is being detached and attached again. Started by module.c, in worlds that have such disks.
 */
#include "tests/sim/module.h"

#include "tests/sim/coverage.h"
#include "tests/sim/random.h"

static bool are_twins(const struct sim_module *module)
{
	return module->disk_count == 2 && module->disks[0].volume == module->disks[1].volume;
}

static void twin_writes(struct sim_module_twin *twin, struct sim_module_disk *disk)
{
	struct sim_command command = {.kind = SIM_COMMAND_WRITE, .sector = twin->sector, .sectors = twin->sectors};

	/* Whoever is about to detach it waits until nothing is on its way to it, as the block layer does. */
	disk->beginners++;
	for (uint64_t left = sim_between(1, 3); left && disk->disk; left--)
		if (sim_module_begin(twin->module, disk, command, true))
			sim_reached("module", "writes what has failed", "by another disk of the volume");
	disk->beginners--;
}

static void twin_run(void *arg)
{
	struct sim_module_twin *twin = arg;
	struct sim_module *module = twin->module;

	while (!module->halts) {
		const struct sim_module_disk *failed = twin->failed;

		twin->failed = NULL;
		if (!failed)
			sim_fiber_wait(UINT64_MAX);
		else if (!module->calm)
			twin_writes(twin, &module->disks[failed == &module->disks[0]]);
	}
}

void sim_module_twin_start(struct sim_module *module)
{
	struct sim_module_twin *twin = &module->twin;

	if (!are_twins(module))
		return;
	twin->module = module;
	sim_fiber_start(&twin->fiber, &module->actor, twin_run, twin);
	sim_kernel_preempts(&twin->fiber);
}

void sim_module_twin_told(const struct sim_module_op *op)
{
	struct sim_module_twin *twin = &op->module->twin;

	if (!twin->module || op->command->kind != SIM_COMMAND_WRITE)
		return;
	twin->failed = op->disk;
	twin->sector = op->command->sector;
	twin->sectors = op->command->sectors;
	sim_fiber_wake(&twin->fiber, sim_between(200, 20 * SIM_US));
}

bool sim_module_twin_finished(struct sim_module *module)
{
	if (!module->twin.module)
		return true;
	sim_fiber_wake(&module->twin.fiber, 0);
	return module->twin.fiber.finished;
}

void sim_module_twin_fini(struct sim_module *module)
{
	if (module->twin.module)
		sim_fiber_fini(&module->twin.fiber);
}
