/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a session that its program closes has closed each volume at the target before it disconnects. A CLOSE that the
 * target refuses for now is sent again; one that it refuses for good is not, nor does one without an answer keep the
 * session. Method: a scripted target (fake_target.h) that counts CLOSEs and answers the first ones as the test says.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/volume.h"
#include "tests/e2e/lib_fixture.h"

static u16 refusal;
static atomic_uint refuse, closed; /* how many are refused; how many have succeeded */

static enum fake_answer answer(struct fake_target *fake, const struct rblk_wire_command *command,
			       struct rblk_wire_completion *completion)
{
	(void)fake;
	if (command->opcode != RBLK_OP_CLOSE)
		return FAKE_REPLY;
	if (refuse) {
		refuse--;
		completion->status = rblk_to_le16(refusal);
	} else {
		closed++;
	}
	return FAKE_REPLY;
}

/* Two volumes are open when the program closes the session. Returns how many CLOSEs came. */
static unsigned int log_out(u16 status, unsigned int count)
{
	struct fixture f = {.script.command = answer};
	unsigned int seen;

	refusal = status;
	refuse = count;
	closed = 0;
	lib_open(&f);
	assert_non_null(rblk_volume_open(f.session, NULL, 0));
	rblk_session_close(f.session);
	seen = fake_target_seen(f.fake, RBLK_OP_CLOSE);
	fake_target_stop(f.fake);
	return seen;
}

static void each_volume_is_closed(void **state)
{
	(void)state;
	assert_int_equal(log_out(RBLK_OK, 0), 2);
	assert_int_equal(closed, 2);
}

static void refused_for_now_is_sent_again(void **state)
{
	(void)state;
	assert_int_equal(log_out(RBLK_E_BUSY, 3), 5);
	assert_int_equal(closed, 2);
	assert_int_equal(log_out(RBLK_E_NO_RESOURCES, 1), 3);
	assert_int_equal(closed, 2);
}

static void refused_for_good_is_not(void **state)
{
	(void)state;
	assert_int_equal(log_out(RBLK_E_INVALID, 2), 2);
	assert_int_equal(closed, 0);
}

static enum fake_answer silence(struct fake_target *fake, const struct rblk_wire_command *command,
				struct rblk_wire_completion *completion)
{
	(void)fake;
	(void)completion;
	return command->opcode == RBLK_OP_CLOSE ? FAKE_SILENT : FAKE_REPLY;
}

/* The test's own time limit would end it otherwise. */
static void without_an_answer_it_ends(void **state)
{
	struct fixture f = {.script.command = silence};

	(void)state;
	lib_open(&f);
	rblk_session_close(f.session);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_CLOSE), 1);
	fake_target_stop(f.fake);
}

static atomic_bool asked, told;

/* CLOSE is answered when the test says so. */
static enum fake_answer answer_when_told(struct fake_target *fake, const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_CLOSE) {
		asked = true;
		while (!told)
			;
	}
	return answer(fake, command, completion);
}

/* The session's CLOSE of it is under way: its answer finds no volume. */
static void a_volume_that_is_closed_meanwhile(void **state)
{
	struct fixture f = {.script.command = answer_when_told};
	struct rblk_volume *other;
	int count = 0;

	(void)state;
	refusal = RBLK_E_NO_RESOURCES;
	refuse = 1;
	lib_open(&f);
	rblk_session_stop(f.session);
	while (!asked)
		assert_true(rblk_poll(f.session, 0) >= 0);
	assert_int_equal(rblk_volume_close(f.volume), 0);
	/* Something else has its memory. */
	other = malloc(sizeof(*other));
	assert_non_null(other);
	memset(other, 0xa5, sizeof(*other));
	told = true;
	while (count >= 0)
		count = rblk_wait(f.session, -1);
	assert_int_equal(count, -ECANCELED);
	free(other);
	rblk_session_close(f.session);
	fake_target_stop(f.fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_volume_is_closed),
		cmocka_unit_test(refused_for_now_is_sent_again),
		cmocka_unit_test(refused_for_good_is_not),
		cmocka_unit_test(without_an_answer_it_ends),
		cmocka_unit_test(a_volume_that_is_closed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
