/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a queue whose device still has a SEND holds back what comes, up to a limit, and sends it together when that has
 * completed; a lone command is never held, and asks for no completion; nothing is held where nobody would be woken,
 * nor behind a SEND that is answered, nor for long, nor what asks whether the target lives. Method: a queue of the
 * test's on a fabric that takes everything.
 */
#include "initiator/session.h"
#include "tests/unit/unit.h"

#include <string.h>
#include "initiator/volume.h"
#include "proto/fabric/fabric_impl.h"

#define CREDITS 32u
#define SLOTS (CREDITS + RBLK_RESERVED_TAGS)
#define BATCH 4u /* commands of a message */
#define MS_NS 1000000ull

static struct {
	unsigned int doorbells, messages, signalled, inlined;
	struct ibv_wc sends[64]; /* completions of those signalled */
} posted;

static int fake_post_send(struct fab_conn *conn, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)conn;
	(void)bad;
	posted.doorbells++;
	for (; wr; wr = wr->next) {
		posted.messages++;
		if (wr->send_flags & IBV_SEND_SIGNALED)
			posted.sends[posted.signalled++] = (struct ibv_wc){.wr_id = wr->wr_id, .opcode = IBV_WC_SEND};
		posted.inlined += wr->send_flags & IBV_SEND_INLINE ? 1 : 0;
	}
	return 0;
}

static const struct ibv_wc *arrives; /* by the next poll; NULL: nothing */

static int fake_poll(struct fab *fab, struct ibv_wc *wc, int count)
{
	(void)fab;
	(void)count;
	if (!arrives)
		return 0;
	*wc = *arrives;
	arrives = NULL;
	return 1;
}

static int fake_post_recv(struct fab_conn *conn, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)conn;
	(void)wr;
	(void)bad;
	return 0;
}

static int fake_timeout_ms(const struct fab *fab)
{
	(void)fab;
	return -1;
}

static unsigned int armed_receives;

static int fake_arm_receives(struct fab *fab)
{
	(void)fab;
	armed_receives++;
	return 0;
}

static const struct fab_ops fake_ops = {
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.poll = fake_poll,
	.timeout_ms = fake_timeout_ms,
	.arm_receives = fake_arm_receives,
};
static struct fab fake_fab = {.ops = &fake_ops};
static struct fab_conn fake_conn = {.fab = &fake_fab};

static struct rblk_session session;
static struct ini_queue *const queue = &session.queues[0];
static struct rblk_volume volume = {.session = &session};
static struct ini_slot slots[SLOTS];
static struct rblk_wire_completion reply;
static struct ibv_recv_wr receive;
static unsigned int completed;
static struct core_tag tags[SLOTS];
static struct rblk_wire_command ring[64];
static u32 message_end[64];

static int fresh(void **state)
{
	(void)state;
	memset(&session, 0, sizeof(session));
	memset(slots, 0, sizeof(slots));
	memset(&posted, 0, sizeof(posted));
	completed = 0;
	session.fabs.list[0] = &fake_fab;
	session.fabs.count = 1;
	session.queue_count = 1;
	session.core.state = CORE_SESSION_LIVE;
	for (unsigned int i = 0; i < SLOTS; i++) {
		slots[i].queue = queue;
		slots[i].tag = (u16)i;
	}
	queue->session = &session;
	queue->conn = &fake_conn;
	queue->state = INI_QUEUE_LIVE;
	queue->slots = slots;
	queue->block = (u8 *)&reply;
	queue->receive_wr = &receive;
	queue->tag_array = tags;
	queue->ring = ring;
	queue->ring_size = UNIT_LENGTH(ring);
	queue->message_end = message_end;
	queue->send_depth = UNIT_LENGTH(message_end);
	queue->inline_bytes = sizeof(ring[0]);
	queue->limits = (struct core_batch_limits){.message_bytes = 8192, .commands = BATCH, .segments = 8};
	core_clock_init(&queue->clock);
	core_tags_init(&queue->tags, tags, CREDITS);
	return 0;
}

static void done(void *arg, const struct rblk_result *result)
{
	(void)arg;
	(void)result;
}

static struct ini_slot *start(u32 capsule_bytes, u8 flags)
{
	int tag = core_tags_take(&queue->tags, false);
	struct ini_slot *slot;

	assert_true(tag >= 0);
	slot = &slots[tag];
	slot->capsule = ring;
	slot->capsule_bytes = capsule_bytes;
	slot->volume = &volume;
	slot->done = done;
	slot->arg = slot;
	slot->command.flags = flags;
	ini_slot_start(slot);
	return slot;
}

static struct ini_slot *submit(u32 capsule_bytes)
{
	struct ini_slot *slot = start(capsule_bytes, 0);

