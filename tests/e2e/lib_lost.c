/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what belongs to a connection that is lost stays there. An ABORT that is asked for when it is lost is not sent on the next one; a RESERVE is sent again when the
 * volumes are open in the new epoch, not before. Method: a scripted target (fake_target.h) that answers late, and ends
 * connections and epochs in between.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include "tests/e2e/lib_fixture.h"

static atomic_bool early;

static enum fake_answer reply_both(struct fake_target *fake, const struct rblk_wire_completion *first,
				   const struct rblk_wire_completion *second)
{
	const struct rblk_wire_completion answers[2] = {*first, *second};
	struct fake_script *script = fake_target_script(fake);

	memcpy(script->raw, answers, sizeof(answers));
	script->raw_bytes = sizeof(answers);
	return FAKE_REPLY_RAW;
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
		cmocka_unit_test(an_abort_is_not_sent_on_the_next_connection),
		cmocka_unit_test(a_reserve_waits_for_its_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
