/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: RESERVE and RESERVATIONS leave a reserved tag for KEEPALIVE, without which a session with a slow store would be
 * lost: not only when they are begun, but also when a loss has left more of them to be sent again than there are tags.
 * Method: a session of the test's; losses as its queue would tell them.
 */
#include "initiator/session.h"
#include "initiator/volume.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS)
#define MOST (RBLK_RESERVED_TAGS - 1)

static struct rblk_session session;
static struct ini_queue *const queue = &session.queues[0];
static struct ini_slot slots[SLOTS];
static struct core_tag tags[SLOTS];
static struct rblk_volume volume = {.session = &session, .handle = 10};
static struct rblk_pr_state report;
static unsigned int ended;

static int begin(void **state)
{
	(void)state;
	memset(&session, 0, sizeof(session));
	session.ready = true;
	session.queue_count = session.core.queues = 1;
	session.core.state = CORE_SESSION_LIVE;
	session.core.queue[0].state = CORE_QUEUE_LIVE;
	session.control.memory = calloc(1, sizeof(struct ini_control));
	assert_non_null(session.control.memory);
	queue->session = &session;
	queue->state = INI_QUEUE_LIVE;
	queue->capsule_max = RBLK_CAPSULE_ALIGN;
	queue->slots = slots;
	queue->tag_array = tags;
	core_tags_init(&queue->tags, tags, RBLK_CREDITS_MIN);
	for (u16 i = 0; i < SLOTS; i++)
		slots[i] = (struct ini_slot){.queue = queue, .tag = i};
	ended = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(session.control.memory);
	return 0;
}

/* It has no device. */
u32 __wrap_ini_mr_lkey(const struct ini_mr *mr, const struct fab_device *device);
u32 __wrap_ini_mr_lkey(const struct ini_mr *mr, const struct fab_device *device)
{
	return 1;
}

u32 __wrap_ini_mr_rkey(const struct ini_mr *mr, const struct fab_device *device);
u32 __wrap_ini_mr_rkey(const struct ini_mr *mr, const struct fab_device *device)
{
	return 1;
}

static void told(void *arg, struct rblk_volume *of, int error)
{
	(void)arg;
	(void)of;
	assert_int_equal(error, -ENOTCONN);
	ended++;
}

/* Either kind. */
static int begin_one(unsigned int i)
{
	const struct rblk_pr_request request = {
		.size = sizeof(request), .action = RBLK_PR_REGISTER, .key = i, .new_key = i + 1};

	return i % 2 ? rblk_reserve_start(&volume, &request, told, NULL)
		     : rblk_reservations_start(&volume, &report, sizeof(report), NULL, 0, told, NULL);
}

/* What is with the target ends like this. */
static void end_all(int error)
{
	const struct rblk_result result = {.error = error};
	struct ini_slot *slot;

	while ((slot = ini_list_pop(&queue->pending))) {
		queue->pending_count--;
		core_tags_put(&queue->tags, slot->tag);
		slot->done(slot->arg, &result);
	}
}

static void keepalive_goes(void)
{
	assert_int_equal(queue->tags.taken_reserved, MOST);
	assert_int_equal(queue->pending_count, MOST);
	assert_int_equal(ini_control_keepalive(queue), 0);
	assert_int_equal(ini_control_keepalive(queue), -EAGAIN);
}

/* Each is told once, and none is forgotten. */
static void session_ends(unsigned int begun)
{
	assert_int_equal(volume.inflight, begun);
	queue->state = INI_QUEUE_CLOSED;
	session.failure.final = -ENOTCONN;
	session.core.state = CORE_SESSION_FAILED;
	session.ended = true;
	end_all(-ENOTCONN);
	ini_control_resume(&session);
	assert_int_equal(ended, begun);
	assert_int_equal(volume.inflight, 0);
}

static void one_tag_is_left(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < MOST; i++)
		assert_int_equal(begin_one(i), 0);
	assert_int_equal(begin_one(MOST), -EAGAIN);
	keepalive_goes();
	session_ends(MOST);
}

/* More wait after a loss than there are tags: some were lost, and others were begun before those went again. */
static void one_tag_is_left_after_a_loss(void **state)
{
	unsigned int begun = 0;

	(void)state;
	for (unsigned int loss = 0; loss < 3; loss++) {
		while (begin_one(begun) == 0)
			begun++;
		assert_int_equal(queue->tags.taken_reserved, MOST);
		end_all(-ECONNRESET);
		assert_int_equal(queue->tags.taken_reserved, 0);
	}
	assert_int_equal(begun, 3 * MOST);
	ini_control_resume(&session);
	keepalive_goes();
	session_ends(begun);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_tag_is_left, begin, end),
		cmocka_unit_test_setup_teardown(one_tag_is_left_after_a_loss, begin, end),
	};

	return cmocka_run_group_tests_name("initiator reserve", tests, NULL, NULL);
}
