/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: each command of a CHECKSUM of a long range is short enough for command_timeout_ms, and they give the sum of the
 * whole; an abort or an error ends it without further commands. Method: a scripted target (fake_target.h) whose volume
 * is full of zeroes.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include "proto/digest/combine.h"
#include "proto/wire/wire.h"
#include "tests/e2e/lib_fixture.h"

#define VOLUME_BYTES (2ull << 30)
#define BLOCK 512u
/* What any storage reads within the shortest limits that people set. */
#define COMMAND_BYTES_MAX (64ull << 20)

/* The target's: where the next command is to begin, and what it does about command number `special` (0: nothing). */
static u64 next_lba, longest;
static unsigned int commands, special;
static u16 special_status; /* RBLK_OK: it waits for an ABORT, and is then done */
static struct rblk_wire_completion held;

static void report(struct rblk_wire_volume *volume)
{
	volume->blocks = rblk_to_le64(VOLUME_BYTES / BLOCK);
	volume->flags = rblk_to_le32(rblk_le32(volume->flags) | RBLK_VOLUME_CHECKSUM);
}

static enum fake_answer answer_abort(struct fake_target *fake, const struct rblk_wire_completion *completion)
{
	struct fake_script *script = fake_target_script(fake);
	const struct rblk_wire_completion answers[2] = {held, *completion};

	memcpy(script->raw, answers, sizeof(answers));
	script->raw_bytes = sizeof(answers);
	return FAKE_REPLY_RAW;
}

static enum fake_answer answer(struct fake_target *fake, const struct rblk_wire_command *command,
			       struct rblk_wire_completion *completion)
{
	u64 bytes = (u64)rblk_le32(command->blocks) * BLOCK;

	if (command->opcode == RBLK_OP_ABORT)
		return answer_abort(fake, completion);
	if (command->opcode != RBLK_OP_CHECKSUM)
		return FAKE_REPLY;
	assert_int_equal(rblk_le64(command->lba), next_lba);
	next_lba += rblk_le32(command->blocks);
	if (bytes > longest)
		longest = bytes;
	completion->result = rblk_to_le64(rblk_digest_zeroes(bytes));
	if (++commands != special)
		return FAKE_REPLY;
	completion->status = rblk_to_le16(special_status);
	held = *completion;
	return special_status ? FAKE_REPLY : FAKE_SILENT;
}

static void begin(struct fixture *f, u64 offset)
{
	f->script.command = answer;
	f->script.volume = report;
	next_lba = offset / BLOCK;
	longest = commands = 0;
	lib_open(f);
}

/* Other commands take their turns meanwhile. */
static void sum(struct fixture *f, u64 bytes, u64 offset)
{
	assert_int_equal(rblk_checksum(f->volume, bytes, offset, lib_done, &f->outcomes[0]), 0);
	while (!f->outcomes[0].calls)
		assert_true(rblk_wait(f->session, -1) >= 0);
	assert_int_equal(f->outcomes[0].calls, 1);
}

static void a_long_range_takes_several(void **state)
{
	struct fixture f = {.volume = NULL};
	u64 bytes = VOLUME_BYTES - 3 * BLOCK;

	(void)state;
	special = 0;
	begin(&f, 2 * BLOCK);
	sum(&f, bytes, 2 * BLOCK);
	assert_int_equal(f.outcomes[0].last.error, 0);
	assert_int_equal(f.outcomes[0].last.value, rblk_digest_zeroes(bytes));
	assert_int_equal(next_lba, VOLUME_BYTES / BLOCK - 1);
	assert_in_range(longest, 1, COMMAND_BYTES_MAX);
	assert_int_equal(rblk_checksum(f.volume, VOLUME_BYTES, BLOCK, lib_done, &f.outcomes[1]), -ERANGE);
	assert_int_equal(rblk_checksum(f.volume, VOLUME_BYTES - 1, 0, lib_done, &f.outcomes[1]), -EINVAL);
	lib_close(&f);
}

static void a_short_one_takes_one(void **state)
{
	struct fixture f = {.volume = NULL};

	(void)state;
	special = 0;
	begin(&f, 0);
	sum(&f, 3 * BLOCK, 0);
	assert_int_equal(f.outcomes[0].last.value, rblk_digest_zeroes(3 * BLOCK));
	assert_int_equal(commands, 1);
	lib_close(&f);
}

static void an_error_ends_it(void **state)
{
	struct fixture f = {.volume = NULL};

	(void)state;
	special = 3;
	special_status = RBLK_E_MEDIUM;
	begin(&f, 0);
	sum(&f, VOLUME_BYTES, 0);
	assert_int_equal(f.outcomes[0].last.status, RBLK_E_MEDIUM);
	assert_true(f.outcomes[0].last.error < 0);
	assert_int_equal(commands, 3);
	lib_close(&f);
}

/* What was asked for when the abort came has been done. */
static void an_abort_ends_it(void **state)
{
	struct fixture f = {.volume = NULL};

	(void)state;
	special = 3;
	special_status = RBLK_OK;
	begin(&f, 0);
	assert_int_equal(rblk_checksum(f.volume, VOLUME_BYTES, 0, lib_done, &f.outcomes[0]), 0);
	while (fake_target_seen(f.fake, RBLK_OP_CHECKSUM) < special)
		assert_true(rblk_wait(f.session, 10) >= 0);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), 0);
	while (!f.outcomes[0].calls)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(f.outcomes[0].last.error, -ECANCELED);
	assert_int_equal(commands, special);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), -ENOENT);
	lib_close(&f);
}

static void few_credits(struct rblk_wire_accept *accept)
{
	accept->credits = rblk_to_le16(4);
}

/* The program's credits are few, and it takes all that come back. */
static void it_goes_on_without_a_credit(void **state)
{
	struct fixture f = {.volume = NULL};
	unsigned int reads = 0;

	(void)state;
	special = 0;
	f.options = fake_target_options();
	f.options.credits = 4;
	f.script.accept = few_credits;
	begin(&f, 0);
	assert_int_equal(rblk_checksum(f.volume, VOLUME_BYTES, 0, lib_done, &f.outcomes[0]), 0);
	while (!f.outcomes[0].calls) {
		struct outcome *read = &f.outcomes[1 + reads % 3];

		read->calls = 0;
		if (!rblk_read(f.volume, f.data, BLOCK, 0, 0, lib_done, read))
			reads++;
		else
			assert_true(rblk_wait(f.session, -1) >= 0);
	}
	assert_int_equal(f.outcomes[0].last.error, 0);
	assert_int_equal(f.outcomes[0].last.value, rblk_digest_zeroes(VOLUME_BYTES));
	assert_true(reads > 3);
	for (unsigned int i = 1; i <= 3; i++)
		f.outcomes[i].calls = 0;
	lib_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_range_takes_several), cmocka_unit_test(a_short_one_takes_one),
		cmocka_unit_test(an_error_ends_it),	      cmocka_unit_test(an_abort_ends_it),
		cmocka_unit_test(it_goes_on_without_a_credit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
