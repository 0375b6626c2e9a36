/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An application's commands: chosen, begun, and called back. The model is told what they may have done.
 */
#include "tests/sim/app_impl.h"

#include <errno.h>
#include <string.h>
#include "initiator/durable.h"
#include "initiator/reopen_volumes.h"
#include "initiator/volume.h"
#include "proto/core/env.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/history.h"
#include "tests/sim/hung.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

/* -- outcomes ------------------------------------------------------------------------------ */

/* By what the target has answered; the application asks for nothing that is wrong. */
static enum sim_outcome outcome_of(const struct sim_op *op, const struct rblk_result *result)
{
	const struct sim_app *app = op->app;

	if (!result->error)
		return SIM_OUTCOME_DONE;
	switch (result->status) {
	case RBLK_OK:
		return SIM_OUTCOME_LOST;
	case RBLK_E_DRAINING:
		if (!app->options.no_reconnect && env_now_ns() - op->begun_ns < app->options.give_up_ms * SIM_MS)
			sim_fail("%s: is told that the target is shutting down, and its session survives that",
				 app->actor.name);
		return SIM_OUTCOME_NOTHING;
	case RBLK_E_RESERVED:
		if (!app->reserved)
			sim_fail("%s: refused by a reservation, and there are none", app->actor.name);
		return SIM_OUTCOME_NOTHING;
	case RBLK_E_ABORTED: /* by the application; or by the library, when its time was over */
		/* By one who has preempted it, when a part of it was done. */
		return app->reserved ? SIM_OUTCOME_FAILED : SIM_OUTCOME_NOTHING;
	case RBLK_E_BUSY:
	case RBLK_E_GONE:
	case RBLK_E_FENCED:
	case RBLK_E_COMPARE:
		return SIM_OUTCOME_NOTHING;
	case RBLK_E_IO:
	case RBLK_E_MEDIUM:
	case RBLK_E_NO_RESOURCES:
		return SIM_OUTCOME_FAILED;
	}
	sim_fail("%s: a command that nothing is wrong with: %s", app->actor.name,
		 rblk_status_text(result->status));
}


static void op_done(void *arg, const struct rblk_result *result);

/* Any one that is under way. It is called back as without this, and only then is it over. */
static void abort_any(struct sim_app *app)
{
	struct sim_op *op = &app->ops[sim_below(SIM_SLOTS)];
	int err;

	if (!op->command)
		return;
	op->aborted = true;
	err = rblk_abort(op->mount->rblk, op_done, op);
	sim_trace(app->actor.name, "#%u is to be aborted: %s", op->number,
		  err ? strerror(-err) : "asked");
	if (err)
		sim_fail("%s: #%u cannot be aborted, and it was not called back: %s",
			 app->actor.name, op->number, strerror(-err));
	sim_reached("application", "aborts", sim_command_kind_name(op->command->kind));
}

void sim_app_abort(struct sim_app *app)
{
	if (app->abort && sim_chance(app->abort))
		abort_any(app);
}

/* What rblk.h says of the results of commands that are aborted, or differ from what they expect. */
static void result_check(const struct sim_op *op, const struct rblk_result *result)
{
	const struct sim_app *app = op->app;
	bool differs = result->status == RBLK_E_COMPARE;

	if (result->error == -ECANCELED && !op->aborted && !app->closing && !app->reserved)
		sim_fail("%s: #%u is cancelled, and nobody has asked for that", app->actor.name,
			 op->number);
	/* No disk of a gateway fails, and what its cluster refuses it does not answer. */
	if (app->host->gateway && result->status == RBLK_E_IO && op->command->kind != SIM_COMMAND_COMPARE)
		sim_fail("%s: #%u: a gateway answers that it has failed", app->actor.name, op->number);
	if (op->aborted)
		sim_reached("application: a command that it aborts",
			    !result->error		       ? "is done"
			    : result->error != -ECANCELED      ? "has failed"
			    : result->status == RBLK_E_ABORTED ? "was not begun"
							       : "is lost",
			    NULL);
	if (differs != (result->error == -EILSEQ) ||
	    (differs && op->command->kind != SIM_COMMAND_COMPARE))
		sim_fail("%s: #%u: %s, %s", app->actor.name, op->number, strerror(-result->error),
			 rblk_status_text(result->status));
	if (differs)
		sim_model_differs(op->command, result->value);
}