	assert_int_equal(ini_queue_doorbell(queue), 0);
	return slot;
}

static void arrive(const struct ibv_wc *wc)
{
	arrives = wc;
	assert_int_equal(ini_complete_poll(&session), 1);
	assert_int_equal(ini_queue_doorbell(queue), 0);
}

/* The device has completed the next SEND. */
static void complete(void)
{
	assert_true(completed < posted.signalled);
	arrive(&posted.sends[completed++]);
}

static void answer(const struct ini_slot *slot)
{
	const struct ibv_wc wc = {
		.wr_id = ini_wr_id(INI_WR_RECEIVE, 0, 0), .opcode = IBV_WC_RECV, .byte_len = sizeof(reply)};

	reply.tag = rblk_to_le16(slot->tag);
	reply.sequence = rblk_to_le32(tags[slot->tag].sequence);
	arrive(&wc);
}

static void what_is_submitted_meanwhile_is_sent_together(void **state)
{
	(void)state;
	submit(512);
	assert_int_equal(posted.messages, 1);
	for (unsigned int i = 1; i < BATCH; i++)
		submit(512);
	assert_int_equal(posted.messages, 1);
	assert_int_equal(queue->pending_count, BATCH - 1);
	complete();
	assert_int_equal(posted.messages, 2);
	assert_int_equal(queue->pending_count, 0);
}

/* Commands with priority share a message with each other alone, do not wait while others do, and keep none waiting. */
static void priority_waits_for_nothing(void **state)
{
	struct ini_slot *first, *second;

	(void)state;
	submit(512);
	start(512, 0);
	first = start(0, RBLK_CMD_PRIORITY);
	second = start(512, RBLK_CMD_PRIORITY);
	assert_int_equal(ini_queue_doorbell(queue), 0);
	assert_int_equal(posted.messages, 2);
	assert_int_equal(queue->pending_count, 1);
	assert_int_equal(first->message, 1);
	assert_int_equal(second->message, 1);
	/* The device has that one still. */
	complete();
	assert_int_equal(posted.messages, 3);
	assert_int_equal(queue->pending_count, 0);
}

/* Several messages wait together, and one doorbell sends them. */
static void what_fills_messages_waits_too(void **state)
{
	(void)state;
	submit(512);
	for (unsigned int i = 0; i < 2 * BATCH; i++)
		submit(512);
	assert_int_equal(posted.messages, 1);
	complete();
	assert_int_equal(posted.messages, 3);
	assert_int_equal(posted.doorbells, 2);
	assert_int_equal(queue->pending_count, 0);
}

static void a_links_worth_does_not_wait(void **state)
{
	(void)state;
	submit(512);
	for (unsigned int bytes = 4096 + 64; bytes < CORE_CLOCK_BYTES; bytes += 4096 + 64)
		submit(4096);
	assert_int_equal(posted.messages, 1);
	submit(4096);
	assert_int_equal(queue->pending_count, 0);
}

static void a_lone_command_is_not_signalled(void **state)
{
	struct ini_slot *slot;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		slot = submit(0);
		assert_int_equal(posted.messages, i + 1);
		core_tags_answer(&queue->tags, slot->tag, rblk_le32(ring[i].sequence));
		ini_slot_put(slot);
	}
	assert_int_equal(posted.signalled, 0);
	assert_int_equal(posted.inlined, 3);
	/* A second one beside it is, so that the third has something to wait for. */
	submit(0);
	submit(0);
	assert_int_equal(posted.signalled, 1);
	submit(0);
	assert_int_equal(posted.messages, 5);
	complete();
	assert_int_equal(posted.messages, 6);
}

static void one_that_is_aborted_is_not_waited_for(void **state)
{
	struct ini_slot *first;

	(void)state;
	submit(512);
	first = submit(512);
	submit(512);
	assert_int_equal(queue->pending_count, 2);
	assert_int_equal(rblk_abort(&volume, done, first), 0);
	assert_int_equal(queue->pending_count, 1);
	complete();
	assert_int_equal(posted.messages, 2);
	assert_int_equal(queue->pending_count, 0);
}

/* A thread sleeps behind rblk_arm(), which did not ask for SENDs; another one submits. */
static void nothing_is_held_for_what_nobody_is_woken_for(void **state)
{
	(void)state;
	submit(0);
	submit(0);
	assert_int_equal(posted.signalled, 1);
	assert_int_equal(rblk_arm(&session), 0);
	assert_int_equal(armed_receives, 1);
	submit(0);
	assert_int_equal(posted.messages, 3);
}

/* The target does not even acknowledge: ABORT, which asks whether it lives, goes out. */
static void a_session_command_is_not_held(void **state)
{
	struct ini_slot *first;

	(void)state;
	first = submit(512);
	assert_int_equal(rblk_abort(&volume, done, first), 0);
	assert_int_equal(ini_queue_doorbell(queue), 0);
	assert_int_equal(posted.messages, 2);
	submit(512);
	assert_int_equal(posted.messages, 2);
}

