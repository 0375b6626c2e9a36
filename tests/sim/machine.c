/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The machine of machine.h: its user's life as a fiber, and its RDMA device's interrupts.
 */
#include "tests/sim/machine.h"

#include <stdio.h>
#include <string.h>
#include "proto/core/session.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/inside.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* The only one: the module's calls come here. */
static struct sim_machine *self;

/* -- opening ------------------------------------------------------------------------------------- */

static struct sim_machine_disk *disk_of(const char *volume)
{
	for (unsigned int i = 0; i < self->disk_count; i++)
		if (!strcmp(self->host->config.volumes[self->disks[i].volume].name, volume))
			return &self->disks[i];
	sim_fail("%s: OPEN of %s, which is not attached", self->actor.name, volume);
}

void sim_machine_opens(const char *volume)
{
	struct sim_machine_disk *disk = disk_of(volume);

	disk->opening = sim_model_opening(self->host->volumes[disk->volume]);
}

void sim_machine_opened(const char *volume, const uint8_t cache_epoch[16])
{
	struct sim_machine_disk *disk = disk_of(volume);

	disk->opening.life = sim_model_opened(&disk->opening, cache_epoch);
	sim_inside_opened(self->host, disk->volume, &disk->opening);
}

static bool machine_attach(struct sim_machine *machine)
{
	char text[256];

	machine->doing = "attaches";
	for (unsigned int i = 0; i < machine->disk_count; i++) {
		struct sim_machine_disk *disk = &machine->disks[i];
		struct sim_disk_view view;

		machine->attach.volume = machine->host->config.volumes[disk->volume].name;
		disk->disk = sim_disk_attach(&machine->attach, text);
		sim_trace(machine->actor.name, "attach: %s", text);
		if (!disk->disk)
			return false;
		sim_disk_look(disk->disk, &view);
		disk->own_life = disk->life = disk->opening.life;
		disk->epoch = view.epoch;
		disk->wrote = disk->covered = 0;
		disk->lost = false;
		memcpy(disk->cache_epoch, view.cache_epoch, sizeof(disk->cache_epoch));
	}
	return true;
}

static void machine_detach(struct sim_machine *machine, bool force)
{
	machine->doing = "detaches";
	for (unsigned int i = 0; i < machine->disk_count; i++) {
		struct rblk_disk *disk = machine->disks[i].disk;
		struct sim_disk_view view;

		if (!disk)
			continue;
		/* Nobody has it open: it may lose what it likes. */
		machine->disks[i].disk = NULL;
		sim_disk_look(disk, &view);
		sim_reached("module: a disk is detached, its session is",
			    core_session_state_name(view.state),
			    machine->under_way ? "with I/O under way" : NULL);
		sim_disk_detach(disk, force);
	}
	if (machine->under_way || sim_guard_lent(&machine->guard))
		sim_fail("%s: %u requests were never completed", machine->actor.name,
			 machine->under_way);
	sim_trace(machine->actor.name, "all is detached");
}

/* -- work ---------------------------------------------------------------------------------------- */

static bool disks_failed(const struct sim_machine *machine)
{
	struct sim_disk_view view;

	for (unsigned int i = 0; i < machine->disk_count; i++) {
		sim_disk_look(machine->disks[i].disk, &view);
		if (view.failed)
			return true;
	}
	return false;
}

/* Until a request has ended, at most so long. Who has polled requests looks for them. */
static void machine_wait(struct sim_machine *machine, uint64_t limit_ns)
{
	bool polls = false;

	for (unsigned int i = 0; i < SIM_SLOTS; i++) {
		const struct sim_machine_op *op = &machine->ops[i];

		if (!op->command || !op->polled || sim_chance(300000))
			continue;
		polls = true;
		sim_disk_poll(op->disk->disk, op->context);
	}
	sim_disk_sample(machine->disks[0].disk);
	sim_fiber_wait(polls && limit_ns > 10 * SIM_US ? 10 * SIM_US : limit_ns);
	sim_machine_refresh(machine);
}

static void machine_begin_some(struct sim_machine *machine)
{
	unsigned int burst = (unsigned int)sim_between(0, machine->depth);

	while (machine->ops_left && machine->under_way < machine->depth && burst) {
		if (!sim_machine_begin_any(machine, !--burst))
			break;
		machine->ops_left--;
	}
}

