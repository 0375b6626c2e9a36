/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The machine with the module (module.h): the life of its user as a fiber, and the interrupts of its RDMA device.
 */
#include "tests/sim/module.h"

#include <stdio.h>
#include <string.h>
#include "proto/core/session.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/hung.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

/* The only one: the module's calls come here. */
static struct sim_module *self;

/* -- opening ------------------------------------------------------------------------------------- */

/* Two disks may be of one volume, in worlds where it has one life: then it does not matter whose OPEN it is. */
static bool disk_is_of(const struct sim_module_disk *disk, const char *volume)
{
	return !strcmp(self->host->config.volumes[disk->volume].name, volume);
}

/* OPENs that were sent last, one for each slot of a session's handles: far more than are under way. */
static struct sent_open {
	const void *session;
	uint32_t slot;
	struct sim_opening opening;
} sent_opens[256];
static unsigned int sent_next;

static struct sent_open *sent_open(const void *session, uint32_t handle)
{
	for (unsigned int i = 0; i < sizeof(sent_opens) / sizeof(sent_opens[0]); i++)
		if (sent_opens[i].session == session && sent_opens[i].slot == RBLK_HANDLE_SLOT(handle))
			return &sent_opens[i];
	return NULL;
}

void sim_module_opens(const void *session, uint32_t handle, const char *volume)
{
	struct sent_open *sent = sent_open(session, handle);

	if (!sent)
		sent = &sent_opens[sent_next++ % (sizeof(sent_opens) / sizeof(sent_opens[0]))];
	sent->session = NULL;
	for (unsigned int i = 0; i < self->disk_count; i++) {
		if (!disk_is_of(&self->disks[i], volume))
			continue;
		*sent = (struct sent_open){session, RBLK_HANDLE_SLOT(handle), sim_model_opening(self->host->volumes[self->disks[i].volume])};
	}
	if (!sent->session)
		sim_fail("%s: OPEN of %s, which is not attached", self->actor.name, volume);
}

void sim_module_opened(const void *session, uint32_t handle, const char *volume, const uint8_t cache_epoch[16])
{
	const struct sent_open *sent = sent_open(session, handle);

	if (!sent)
		sim_fail("%s: an answer to OPEN of %s, which was not sent", self->actor.name, volume);
	for (unsigned int i = 0; i < self->disk_count; i++) {
		struct sim_module_disk *disk = &self->disks[i];

		if (!disk_is_of(disk, volume))
			continue;
		disk->opening = sent->opening;
		disk->opening.life = sim_model_opened(&disk->opening, cache_epoch);
		sim_whitebox_opened(self->host, disk->volume, &disk->opening);
	}
}

static bool disk_attach(struct sim_module *module, struct sim_module_disk *disk)
{
	struct sim_disk_view view;
	char text[256];

	module->doing = "attaches";
	module->attach.volume = module->host->config.volumes[disk->volume].name;
	disk->disk = sim_disk_attach(&module->attach, text);
	sim_trace(module->actor.name, "attach: %s", text);
	if (!disk->disk)
		return false;
	sim_disk_look(disk->disk, &view);
	disk->own_life = disk->life = disk->opening.life;
	disk->epoch = view.epoch;
	disk->handle = view.handle;
	disk->wrote = disk->covered = 0;
	disk->lost = disk->gone = false;
	memcpy(disk->cache_epoch, view.cache_epoch, sizeof(disk->cache_epoch));
	return true;
}

static bool module_attach(struct sim_module *module)
{
	for (unsigned int i = 0; i < module->disk_count; i++)
		if (!disk_attach(module, &module->disks[i]))
			return false;
	return true;
}

static void disk_detach(struct sim_module *module, struct sim_module_disk *slot, bool force)
{
	struct rblk_disk *disk = slot->disk;
	struct sim_disk_view view;

	/* Nobody has it open: it may lose what it likes. */
	slot->disk = NULL;
	module->known++;
	/* Those who have it open close it. */
	while (!force && slot->callers)
		sim_fiber_sleep(SIM_MS);
	while (slot->beginners)
		sim_fiber_sleep(20 * SIM_US);
	sim_disk_look(disk, &view);
	sim_reached("module: a disk is detached, its session is", core_session_state_name(view.state),
		    module->under_way ? "with I/O under way" : NULL);
	sim_disk_detach(disk, force);
}

