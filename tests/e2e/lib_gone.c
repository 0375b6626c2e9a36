/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a volume whose OPEN is answered GONE, because the target has another volume by the number of its handle, is
 * opened by another number, and so is one that was open, or was removed, when it is opened again. Method: a scripted
 * target (fake_target.h) that answers GONE to the first OPENs, or to those after it has forgotten the session, and
 * notes the numbers.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include "tests/e2e/lib_fixture.h"

#define OPENS_MAX 16u

static u32 numbers[OPENS_MAX];	  /* of the OPENs, in their order */
static atomic_uint opens, refuse; /* how many came; the next ones that are answered GONE */
static u16 refusal;		  /* or so */
static atomic_bool forget;	  /* with the next FLUSH; one OPEN is refused then */

static enum fake_answer answer(struct fake_target *fake, const struct rblk_wire_command *command,
			       struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_FLUSH && forget) {
		forget = false;
		refuse = 1;
		fake_target_forget(fake);
		return FAKE_CLOSE;
	}
	if (command->opcode != RBLK_OP_OPEN)
		return FAKE_REPLY;
	if (opens < OPENS_MAX)
		numbers[opens++] = rblk_le32(command->volume);
	if (refuse) {
		refuse--;
		completion->status = rblk_to_le16(refusal);
	}
	return FAKE_REPLY;
}

static void begin(struct fixture *f)
{
	opens = refuse = 0;
	forget = false;
	refusal = RBLK_E_GONE;
	f->script.command = answer;
	f->options = fake_target_options();
	f->options.no_reconnect = false;
	lib_open(f);
	assert_int_equal(opens, 1);
}

/* Another number in the same slot: those before it are of no use to anybody. */
static void assert_renumbered(u32 before, u32 after)
{
	assert_int_not_equal(before, after);
	assert_int_equal(RBLK_HANDLE_SLOT(before), RBLK_HANDLE_SLOT(after));
}

static void a_new_volume_gets_another_number(void **state)
{
	struct fixture f = {.volume = NULL};
	struct rblk_volume *volume;

	(void)state;
	begin(&f);
	refuse = 1;
	volume = rblk_volume_open(f.session, NULL, 0);
	assert_non_null(volume);
	assert_int_equal(opens, 3);
	assert_renumbered(numbers[1], numbers[2]);
	/* Once: a target that says so of every number does not keep the program. */
	refuse = 2;
	assert_null(rblk_volume_open(f.session, NULL, 0));
	assert_int_equal(opens, 5);
	assert_renumbered(numbers[3], numbers[4]);
	assert_int_equal(rblk_pread(volume, f.data, 512, 0), 0);
	lib_close(&f);
}

static void one_that_is_opened_again_does_too(void **state)
{
	struct fixture f = {.volume = NULL};

	(void)state;
	begin(&f);
	forget = true;
	assert_int_equal(rblk_fsync(f.volume), 0);
	assert_int_equal(opens, 3);
	assert_int_equal(numbers[0], numbers[1]);
	assert_renumbered(numbers[1], numbers[2]);
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	lib_close(&f);
}

static void on_volume(void *arg, struct rblk_volume *volume, int error)
{
	(void)volume;
	assert_int_equal(error, 0);
	++*(unsigned int *)arg;
}

/* It was removed, and the program asks for it again: in between the number may have become another volume's. */
static void one_that_was_removed_does_too(void **state)
{
	struct fixture f = {.volume = NULL};
	unsigned int refreshed = 0;

	(void)state;
	begin(&f);
	refusal = RBLK_E_NO_VOLUME;
	forget = true;
	assert_int_equal(rblk_fsync(f.volume), -ENODEV);
	assert_int_equal(rblk_volume_refresh_start(f.volume, on_volume, &refreshed), 0);
	while (!refreshed)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(opens, 3);
	assert_int_equal(numbers[0], numbers[1]);
	assert_renumbered(numbers[1], numbers[2]);
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	lib_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_volume_gets_another_number),
		cmocka_unit_test(one_that_is_opened_again_does_too),
		cmocka_unit_test(one_that_was_removed_does_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
