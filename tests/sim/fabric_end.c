/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a connection of the simulated fabric ends: lost, killed or closed, then drained, then destroyed. The device's
 * work that is under way goes on for a while.
 */
#include "tests/sim/fabric_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/sim/model.h"
#include "tests/sim/random.h"
#include "tests/sim/rules.h"
#include "tests/sim/trace.h"

/* The device's work that is under way when a connection ends. */
#define DEATH_NS_MAX (20 * SIM_US)
#define DEATH_LONG_NS_MAX (500 * SIM_US)
#define DEATH_SLOW_NS_MAX (20 * SIM_MS)

void sim_conn_check_drained(struct sim_conn *conn)
{
	if (!conn->closed || !conn->flushed || conn->cqes || conn->drained_told)
		return;
	conn->drained_told = true;
	sim_fab_note(conn->fab, conn, FAB_EVENT_DRAINED, 0, NULL, 0);
}

static void on_flush(void *arg)
{
	struct sim_conn *conn = arg;

	sim_wire_flush(conn);
	conn->flushed = true;
	sim_conn_check_drained(conn);
}

void sim_conn_die(struct sim_conn *conn, enum ibv_wc_status status)
{
	if (conn->state == SIM_CONN_ERR)
		return;
	conn->state = SIM_CONN_ERR;
	conn->error = status;
	sim_event_cancel(&conn->issue);
	sim_event_cancel(&conn->cm);
	sim_event_cancel(&conn->timeout);
	sim_event_cancel(&conn->hangup);
	if (conn->fab->dead) {
		conn->death_ns = sim_now_ns();
		on_flush(conn);
		return;
	}
	if (sim_net.linger_ns)
		conn->death_ns = sim_now_ns() + sim_below(sim_net.linger_ns);
	else if (sim_chance(500000))
		conn->death_ns = sim_now_ns() + sim_below(DEATH_NS_MAX);
	else
		conn->death_ns = sim_now_ns() + sim_below(sim_chance(700000) ? DEATH_LONG_NS_MAX
									     : DEATH_SLOW_NS_MAX);
	sim_event_at(&conn->flush, conn->death_ns);
}

void sim_conn_ended(struct sim_conn *conn)
{
	if (conn->ended_number)
		return;
	conn->ended_number = sim_model_number();
	if (conn->server && conn->session)
		sim_model_conn_ended(conn->session);
}

void sim_conn_lose(struct sim_conn *conn, enum ibv_wc_status status, int error)
{
	bool failed = conn->state == SIM_CONN_RESOLVING || conn->state == SIM_CONN_REQUESTED;

	if (conn->state == SIM_CONN_ERR)
		return;
	sim_trace(conn->fab->actor->name, "qp %u lost: %s", conn->head.qp_num, strerror(-error));
	if (conn->request)
		conn->request->client = NULL;
	conn->request = NULL;
	/* Even while the thread that it belongs to is late, and has not seen it. */
	sim_conn_ended(conn);
	sim_conn_die(conn, status);
	if (failed)
		fab_fail(conn->head.fab, error, "%s", strerror(-error));
	sim_fab_note(conn->fab, conn, failed ? FAB_EVENT_FAILED : FAB_EVENT_DISCONNECTED, error,
		     NULL, 0);
}

void sim_conn_kill(struct sim_conn *conn)
{
	if (conn->state != SIM_CONN_ERR) {
		sim_conn_lose(conn, IBV_WC_WR_FLUSH_ERR, -ECONNRESET);
	} else if (!conn->flushed) {
		sim_event_cancel(&conn->flush);
		on_flush(conn);
	}
}

static void on_hangup(void *arg)
{
	sim_conn_lose(arg, IBV_WC_WR_FLUSH_ERR, -ECONNRESET);
}

void sim_end_init(struct sim_conn *conn)
{
	conn->flush = (struct sim_event){.run = on_flush, .arg = conn};
	conn->hangup = (struct sim_event){.run = on_hangup, .arg = conn};
}

/* Our end is gone: the other is told, unless it has to find out by itself. */
static void hang_up(struct sim_conn *conn)
{
	struct sim_conn *peer = conn->peer;
	uint64_t due_ns;

	if (!peer || peer->state == SIM_CONN_ERR || conn->fab->dead || conn->silent || !sim_link_up(conn))
		return;
	due_ns = sim_now_ns() + sim_latency_ns();
	due_ns += sim_below(sim_net.stray_ns);
	sim_event_by(&peer->hangup, due_ns);
}

void sim_conn_break(struct fab_conn *head)
{
	struct sim_conn *conn = sim_conn_of(head);

	if (conn->state != SIM_CONN_UP)
		return;
	sim_trace(conn->fab->actor->name, "qp %u breaks", conn->head.qp_num);
	sim_conn_lose(conn, IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT);
}

void sim_conn_silence(struct fab_conn *head)
{
	sim_conn_of(head)->silent = true;
}

void sim_close(struct fab_conn *head)
{
	struct sim_conn *conn = sim_conn_of(head);

	if (conn->closed)
		return;
	sim_trace(conn->fab->actor->name, "qp %u is closed", head->qp_num);
	conn->closed = true;
	sim_conn_ended(conn);
	if (conn->request)
		conn->request->client = NULL;
	conn->request = NULL;
	hang_up(conn);
	sim_conn_die(conn, IBV_WC_WR_FLUSH_ERR);
	sim_conn_check_drained(conn);
}

static void notes_purge(struct sim_conn *conn)
{
	struct sim_note *note, *following;

	for (note = TAILQ_FIRST(&conn->fab->notes); note; note = following) {
		following = TAILQ_NEXT(note, link);
		if (note->event.conn != &conn->head)
			continue;
		TAILQ_REMOVE(&conn->fab->notes, note, link);
		free(note);
	}
}

void sim_destroy(struct fab_conn *head)
{
	struct sim_conn *conn = sim_conn_of(head);

	if (!conn->drained_told)
		sim_fail("%s: qp %u is destroyed before it is drained", conn->fab->actor->name,
			 head->qp_num);
	sim_trace(conn->fab->actor->name, "qp %u is destroyed", head->qp_num);
	notes_purge(conn);
	sim_wire_fini(conn);
	sim_event_cancel(&conn->cm);
	sim_event_cancel(&conn->timeout);
	sim_event_cancel(&conn->hangup);
	sim_event_cancel(&conn->flush);
	if (conn->peer)
		conn->peer->peer = NULL;
	if (conn->server && conn->session && !conn->fab->dead)
		sim_model_conn_gone(conn->session, false);
	if (head->qp_num) {
		fab_conn_table_remove(&conn->fab->head, head);
		sim_qp_number_free(head->qp_num);
	}
	TAILQ_REMOVE(&conn->fab->conns, conn, link);
	free(conn);
}
