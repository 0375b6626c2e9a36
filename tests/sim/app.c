/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The application of app.h, as a fiber: one session after the other until its work is done.
 */
#include "tests/sim/app.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "initiator/session.h"
#include "initiator/volume.h"
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/crc32c.h"
#include "tests/sim/disk.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/history.h"
#include "tests/sim/inside.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

static const char *const kind_names[SIM_COMMAND_KINDS] = {"READ", "WRITE", "ZEROES", "DISCARD",
							  "FLUSH"};
static const char *const outcome_names[] = {
	[SIM_OUTCOME_DONE] = "is done",
	[SIM_OUTCOME_FAILED] = "has failed",
	[SIM_OUTCOME_NOTHING] = "was not begun",
	[SIM_OUTCOME_LOST] = "is lost",
};

/* -- outcomes ------------------------------------------------------------------------------ */

/* By what the target has answered; the application asks for nothing that is wrong. */
static enum sim_outcome outcome_of(const struct sim_app *app, const struct rblk_result *result)
{
	if (!result->error)
		return SIM_OUTCOME_DONE;
	switch (result->status) {
	case RBLK_OK:
		return SIM_OUTCOME_LOST;
	case RBLK_E_DRAINING:
		if (!app->options.no_reconnect)
			sim_fail("%s: is told that the target is shutting down, and its session survives that",
				 app->actor.name);
		return SIM_OUTCOME_NOTHING;
	case RBLK_E_BUSY:
	case RBLK_E_GONE:
	case RBLK_E_FENCED:
	case RBLK_E_ABORTED: /* by the library, when its time was over */
		return SIM_OUTCOME_NOTHING;
	case RBLK_E_IO:
	case RBLK_E_MEDIUM:
	case RBLK_E_NO_RESOURCES:
		return SIM_OUTCOME_FAILED;
	}
	sim_fail("%s: a command that nothing is wrong with: %s", app->actor.name,
		 rblk_status_text(result->status));
}

static int op_begin(struct sim_app *app);

/* Before it looks: a handle that is opened anew is so from now on at the earliest. */
static void mounts_watch(struct sim_app *app)
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

