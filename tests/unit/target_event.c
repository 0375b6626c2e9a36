/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: each kind of event that was sent and not confirmed is sent again on the next connection, and none that was
 * confirmed, or whose handle is closed by then, or that told a session to go, which has come back. Method: the events
 * of a session with one open volume and a queue 0, both made by the test.
 */
#include "tests/unit/unit.h"
#include <stdlib.h>
#include <string.h>
#include "target/io/work.h"
#include "target/serve/event.h"
#include "target/serve/queue.h"

#define HANDLE (5u << 10)

static struct rig {
	struct tgt_loop loop;
	struct tgt_session session;
	struct tgt_queue queue;
	struct tgt_handle handle;
	struct tgt_handle *handles[1];
} *rig;

static const struct tgt_io_queue_ops ops;

static int begin(void **state)
{
	(void)state;
	rig = calloc(1, sizeof(*rig));
	assert_non_null(rig);
	tgt_work_init(&rig->loop);
	rig->session.slots[0].queue = &rig->queue;
	rig->session.handles = rig->handles;
	rig->session.handle_slots = 1;
	rig->handles[0] = &rig->handle;
	rig->handle.session = &rig->session;
	rig->handle.id = HANDLE;
	rig->queue.session = &rig->session;
	rig->queue.io_queue.ops = &ops;
	rig->queue.proven = true;
	rig->queue.io_queue.loop = &rig->loop;
	rig->queue.io_queue.features = RBLK_FEATURE_EVENTS;
	rig->queue.io_queue.open = true;
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(rig);
	return 0;
}

/* -- the kinds of events ----------------------------------------------------------------------- */

static void list_changes(void)
{
	rig->session.events.list_changed = true;
	tgt_event_kick(&rig->session);
}

static void target_drains(void)
{
	rig->session.events.draining = true;
	tgt_event_kick(&rig->session);
}

static void volume_changes(void)
{
	tgt_event_volume(&rig->handle, false);
}

static void volume_goes(void)
{
	tgt_event_volume(&rig->handle, true);
}

static const struct kind {
	void (*happens)(void);
	enum rblk_event code;
	uint32_t handle;
} kinds[] = {
	{list_changes, RBLK_EVENT_LIST_CHANGED, 0},
	{volume_changes, RBLK_EVENT_VOLUME_CHANGED, HANDLE},
	{volume_goes, RBLK_EVENT_VOLUME_REMOVED, HANDLE},
};
static const struct kind drains = {target_drains, RBLK_EVENT_DRAINING, 0};

static void assert_sent(const struct kind *kind, uint32_t number)
{
	struct rblk_wire_completion event;

	assert_true(rig->queue.io_queue.event_due);
	tgt_event_next(&rig->session, &event);
	assert_int_equal(rblk_le16(event.status), kind->code);
	assert_int_equal(rblk_le64(event.result), (uint64_t)number << 32 | kind->handle);
	assert_false(rig->queue.io_queue.event_due); /* one at a time */
}

static void reconnect(void)
{
	rig->queue.io_queue.event_due = false;
	tgt_event_restart(&rig->session);
}

static void what_was_not_confirmed_is_sent_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < UNIT_LENGTH(kinds); i++) {
		kinds[i].happens();
		assert_sent(&kinds[i], 1);
		/* Again and again, and a confirmation of another number is none. */
		for (unsigned int n = 0; n < 3; n++) {
			reconnect();
			assert_sent(&kinds[i], 1);
			tgt_event_seen(&rig->session, 2);
		}
		tgt_event_seen(&rig->session, 1);
		reconnect();
		assert_false(rig->queue.io_queue.event_due);
	}
}

static void a_closed_handle_has_none(void **state)
{
	(void)state;
	for (size_t i = 1; i < UNIT_LENGTH(kinds); i++) {
		kinds[i].happens();
		assert_sent(&kinds[i], 1);
		rig->handle.closing = true;
		reconnect();
		assert_false(rig->queue.io_queue.event_due);
		rig->handle.closing = false;
	}
}

/* Else it would go again, and come back again. */
static void who_comes_back_is_not_sent_away_again(void **state)
{
	(void)state;
	drains.happens();
	assert_sent(&drains, 1);
	reconnect();
	assert_false(rig->queue.io_queue.event_due);
	drains.happens();
	assert_sent(&drains, 1);
}

/* It is told when it has proven itself: until then it could confirm in the owner's place. */
static void a_connection_without_its_proof_is_told_none(void **state)
{
	(void)state;
	rig->queue.proven = false;
	for (size_t i = 0; i < UNIT_LENGTH(kinds); i++)
		kinds[i].happens();
	assert_false(rig->queue.io_queue.event_due);
	rig->queue.proven = true;
	tgt_event_kick(&rig->session);
	assert_sent(&kinds[2], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_not_confirmed_is_sent_again, begin, end),
		cmocka_unit_test_setup_teardown(a_closed_handle_has_none, begin, end),
		cmocka_unit_test_setup_teardown(who_comes_back_is_not_sent_away_again, begin, end),
		cmocka_unit_test_setup_teardown(a_connection_without_its_proof_is_told_none, begin, end),
	};

	return cmocka_run_group_tests_name("target event", tests, NULL, NULL);
}