/* As the reservation has it? */
static void reservation_check(const struct sim_op *op, const struct rblk_result *result)
{
	struct sim_app *app = op->app;

	if (result->error == -EBADE) {
		app->refused = true;
		sim_reached("application", sim_command_kind_name(op->command->kind),
			    "is refused by a reservation");
	}
	/* An earlier attempt may have been of another time. */
	if (!app->reserved || (result->error && !result->status) || sim_reserver_is_stale(app->host, op->began_at_ns))
		return;
	sim_reserver_judge(app->host, op->mount->volume, op->reservation, app->actor.name,
			   op->number, op->command->kind, result->status);
}

/* What librblk calls back without an answer is fenced, unless the session is over, or fails fast (F5). */
static void loss_check(const struct sim_op *op)
{
	const struct sim_app *app = op->app;
	const struct core_session *core = &app->session->core;
	const struct sim_disk *disk = app->host->disks[op->mount->volume];

	if (core_session_over(core) || core->failing_fast || core->held)
		return;
	/* Its volume was removed: another of that name opens its store when this has let it go. */
	if (op->mount->rblk->gone)
		return;
	sim_reached("application", "is told of a loss while its session goes on", NULL);
	if (disk && op->command->id && sim_disk_is_writing(disk, op->command->id))
		sim_fail("%s: #%u is called back as lost, and is being stored (F5)", app->actor.name, op->number);
}

static void op_done(void *arg, const struct rblk_result *result)
{
	struct sim_op *op = arg;
	struct sim_app *app = op->app;
	struct sim_command *command = op->command;
	enum sim_outcome outcome;
	bool doomed = op->doomed; /* before this answer came */

	if (!command)
		sim_fail("%s: a command is completed twice", app->actor.name);
	sim_mounts_refresh(app);
	command->life = op->mount->life;
	command->own_life = op->mount->own_life;
	outcome = outcome_of(op, result);
	if (outcome == SIM_OUTCOME_DONE && doomed)
		sim_fail("%s: a FLUSH outlives the loss of acknowledged writes, and succeeds (F7)",
			 app->actor.name);
	result_check(op, result);
	reservation_check(op, result);
	if (outcome == SIM_OUTCOME_LOST)
		loss_check(op);
	if (outcome == SIM_OUTCOME_DONE)
		sim_mount_account(op);
	if (command->kind == SIM_COMMAND_FLUSH && result->error == -EIO && op->mount->rblk &&
	    op->mount->rblk->open.unaware && op->mount->rblk->loss_heard == op->mount->rblk->open.unaware)
		sim_mount_is_told(app, op->mount);
	sim_mount_learn(op->mount, command, outcome == SIM_OUTCOME_DONE, op->memory);
	sim_trace(app->actor.name, "#%u ends: %s%s%s", op->number,
		  result->error ? strerror(-result->error) : "done", result->status ? ", " : "",
		  result->status ? rblk_status_text(result->status) : "");
	sim_model_waited(app->actor.name, result->queued_us);
	sim_hung_ended(app->actor.name, app->host->disks[op->mount->volume], command, op->began_at_ns,
		       outcome == SIM_OUTCOME_DONE, false);
	op->command = NULL;
	app->failures += result->status == RBLK_E_IO;
	if (!--app->under_way)
		app->actor.flips = 0;
	sim_reached("application", sim_command_kind_name(command->kind), sim_outcome_name(outcome));
	app->completed += outcome == SIM_OUTCOME_DONE;
	app->gone |= result->status == RBLK_E_GONE;
	/* No FLUSH will succeed by this handle: after some time it opens the volume again. */
	if (command->kind == SIM_COMMAND_FLUSH && outcome == SIM_OUTCOME_FAILED && !app->steady)
		app->gone |= app->calm || sim_chance(300000);
	sim_model_end(command, outcome, op->memory);
	if (op->memory)
		sim_guard_return(&app->guard, op->memory);
	op->memory = NULL;
	/* Whoever is called back may abort others, and ask for more. */
	if (app->working)
		sim_app_abort(app);
	if (app->working && !app->gone && app->load.ops_left && outcome == SIM_OUTCOME_DONE &&
	    sim_chance(app->callback)) {
		sim_reached("application", "begins a command when it is called back", NULL);
		app->load.ops_left -= sim_op_begin(app) == 0;
	}
}

/* -- commands ------------------------------------------------------------------------------ */

static struct sim_op *op_free(struct sim_app *app)
{
	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		if (!app->ops[i].command)
			return &app->ops[i];
	return NULL;
}