/* F7: what was acknowledged and not flushed may be lost exactly if the cache epoch is another one. Is it? */
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
static void mounts_refresh(struct sim_app *app)
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
static void mount_account(const struct sim_op *op)
{
	struct sim_mount *mount = op->mount;
	const struct sim_command *command = op->command;

	if (command->kind == SIM_COMMAND_WRITE || command->kind == SIM_COMMAND_ZEROES)
		mount->wrote += !command->fua && !op->covered;
	else if (command->kind == SIM_COMMAND_FLUSH && op->covers == UINT64_MAX)
		mount_covered(op);
	else if (command->kind == SIM_COMMAND_FLUSH && op->covers > mount->covered)
		mount->covered = op->covers;
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
	mounts_refresh(app);
	command->life = op->mount->life;
	command->own_life = op->mount->own_life;
	outcome = outcome_of(app, result);
	if (outcome == SIM_OUTCOME_DONE && doomed)
		sim_fail("%s: a FLUSH outlives the loss of acknowledged writes, and succeeds (F7)",
			 app->actor.name);
	if (outcome == SIM_OUTCOME_DONE)
		mount_account(op);
	sim_trace(app->actor.name, "#%u ends: %s%s%s", op->number,
		  result->error ? strerror(-result->error) : "done", result->status ? ", " : "",
		  result->status ? rblk_status_text(result->status) : "");
	sim_model_waited(app->actor.name, result->queued_us);
	op->command = NULL;
	app->failures += result->status == RBLK_E_IO;
	app->under_way--;
	sim_reached("application", kind_names[command->kind], outcome_names[outcome]);
	app->completed += outcome == SIM_OUTCOME_DONE;
	app->gone |= result->status == RBLK_E_GONE;
	/* No FLUSH succeeds by this handle any more: in time it opens the volume anew. */
	if (command->kind == SIM_COMMAND_FLUSH && outcome == SIM_OUTCOME_FAILED && !app->steady)
		app->gone |= app->calm || sim_chance(300000);
	sim_model_end(command, outcome, op->memory);
	if (op->memory)
		sim_guard_return(&app->guard, op->memory);
	op->memory = NULL;
	/* Whoever is called back may ask for more. */
	if (app->working && app->ops_left && outcome == SIM_OUTCOME_DONE &&
	    sim_chance(app->callback)) {
		sim_reached("application", "begins a command when it is called back", NULL);
		app->ops_left -= op_begin(app) == 0;
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
	uint32_t flags = command->fua ? RBLK_IO_FUA : 0;

	switch (command->kind) {
	case SIM_COMMAND_READ:
		return rblk_read(rblk, op->memory, bytes, offset, 0, op_done, op);
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
	case SIM_COMMAND_COMPARE: /* none */
	case SIM_COMMAND_KINDS:
		break;
	}
	return -EINVAL;
}

/* Memory with the data of a WRITE in it, or for what a READ brings. False: none is free. */
static bool op_memory(struct sim_app *app, struct sim_op *op, struct sim_command *command)
{
	if (command->kind != SIM_COMMAND_READ && command->kind != SIM_COMMAND_WRITE)
		return true;
	op->memory = sim_guard_lend(&app->guard, (uint32_t)command->sectors * SIM_SECTOR,
				    command->kind == SIM_COMMAND_READ);
	if (!op->memory)
		return false;
	if (command->kind == SIM_COMMAND_READ)
		return true;
	command->id = sim_model_id();
	for (uint64_t i = 0; i < command->sectors; i++)
		sim_sector_fill(op->memory + i * SIM_SECTOR, command->id, command->sector + i);
	return true;
}

/* F7: what was acknowledged may be lost. It says that it knows, or closes the volume. */
static void op_loss_known(struct sim_app *app, struct sim_mount *mount)
{
	/* Other volumes are still to be opened anew: it looks when all are. */
	if (!app->session->core.named)
		return;
	mounts_refresh(app);
	sim_reached("application", "is told that acknowledged writes may be lost", NULL);
	/* Now and then it does not care, and FLUSH must go on to fail. */
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

/* What is answered, and not called back yet, is covered by a FLUSH, too. */
static bool answers_wait(const struct rblk_session *session)
{
	for (unsigned int i = 0; i < session->queue_count; i++)
		if (session->queues[i].held.head)
			return true;
	return session->done.head != NULL;
}

/* 0, or why it was not started: -EAGAIN, -ENOTCONN. */
static int op_start(struct sim_app *app, const struct sim_mount *mount, struct sim_command command)
{
	struct sim_op *op = op_free(app);
	uint32_t parked;
	int err;

	if (!op || !op_memory(app, op, &command))
		return -EAGAIN;
	command.volume = app->host->volumes[mount->volume];
	command.session = app->session_number;
	command.life = mount->life;
	command.own_life = mount->own_life;
	command.resent = command.unseen = !app->options.no_reconnect;
	op->app = app;
	op->mount = (struct sim_mount *)mount;
	op->covered = op->doomed = false;
	op->number = ++app->op_number;
	op->covers = app->working || answers_wait(app->session) ? UINT64_MAX : mount->wrote;
	if (rblk_session_state(app->session) == RBLK_SESSION_READY)
		sim_model_goes_on(app->session_number);
	op->command = sim_model_begin(&command);
	if (command.sectors * SIM_SECTOR > 48u << 10)
		sim_reached("application", "moves more than 48 KiB", kind_names[command.kind]);
	if (mount != app->mounts)
		sim_reached("application", "uses a second volume", NULL);
	parked = app->session->parking.used;
	err = op_call(mount->rblk, op, &command);
	/* It waits for a connection: it covers what is acknowledged until it is sent. */
	if (app->session->parking.used > parked)
		op->covers = UINT64_MAX;
	sim_trace(app->actor.name, "#%u %s%s %llu+%llu id %llu: %s", op->number,
		  kind_names[command.kind], command.fua ? " FUA" : "",
		  (unsigned long long)command.sector, (unsigned long long)command.sectors,
		  (unsigned long long)command.id, err ? strerror(-err) : "begins");
	if (!err) {
		if (command.kind == SIM_COMMAND_FLUSH && mount->lost)
			sim_fail("%s: FLUSH does not fail any more, and nobody has acknowledged the loss (F7)",
				 app->actor.name);
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
	    (mount->lost || mount->rblk->durable.lost)) {
		sim_history("REFUSED", 0, 0, 0);
		op_loss_known(app, (struct sim_mount *)mount);
		return -EAGAIN;
	}
	if (err == -EIO && app->session->core.failing_fast) {
		sim_reached("application", "is refused at once, without a connection", NULL);
		return -EAGAIN;
	}
	if (err == -ENODEV && mount->rblk->gone)
		return -ENOTCONN;
	if (err != -EAGAIN && err != -ENOTCONN)
		sim_fail("%s: %s is refused: %s", app->actor.name, kind_names[command.kind],
			 strerror(-err));
	return err;
}

/* Any command, on a range that is often the same few blocks. */
static struct sim_command op_choose(const struct sim_app *app, const struct sim_mount *mount)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	uint64_t block = info->block_bytes / SIM_SECTOR, blocks = info->bytes / info->block_bytes;
	uint64_t most = SIM_SLOT_BYTES / info->block_bytes, count;
	struct sim_command command = {.kind = SIM_COMMAND_WRITE};

	if (info->can_flush && sim_chance(app->flush)) {
		command.kind = SIM_COMMAND_FLUSH;
		return command;
	}
	if (app->steady) {
		command.sectors = block;
		return command;
	}
	if (most > info->max_io_bytes / info->block_bytes)
		most = info->max_io_bytes / info->block_bytes;
	count = sim_chance(app->large) ? sim_between(1, most) : sim_between(1, 4);
	if (count > blocks)
		count = blocks;
	command.sectors = count * block;
	command.sector =
		sim_below(sim_chance(500000) && blocks - count > 4 ? 4 : blocks - count + 1) *
		block;
	if (sim_chance(app->read))
		command.kind = SIM_COMMAND_READ;
	else if (info->can_write_zeroes && sim_chance(app->zeroes))
		command.kind = SIM_COMMAND_ZEROES;
	else if (info->can_discard && sim_chance(app->discard))
		command.kind = SIM_COMMAND_DISCARD;
	command.fua = info->can_fua && sim_chance(app->fua) &&
		      (command.kind == SIM_COMMAND_WRITE || command.kind == SIM_COMMAND_ZEROES);
	return command;
}

static int op_begin(struct sim_app *app)
{
	const struct sim_mount *mount = &app->mounts[sim_below(app->mount_count)];

	return op_start(app, mount, op_choose(app, mount));
}

/* -- sessions ------------------------------------------------------------------------------ */

/* Until the session has something, at most so long. */
static void app_wait(struct sim_app *app, uint64_t limit_ns)
{
	int timeout_ms = rblk_timeout_ms(app->session);
	int armed = rblk_arm(app->session);

	if (timeout_ms >= 0 && (uint64_t)timeout_ms * SIM_MS < limit_ns)
		limit_ns = (uint64_t)timeout_ms * SIM_MS;
	if (armed || limit_ns < SIM_US)
		sim_fiber_sleep(SIM_US);
	else
		sim_fiber_wait_fd(rblk_fd(app->session), limit_ns);
}

/*
 * Mostly a session that was lost is not succeeded by a stranger but begun anew: the same id, the
 * next epoch, as librblk will do by itself one day. The login is on its way, and changed there.
 */
static void session_renew(struct sim_app *app)
{
	struct rblk_session *session = app->session;
	struct sim_conn *conn = sim_conn_of(session->queues[0].conn);
	struct rblk_wire_login login;

	if (!app->epoch || sim_chance(300000)) {
		memcpy(app->session_id, session->session_id, sizeof(app->session_id));
		app->epoch = session->core.epoch;
		app->former = 0;
		return;
	}
	session->core.epoch = ++app->epoch;
	memcpy(session->session_id, app->session_id, sizeof(app->session_id));
	memcpy(&login, conn->private_data, sizeof(login));
	memcpy(login.session_id, app->session_id, sizeof(app->session_id));
	login.session_epoch = rblk_to_le64(app->epoch);
	memcpy(conn->private_data, &login, sizeof(login));
}

/* It is there: what its former life left undone is over (F5). */
static void session_ready(struct sim_app *app)
{
	if (app->former)
		sim_model_fenced(app->former);
	app->former = app->session_number;
}

/*
 * The portals that it knows of, beginning with any, and among them perhaps one that never answers.
 * They may be of two fabrics, whose keys and completions librblk must not mix up.
 */
static void app_uri(const struct sim_app *app, char *uri, size_t bytes)
{
	static const char *const schemes[] = {"rblk+sim://", "rblk+sim2://"};
	unsigned int first = (unsigned int)sim_below(app->portals);
	bool mixed = app->portals > 1 && sim_chance(300000);
	size_t used = 0;

	for (unsigned int i = 0; i < app->portals; i++) {
		unsigned int portal = (first + i) % app->portals;

		used += (size_t)snprintf(uri + used, bytes - used, "%s%s10.0.%u.%u:4430",
					 i ? "," : "",
					 i && !mixed ? "" : schemes[mixed && portal % 2],
					 app->silent_portal && !portal ? SIM_PORTALS_MAX : portal,
					 app->host->machine + 1);
	}
	snprintf(uri + used, bytes - used, "/%s",
		 app->host->config.volumes[app->mounts[0].volume].name);
	if (mixed)
		sim_reached("application", "reaches its target through two fabrics", NULL);
}

/* True: ready. */
static bool session_open(struct sim_app *app)
{
	char uri[160], error[RBLK_ERROR_BYTES];

	app_uri(app, uri, sizeof(uri));
	app->doing = "opens a session";
	sim_history_begin(app->host->running);
	app->session = rblk_session_start(uri, &app->options, error);
	if (!app->session)
		sim_fail("%s: %s: %s", app->actor.name, uri, error);
	app->session_number = sim_session_of(&app->actor);
	app->failures = 0;
	if (!app->steady)
		session_renew(app);
	while (rblk_session_state(app->session) == RBLK_SESSION_CONNECTING) {
		rblk_poll(app->session, 0);
		if (rblk_session_state(app->session) == RBLK_SESSION_CONNECTING)
			app_wait(app, UINT64_MAX);
	}
	sim_trace(app->actor.name, "session: %s",
		  rblk_session_state(app->session) == RBLK_SESSION_READY
			  ? "ready"
			  : rblk_session_error(app->session));
	if (rblk_session_state(app->session) != RBLK_SESSION_READY)
		return false;
	session_ready(app);
	return true;
}

static bool volume_open(struct sim_app *app, struct sim_mount *mount)
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
	mount->lost = false;
	memcpy(mount->cache_epoch, info->cache_epoch, sizeof(mount->cache_epoch));
	sim_inside_opened(app->host, mount->volume, &opening);
	return true;
}