/* False: a disk has failed, or it does not want to wait. */
static bool machine_work(struct sim_machine *machine)
{
	machine->doing = "works";
	while (machine->ops_left || machine->under_way) {
		machine_begin_some(machine);
		if (machine->ops_left && machine->under_way < machine->depth)
			sim_fiber_sleep(sim_below(machine->think_ns));
		if (!machine->calm && sim_chance(machine->kill))
			sim_disk_kill_connection(machine->disks[0].disk);
		machine_wait(machine, SIM_MS);
		if (disks_failed(machine) || (!machine->calm && sim_chance(machine->abandon)))
			return false;
	}
	return true;
}

static bool disk_verify(struct sim_machine *machine, struct sim_machine_disk *disk)
{
	struct sim_disk_view view;
	uint64_t sectors, most;

	sim_disk_look(disk->disk, &view);
	sectors = view.blocks * view.block_bytes / SIM_SECTOR;
	most = (view.max_bytes < SIM_SLOT_BYTES ? view.max_bytes : SIM_SLOT_BYTES) / SIM_SECTOR;
	disk->verified = 0;
	while (disk->verified < sectors || machine->under_way) {
		struct sim_command command = {.kind = SIM_COMMAND_READ,
					      .sector = disk->verified,
					      .sectors = most};

		if (command.sectors > sectors - disk->verified)
			command.sectors = sectors - disk->verified;
		if (command.sectors && sim_machine_begin(machine, disk, command, true))
			disk->verified += command.sectors;
		machine_wait(machine, SIM_MS);
		if (disks_failed(machine))
			return false;
	}
	return true;
}

static bool machine_verify(struct sim_machine *machine)
{
	machine->doing = "verifies";
	for (unsigned int i = 0; i < machine->disk_count; i++)
		if (!disk_verify(machine, &machine->disks[i]))
			return false;
	return true;
}

static void machine_run(void *arg)
{
	struct sim_machine *machine = arg;
	bool finished = false;

	while (!finished) {
		bool well = machine_attach(machine) && machine_work(machine);

		if (well && machine->calm)
			finished = well = machine_verify(machine);
		machine_detach(machine, !well || sim_chance(300000));
		machine->doing = "waits";
		if (!finished)
			sim_fiber_sleep(sim_between(SIM_MS, 50 * SIM_MS));
	}
	machine->doing = "halts";
	sim_blk_stop();
	sim_rdma_stop();
	sim_kernel_stop();
	while (!sim_kernel_stopped())
		sim_fiber_sleep(20 * SIM_US);
	machine->doing = "has finished";
}

bool sim_machine_runs(void)
{
	return self && sim_actor_self() == &self->actor;
}

/* -- making -------------------------------------------------------------------------------------- */

static void on_interrupt(void *arg)
{
	struct sim_machine *machine = arg;
	struct sim_actor *before = sim_actor_become(&machine->actor);

	sim_rdma_interrupt();
	sim_actor_become(before);
}

static void machine_wake(struct sim_actor *actor)
{
	struct sim_machine *machine = (struct sim_machine *)actor;

	sim_event_by(&machine->interrupt, sim_now_ns() + sim_between(200, 20 * SIM_US));
}

void sim_machine_start(struct sim_machine *machine, unsigned int number)
{
	self = machine;
	snprintf(machine->actor.name, sizeof(machine->actor.name), "machine%u", number);
	machine->actor.machine = number;
	machine->actor.wake = machine_wake;
	machine->interrupt = (struct sim_event){.run = on_interrupt, .arg = machine};
	sim_kernel_start(&machine->actor);
	sim_rdma_start();
	sim_guard_init(&machine->guard, machine->actor.name);
	sim_fiber_start(&machine->fiber, &machine->actor, machine_run, machine);
	sim_kernel_preempts(&machine->fiber);
}

void sim_machine_fini(struct sim_machine *machine)
{
	self = NULL;
	sim_event_cancel(&machine->interrupt);
	sim_kernel_fini();
	sim_fiber_fini(&machine->fiber);
	sim_guard_fini(&machine->guard);
}
