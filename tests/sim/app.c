/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The application of app.h, as a fiber: one session after the other until its work is done.
 */
#include "tests/sim/app_impl.h"

#include <stdio.h>
#include <string.h>
#include "tests/sim/crc32c.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/history.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* Poll librblk. False: the session is lost, and every command was called back. */
static bool app_poll(struct sim_app *app)
{
	int count;

	sim_mounts_watch(app);
	count = rblk_poll(app->session, (unsigned int)sim_below(8));
	sim_mounts_refresh(app);
	if (count >= 0)
		return true;
	if (app->under_way)
		sim_fail("%s: the session has failed, %u commands were not called back",
			 app->actor.name, app->under_way);
	if (app->benign)
		sim_fail("%s: the session is lost, and nothing was wrong: %s", app->actor.name,
			 rblk_session_error(app->session));
	sim_trace(app->actor.name, "session lost: %s", rblk_session_error(app->session));
	return false;
}

/* -- work ---------------------------------------------------------------------------------- */

static bool app_work_left(const struct sim_app *app)
{
	/* A new session may begin at either of two targets: it keeps the one that it has. */
	return app->load.ops_left || app->under_way || (app->other && !app->calm);
}

/* False: there is no room for more until something has ended. */
static bool app_begin_some(struct sim_app *app)
{
	unsigned int burst = (unsigned int)sim_between(1, app->load.depth);
	bool room = true;

	/* Where it leaves only when its commands have ended, it begins no more. */
	if (app->gone)
		return false;
	while (room && app->load.ops_left && app->under_way < app->load.depth && burst--) {
		room = !sim_op_begin(app);
		if (!room)
			break;
		app->load.ops_left--;
		if (app->single)
			rblk_submit(app->session);
	}
	rblk_submit(app->session);
	return room && app->load.ops_left && app->under_way < app->load.depth;
}

/* Every command was answered. The target's I/O errors, and no others, were called back. */
static void app_check_failures(const struct sim_app *app)
{
	const struct ini_fabs *fabs = &app->session->fabs;
	unsigned int failures = 0;

	for (u16 i = 0; i < fabs->count; i++)
		failures += ((const struct sim_fab *)fabs->list[i])->failures;
	if (failures < app->failures || failures > app->failures + app->unsure)
		sim_fail("%s: %u commands were answered with an I/O error, %u were called back "
			 "with it",
			 app->actor.name, failures, app->failures);
}

/*
 * It leaves at once, as if it were killed, and the target keeps its volumes open for a while. Once
 * faults have stopped, it lets its commands end first, and closes the volumes: until every session has,
 * FLUSH fails (F9).
 */
static bool app_leaves(const struct sim_app *app)
{
	if (app->calm)
		return app->gone && !app->under_way;
	return app->gone || sim_chance(app->abandon);
}

/* How long it waits for its commands: where gateways share what it reserves it does that beside those that do not end.
 */
static uint64_t patience_ns(const struct sim_app *app)
{
	if (app->host->gateway && app->reserved)
		return 20 * SIM_MS;
	return app->under_way ? UINT64_MAX : SIM_MS;
}

/* False: the session is lost, or given up. */
static bool app_work(struct sim_app *app)
{
	app->doing = "works";
	while (app_work_left(app)) {
		bool more, well;

		if (sim_chance(app->ask))
			sim_app_ask_extents(app);
		more = app_begin_some(app);
		sim_app_abort(app);
		sim_app_reserve(app);
		app->working = true;
		well = app_poll(app);
		app->working = false;
		if (!well)
			return false;
		if (app_leaves(app))
			return false;
		if (more)
			sim_fiber_sleep(sim_below(app->think_ns));
		else
			sim_app_wait(app, patience_ns(app));
	}
	app_check_failures(app);
	sim_history_end();
	return true;
}

/* It unregisters. False: the session is lost. */
static bool app_release(struct sim_app *app)
{
	app->doing = "unregisters";
	while ((app->reserver.often && !app->reserver.released) || app->under_way) {
		sim_app_reserve(app);
		if (!app_poll(app) || app->gone)
			return false;
		sim_app_wait(app, SIM_MS);
	}
	return true;
}