/* Long sessions: their numbers begin anew. */
static void session_age(struct sim_app *app)
{
	struct rblk_session *session = app->session;
	bool confirmed = session->event_seen == session->event_told;

	for (unsigned int i = 0; i < session->queue_count; i++)
		if (session->queues[i].state == INI_QUEUE_LIVE)
			sim_inside_leap_commands(session->queues[i].conn,
						 &session->queues[i].tags.next_sequence);
	if (!confirmed || session->queues[0].state != INI_QUEUE_LIVE)
		return;
	sim_inside_leap_events(session->queues[0].conn, &session->event_seen);
	session->event_told = session->event_seen;
}

static bool volumes_open(struct sim_app *app)
{
	app->doing = "opens its volumes";
	app->gone = false;
	for (unsigned int i = 0; i < app->mount_count; i++)
		if (!volume_open(app, &app->mounts[i]))
			return false;
	if (rblk_buffer_register(app->session, app->guard.base, (size_t)SIM_SLOTS * SIM_SLOT_BYTES))
		sim_fail("%s: %s", app->actor.name, rblk_session_error(app->session));
	app->registered = true;
	if (sim_chance(200000) && rblk_session_state(app->session) == RBLK_SESSION_READY)
		session_age(app);
	return true;
}

static bool volumes_cleanly_closed(struct sim_app *app)
{
	app->doing = "closes its volumes";
	for (unsigned int i = 0; i < app->mount_count; i++) {
		if (app->mounts[i].rblk)
			rblk_volume_close(app->mounts[i].rblk);
		app->mounts[i].rblk = NULL;
	}
	return !app->registered || rblk_buffer_unregister(app->session, app->guard.base) == 0;
}