static void module_detach(struct sim_module *module, bool force)
{
	module->doing = "detaches";
	for (unsigned int i = 0; i < module->disk_count; i++)
		if (module->disks[i].disk)
			disk_detach(module, &module->disks[i], force);
	if (module->under_way || sim_guard_lent(&module->guard))
		sim_fail("%s: %u requests were never completed", module->actor.name,
			 module->under_way);
	sim_rdma_renew();
	sim_trace(module->actor.name, "all is detached");
}

/* -- work ---------------------------------------------------------------------------------------- */

static bool disks_failed(const struct sim_module *module)
{
	struct sim_disk_view view;

	for (unsigned int i = 0; i < module->disk_count; i++) {
		if (!module->disks[i].disk)
			continue;
		sim_disk_look(module->disks[i].disk, &view);
		if (view.failed)
			return true;
	}
	return false;
}

/* Until a request has ended, at most so long. It polls, if polled requests are under way. */
static void module_wait(struct sim_module *module, uint64_t limit_ns)
{
	bool polls = false;

	for (unsigned int i = 0; i < SIM_SLOTS; i++) {
		const struct sim_module_op *op = &module->ops[i];

		if (!op->command || !op->polled || sim_chance(300000))
			continue;
		polls = true;
		sim_disk_poll(op->disk->disk, op->context);
	}
	sim_disk_sample(module->disks[0].disk ? module->disks[0].disk : module->disks[1].disk);
	sim_fiber_wait(polls && limit_ns > 10 * SIM_US ? 10 * SIM_US : limit_ns);
	sim_module_refresh(module);
}

static void module_begin_some(struct sim_module *module)
{
	unsigned int burst = (unsigned int)sim_between(0, module->load.depth);

	while (module->load.ops_left && module->under_way < module->load.depth && burst) {
		if (!sim_module_begin_any(module, !--burst))
			break;
		module->load.ops_left--;
	}
}

static const struct sim_disk *volume_disk(const struct sim_module *module, const struct sim_module_disk *disk)
{
	return module->host->disks[disk->volume];
}

/* Of a session that is up: so long an event takes at most that was lost with a connection. */
#define SIZE_TURNS 20000u

/* That no disk has: at first those that are still to be closed. */
static unsigned int unknown_handles(const struct sim_module *module, const struct rblk_disk *disk)
{
	uint32_t handles[SIM_WHITEBOX_HANDLES];
	unsigned int count, unknown = 0;
	uint8_t session[16];
	uint64_t epoch;

	sim_disk_session(disk, session, &epoch);
	count = sim_whitebox_handles(module->host, session, epoch, handles);
	for (unsigned int i = 0; i < count; i++)
		unknown += i >= SIM_WHITEBOX_HANDLES || !sim_disk_session_has(disk, handles[i]);
	return unknown;
}

/* The target has no handle of this disk's session but those of its disks. */
static bool handles_settle(struct sim_module *module, const struct rblk_disk *disk)
{
	struct sim_disk_view view;
	uint64_t begun_ns;

	for (uint64_t up_ns = 0; up_ns < SIZE_TURNS * SIM_MS;) {
		sim_disk_look(disk, &view);
		if (disks_failed(module))
			return false;
		if (!unknown_handles(module, disk))
			return true;
		begun_ns = sim_now_ns();
		module_wait(module, SIM_MS);
		if (view.ready && view.state == CORE_SESSION_LIVE)
			up_ns += sim_now_ns() - begun_ns;
	}
	/* Without KEEPALIVE it is not noticed that a connection is dead on which nothing is sent. */
	if (!module->host->config.keepalive_ms)
		return true;
	sim_fail("%s: %u handles that no disk has are open at the target", module->actor.name, unknown_handles(module, disk));
}

/* Where one hangs, the other one, as soon as a connection has broken. */
static uint32_t replace_rate(const struct sim_module *module, const struct sim_module_disk *disk, bool unfenced)
{
	if (module->hung_breaks)
		return !sim_hung_broke() || !module->hung_attaches || sim_hung_is(volume_disk(module, disk)) ? 0
		       : unfenced ? 700000 : module->hung_attaches;
	return unfenced ? 700000 : module->abandon / 2;
}

/*
 * With two disks one may be detached by force and attached again, over the session of the other: most likely
 * while a fence is owed for what it had. False: it was not attached.
 */