static int op_call(struct rblk_volume *rblk, struct sim_op *op, const struct sim_command *command)
{
	uint64_t offset = command->sector * SIM_SECTOR, bytes = command->sectors * SIM_SECTOR;
	uint32_t priority = sim_sector_priority(command->sector) ? RBLK_IO_PRIORITY : 0;
	uint32_t flags = (command->fua ? RBLK_IO_FUA : 0) | (command->untorn ? RBLK_IO_UNTORN : 0) | priority;

	switch (command->kind) {
	case SIM_COMMAND_READ:
		return rblk_read(rblk, op->memory, bytes, offset, priority, op_done, op);
	case SIM_COMMAND_WRITE:
		return rblk_write(rblk, op->memory, bytes, offset, flags, op_done, op);
	case SIM_COMMAND_ZEROES:
		return rblk_write_zeroes(rblk, bytes, offset,
					 flags | (sim_chance(500000) ? RBLK_IO_NO_UNMAP : 0),
					 op_done, op);
	case SIM_COMMAND_DISCARD:
		return rblk_discard(rblk, bytes, offset, op_done, op);
	case SIM_COMMAND_FLUSH:
		return rblk_flush(rblk, op_done, op);
	case SIM_COMMAND_COMPARE:
		return rblk_compare_and_write(rblk, op->memory, bytes, offset, flags, op_done, op);
	case SIM_COMMAND_KINDS:
		break;
	}
	return -EINVAL;
}

/* Memory with the data of a WRITE or COMPARE in it, or for what a READ brings. False: none is free. */
static bool op_memory(struct sim_app *app, struct sim_op *op, struct sim_command *command)
{
	bool compare = command->kind == SIM_COMMAND_COMPARE, read = command->kind == SIM_COMMAND_READ;
	uint32_t bytes = (uint32_t)command->sectors * SIM_SECTOR * (compare ? 2 : 1);

	if (!read && !compare && command->kind != SIM_COMMAND_WRITE)
		return true;
	op->memory = sim_guard_lend(&app->guard, bytes, read);
	if (!op->memory)
		return false;
	if (compare) {
		command->id = sim_model_id();
		sim_compare_fill(command, op->memory);
	} else if (!read) {
		sim_command_fill(command, op->memory);
	}
	return true;
}

/* F7: acknowledged writes may be lost. The application acknowledges that, closes the volume, or goes on. */
static void op_loss_known(struct sim_app *app, struct sim_mount *mount)
{
	/* Other volumes are still to be opened anew: it looks when all are. */
	if (!app->session->core.named)
		return;
	sim_mounts_refresh(app);
	sim_reached("application", "is told that acknowledged writes may be lost", NULL);
	/* Another thread's session has found it, and has not looked yet. */
	if (app->process->app_count > 1 && !mount->lost)
		return;
	/* Sometimes it does nothing, and FLUSH must continue to fail. */
	if (sim_chance(400000))
		return;
	if (!app->steady && sim_chance(300000)) {
		app->gone = true;
		return;
	}
	sim_history("KNOWN", 0, 0, 0);
	rblk_acknowledge(mount->rblk);
	mount->own_life = mount->life;
	mount->lost = false;
}

static bool session_has_answers(const struct rblk_session *session)
{
	for (unsigned int i = 0; i < session->queue_count; i++)
		if (session->queues[i].held.head)
			return true;
	return session->done.head != NULL;
}

/* What is answered, and not called back yet, is covered by a FLUSH, too. */
static bool answers_wait(const struct sim_app *app)
{
	const struct sim_process *process = app->process;

	for (unsigned int i = 0; i < process->app_count; i++)
		if (process->apps[i]->session && session_has_answers(process->apps[i]->session))
			return true;
	return false;
}

/* Half of those that can be are; not by chance. */
static bool op_is_untorn(const struct sim_app *app, const struct sim_mount *mount, const struct sim_command *command)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);

	return app->host->untorn && command->kind == SIM_COMMAND_WRITE && command->id % 2 &&
	       rblk_untorn_valid(command->sector * SIM_SECTOR, command->sectors * SIM_SECTOR, info->untorn_min_bytes,
				 info->untorn_max_bytes);
}

