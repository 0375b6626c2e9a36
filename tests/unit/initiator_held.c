/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a write whose data is sent from the program's memory is called back when its SEND has completed, too, not when
 * it is answered (F4): also if its connection is lost by then, and a device still may send again. Then it waits until
 * the connection is drained. Method: a queue of the test's, in each state.
 */
#include "initiator/session.h"
#include "tests/unit/unit.h"

#include <string.h>
#include "initiator/retry.h"

static struct rblk_session session;
static struct ini_queue *const queue = &session.queues[0];
static struct ini_slot slots[RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS];
static struct core_tag tags[RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS];

/* An in-capsule write that is answered; the SENDs before its own have completed. */
static struct ini_slot *answered(enum ini_queue_state state)
{
	struct ini_slot *slot;
	int tag;

	memset(&session, 0, sizeof(session));
	memset(slots, 0, sizeof(slots));
	session.queue_count = 1;
	queue->session = &session;
	queue->slots = slots;
	queue->tag_array = tags;
	queue->state = state;
	queue->messages_done = 7;
	core_tags_init(&queue->tags, tags, RBLK_CREDITS_MIN);
	tag = core_tags_take(&queue->tags, false);
	assert_int_equal(core_tags_answer(&queue->tags, (u16)tag, core_tags_send(&queue->tags, (u16)tag)), 0);
	slot = &slots[tag];
	slot->queue = queue;
	slot->capsule_bytes = 512;
	slot->message = 7;
	slot->answered = true;
	return slot;
}

static void it_is_held_in_every_state(void **state)
{
	static const enum ini_queue_state states[] = {INI_QUEUE_LIVE, INI_QUEUE_DRAINING};

	(void)state;
	for (unsigned int i = 0; i < UNIT_LENGTH(states); i++) {
		struct ini_slot *slot = answered(states[i]);

		ini_slot_release(slot);
		assert_int_equal(slot->place, INI_PLACE_HELD);
		assert_null(session.done.head);
		ini_park_queue(queue); /* drained */
		assert_int_equal(slot->place, INI_PLACE_DONE);
		assert_ptr_equal(session.done.head, slot);
	}
}

static void it_is_not_when_its_send_has_completed(void **state)
{
	struct ini_slot *slot = answered(INI_QUEUE_DRAINING);

	(void)state;
	queue->messages_done = 8;
	ini_slot_release(slot);
	assert_int_equal(slot->place, INI_PLACE_DONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_held_in_every_state),
		cmocka_unit_test(it_is_not_when_its_send_has_completed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
