/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the answer to FENCE of a volume lets go what that volume has lost with that loss, and nothing else (F5): not after BUSY,
 * not of another volume or queue, not when a later loss, a new epoch or another handle has come before the callback. Method: a
 * session of two queues of the test's, the first lost with a write on each of two volumes; answers as the target would give them.
 */
#include "initiator/fence.h"
#include "tests/unit/unit.h"

#include <string.h>
#include "initiator/retry.h"
#include "initiator/session.h"
#include "initiator/volume.h"
#include "proto/wire/wire_names.h"

#define SLOTS (RBLK_CREDITS_MIN + RBLK_RESERVED_TAGS)
#define MS_NS 1000000ull
#define LOST 5u /* the incarnation */

static struct rblk_session session;
static struct ini_queue *const via = &session.queues[1];
static struct ini_slot slots[SLOTS];
static struct core_tag tags[SLOTS];
static struct rblk_volume volumes[2];
static struct ini_parked *writes[2];

static void begin_loss(u32 incarnation)
{
	session.core.queue[0].lost = (struct core_lost){.waits = true, .drained = true, .incarnation = incarnation};
	ini_fence_volumes(&session, &(struct core_action){.queue = 0, .incarnation = incarnation, .epoch = session.core.epoch});
}

static int begin(void **state)
{
	(void)state;
	memset(&session, 0, sizeof(session));
	memset(slots, 0, sizeof(slots));
	session.queue_count = session.core.queues = 2;
	session.core.state = CORE_SESSION_LIVE;
	session.core.queue[1].state = CORE_QUEUE_LIVE;
	session.core.epoch = 1;
	session.now_ns = 1000 * MS_NS;
	for (u16 i = 0; i < 2; i++) {
		session.queues[i].session = &session;
		session.queues[i].index = i;
	}
	via->state = INI_QUEUE_LIVE;
	via->features = RBLK_FEATURE_VOLUME_FENCE;
	via->slots = slots;
	via->tag_array = tags;
	core_tags_init(&via->tags, tags, RBLK_CREDITS_MIN);
	for (u16 i = 0; i < SLOTS; i++)
		slots[i] = (struct ini_slot){.queue = via, .tag = i};
	assert_int_equal(ini_parking_init(&session.parking, 4), 0);
	for (unsigned int i = 0; i < 2; i++) {
		volumes[i] = (struct rblk_volume){.session = &session, .handle = 10 + i, .epoch = 1};
		writes[i] = ini_parking_take(&session.parking);
		writes[i]->volume = &volumes[i];
		writes[i]->counted = &volumes[i].parked;
		writes[i]->io.opcode = RBLK_OP_WRITE;
		ini_parking_wait(&session.parking, writes[i], INI_PARKED_LOST);
	}
	begin_loss(LOST);
	return 0;
}

static int end(void **state)
{
	(void)state;
	ini_parking_fini(&session.parking);
	return 0;
}

/* The FENCE that is asked for; NULL: none is. */
static struct ini_slot *asked(void)
{
	struct ini_slot *slot = ini_list_pop(&via->pending);

	if (!slot)
		return NULL;
	via->pending_count--;
	assert_int_equal(slot->command.opcode, RBLK_OP_FENCE);
	assert_int_equal(rblk_le64(slot->command.lba), 0);
	assert_null(via->pending.head);
	return slot;
}

static u32 handle_of(const struct ini_slot *slot)
{
	assert_non_null(slot);
	return rblk_le32(slot->command.volume);
}

static void answer(struct ini_slot *slot, u16 status)
{
	const struct rblk_result result = {.status = status, .error = rblk_status_errno(status)};

	core_tags_put(&via->tags, slot->tag);
	slot->done(slot->arg, &result);
}

static bool waits(unsigned int i)
{
	if (writes[i]->state == INI_PARKED_READY)
		assert_true(writes[i]->io.flags & RBLK_CMD_RETRY);
	return writes[i]->state == INI_PARKED_LOST;
}

static void each_volume_waits_for_itself(void **state)
{
	struct ini_slot *fence;

	(void)state;
	ini_fence_run(&session);
	fence = asked();
	assert_int_equal(handle_of(fence), 10);
	assert_int_equal(rblk_le64(fence->command.argument), LOST);
	ini_fence_run(&session);
	assert_null(asked());
	answer(fence, RBLK_E_BUSY);
	assert_true(waits(0) && waits(1));
	fence = asked();
	assert_int_equal(handle_of(fence), 11);
	answer(fence, RBLK_OK);
	assert_true(waits(0));
	assert_false(waits(1));

	/* The round is over, and the next one is after a pause: of the volume that is left. */
	ini_fence_run(&session);
	assert_null(asked());
	assert_true(ini_fence_due_ns(&session) > session.now_ns && ini_fence_due_ns(&session) != UINT64_MAX);
	session.now_ns = ini_fence_due_ns(&session);
	ini_fence_run(&session);
	fence = asked();
	assert_int_equal(handle_of(fence), 10);
	answer(fence, RBLK_OK);
	assert_false(waits(0));
	assert_null(asked());
	assert_int_equal(ini_fence_due_ns(&session), UINT64_MAX);
}

