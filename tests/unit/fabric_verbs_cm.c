/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: when the hardware address of a local device changes (a bond uses another port), every
 * connection there ends at once, with the cause in words; one that has ended already, or is being
 * drained, stays as it is. Method: connections made by the test in each state, and the event of
 * rdma_cm from the test.
 */
#include "proto/fabric/fabric_verbs.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

static struct verbs_fab fab;
static struct verbs_conn conn;
static struct rdma_cm_id id;
static struct rdma_cm_event raw;
static unsigned int acknowledged;

int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	*event = &raw;
	return 0;
}

int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event);
int __wrap_rdma_ack_cm_event(struct rdma_cm_event *event)
{
	assert_ptr_equal(event, &raw);
	acknowledged++;
	return 0;
}

static int setup(void **state)
{
	(void)state;
	memset(&fab, 0, sizeof(fab));
	TAILQ_INIT(&fab.conns);
	TAILQ_INIT(&fab.ready);
	TAILQ_INIT(&fab.timed);
	TAILQ_INIT(&fab.mrs);
	TAILQ_INIT(&fab.listeners);
	return 0;
}

static void address_changes(enum verbs_conn_state state)
{
	setup(NULL);
	memset(&conn, 0, sizeof(conn));
	conn.head.fab = &fab.head;
	conn.state = state;
	strcpy(conn.head.peer, "10.0.0.1:4430");
	id.context = &conn;
	raw = (struct rdma_cm_event){.id = &id, .event = RDMA_CM_EVENT_ADDR_CHANGE};
	acknowledged = 0;
	verbs_cm_event(&fab);
	assert_int_equal(acknowledged, 1);
}

static void check_ended(enum fab_event_type type)
{
	assert_int_equal(conn.state, VERBS_CONN_BROKEN);
	assert_int_equal(conn.events, 1u << type);
	assert_ptr_equal(TAILQ_FIRST(&fab.ready), &conn);
	assert_int_equal(conn.status, -ECONNRESET);
	assert_non_null(strstr(conn.reason, "10.0.0.1:4430"));
	assert_non_null(strstr(conn.reason, "hardware address"));
}

static void an_attempt_to_connect_fails(void **state)
{
	(void)state;
	address_changes(VERBS_CONN_RESOLVING);
	check_ended(FAB_EVENT_FAILED);
	address_changes(VERBS_CONN_CONNECTING);
	check_ended(FAB_EVENT_FAILED);
}

static void a_connection_is_lost(void **state)
{
	(void)state;
	address_changes(VERBS_CONN_ACCEPTED);
	check_ended(FAB_EVENT_DISCONNECTED);
	address_changes(VERBS_CONN_ESTABLISHING);
	check_ended(FAB_EVENT_DISCONNECTED);
	address_changes(VERBS_CONN_ESTABLISHED);
	check_ended(FAB_EVENT_DISCONNECTED);
}

static void one_that_has_ended_stays_as_it_is(void **state)
{
	static const enum verbs_conn_state ended[] = {VERBS_CONN_BROKEN, VERBS_CONN_DRAINING,
						      VERBS_CONN_DRAINED};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(ended); i++) {
		address_changes(ended[i]);
		assert_int_equal(conn.state, ended[i]);
		assert_int_equal(conn.events, 0);
		assert_true(TAILQ_EMPTY(&fab.ready));
		assert_int_equal(fab.head.error[0], '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_attempt_to_connect_fails, setup),
		cmocka_unit_test_setup(a_connection_is_lost, setup),
		cmocka_unit_test_setup(one_that_has_ended_stays_as_it_is, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
