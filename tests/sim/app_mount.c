/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An application's open volumes: which life of the volume a handle is of, what of the session's writes is
 * durable as far as librblk can tell (F7), and whether librblk says so.
 */
#include "tests/sim/app_impl.h"

#include <string.h>
#include "initiator/durable.h"
#include "initiator/volume.h"
#include "tests/sim/coverage.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

/*
 * Called before librblk runs: if it opens a volume again, it does so from now on at the earliest. One that it has opened
 * again in a call that waited is not judged (sim_mounts_refresh()).
 */
void sim_mounts_watch(struct sim_app *app)
{
	const struct core_session *core = &app->session->core;

	for (unsigned int i = 0; i < app->mount_count; i++) {
		struct sim_mount *mount = &app->mounts[i];

		if (!mount->rblk || mount->opening_again || core->state == CORE_SESSION_LIVE ||
		    mount->rblk->epoch != mount->epoch)
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

struct sim_owed *sim_mount_owed(const struct sim_app *app, const struct sim_mount *mount)
{
	return &app->process->owed[mount->volume];
}

/*
 * Of the process and this volume, each open mount, or each command under way by one.
 */
typedef void (*mount_visit)(struct sim_app *app, struct sim_mount *mount);
typedef void (*op_visit)(struct sim_app *app, struct sim_op *op);

static void visit_mounts(const struct sim_app *app, const struct sim_mount *of, mount_visit visit)
{
	const struct sim_process *process = app->process;

	for (unsigned int i = 0; i < process->app_count; i++)
		for (unsigned int j = 0; j < process->apps[i]->mount_count; j++) {
			struct sim_mount *mount = &process->apps[i]->mounts[j];

			if (mount->rblk && mount->volume == of->volume)
				visit(process->apps[i], mount);
		}
}

static void visit_ops(const struct sim_app *app, const struct sim_mount *of, op_visit visit)
{
	const struct sim_process *process = app->process;

	for (unsigned int i = 0; i < process->app_count; i++)
		for (unsigned int j = 0; j < SIM_SLOTS; j++) {
			struct sim_op *op = &process->apps[i]->ops[j];

			if (op->command && op->mount->volume == of->volume)
				visit(process->apps[i], op);
		}
}

/* F7: no FLUSH that is under way may say now that they are durable. */
static void op_doom(struct sim_app *app, struct sim_op *op)
{
	if (op->command->kind == SIM_COMMAND_FLUSH && !is_answered(app->session, op))
		op->doomed = true;
}

static bool op_owes(const struct sim_op *op)
{
	const struct sim_command *command = op->command;

	return (command->kind == SIM_COMMAND_WRITE || command->kind == SIM_COMMAND_ZEROES ||
		command->kind == SIM_COMMAND_COMPARE) &&
	       op->mount->cached && !command->fua;
}

static void op_cover(struct sim_app *app, struct sim_op *op)
{
	op->covered = true;
	sim_mount_owed(app, op->mount)->doubtful |= op_owes(op);
}

static void mount_told(struct sim_app *app, struct sim_mount *mount)
{
	/* Behind the loss: those that were there have to know. */
	if (mount->fresh && !mount->rblk->open.unaware)
		return;
	if (!mount->rblk->open.unaware)
		sim_fail("%s: acknowledged writes may be lost, and one that has the volume open does not have to know (F7)",
			 app->actor.name);
	mount->lost = true;
}

/*
 * F7: FLUSH must fail exactly if the cache epoch has changed and writes were not flushed, whoever in the process has done
 * them. One that is under way may have been done of one life or the other.
 */
static void owed_learn(struct sim_app *app, struct sim_mount *mount)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	struct sim_owed *owed = sim_mount_owed(app, mount);
	bool changed = owed->known && memcmp(owed->cache_epoch, info->cache_epoch, sizeof(owed->cache_epoch));
	bool lost = mount->rblk->durable->core.unaware;

	mount->cached = info->volatile_cache;
	mount->can_flush = info->can_flush;
	owed->cached |= mount->cached;
	if (lost && !owed->cached)
		sim_fail("%s: FLUSH would fail, and its volume has no cache to lose (F7)", app->actor.name);
	memcpy(owed->cache_epoch, info->cache_epoch, sizeof(owed->cache_epoch));
	owed->known = true;
	if (!changed)
		return;
	if (owed->wrote > owed->covered && !lost)
		sim_fail("%s: acknowledged writes may be lost, and FLUSH would succeed (F7)",
			 app->actor.name);
	if (owed->wrote > owed->covered) {
		visit_mounts(app, mount, mount_told);
		visit_ops(app, mount, op_doom);
	}
	visit_ops(app, mount, op_cover);
	owed->covered = owed->wrote;
}

/* It has another handle. Another cache epoch? */
static bool mount_reopened(struct sim_app *app, struct sim_mount *mount)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	bool changed = memcmp(mount->cache_epoch, info->cache_epoch, sizeof(mount->cache_epoch)) != 0;
	bool alone = app->process->app_count == 1 &&
		     (app->mount_count < 2 || app->mounts[0].volume != app->mounts[1].volume);

	if (!changed && alone && mount->rblk->open.unaware && !mount->lost && !sim_mount_owed(app, mount)->doubtful)
		sim_fail("%s: FLUSH would fail, and nothing can be lost (F7)", app->actor.name);
	memcpy(mount->cache_epoch, info->cache_epoch, sizeof(mount->cache_epoch));
	owed_learn(app, mount);
	return changed;
}

