/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: in a new epoch the library opens each volume again once, also if the connection is lost
 * meanwhile. Method: a scripted
 * target (fake_target.h) that forgets the session, and ends the connection at the second OPEN of
 * the new epoch. A volume may be closed while it is opened again: then the OPEN is not answered; or it may be gone.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/fake_target.h"
#include "tests/e2e/session.h"

#define VOLUMES 2u

static bool forgot, lost;

static enum fake_answer answer(struct fake_target *fake, const struct rblk_wire_command *command,
			       struct rblk_wire_completion *completion)
{
	(void)completion;
	if (command->opcode == RBLK_OP_FLUSH && !forgot) {
		forgot = true;
		fake_target_forget(fake);
		return FAKE_CLOSE;
	}
	if (command->opcode == RBLK_OP_OPEN && forgot && !lost &&
	    fake_target_seen(fake, RBLK_OP_OPEN) == VOLUMES + 2) {
		lost = true;
		return FAKE_CLOSE;
	}
	return FAKE_REPLY;
}

static void each_volume_is_opened_once(void **state)
{
	struct rblk_options options = fake_target_options();
	struct fake_script script = {.command = answer};
	struct rblk_volume *volume = NULL;
	struct rblk_session *session;
	struct fake_target *fake;

	(void)state;
	fake = fake_target_start(&script);
	options.no_reconnect = false;
	session = e2e_session_open(fake_target_uri(fake), &options);
	for (unsigned int i = 0; i < VOLUMES; i++) {
		volume = e2e_volume_open(session, "disk", 0);
	}
	assert_int_equal(fake_target_seen(fake, RBLK_OP_OPEN), VOLUMES);
	/* Its connection ends; it is answered in the new epoch, when its volume is open there. */
	assert_int_equal(rblk_fsync(volume), 0);
	assert_true(forgot && lost);
	/* One of them is open, the other's OPEN had no answer and is sent once more. */
	while (fake_target_seen(fake, RBLK_OP_OPEN) < VOLUMES + 3)
		assert_true(rblk_wait(session, 100) >= 0);
	assert_int_equal(fake_target_seen(fake, RBLK_OP_OPEN), VOLUMES + 3);
	rblk_session_close(session);
	fake_target_stop(fake);
}

static enum fake_answer answer_once(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	(void)completion;
	if (command->opcode == RBLK_OP_LIST) {
		fake_target_forget(fake);
		return FAKE_CLOSE;
	}
	if (command->opcode == RBLK_OP_OPEN && fake_target_seen(fake, RBLK_OP_OPEN) > 1)
		return FAKE_SILENT;
	return FAKE_REPLY;
}

static void list_done(void *arg, struct rblk_volume_info *list, int count)
{
	free(list);
	*(int *)arg = count;
}

/* Its session has ended, and frees the volume at once. The OPEN that is outstanding ends later. */
static void a_volume_is_closed_while_it_is_opened_again(void **state)
{
	struct rblk_options options = fake_target_options();
	struct fake_script script = {.command = answer_once};
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct fake_target *fake;
	int count = 1;

	(void)state;
	fake = fake_target_start(&script);
	options.no_reconnect = false;
	session = e2e_session_open(fake_target_uri(fake), &options);
	volume = e2e_volume_open(session, "disk", 0);
	assert_int_equal(
		rblk_list_start(session, sizeof(struct rblk_volume_info), list_done, &count), 0);
	while (fake_target_seen(fake, RBLK_OP_OPEN) < 2)
		assert_true(rblk_wait(session, 100) >= 0);
	rblk_session_stop(session);
	assert_int_equal(rblk_volume_close(volume), 0);
	while (rblk_wait(session, -1) >= 0)
		;
	assert_true(count < 0);
	rblk_session_close(session);
	fake_target_stop(fake);
}

static enum fake_answer answer_without(struct fake_target *fake, const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_RESERVE) {
		fake_target_forget(fake);
		return FAKE_CLOSE;
	}
	if (command->opcode == RBLK_OP_OPEN && fake_target_seen(fake, RBLK_OP_OPEN) > 1)
		completion->status = rblk_to_le16(RBLK_E_NO_VOLUME);
	return FAKE_REPLY;
}

static void reserve_done(void *arg, struct rblk_volume *volume, int error)
{
	(void)volume;
	*(int *)arg = error;
}

/* A volume that is not there any more in the new epoch: a RESERVE that was lost is not sent again, and no other is sent. */
static void a_gone_volume_is_not_reserved(void **state)
{
	const struct rblk_pr_request request = {.size = sizeof(request), .action = RBLK_PR_REGISTER, .new_key = 1};
	struct rblk_options options = fake_target_options();
	struct fake_script script = {.command = answer_without};
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct fake_target *fake;
	int result = 1;

	(void)state;
	fake = fake_target_start(&script);
	options.no_reconnect = false;
	session = e2e_session_open(fake_target_uri(fake), &options);
	volume = e2e_volume_open(session, "disk", 0);
	assert_int_equal(rblk_reserve_start(volume, &request, reserve_done, &result), 0);
	while (result > 0)
		assert_true(rblk_wait(session, 100) >= 0);
	assert_int_equal(result, -ENODEV);
	assert_int_equal(rblk_reserve_start(volume, &request, reserve_done, &result), -ENODEV);
	assert_int_equal(fake_target_seen(fake, RBLK_OP_RESERVE), 1);
	rblk_session_close(session);
	fake_target_stop(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_volume_is_opened_once),
		cmocka_unit_test(a_volume_is_closed_while_it_is_opened_again),
		cmocka_unit_test(a_gone_volume_is_not_reserved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