/* As long as commands come, some wait: the target is told all the same that its event was seen (V9). */
static void an_event_is_confirmed_while_commands_wait(void **state)
{
	(void)state;
	submit(512);
	submit(512);
	session.ready = true;
	session.now_ns = 1000000000;
	session.events.seen = 1;
	ini_timer_run(&session);
	assert_int_equal(session.events.confirmed, 1);
	assert_int_equal(ini_queue_doorbell(queue), 0);
	assert_int_equal(queue->pending_count, 0);
}

/* The acknowledgement of a SEND is lost, and its device tries for long: what waits goes when it is answered. */
static void an_answer_ends_the_wait_for_its_send(void **state)
{
	struct ini_slot *first, *second;

	(void)state;
	first = submit(512);
	second = submit(512);
	answer(first);
	assert_int_equal(posted.messages, 2);
	/* The answer says nothing of what was sent after it. */
	submit(512);
	assert_int_equal(posted.messages, 2);
	answer(second);
	assert_int_equal(posted.messages, 3);
}

/* Nobody waits for the acknowledgement of one with priority, which is sent before the answer or after it. */
static void an_answer_counts_beside_priority(void **state)
{
	struct ini_slot *first, *second;

	(void)state;
	first = submit(512);
	start(512, RBLK_CMD_PRIORITY);
	second = submit(512);
	assert_int_equal(posted.messages, 2);
	answer(first);
	assert_int_equal(posted.messages, 3);
	answer(second);
	start(512, RBLK_CMD_PRIORITY);
	assert_int_equal(ini_queue_doorbell(queue), 0);
	assert_int_equal(posted.messages, 4);
	submit(512);
	assert_int_equal(posted.messages, 5);
}

/* A SEND is lost, and its device sends it again only after long: what comes behind it tells the target's. */
static void nothing_waits_long_for_a_send(void **state)
{
	int wait_ms;

	(void)state;
	session.options.command_timeout_ms = 30000;
	session.now_ns = queue->check_ns = env_now_ns();
	submit(512);
	submit(512);
	session.now_ns += CORE_CLOCK_LATE_MS * MS_NS - 1;
	ini_timer_run(&session);
	assert_int_equal(ini_queue_doorbell(queue), 0);
	assert_int_equal(posted.messages, 1);
	wait_ms = ini_timer_next_ms(&session);
	assert_in_range(wait_ms, 0, CORE_CLOCK_LATE_MS + 1);
	session.now_ns += 2 * MS_NS;
	ini_timer_run(&session);
	assert_int_equal(ini_queue_doorbell(queue), 0);
	assert_int_equal(posted.messages, 2);
	/* The time begins anew. */
	submit(512);
	assert_int_equal(posted.messages, 2);
}

static void without_the_only_one_that_is_held_nothing_is(void **state)
{
	struct ini_slot *only;

	(void)state;
	session.now_ns = env_now_ns() + 1000000 * MS_NS;
	submit(512);
	queue->last_send_ns = 0;
	only = submit(512);
	assert_int_equal(rblk_abort(&volume, done, only), 0);
	assert_int_equal(queue->pending_count, 0);
	/* Nor is anybody woken for it; a command that was sent is looked at later. */
	queue->check_ns = session.now_ns;
	assert_int_not_equal(ini_timer_next_ms(&session), 0);
	complete();
	assert_int_equal(posted.messages, 1);
	submit(512);
	assert_int_equal(posted.messages, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_submitted_meanwhile_is_sent_together, fresh),
		cmocka_unit_test_setup(priority_waits_for_nothing, fresh),
		cmocka_unit_test_setup(what_fills_messages_waits_too, fresh),
		cmocka_unit_test_setup(a_links_worth_does_not_wait, fresh),
		cmocka_unit_test_setup(a_lone_command_is_not_signalled, fresh),
		cmocka_unit_test_setup(one_that_is_aborted_is_not_waited_for, fresh),
		cmocka_unit_test_setup(nothing_is_held_for_what_nobody_is_woken_for, fresh),
		cmocka_unit_test_setup(a_session_command_is_not_held, fresh),
		cmocka_unit_test_setup(an_answer_ends_the_wait_for_its_send, fresh),
		cmocka_unit_test_setup(an_answer_counts_beside_priority, fresh),
		cmocka_unit_test_setup(an_event_is_confirmed_while_commands_wait, fresh),
		cmocka_unit_test_setup(nothing_waits_long_for_a_send, fresh),
		cmocka_unit_test_setup(without_the_only_one_that_is_held_nothing_is, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