static void session_end(struct sim_app *app)
{
	if (app->mounts[0].rblk && !app->under_way && !volumes_cleanly_closed(app))
		sim_fail("%s: commands are over and hold their memory", app->actor.name);
	app->doing = "closes its session";
	sim_reached("application: closes its session, which is",
		    core_session_state_name(app->session->core.state), NULL);
	rblk_session_close(app->session);
	app->session = NULL;
	app->registered = false;
	for (unsigned int i = 0; i < app->mount_count; i++)
		app->mounts[i].rblk = NULL;
	if (app->under_way || sim_guard_lent(&app->guard))
		sim_fail("%s: %u commands were never completed", app->actor.name, app->under_way);
	sim_trace(app->actor.name, "session closed");
}

/* What has come; false: the session is lost and everything has been called back. */
static bool app_poll(struct sim_app *app)
{
	int count;

	mounts_watch(app);
	count = rblk_poll(app->session, (unsigned int)sim_below(8));
	mounts_refresh(app);
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
	return app->ops_left || app->under_way;
}

/* False: there is no room for more until something has ended. */
static bool app_begin_some(struct sim_app *app)
{
	unsigned int burst = (unsigned int)sim_between(1, app->depth);
	bool room = true;

	while (room && app->ops_left && app->under_way < app->depth && burst--) {
		room = !op_begin(app);
		if (!room)
			break;
		app->ops_left--;
		if (app->single)
			rblk_submit(app->session);
	}
	rblk_submit(app->session);
	return room && app->ops_left && app->under_way < app->depth;
}

