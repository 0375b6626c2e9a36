/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An application's session with librblk: opened, with its volumes, and closed.
 */
#include "tests/sim/app_impl.h"

#include <stdio.h>
#include <string.h>
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/history.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"
#include "tests/sim/whitebox.h"

/* Until the session has something, at most so long. */
void sim_app_wait(struct sim_app *app, uint64_t limit_ns)
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
 * Most of the time the next session takes the id of the one that was lost, with the next epoch. librblk
 * has chosen another id, and its login is on its way already, so the login is changed there.
 */
static void session_renew(struct sim_app *app)
{
	struct rblk_session *session = app->session;
	struct sim_conn *conn = sim_conn_of(session->queues[0].conn);
	struct rblk_wire_login login;

	if (!app->epoch || sim_chance(300000)) {
		memcpy(app->session_id, session->identity.session_id, sizeof(app->session_id));
		app->epoch = session->core.epoch;
		return;
	}
	session->core.epoch = ++app->epoch;
	memcpy(session->identity.session_id, app->session_id, sizeof(app->session_id));
	memcpy(&login, conn->private_data, sizeof(login));
	memcpy(login.session_id, app->session_id, sizeof(app->session_id));
	login.session_epoch = rblk_to_le64(app->epoch);
	memcpy(conn->private_data, &login, sizeof(login));
}

/*
 * The portals that it knows of, beginning with any, and among them perhaps one that never answers.
 * They may be of two fabrics, whose keys and completions librblk must not mix up.
 */
static void app_uri(const struct sim_app *app, char *uri, size_t bytes)
{
	static const char *const schemes[] = {"rblk+sim://", "rblk+sim2://"};
	const struct sim_host *const named[] = {app->host, app->other, app->third};
	unsigned int targets = app->third ? 3 : app->other ? 2 : 0;
	unsigned int first = (unsigned int)sim_below(app->portals);
	bool mixed = app->portals > 1 && sim_chance(300000);
	size_t used = 0;

	/* Of two, groups seldom: they leave fewer ways to be wrong. By what is random already. */
	for (unsigned int i = 0; i < targets; i++)
		used += (size_t)snprintf(uri + used, bytes - used, "%s10.0.0.%u:4430",
					 !i							? schemes[0]
					 : app->third || !(app->options.connect_timeout_ms % 8) ? ";"
												: ",",
					 named[(app->begins + i) % targets]->machine + 1);
	if (targets) {
		snprintf(uri + used, bytes - used, "/%s", app->host->config.volumes[app->mounts[0].volume].name);
		return;
	}
	if (app->named) {
		snprintf(uri, bytes, "%starget-%u-%u:4430/%s", schemes[0], app->host->machine + 1, app->portals,
			 app->host->config.volumes[app->mounts[0].volume].name);
		return;
	}
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
bool sim_app_open_session(struct sim_app *app)
{
	char uri[160], error[RBLK_ERROR_BYTES];

	app_uri(app, uri, sizeof(uri));
	app->doing = "opens a session";
	sim_history_begin(app->host->running, app->other && app->other->running);
	app->session = rblk_session_start(uri, &app->options, error);
	if (!app->session)
		sim_fail("%s: %s: %s", app->actor.name, uri, error);
	app->session->durables = &app->process->durables;
	app->session_number = sim_session_of(&app->actor);
	app->failures = app->unsure = 0;
	if (!app->steady)
		session_renew(app);
	while (rblk_session_state(app->session) == RBLK_SESSION_CONNECTING) {
		rblk_poll(app->session, 0);
		if (rblk_session_state(app->session) == RBLK_SESSION_CONNECTING)
			sim_app_wait(app, UINT64_MAX);
	}
	sim_trace(app->actor.name, "session: %s",
		  rblk_session_state(app->session) == RBLK_SESSION_READY
			  ? "ready"
			  : rblk_session_error(app->session));
	if (rblk_session_state(app->session) != RBLK_SESSION_READY)
		return false;
	return true;
}

/* Long sessions: their numbers begin anew. */
static void session_age(struct sim_app *app)
{
	struct rblk_session *session = app->session;
	bool confirmed = session->events.seen == session->events.confirmed;

	for (unsigned int i = 0; i < session->queue_count; i++)
		if (session->queues[i].state == INI_QUEUE_LIVE)
			sim_whitebox_leap_commands(session->queues[i].conn,
						   &session->queues[i].tags.next_sequence);
	if (!confirmed || session->queues[0].state != INI_QUEUE_LIVE)
		return;
	sim_whitebox_leap_events(session->queues[0].conn, &session->events.seen);
	session->events.confirmed = session->events.seen;
}

bool sim_app_open_volumes(struct sim_app *app)
{
	app->doing = "opens its volumes";
	app->gone = false;
	for (unsigned int i = 0; i < app->mount_count; i++)
		if (!sim_mount_open(app, &app->mounts[i]))
			return false;
	if (rblk_buffer_register(app->session, app->guard.base, (size_t)SIM_SLOTS * SIM_SLOT_BYTES, 0))
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
		struct rblk_volume *rblk = app->mounts[i].rblk;

		if (!rblk)
			continue;
		rblk_volume_close(rblk);
		sim_mount_closed(app, &app->mounts[i]);
	}
	return !app->registered || rblk_buffer_unregister(app->session, app->guard.base) == 0;
}

void sim_app_end_session(struct sim_app *app)
{
	if (app->mounts[0].rblk && !app->under_way && sim_chance(500000) && !volumes_cleanly_closed(app))
		sim_fail("%s: commands are over and hold their memory", app->actor.name);
	app->doing = "closes its session";
	sim_reached("application: closes its session, which is",
		    core_session_state_name(app->session->core.state), NULL);
	/* librblk may have begun epochs by itself. Where numbers count (F8), the next session's is another. */
	if ((app->compare || app->reserved) && app->epoch < app->session->core.epoch)
		app->epoch = app->session->core.epoch;
	app->closing = true;
	/* As that of a program that is killed: what it has at the target stays there. */
	if (sim_chance(400000)) {
		app->session->failure.final = -ECANCELED;
		core_session_stop(&app->session->core, app->session->now_ns);
	}
	rblk_session_close(app->session);
	app->closing = false;
	app->session = NULL;
	app->registered = false;
	for (unsigned int i = 0; i < app->mount_count; i++)
		if (app->mounts[i].rblk)
			sim_mount_closed(app, &app->mounts[i]);
	if (app->under_way || sim_guard_lent(&app->guard))
		sim_fail("%s: %u commands were never completed", app->actor.name, app->under_way);
	sim_trace(app->actor.name, "session closed");
	/* It may have been its process that has ended. */
	if (app->process->app_count == 1 && sim_chance(300000))
		sim_app_forget(app);
}
