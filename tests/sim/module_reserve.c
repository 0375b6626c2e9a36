/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs on the machine with the module that reserve its disks by ioctl, one for each disk,
 * beside its I/O: kmod/reservation.c's calls, which wait out a lost connection. reserver.h has what they
 * ask for, and what the answers must be. Started by module.c, in worlds that have
 * reservations.
 */
#include "tests/sim/module.h"

#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/hung.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

static struct sim_reservation *reservation_of(const struct sim_reserver *reserver)
{
	return &reserver->host->reservations[reserver->volume];
}

/* What was lost is fenced, when the module sends again: no RESERVE of it is done any more (F5). */
static void fence_look(const struct sim_module_caller *caller)
{
	struct sim_disk_view view;

	sim_disk_look(caller->slot->disk, &view);
	if (view.goes_on)
		sim_reservation_fenced(reservation_of(&caller->reserver), sim_rdma_session());
}

/* True: its program was killed. */
static bool caller_reserves(struct sim_module_caller *caller, struct rblk_disk *disk)
{
	struct sim_reserver *reserver = &caller->reserver;
	struct sim_disk_answer answer;
	struct sim_disk_view view = {};
	struct rblk_wire_reservation asked;
	uint64_t begun_ns;

	sim_reserver_begin(reserver, &asked);
	/* As the module does by itself; another program's disk may have been detached meanwhile. */
	if (caller->slot->disk == disk)
		sim_disk_look(disk, &view);
	if (asked.new_key && view.flags & RBLK_VOLUME_RESERVATIONS_PERSIST)
		asked.flags |= RBLK_RESERVE_PERSIST;
	begun_ns = sim_now_ns();
	answer = sim_disk_reserve(disk, &asked);
	sim_hung_done(reserver->name, "RESERVE", reserver->host->disks[reserver->volume], begun_ns);
	sim_trace(reserver->name, "RESERVE ends: error %d, %s%s", -answer.error,
		  answer.answered ? rblk_status_text(answer.status) : "not answered",
		  answer.lost ? ", sent again" : "");
	if (answer.lost)
		sim_reached("module", "sends RESERVE again",
			    answer.answered ? "and it is answered" : "and gives up");
	caller->slot->gone |=
		answer.answered && answer.status == RBLK_E_GONE && caller->slot->disk == disk;
	if (answer.answered)
		sim_reserver_answered(reserver, &asked, answer.lost, answer.status);
	else if (answer.lost)
		sim_reserver_lost(reserver, &asked, sim_rdma_session());
	else /* it was not sent */
		sim_reserver_answered(reserver, &asked, false, RBLK_E_BUSY);
	return answer.error == -EINTR;
}

/* The kernel tells keys and no names: enough where the table is known. */
static void caller_looks(struct sim_module_caller *caller, struct rblk_disk *disk)
{
	const struct sim_reserver *reserver = &caller->reserver;
	uint64_t serial = sim_reservation_serial(reservation_of(reserver));
	uint64_t keys[SIM_REGISTRANTS], holder = 0;
	unsigned int count = SIM_REGISTRANTS;
	uint8_t type = 0;
	int error = sim_disk_read_keys(disk, keys, &count);

	sim_reached("module", "asks for the keys, and that", error ? "has failed" : "is done");
	if (!error && !sim_reservation_has_keys(reservation_of(reserver), serial, keys, count))
		sim_fail("%s: the keys that are reported are not those that are registered",
			 reserver->name);
	if (error)
		return;
	error = sim_disk_read_reservation(disk, &type, &holder);
	if (!error && !sim_reservation_is_held(reservation_of(reserver), serial, type, holder))
		sim_fail("%s: the reservation that is reported is not that which was made",
			 reserver->name);
}

/* As with a file descriptor of its own. */
static void caller_calls(struct sim_module_caller *caller)
{
	struct rblk_disk *disk = caller->slot->disk;

	if (!sim_disk_open(disk))
		return;
	caller->slot->callers++;
	fence_look(caller);
	if (sim_reserver_looks(&caller->reserver))
		caller_looks(caller, disk);
	else if (caller_reserves(caller, disk) && sim_chance(800000))
		caller_reserves(caller, disk); /* another program, at once */
	sim_reserver_pause(&caller->reserver);
	sim_disk_close(disk);
	/* It was detached meanwhile, and only now everyone who had it open has closed it (F7). */
	if (caller->slot->disk != disk)
		caller->module->known++;
	caller->slot->callers--;
}

static void caller_run(void *arg)
{
	struct sim_module_caller *caller = arg;
	struct sim_reserver *reserver = &caller->reserver;

	/* A RESERVE that waits for a disk that hangs has its queue's only tag for these. */
	if (sim_hung_is(reserver->host->disks[reserver->volume]))
		reserver->released = true;
	while (!caller->module->halts && !sim_hung_is(reserver->host->disks[reserver->volume])) {
		sim_fiber_sleep(sim_between(SIM_US, SIM_MS));
		reserver->calm = caller->module->calm;
		if (caller->slot->disk)
			fence_look(caller);
		if (caller->slot->disk && sim_reserver_wants(reserver))
			caller_calls(caller);
	}
}

void sim_module_callers_start(struct sim_module *module)
{
	for (unsigned int i = 0; i < module->disk_count && module->reserves; i++) {
		struct sim_module_caller *caller = &module->callers[i];

		caller->module = module;
		caller->slot = &module->disks[i];
		caller->reserver = (struct sim_reserver){
			.name = SIM_MODULE_NAME,
			.machine = module->actor.machine,
			.host = module->host,
			.volume = caller->slot->volume,
			.often = module->reserves,
			.preempts = module->preempts,
		};
		sim_fiber_start(&caller->fiber, &module->actor, caller_run, caller);
		sim_kernel_preempts(&caller->fiber);
	}
}

bool sim_module_callers_released(const struct sim_module *module)
{
	for (unsigned int i = 0; i < module->disk_count && module->reserves; i++)
		if (!module->callers[i].reserver.released)
			return false;
	return true;
}

bool sim_module_callers_finished(const struct sim_module *module)
{
	for (unsigned int i = 0; i < SIM_MODULE_DISKS; i++)
		if (module->callers[i].module && !module->callers[i].fiber.finished)
			return false;
	return true;
}

void sim_module_callers_fini(struct sim_module *module)
{
	for (unsigned int i = 0; i < SIM_MODULE_DISKS; i++)
		if (module->callers[i].module)
			sim_fiber_fini(&module->callers[i].fiber);
}