static bool module_replace_one(struct sim_module *module)
{
	bool attached;

	if (module->disk_count < 2 || (module->calm && !module->hung_attaches))
		return true;
	for (unsigned int i = 0; i < module->disk_count; i++) {
		struct sim_module_disk *disk = &module->disks[i];
		const struct rblk_disk *other = module->disks[!i].disk;
		struct sim_disk_view view;
		uint64_t begun_ns;

		sim_disk_look(disk->disk, &view);
		if (!sim_chance(replace_rate(module, disk, view.unfenced)))
			continue;
		module->doing = "replaces a disk";
		disk_detach(module, disk, true);
		/* Its slot may be another disk's next, which would close what is left there. */
		if (!module->hung_breaks && sim_chance(300000) && !handles_settle(module, other))
			return false;
		begun_ns = sim_now_ns();
		attached = disk_attach(module, disk);
		sim_hung_done(module->actor.name, "an attach", volume_disk(module, disk), begun_ns);
		sim_reached("module", attached ? "has a disk detached by force and attached again"
					       : "has a disk detached by force, and it is not attached again",
			    view.unfenced ? "while a fence was owed" : NULL);
		if (!attached && !module->hung_breaks)
			handles_settle(module, other);
		return attached;
	}
	return true;
}

/*
 * Rather when a reservation is about to change: what is sent again may be forbidden then. And when the answer of a
 * FENCE is on its way to a queue that is connected again.
 */
static uint32_t kill_rate(const struct sim_module *module)
{
	unsigned int changes = 0;
	struct sim_disk_view view;

	for (unsigned int i = 0; i < module->disk_count && module->reserved; i++)
		changes += module->host->reservations[module->disks[i].volume].under_way;
	sim_disk_look(module->disks[0].disk, &view);
	return changes || view.fence_late ? 10 * module->kill : module->kill;
}

/*
 * A connection that has commands of the disk that hangs, and of the one that is well. Where some requests are to fail
 * fast, they do: the session loses all its connections, and those without a command of the disk that hangs come back.
 */
static void hung_break(const struct sim_module *module)
{
	if (sim_hung_may_break(module->hung_breaks) &&
	    sim_disk_kill_shared(module->disks[0].disk, module->disks[1].disk, module->fail_fast))
		sim_hung_broken();
	/* As when queue 0 takes the place of another one, whatever that has under way. */
	if (sim_hung_broke() && sim_chance(module->hung_breaks / 10))
		sim_disk_move(module->disks[0].disk);
}

/* False: a disk has failed, or it does not want to wait. */
static bool module_work(struct sim_module *module)
{
	module->doing = "works";
	/* A new session may begin at either of two targets: it keeps the one that it has. */
	while (module->load.ops_left || module->under_way || (module->attach.other && !module->calm)) {
		module_begin_some(module);
		hung_break(module);
		if (module->load.ops_left && module->under_way < module->load.depth)
			sim_fiber_sleep(sim_below(module->think_ns));
		if (!module->calm && sim_chance(kill_rate(module)))
			sim_disk_kill_connection(module->disks[0].disk);
		module_wait(module, SIM_MS);
		if (module->benign && disks_failed(module))
			sim_fail("%s: a disk has failed, and nothing was wrong", module->actor.name);
		if (disks_failed(module) || (!module->calm && sim_chance(module->abandon)) ||
		    !module_replace_one(module))
			return false;
	}
	return true;
}

static bool disks_gone(const struct sim_module *module)
{
	for (unsigned int i = 0; i < module->disk_count; i++)
		if (module->disks[i].gone)
			return true;
	return false;
}

/* Its programs unregister. False: a disk has failed, or is to be attached again. */
static bool module_release(struct sim_module *module)
{
	module->doing = "unregisters";
	while (!sim_module_callers_released(module)) {
		module_wait(module, SIM_MS);
		if (disks_failed(module) || disks_gone(module))
			return false;
	}
	return true;
}

/*
 * The volume may have grown, or become read-only or writable, while it was opened again or looked at: the disk learns of
 * that.
 */