/* Everything is answered: each failure that the target has told, and no other. */
static void app_check_failures(const struct sim_app *app)
{
	const struct ini_fabs *fabs = &app->session->fabs;
	unsigned int failures = 0;

	for (u16 i = 0; i < fabs->count; i++)
		failures += ((const struct sim_fab *)fabs->list[i])->failures;
	if (failures != app->failures)
		sim_fail("%s: %u commands were answered with an I/O error, %u were called back "
			 "with it",
			 app->actor.name, failures, app->failures);
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
		app->working = true;
		well = app_poll(app);
		app->working = false;
		if (!well)
			return false;
		if (app->gone || (!app->calm && sim_chance(app->abandon)))
			return false;
		if (more)
			sim_fiber_sleep(sim_below(app->think_ns));
		else
			app_wait(app, app->under_way ? UINT64_MAX : SIM_MS);
	}
	app_check_failures(app);
	sim_history_end();
	return true;
}

/* Everything, once more. False: the session is lost. */
static bool mount_verify(struct sim_app *app, struct sim_mount *mount)
{
	const struct rblk_volume_info *info = rblk_volume_info(mount->rblk);
	uint64_t sectors = info->bytes / SIM_SECTOR;
	uint64_t most = SIM_SLOT_BYTES < info->max_io_bytes ? SIM_SLOT_BYTES : info->max_io_bytes;

	mount->verified = 0;
	while (mount->verified < sectors || app->under_way) {
		struct sim_command command = {.kind = SIM_COMMAND_READ,
					      .sector = mount->verified,
					      .sectors = most / SIM_SECTOR};

		if (command.sectors > sectors - mount->verified)
			command.sectors = sectors - mount->verified;
		if (command.sectors && !op_start(app, mount, command))
			mount->verified += command.sectors;
		rblk_submit(app->session);
		if (!app_poll(app))
			return false;
		app_wait(app, app->under_way ? UINT64_MAX : SIM_MS);
	}
	return !app->gone;
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
		bool well = session_open(app) && volumes_open(app) && app_work(app);

		if (well && app->calm)
			app->finished = app_verify(app) && (!app->alone || app_checksum(app));
		session_end(app);
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
	app->options.size = sizeof(app->options);
	app->options.polling = RBLK_POLL_NEVER;
	app->options.initiator_name = app->actor.name;
	sim_guard_init(&app->guard, app->actor.name);
	sim_fiber_start(&app->fiber, &app->actor, app_run, app);
}

void sim_app_fini(struct sim_app *app)
{
	sim_fiber_fini(&app->fiber);
	sim_guard_fini(&app->guard);
}