static void a_later_loss_is_not_fenced_by_an_earlier_answer(void **state)
{
	struct ini_slot *fence;

	(void)state;
	ini_fence_run(&session);
	fence = asked();
	begin_loss(LOST + 1);
	ini_fence_run(&session);
	assert_null(asked()); /* one at a time */
	answer(fence, RBLK_OK);
	assert_true(waits(0) && waits(1));
	ini_fence_run(&session);
	fence = asked();
	assert_int_equal(handle_of(fence), 10);
	assert_int_equal(rblk_le64(fence->command.argument), LOST + 1);
	answer(fence, RBLK_OK);
	assert_false(waits(0));
}

/* It is lost, and the machine has not asked for anything yet. */
static void a_loss_that_is_not_drained_is_not_fenced(void **state)
{
	struct ini_slot *fence;

	(void)state;
	ini_fence_run(&session);
	fence = asked();
	session.core.queue[0].lost = (struct core_lost){.waits = true, .incarnation = LOST + 1};
	answer(fence, RBLK_OK);
	assert_true(waits(0) && waits(1));
	assert_null(asked());
}

static void a_new_epoch_is_not_fenced_by_the_old_one(void **state)
{
	struct ini_slot *fence;

	(void)state;
	ini_fence_run(&session);
	fence = asked();
	session.core.epoch = 2;
	volumes[0].epoch = volumes[1].epoch = 2; /* opened again, with the same numbers */
	begin_loss(LOST);
	answer(fence, RBLK_OK);
	assert_true(waits(0) && waits(1));
}

static void another_handle_is_not_fenced(void **state)
{
	struct ini_slot *fence;

	(void)state;
	ini_fence_run(&session);
	fence = asked();
	volumes[0].handle = 12;
	answer(fence, RBLK_OK);
	assert_true(waits(0) && waits(1));
	fence = asked();
	assert_int_equal(handle_of(fence), 11);
	answer(fence, RBLK_E_BUSY);
	assert_int_equal(handle_of(asked()), 12);
}

static void the_fence_of_all_ends_the_asking(void **state)
{
	struct ini_slot *fence;

	(void)state;
	ini_fence_run(&session);
	fence = asked();
	session.core.queue[0].lost.waits = false;
	answer(fence, RBLK_E_BUSY);
	assert_null(asked());
	ini_fence_run(&session);
	assert_null(asked());
	assert_int_equal(ini_fence_due_ns(&session), UINT64_MAX);
}

/* Without a queue that carries it, or a target that knows how, it waits for the fence of all; and needs no timer. */
static void who_cannot_ask_does_not(void **state)
{
	(void)state;
	via->features = 0;
	ini_fence_run(&session);
	assert_null(asked());
	assert_int_equal(ini_fence_due_ns(&session), UINT64_MAX);
	via->features = RBLK_FEATURE_VOLUME_FENCE;
	session.core.queue[1].state = CORE_QUEUE_ENDED;
	ini_fence_run(&session);
	assert_null(asked());
	assert_int_equal(ini_fence_due_ns(&session), UINT64_MAX);
	session.core.queue[1].state = CORE_QUEUE_LIVE;
	ini_fence_run(&session);
	assert_int_equal(handle_of(asked()), 10);
}

/* Nobody else does where the target asks for no KEEPALIVE: its machine may be gone, and nothing would tell. */
static void who_waits_for_a_fence_asks_for_the_target(void **state)
{
	const u64 second_ns = 1000 * MS_NS;
	struct ini_slot *fence;

	(void)state;
	session.options.command_timeout_ms = 1000;
	ini_timer_run(&session);
	fence = asked();
	assert_non_null(fence);
	fence->sent_ns = session.now_ns;
	core_tags_send(&via->tags, fence->tag);
	for (unsigned int i = 0; i < 2; i++) {
		struct ini_slot *keepalive;

		session.now_ns += second_ns - MS_NS;
		ini_timer_run(&session);
		assert_null(via->pending.head);
		session.now_ns += MS_NS;
		ini_timer_run(&session);
		keepalive = ini_list_pop(&via->pending);
		assert_non_null(keepalive);
		assert_int_equal(keepalive->command.opcode, RBLK_OP_KEEPALIVE);
		assert_null(via->pending.head);
		answer(keepalive, RBLK_OK);
	}
	assert_true(via->state == INI_QUEUE_LIVE);
	assert_true(waits(0) && waits(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_volume_waits_for_itself, begin, end),
		cmocka_unit_test_setup_teardown(a_later_loss_is_not_fenced_by_an_earlier_answer, begin, end),
		cmocka_unit_test_setup_teardown(a_loss_that_is_not_drained_is_not_fenced, begin, end),
		cmocka_unit_test_setup_teardown(a_new_epoch_is_not_fenced_by_the_old_one, begin, end),
		cmocka_unit_test_setup_teardown(another_handle_is_not_fenced, begin, end),
		cmocka_unit_test_setup_teardown(the_fence_of_all_ends_the_asking, begin, end),
		cmocka_unit_test_setup_teardown(who_cannot_ask_does_not, begin, end),
		cmocka_unit_test_setup_teardown(who_waits_for_a_fence_asks_for_the_target, begin, end),
	};

	return cmocka_run_group_tests_name("initiator fence", tests, NULL, NULL);
}
