/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what belongs to a connection that is lost stays there. The answer of its FENCE is not taken for that of a later
 * loss (F5); an ABORT that is asked for when it is lost is not sent on the next one; a RESERVE is sent again when the
 * volumes are open in the new epoch, not before. Method: a scripted target (fake_target.h) that answers late, and ends
 * connections and epochs in between.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include "tests/e2e/lib_fixture.h"

/* -- a late answer of a FENCE -------------------------------------------------------------------- */

/* Block of the write that queue 1 is lost with for the first time, and for the second. */
#define FIRST_LBA 8u
#define SECOND_LBA 16u

static enum phase {
	UP,          /* both queues are */
	FIRST_LOST,  /* no login of queue 1 is accepted: a FENCE has to be sent */
	FIRST_FENCE, /* it is not answered; a login of queue 1 is accepted, and that is the fence */
	SECOND_LOST, /* as FIRST_LOST */
} _Atomic phase;
static atomic_bool early;
/* FENCEs that came, and those that are answered. */
static struct rblk_wire_completion fences[8];
static atomic_uint fences_seen, fences_answered;

static enum fake_answer lose_queue_1(struct fake_target *fake, enum phase next)
{
	fake_target_script(fake)->reject = (struct rblk_wire_reject){
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_PROTOCOL_VERSION),
		.reason = rblk_to_le16(RBLK_REJECT_NO_RESOURCES),
	};
	fake_target_script(fake)->reject_from = 1;
	phase = next;
	return FAKE_CLOSE;
}

static enum fake_answer answer_write(struct fake_target *fake, const struct rblk_wire_command *command)
{
	u64 lba = rblk_le64(command->lba);

	if (lba == SECOND_LBA && command->flags & RBLK_CMD_RETRY && fences_answered < 2)
		early = true;
	if (fake_target_queue(fake) != 1 || command->flags & RBLK_CMD_RETRY)
		return FAKE_REPLY;
	if (lba == FIRST_LBA && phase == UP)
		return lose_queue_1(fake, FIRST_LOST);
	if (lba == SECOND_LBA && phase == FIRST_FENCE)
		return lose_queue_1(fake, SECOND_LOST);
	return FAKE_REPLY;
}

static enum fake_answer hold_fence(struct fake_target *fake, const struct rblk_wire_completion *completion)
{
	assert_in_range(fences_seen, 0, UNIT_LENGTH(fences) - 1);
	fences[fences_seen++] = *completion;
	if (phase == FIRST_LOST) {
		fake_target_script(fake)->reject.reason = 0;
		phase = FIRST_FENCE;
	}
	return FAKE_SILENT;
}

static enum fake_answer reply_both(struct fake_target *fake, const struct rblk_wire_completion *first,
				   const struct rblk_wire_completion *second)
{
	const struct rblk_wire_completion answers[2] = {*first, *second};
	struct fake_script *script = fake_target_script(fake);

	memcpy(script->raw, answers, sizeof(answers));
	script->raw_bytes = sizeof(answers);
	return FAKE_REPLY_RAW;
}

/* A READ lets a FENCE's answer go. */
static enum fake_answer answer_read(struct fake_target *fake, const struct rblk_wire_completion *completion)
{
	if (phase != SECOND_LOST || fences_answered == fences_seen)
		return FAKE_REPLY;
	return reply_both(fake, &fences[fences_answered++], completion);
}

static enum fake_answer answer_fences(struct fake_target *fake, const struct rblk_wire_command *command,
				      struct rblk_wire_completion *completion)
{
	switch (command->opcode) {
	case RBLK_OP_WRITE:
		return answer_write(fake, command);
	case RBLK_OP_FENCE:
		return hold_fence(fake, completion);
	case RBLK_OP_READ:
		return answer_read(fake, completion);
	default:
		return FAKE_REPLY;
	}
}

static unsigned int connections(struct fixture *f)
{
	struct rblk_path_info path;

	assert_int_equal(rblk_session_paths(f->session, &path, sizeof(path), 1), 1);
	return path.connections;
}

/* A write to this block, on queue 1, which is lost with it. */
static void write_on_queue_1(struct fixture *f, u32 lba, enum phase lost, struct outcome *outcome)
{
	while (connections(f) < 2)
		assert_true(rblk_wait(f->session, 10) >= 0);
	/* The queues take turns. */
	while (phase < lost) {
		outcome->calls = 0;
		assert_int_equal(rblk_write(f->volume, f->data, 512, lba * 512u, 0, lib_done, outcome), 0);
		while (phase < lost && !outcome->calls)
			assert_true(rblk_wait(f->session, 10) >= 0);
	}
}

/* Without FENCE of a volume an acceptance is the fence. */
static void accept_as_fence(struct rblk_wire_accept *accept)
{
	accept->features = rblk_to_le32(rblk_le32(accept->features) & ~RBLK_FEATURE_VOLUME_FENCE);
}

