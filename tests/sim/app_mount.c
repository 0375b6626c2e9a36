/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An application's open volumes: which life of the volume a handle is of, what of the session's writes is
 * durable as far as librblk can tell (F7), and whether librblk says so.
 */
#include "tests/sim/app_impl.h"

#include <string.h>
#include "initiator/volume.h"
#include "tests/sim/coverage.h"
#include "tests/sim/inside.h"
#include "tests/sim/trace.h"

/* Called before librblk runs: if it opens a volume again, it does so from now on at the earliest. */
void sim_mounts_watch(struct sim_app *app)
{
	const struct core_session *core = &app->session->core;

	for (unsigned int i = 0; i < app->mount_count; i++) {
		struct sim_mount *mount = &app->mounts[i];

		if (!mount->rblk || mount->opening_again || core->state == CORE_SESSION_LIVE)
			continue;
		mount->opening = sim_model_opening(app->host->volumes[mount->volume]);
		mount->opening_again = true;
	}
}

static bool is_answered(const struct rblk_session *session, const struct sim_op *op)
{
	for (const struct ini_slot *slot = session->done.head; slot; slot = slot->next)
		if (slot->arg == op)
			return true;
	return false;
}

/* F7: no FLUSH that is under way may say now that they are durable. */
static void flushes_doom(struct sim_app *app, const struct sim_mount *mount)
{
	for (unsigned int i = 0; i < SIM_SLOTS; i++) {
		struct sim_op *op = &app->ops[i];

		if (op->command && op->mount == mount && op->command->kind == SIM_COMMAND_FLUSH &&
		    !is_answered(app->session, op))
			op->doomed = true;
	}
}

/* F7: FLUSH must fail exactly if the cache epoch has changed and writes were not flushed. Has it changed? */
static bool mount_reopened(struct sim_app *app, struct sim_mount *mount)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	bool changed = memcmp(mount->cache_epoch, info->cache_epoch, sizeof(mount->cache_epoch)) != 0;
	bool lost = mount->rblk->durable.lost;

	if (changed && mount->wrote > mount->covered && !lost)
		sim_fail("%s: acknowledged writes may be lost, and FLUSH would succeed (F7)",
			 app->actor.name);
	if (!changed && lost && !mount->lost)
		sim_fail("%s: FLUSH would fail, and nothing can be lost (F7)", app->actor.name);
	memcpy(mount->cache_epoch, info->cache_epoch, sizeof(mount->cache_epoch));
	if (lost)
		flushes_doom(app, mount);
	mount->lost = lost;
	mount->covered = mount->wrote;
	return changed;
}

/* The session has begun a new epoch, and opened its volumes anew. */
void sim_mounts_refresh(struct sim_app *app)
{
	const struct core_session *core = &app->session->core;

	if (!core->named)
		return;
	for (unsigned int i = 0; i < app->mount_count; i++) {
		struct sim_mount *mount = &app->mounts[i];

		if (!mount->rblk)
			continue;
		if (mount->rblk->gone)
			app->gone = true;
		else if (mount->epoch != core->epoch) {
			bool changed = mount_reopened(app, mount);
			unsigned int life = mount->life;

			/* Unless it was within a call that waits, and nobody looked when. */
			if (mount->opening_again)
				mount->life = sim_model_opened(
					&mount->opening, rblk_volume_info(mount->rblk)->cache_epoch);
			else
				mount->life =
					sim_model_opening(app->host->volumes[mount->volume]).life;
			/*
			 * A failed flush lost something, and the target's successor does not know of
			 * it, for want of a state directory: nobody can tell the session (F9).
			 */
			if (!changed && mount->life != life)
				mount->own_life = mount->life;
			sim_reached("application", "has its volume opened anew by librblk", NULL);
		}
		mount->epoch = core->epoch;
		if (core->state == CORE_SESSION_LIVE)
			mount->opening_again = false;
	}
}

/* This FLUSH may cover what was answered before it was sent and is not called back yet. */
static void mount_covered(const struct sim_op *flush)
{
	struct sim_app *app = flush->app;

	flush->mount->covered = flush->mount->wrote;
	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		if (app->ops[i].command && app->ops[i].mount == flush->mount)
			app->ops[i].covered = true;
}

/* What is durable, as far as its application can know. */
void sim_mount_account(const struct sim_op *op)
{
	struct sim_mount *mount = op->mount;
	const struct sim_command *command = op->command;

	if (command->kind == SIM_COMMAND_WRITE || command->kind == SIM_COMMAND_ZEROES ||
	    command->kind == SIM_COMMAND_COMPARE)
		mount->wrote += !command->fua && !op->covered;
	else if (command->kind == SIM_COMMAND_FLUSH && op->covers == UINT64_MAX)
		mount_covered(op);
	else if (command->kind == SIM_COMMAND_FLUSH && op->covers > mount->covered)
		mount->covered = op->covers;
}

bool sim_mount_open(struct sim_app *app, struct sim_mount *mount)
{
	struct sim_opening opening = sim_model_opening(app->host->volumes[mount->volume]);
	const char *name = app->host->config.volumes[mount->volume].name;
	const struct rblk_volume_info *info;

	mount->rblk = rblk_volume_open(app->session, name, 0);
	if (!mount->rblk) {
		sim_trace(app->actor.name, "volume: %s", rblk_session_error(app->session));
		return false;
	}
	info = rblk_volume_info(mount->rblk);
	sim_trace(app->actor.name, "volume %s is open", info->name);
	mount->own_life = mount->life = sim_model_opened(&opening, info->cache_epoch);
	mount->epoch = app->session->core.epoch;
	mount->opening_again = false;
	mount->wrote = mount->covered = 0;
	sim_mount_forget(mount);
	mount->lost = false;
	memcpy(mount->cache_epoch, info->cache_epoch, sizeof(mount->cache_epoch));
	sim_inside_opened(app->host, mount->volume, &opening);
	return true;
}
