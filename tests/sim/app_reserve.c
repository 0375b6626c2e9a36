/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An application's reservations, with librblk's calls: one of them at a time, beside its I/O. What
 * it asks for, and what the answers must be, is reserver.h's. Called by app.c in each turn.
 */
#include "tests/sim/app_impl.h"

#include <errno.h>
#include <string.h>
#include "proto/wire/wire_names.h"
#include "tests/sim/coverage.h"
#include "tests/sim/fabric_sim.h"
#include "tests/sim/hung.h"
#include "tests/sim/random.h"
#include "tests/sim/trace.h"

static bool connection_is_the_same(const struct sim_app *app)
{
	const struct core_session *core = &app->session->core;

	return core->epoch == app->reserve_epoch &&
	       core->queue[0].incarnation == app->reserve_incarnation;
}

/* False: librblk does not say what became of it. */
static bool status_of(const struct sim_app *app, int error, uint16_t *status)
{
	static const uint16_t statuses[] = {
		RBLK_OK,     RBLK_E_RESERVED,	  RBLK_E_INVALID,   RBLK_E_UNSUPPORTED,
		RBLK_E_BUSY, RBLK_E_NO_RESOURCES, RBLK_E_NO_VOLUME, RBLK_E_DRAINING,
		RBLK_E_GONE, RBLK_E_IO,
	};

	/* It may be the session's own error. */
	if (error == -EIO && core_session_over(&app->session->core))
		return false;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		*status = statuses[i];
		if (rblk_status_errno(*status) == error)
			return true;
	}
	return false;
}

static void reserve_ended(struct sim_app *app, int error)
{
	app->under_way--;
	app->reserving = false;
	if (error == -EIO && core_session_over(&app->session->core))
		app->unsure++;
	else if (error == -EIO)
		app->failures++;
	app->gone |= error == -ENODEV;
	sim_reserver_pause(&app->reserver);
}

static void reserve_done(void *arg, struct rblk_volume *volume, int error)
{
	struct sim_app *app = arg;
	uint16_t status;

	(void)volume;
	sim_trace(app->actor.name, "RESERVE ends: %s", error ? strerror(-error) : "done");
	reserve_ended(app, error);
	if (!app->closing && status_of(app, error, &status)) {
		sim_reserver_answered(&app->reserver, &app->reserve_asked,
				      !connection_is_the_same(app), status);
		return;
	}
	if (!app->closing && !core_session_over(&app->session->core))
		sim_fail("%s: RESERVE has failed, and its session has not: %s", app->actor.name,
			 strerror(-error));
	sim_reserver_lost(&app->reserver, &app->reserve_asked, app->session_number);
}

/* -- the report ------------------------------------------------------------------------------ */

static void report_done(void *arg, struct rblk_volume *volume, int error)
{
	struct sim_app *app = arg;
	struct {
		struct rblk_wire_reservation_report head;
		struct rblk_wire_registrant registrants[SIM_REGISTRANTS];
	} report = {.head = {.type = (uint8_t)app->reserve_state.type,
			     .persists = app->reserve_state.persists}};

	(void)volume;
	reserve_ended(app, error);
	sim_reached("application", "asks who is registered, and that",
		    error ? "has failed" : "is done");
	if (error)
		return;
	report.head.registrants = rblk_to_le32(app->reserve_state.count);
	for (unsigned int i = 0; i < app->reserve_state.count; i++) {
		const struct rblk_pr_registrant *registrant = &app->registrants[i];

		report.registrants[i].key = rblk_to_le64(registrant->key);
		report.registrants[i].holder = registrant->holder;
		memcpy(report.registrants[i].initiator, registrant->initiator,
		       sizeof(registrant->initiator));
	}
	sim_reserver_reported(&app->reserver, app->reserve_serial, &report.head);
}

/* -- beginning ------------------------------------------------------------------------------- */

static int reserve_start(struct sim_app *app)
{
	const struct rblk_wire_reservation *asked = &app->reserve_asked;
	const struct rblk_pr_request request = {
		.size = sizeof(request),
		.action = (enum rblk_pr_action)asked->action,
		.type = (enum rblk_pr_type)asked->type,
		.flags = asked->flags,
		.key = rblk_le64(asked->key),
		.new_key = rblk_le64(asked->new_key),
		.other_key = rblk_le64(asked->other_key),
	};

	return rblk_reserve_start(app->mounts[0].rblk, &request, reserve_done, app);
}

static int report_start(struct sim_app *app)
{
	app->reserver.begun_ns = sim_now_ns();
	app->reserve_serial =
		sim_reservation_serial(&app->host->reservations[app->reserver.volume]);
	return rblk_reservations_start(app->mounts[0].rblk, &app->reserve_state,
				       sizeof(app->reserve_state), app->registrants,
				       SIM_REGISTRANTS, report_done, app);
}

static void reserve_begin(struct sim_app *app)
{
	bool report = sim_reserver_looks(&app->reserver);
	int err;

	app->reserve_epoch = app->session->core.epoch;
	app->reserve_incarnation = app->session->core.queue[0].incarnation;
	if (!report)
		sim_reserver_begin(&app->reserver, &app->reserve_asked);
	err = report ? report_start(app) : reserve_start(app);
	if (!err) {
		app->reserving = true;
		app->under_way++;
		return;
	}
	sim_reserver_pause(&app->reserver);
	if (err != -EAGAIN && err != -ENOTCONN && err != -EBUSY)
		sim_fail("%s: RESERVE is refused: %s", app->actor.name, strerror(-err));
	/* It was not sent. */
	if (!report)
		sim_reserver_answered(&app->reserver, &app->reserve_asked, false, RBLK_E_BUSY);
}

/* What it has under way then is sent again when it may be forbidden. */
static void connection_break(const struct sim_app *app)
{
	const struct rblk_session *session = app->session;
	const struct ini_queue *queue = &session->queues[sim_below(session->queue_count)];

	if (queue->state == INI_QUEUE_LIVE)
		sim_conn_break(queue->conn);
}

void sim_app_reserve(struct sim_app *app)
{
	struct sim_reserver *reserver = &app->reserver;

	if (!app->calm && app->host->reservations[app->mounts[0].volume].under_way &&
	    sim_chance(app->breaks))
		connection_break(app);
	if (sim_hung_may_break(app->hung_breaks)) {
		connection_break(app);
		sim_hung_broken();
	}
	if (!reserver->often || app->reserving || app->gone)
		return;
	/* Or it would not be sent, and yet be one of two at a time. */
	if (app->host->gateway && rblk_session_state(app->session) != RBLK_SESSION_READY)
		return;
	reserver->name = app->actor.name;
	reserver->machine = app->actor.machine;
	reserver->host = app->host;
	reserver->volume = app->mounts[0].volume;
	reserver->calm = app->calm;
	reserver->persists = app->host->keeps || app->host->gateway;
	if (sim_reserver_wants(reserver))
		reserve_begin(app);
}