static bool disk_settles(struct sim_module *module, struct sim_module_disk *disk)
{
	struct sim_disk_view view;
	uint64_t bytes = 0;

	for (unsigned int turns = 0; turns < SIZE_TURNS;) {
		sim_disk_look(disk->disk, &view);
		turns += view.ready && view.state == CORE_SESSION_LIVE;
		bytes = sim_whitebox_bytes(module->host, disk->volume);
		if (view.failed)
			return false;
		if (bytes && view.blocks * view.block_bytes == bytes &&
		    view.read_only == sim_whitebox_read_only(module->host, disk->volume)) {
			sim_reached("module", "has a disk in the end that is",
				    view.read_only ? "read-only" : "writable");
			return true;
		}
		module_wait(module, SIM_MS);
	}
	if (view.blocks * view.block_bytes == bytes)
		sim_fail("%s: its disk is %s, and its volume is not", module->actor.name,
			 view.read_only ? "read-only" : "writable");
	sim_fail("%s: its disk has %llu bytes, and its volume %llu", module->actor.name,
		 (unsigned long long)view.blocks * view.block_bytes, (unsigned long long)bytes);
}

static bool disk_verify(struct sim_module *module, struct sim_module_disk *disk)
{
	struct sim_disk_view view;
	uint64_t sectors, most;

	sim_disk_look(disk->disk, &view);
	sectors = view.blocks * view.block_bytes / SIM_SECTOR;
	most = (view.max_bytes < SIM_SLOT_BYTES ? view.max_bytes : SIM_SLOT_BYTES) / SIM_SECTOR;
	disk->verified = 0;
	while (disk->verified < sectors || module->under_way) {
		struct sim_command command = {.kind = SIM_COMMAND_READ,
					      .sector = disk->verified,
					      .sectors = most};

		if (command.sectors > sectors - disk->verified)
			command.sectors = sectors - disk->verified;
		if (command.sectors && sim_module_begin(module, disk, command, true))
			disk->verified += command.sectors;
		module_wait(module, SIM_MS);
		if (disks_failed(module))
			return false;
	}
	return true;
}

static bool module_verify(struct sim_module *module)
{
	module->doing = "verifies";
	module->refused = false;
	for (unsigned int i = 0; i < module->disk_count; i++)
		if (!disk_verify(module, &module->disks[i]) ||
		    !disk_settles(module, &module->disks[i]))
			return false;
	return !module->refused && handles_settle(module, module->disks[0].disk);
}

static void module_run(void *arg)
{
	struct sim_module *module = arg;
	bool finished = false;

	sim_module_callers_start(module);
	sim_module_twin_start(module);
	while (!finished) {
		bool well = module_attach(module) && module_work(module);

		if (well && module->calm)
			finished = well = module_release(module) && module_verify(module);
		module_detach(module, !well || sim_chance(300000));
		module->doing = "waits";
		if (!finished)
			sim_fiber_sleep(sim_between(SIM_MS, 50 * SIM_MS));
	}
	module->doing = "halts";
	module->halts = true;
	while (!sim_module_callers_finished(module) || !sim_module_twin_finished(module))
		sim_fiber_sleep(20 * SIM_US);
	sim_blk_stop();
	sim_rdma_stop();
	sim_kernel_stop();
	while (!sim_kernel_stopped())
		sim_fiber_sleep(20 * SIM_US);
	module->doing = "has finished";
}

bool sim_module_runs(void)
{
	return self && sim_actor_self() == &self->actor;
}

/* -- making -------------------------------------------------------------------------------------- */

static void on_interrupt(void *arg)
{
	struct sim_module *module = arg;
	struct sim_actor *before = sim_actor_become(&module->actor);

	sim_rdma_interrupt();
	sim_actor_become(before);
}

static void module_wake(struct sim_actor *actor)
{
	struct sim_module *module = (struct sim_module *)actor;

	sim_event_by(&module->interrupt, sim_now_ns() + sim_between(200, 20 * SIM_US));
}

void sim_module_start(struct sim_module *module, unsigned int number)
{
	module->known = 1;
	self = module;
	snprintf(module->actor.name, sizeof(module->actor.name), "module%u", number);
	module->actor.machine = number;
	module->actor.wake = module_wake;
	module->actor.digests = module->attach.digest;
	module->interrupt = (struct sim_event){.run = on_interrupt, .arg = module};
	sim_fences_reset();
	sim_reserve_reset();
	sim_kernel_start(&module->actor);
	sim_rdma_start();
	sim_guard_init(&module->guard, module->actor.name);
	sim_fiber_start(&module->fiber, &module->actor, module_run, module);
	sim_kernel_preempts(&module->fiber);
}

void sim_module_fini(struct sim_module *module)
{
	self = NULL;
	sim_event_cancel(&module->interrupt);
	sim_module_callers_fini(module);
	sim_module_twin_fini(module);
	sim_kernel_fini();
	sim_fiber_fini(&module->fiber);
	sim_guard_fini(&module->guard);
}