/* Everything, once more. False: the session is lost, or others have reserved the volume. */
static bool mount_verify(struct sim_app *app, struct sim_mount *mount)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	uint64_t sectors = info->bytes / SIM_SECTOR;
	uint64_t most = SIM_SLOT_BYTES < info->max_io_bytes ? SIM_SLOT_BYTES : info->max_io_bytes;

	mount->verified = 0;
	app->refused = false;
	while ((mount->verified < sectors && !app->gone) || app->under_way) {
		struct sim_command command = {.kind = SIM_COMMAND_READ,
					      .sector = mount->verified,
					      .sectors = most / SIM_SECTOR};

		if (command.sectors > sectors - mount->verified)
			command.sectors = sectors - mount->verified;
		if (command.sectors && !app->gone && !sim_op_start(app, mount, command))
			mount->verified += command.sectors;
		rblk_submit(app->session);
		if (!app_poll(app))
			return false;
		sim_app_wait(app, app->under_way ? UINT64_MAX : SIM_MS);
	}
	return !app->gone && !app->refused;
}

static bool app_verify(struct sim_app *app)
{
	app->doing = "verifies";
	for (unsigned int i = 0; i < app->mount_count; i++)
		if (!mount_verify(app, &app->mounts[i]))
			return false;
	return true;
}

struct checksum {
	bool finished;
	struct rblk_result result;
};

static void checksum_done(void *arg, const struct rblk_result *result)
{
	struct checksum *checksum = arg;

	checksum->result = *result;
	checksum->finished = true;
}

/*
 * Nobody writes any more: what the target computes is what is read. With the calls that wait.
 * False: the session is lost.
 */
static bool app_checksum(struct sim_app *app)
{
	uint64_t bytes = rblk_volume_info(app->mounts[0].rblk)->bytes;
	struct checksum checksum = {.finished = false};
	uint8_t *memory = sim_guard_lend(&app->guard, 4096, true);
	uint32_t crc = 0;
	int err = 0;

	app->doing = "compares checksums";
	for (uint64_t offset = 0; offset < bytes && !err; offset += 4096) {
		err = rblk_pread(app->mounts[0].rblk, memory, 4096, offset);
		crc = sim_crc32c(crc, memory, 4096);
	}
	sim_guard_return(&app->guard, memory);
	if (!err)
		err = rblk_checksum(app->mounts[0].rblk, bytes, 0, checksum_done, &checksum);
	while (!err && !checksum.finished)
		if (rblk_wait(app->session, -1) < 0)
			break;
	if (err || checksum.result.error)
		return false;
	if ((uint32_t)checksum.result.value != crc)
		sim_fail("%s: the target's checksum is not that of the data", app->actor.name);
	return true;
}

static void app_run(void *arg)
{
	struct sim_app *app = arg;

	while (!app->finished) {
		bool well = sim_app_open_session(app) && sim_app_open_volumes(app) && app_work(app);

		if (well && app->calm)
			app->finished = app_release(app) && app_verify(app) && (!app->alone || app_checksum(app));
		sim_app_end_session(app);
		if (!app->finished) {
			app->doing = "waits";
			sim_fiber_sleep(sim_between(SIM_MS, 50 * SIM_MS));
		}
	}
	app->doing = "has finished";
}

/* -- making -------------------------------------------------------------------------------- */

static void app_wake(struct sim_actor *actor)
{
	struct sim_app *app = (struct sim_app *)actor;

	sim_fiber_wake(&app->fiber, sim_between(200, 20 * SIM_US));
}

void sim_app_start(struct sim_app *app, unsigned int machine)
{
	snprintf(app->actor.name, sizeof(app->actor.name), "app%u", machine);
	app->actor.machine = machine;
	app->actor.wake = app_wake;
	app->actor.digests = app->options.digest;
	app->process = &app->own_process;
	app->process->apps[0] = app;
	app->process->app_count = 1;
	ini_durables_init(&app->process->durables);
	app->options.size = sizeof(app->options);
	app->options.polling = RBLK_POLL_NEVER;
	app->options.initiator_name = app->actor.name;
	sim_guard_init(&app->guard, app->actor.name);
	sim_fiber_start(&app->fiber, &app->actor, app_run, app);
}

void sim_app_share(struct sim_app *app, struct sim_app *other)
{
	app->process = other->process;
	app->process->apps[app->process->app_count++] = app;
}

void sim_app_fini(struct sim_app *app)
{
	ini_durables_fini(&app->own_process.durables);
	sim_fiber_fini(&app->fiber);
	sim_guard_fini(&app->guard);
}