const char *sim_mount_must_not_flush(const struct sim_app *app, const struct sim_mount *mount)
{
	const struct sim_process *process = app->process;

	for (unsigned int i = 0; i < process->app_count; i++)
		for (unsigned int j = 0; j < process->apps[i]->mount_count; j++) {
			const struct sim_mount *other = &process->apps[i]->mounts[j];

			if (other->rblk && other->volume == mount->volume && other->lost)
				return process->apps[i]->actor.name;
		}
	return NULL;
}

/* The session has begun a new epoch, and opened its volumes anew. */
void sim_mounts_refresh(struct sim_app *app)
{
	const struct core_session *core = &app->session->core;

	if (!core->named)
		return;
	for (unsigned int i = 0; i < app->mount_count; i++) {
		struct sim_mount *mount = &app->mounts[i];

		/* Late: it will be opened anew beside the others' I/O. */
		if (!mount->rblk || mount->rblk->late_ns)
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
			 * it, for want of a state directory: nobody can tell the session (F9). Or it has been told by
			 * another session of its process, and has acknowledged it before it opened the volume anew.
			 */
			if ((!changed || !mount->lost) && mount->life != life)
				mount->own_life = mount->life;
			sim_reached("application", "has its volume opened anew by librblk", NULL);
		}
		mount->epoch = core->epoch;
		if (core->state == CORE_SESSION_LIVE)
			mount->opening_again = false;
	}
}

/* What is durable, as far as its process can know. */
void sim_mount_account(const struct sim_op *op)
{
	struct sim_owed *owed = sim_mount_owed(op->app, op->mount);
	const struct sim_command *command = op->command;

	if (op_owes(op)) {
		owed->wrote += !op->covered;
	} else if (command->kind == SIM_COMMAND_FLUSH && op->covers == UINT64_MAX) {
		/* It may cover what was answered before it was sent and is not called back yet. */
		owed->covered = owed->wrote;
		visit_ops(op->app, op->mount, op_cover);
	} else if (command->kind == SIM_COMMAND_FLUSH && op->covers > owed->covered) {
		owed->covered = op->covers;
	}
}

void sim_mount_is_told(const struct sim_app *app, const struct sim_mount *mount)
{
	struct sim_owed *owed = sim_mount_owed(app, mount);

	visit_ops(app, mount, op_cover);
	owed->covered = owed->wrote;
}

/* Of what can never be flushed nothing is owed to the next who opens it. */
void sim_mount_closed(const struct sim_app *app, struct sim_mount *mount)
{
	const struct sim_process *process = app->process;
	unsigned int others = 0;

	mount->rblk = NULL;
	for (unsigned int i = 0; i < process->app_count; i++)
		for (unsigned int j = 0; j < process->apps[i]->mount_count; j++)
			others += process->apps[i]->mounts[j].rblk &&
				  process->apps[i]->mounts[j].volume == mount->volume;
	if (!others && !mount->can_flush)
		memset(sim_mount_owed(app, mount), 0, sizeof(struct sim_owed));
}

void sim_app_forget(struct sim_app *app)
{
	struct sim_process *process = app->process;

	ini_durables_fini(&process->durables);
	ini_durables_init(&process->durables);
	memset(process->owed, 0, sizeof(process->owed));
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
	sim_mount_forget(mount);
	mount->lost = false;
	memcpy(mount->cache_epoch, info->cache_epoch, sizeof(mount->cache_epoch));
	mount->fresh = true;
	owed_learn(app, mount);
	mount->fresh = false;
	sim_mount_owed(app, mount)->doubtful = mount->rblk->open.unaware || core_durable_dirty(&mount->rblk->durable->core);
	sim_whitebox_opened(app->host, mount->volume, &opening);
	return true;
}