static void a_late_fence_is_not_a_later_ones(void **state)
{
	struct fixture f = {.script.command = answer_fences, .options = fake_target_options()};
	struct outcome first = {0}, second = {0};

	(void)state;
	phase = UP;
	early = false;
	fences_seen = fences_answered = 0;
	f.options.no_reconnect = false;
	f.options.queues = 2;
	f.script.accept = accept_as_fence;
	lib_open(&f);
	write_on_queue_1(&f, FIRST_LBA, FIRST_LOST, &first);
	while (!first.calls)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(first.last.error, 0);
	assert_int_equal(phase, FIRST_FENCE);
	write_on_queue_1(&f, SECOND_LBA, SECOND_LOST, &second);
	while (connections(&f) > 1)
		assert_true(rblk_wait(f.session, 10) >= 0);
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	assert_int_equal(fences_answered, 1);
	while (fences_seen < 2 && !early)
		assert_true(rblk_wait(f.session, 10) >= 0);
	assert_false(early);
	assert_int_equal(second.calls, 0);
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	while (!second.calls)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(second.last.error, 0);
	assert_false(early);
	lib_close(&f);
}

/* -- an ABORT ------------------------------------------------------------------------------------ */

#define HELD_LBA 8u
#define LAST_LBA 16u

/* The first WRITE loses its connection; a READ is answered when the last one comes. */
static enum fake_answer lose_write(struct fake_target *fake, const struct rblk_wire_command *command,
				   struct rblk_wire_completion *completion)
{
	static struct rblk_wire_completion held;

	if (command->opcode == RBLK_OP_WRITE && fake_target_seen(fake, RBLK_OP_WRITE) == 1)
		return FAKE_CLOSE;
	if (command->opcode != RBLK_OP_READ)
		return FAKE_REPLY;
	if (rblk_le64(command->lba) == LAST_LBA)
		return reply_both(fake, &held, completion);
	held = *completion;
	return rblk_le64(command->lba) == HELD_LBA ? FAKE_SILENT : FAKE_REPLY;
}

/* Its connection is being drained. */
static void abort_when_lost(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	struct fixture *f = arg;

	(void)session;
	if (event->type == RBLK_SESSION_EVENT_RECOVERING)
		assert_int_equal(rblk_abort(f->volume, lib_done, &f->outcomes[0]), 0);
}

static void an_abort_is_not_sent_on_the_next_connection(void **state)
{
	struct fixture f = {.script.command = lose_write, .options = fake_target_options()};

	(void)state;
	f.options.no_reconnect = false;
	lib_open(&f);
	rblk_session_on_event(f.session, abort_when_lost, &f);
	assert_int_equal(rblk_write(f.volume, f.data, 512, 0, 0, lib_done, &f.outcomes[0]), 0);
	while (!f.outcomes[0].calls)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(f.outcomes[0].last.error, -ECANCELED);
	assert_int_equal(f.outcomes[0].last.status, 0);
	/* A command of the new connection, which may have the place of the old one's, while the library's timer runs. */
	assert_int_equal(rblk_read(f.volume, f.data, 512, HELD_LBA * 512, 0, lib_done, &f.outcomes[1]), 0);
	for (unsigned int i = 0; i < 5; i++)
		assert_true(rblk_wait(f.session, 5) >= 0);
	assert_int_equal(rblk_pread(f.volume, f.data + 512, 512, LAST_LBA * 512), 0);
	assert_int_equal(f.outcomes[1].calls, 1);
	assert_int_equal(f.outcomes[1].last.error, 0);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_ABORT), 0);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_WRITE), 1);
	lib_close(&f);
}

/* -- a RESERVE ----------------------------------------------------------------------------------- */

static bool forgot;
static u8 retry_flags;

static enum fake_answer forget_at_reserve(struct fake_target *fake, const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	(void)completion;
	/* The volume's handle is of the old epoch until this is answered. */
	if (forgot && command->opcode == RBLK_OP_OPEN && fake_target_seen(fake, RBLK_OP_RESERVE) > 1)
		early = true;
	if (command->opcode != RBLK_OP_RESERVE)
		return FAKE_REPLY;
	if (forgot) {
		retry_flags = command->flags;
		return FAKE_REPLY;
	}
	forgot = true;
	fake_target_forget(fake);
	return FAKE_CLOSE;
}

static void a_reserve_waits_for_its_volume(void **state)
{
	struct fixture f = {.script.command = forget_at_reserve, .options = fake_target_options()};
	struct rblk_pr_request request = RBLK_PR_REQUEST_INIT;

	(void)state;
	forgot = false;
	early = false;
	f.options.no_reconnect = false;
	lib_open(&f);
	request.action = RBLK_PR_REGISTER;
	request.new_key = 1;
	assert_int_equal(rblk_reserve(f.volume, &request), 0);
	assert_true(forgot);
	assert_false(early);
	assert_true(retry_flags & RBLK_CMD_RETRY);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_RESERVE), 2);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_OPEN), 2);
	lib_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_fence_is_not_a_later_ones),
		cmocka_unit_test(an_abort_is_not_sent_on_the_next_connection),
		cmocka_unit_test(a_reserve_waits_for_its_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