/* 0, or why it was not started: -EAGAIN, -ENOTCONN. */
int sim_op_start(struct sim_app *app, const struct sim_mount *mount, struct sim_command command)
{
	struct sim_op *op = op_free(app);
	uint32_t parked;
	int err;

	if (!op || !op_memory(app, op, &command))
		return -EAGAIN;
	command.untorn = op_is_untorn(app, mount, &command);
	command.volume = app->host->volumes[mount->volume];
	command.session = app->session_number;
	command.life = mount->life;
	command.own_life = mount->own_life;
	command.resent = !app->options.no_reconnect;
	command.unseen = true; /* a queue beside queue 0 may come back all the same */
	op->app = app;
	op->mount = (struct sim_mount *)mount;
	op->covered = op->doomed = op->aborted = false;
	op->number = ++app->op_number;
	op->begun_ns = env_now_ns();
	op->began_at_ns = sim_now_ns();
	op->reservation = sim_reserver_moment(app->host, mount->volume);
	op->covers = app->working || answers_wait(app) ? UINT64_MAX : sim_mount_owed(app, mount)->wrote;
	/* In a new epoch its OPEN is the fence. */
	if (rblk_session_state(app->session) == RBLK_SESSION_READY && !mount->rblk->late_ns)
		sim_model_goes_on(app->session_number, command.volume);
	op->command = sim_model_begin(&command);
	if (command.sectors * SIM_SECTOR > 48u << 10)
		sim_reached("application", "moves more than 48 KiB",
			    sim_command_kind_name(command.kind));
	if (mount != app->mounts)
		sim_reached("application", "uses a second volume", NULL);
	parked = app->session->parking.used;
	err = op_call(mount->rblk, op, &command);
	/* It waits for a connection: it covers what is acknowledged until it is sent. */
	if (app->session->parking.used > parked)
		op->covers = UINT64_MAX;
	sim_trace(app->actor.name, "#%u %s%s%s %llu+%llu id %llu: %s", op->number,
		  sim_command_kind_name(command.kind), command.fua ? " FUA" : "", command.untorn ? " untorn" : "",
		  (unsigned long long)command.sector, (unsigned long long)command.sectors,
		  (unsigned long long)command.id, err ? strerror(-err) : "begins");
	if (!err) {
		const char *unaware = sim_mount_must_not_flush(app, mount);

		if (command.kind == SIM_COMMAND_FLUSH && unaware)
			sim_fail("%s: FLUSH does not fail any more, and %s has not acknowledged the loss (F7)",
				 app->actor.name, unaware);
		app->under_way++;
		sim_history(command.kind == SIM_COMMAND_FLUSH ? "BEGIN_FLUSH" : "BEGIN", 0,
			    command.id, 0);
		return 0;
	}
	sim_model_end(op->command, SIM_OUTCOME_NOTHING, NULL);
	op->command = NULL;
	if (op->memory)
		sim_guard_return(&app->guard, op->memory);
	op->memory = NULL;
	if (err == -EIO && command.kind == SIM_COMMAND_FLUSH &&
	    mount->rblk->durable->core.unaware) {
		sim_history("REFUSED", 0, 0, 0);
		sim_mount_is_told(app, mount);
		op_loss_known(app, (struct sim_mount *)mount);
		return -EAGAIN;
	}
	if (err == -EIO && (app->session->core.failing_fast || ini_reopen_ready(mount->rblk) == -EIO)) {
		sim_reached("application", "is refused at once, without a connection", NULL);
		return -EAGAIN;
	}
	if (err == -ENODEV && mount->rblk->gone)
		return -ENOTCONN;
	if (err != -EAGAIN && err != -ENOTCONN)
		sim_fail("%s: %s is refused: %s", app->actor.name,
			 sim_command_kind_name(command.kind), strerror(-err));
	return err;
}

static struct sim_command op_choose(const struct sim_app *app, const struct sim_mount *mount)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	const struct sim_scope scope = {
		.block_bytes = info->block_bytes,
		.blocks = info->bytes / info->block_bytes,
		.max_bytes = info->max_io_bytes,
		.flush = info->can_flush,
		.fua = info->can_fua,
		.zeroes = info->can_write_zeroes,
		.discard = info->can_discard,
	};

	if (!app->steady)
		return sim_load_choose(&app->load, &scope);
	if (info->can_flush && sim_chance(app->load.flush))
		return (struct sim_command){.kind = SIM_COMMAND_FLUSH};
	return (struct sim_command){.kind = SIM_COMMAND_WRITE,
				    .sectors = info->block_bytes / SIM_SECTOR};
}

/* Of a disk that hangs it has only so many. */
static bool has_enough(const struct sim_app *app, const struct sim_mount *mount)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < SIM_SLOTS; i++)
		count += app->ops[i].command && app->ops[i].mount == mount;
	return count >= sim_hung_depth() && sim_hung_is(app->host->disks[mount->volume]);
}

int sim_op_begin(struct sim_app *app)
{
	const struct sim_mount *mount = &app->mounts[sim_below(app->mount_count)];
	uint64_t expected[SIM_COMPARE_SECTORS];
	struct sim_command command;

	if (has_enough(app, mount))
		mount = &app->mounts[mount == app->mounts];
	command = op_choose(app, mount);
	sim_mount_compare(app, mount, &command, expected);
	return sim_op_start(app, mount, command);
}
