/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a state transition that is not in the table ends the connection, with a message, and
 * nothing else; a connection that has ended already continues its teardown. Method: the test
 * requests the transition, of a TCP connection that works, and of a verbs connection without a
 * device.
 */
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "proto/fabric/fabric_tcp_conn.h"
#include "proto/fabric/fabric_verbs.h"

#define WORDS "no such transition"

static void tcp_transitions(void)
{
	struct fx fx = {0};
	struct tcp_conn *conn;

	fx_open_connected(&fx);
	fx_post_recv(&fx.b, 1, 0, 64);
	conn = tcp_conn_of(fx.b.conn);
	CHECK(!tcp_conn_set_state(conn, TCP_CONN_GREETING));
	CHECK_EQ(conn->state, TCP_CONN_ERROR);
	WAIT(&fx, fx.b.events[FAB_EVENT_DISCONNECTED]);
	CHECK_EQ(fx.b.status, -EPROTO);
	CHECK(strstr(fab_error(fx.b.fab), WORDS));
	CHECK(strstr(fab_error(fx.b.fab), fab_conn_peer(fx.b.conn)));
	fx_wc_status(&fx, &fx.b, 1, IBV_WC_WR_FLUSH_ERR);
	WAIT(&fx, fx.a.events[FAB_EVENT_DISCONNECTED]);

	CHECK(!tcp_conn_set_state(conn, TCP_CONN_READY));
	CHECK_EQ(conn->state, TCP_CONN_ERROR);
	CHECK_EQ(conn->events, 0);
	fab_conn_close(fx.b.conn);
	CHECK(!tcp_conn_set_state(conn, TCP_CONN_ERROR));
	CHECK(conn->state == TCP_CONN_CLOSING || conn->state == TCP_CONN_DRAINED);
	fx_disconnect(&fx);
	fx_connect(&fx);
	fx_close(&fx);
}

static void verbs_transitions(void)
{
	struct verbs_fab fab = {.head.ops = &fab_verbs_ops};
	const struct fab_conn_options options = {0};
	struct verbs_conn *conn;

	TAILQ_INIT(&fab.conns);
	TAILQ_INIT(&fab.ready);
	TAILQ_INIT(&fab.timed);
	conn = verbs_conn_alloc(&fab, &options, VERBS_CONN_RESOLVING);
	CHECK(conn);
	verbs_conn_set_deadline(conn, 1);
	CHECK(!verbs_conn_set_state(conn, VERBS_CONN_ESTABLISHED));
	CHECK_EQ(conn->state, VERBS_CONN_BROKEN);
	CHECK_EQ(conn->events, 1u << FAB_EVENT_FAILED);
	CHECK_EQ(conn->status, -EPROTO);
	CHECK(strstr(conn->reason, WORDS));
	CHECK(!conn->timed);
	CHECK(!verbs_conn_set_state(conn, VERBS_CONN_ESTABLISHED));
	CHECK_EQ(conn->state, VERBS_CONN_BROKEN);
	CHECK_EQ(conn->events, 1u << FAB_EVENT_FAILED);
	verbs_conn_free(conn);

	conn = verbs_conn_alloc(&fab, &options, VERBS_CONN_ESTABLISHED);
	CHECK(conn);
	CHECK(!verbs_conn_set_state(conn, VERBS_CONN_RESOLVING));
	CHECK_EQ(conn->events, 1u << FAB_EVENT_DISCONNECTED);
	/* A second end has no effect. */
	verbs_conn_break(conn, FAB_EVENT_FAILED, -EIO, "another end");
	CHECK_EQ(conn->events, 1u << FAB_EVENT_DISCONNECTED);
	CHECK_EQ(conn->status, -EPROTO);
	verbs_conn_close(&conn->head);
	CHECK_EQ(conn->state, VERBS_CONN_DRAINED);
	CHECK_EQ(conn->events, 1u << FAB_EVENT_DRAINED);
	verbs_conn_free(conn);
}

const struct fx_case fx_cases_states[] = {
	{"tcp_transitions", tcp_transitions, 0},
	{"verbs_transitions", verbs_transitions, 0},
	{0},
};
