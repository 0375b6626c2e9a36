/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: rblk_extents() passes on what a target reports, in bytes and with equal neighbours joined.
 * It rejects a malformed report, and it fails where the feature was not agreed. Method: a scripted
 * target (fake_target.h). target_extents.c tests what rblkd reports of a file.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include "proto/wire/wire.h"
#include "tests/e2e/lib_fixture.h"

#define ROOM 8

/* What the target reports. Its thread reads it only while a command is outstanding. */
static struct {
	struct rblk_wire_extent extents[ROOM];
	u64 count;
	u32 asked_bytes, asked_blocks;
	u64 asked_lba;
} script;

static enum fake_answer answer_extents(struct fake_target *fake,
				       const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	if (command->opcode != RBLK_OP_EXTENTS)
		return FAKE_REPLY;
	script.asked_lba = rblk_le64(command->lba);
	script.asked_blocks = rblk_le32(command->blocks);
	script.asked_bytes = rblk_le32(command->segment.length);
	if (script.count && script.asked_bytes)
		fake_target_report(fake, command, script.extents,
				   script.asked_bytes < sizeof(script.extents) ?
					   script.asked_bytes :
					   (u32)sizeof(script.extents));
	completion->result = rblk_to_le64(script.count);
	return FAKE_REPLY;
}

static void set(unsigned int index, u64 blocks, u32 flags)
{
	script.extents[index] = (struct rblk_wire_extent){ .blocks = rblk_to_le64(blocks),
							   .flags = rblk_to_le32(flags) };
	script.count = index + 1;
}

static void assert_extent(const struct rblk_extent *extent, u64 offset, u64 bytes, u32 flags)
{
	assert_int_equal(extent->offset, offset);
	assert_int_equal(extent->bytes, bytes);
	assert_int_equal(extent->flags, flags);
}

static void extents_are_handed_on(void **state)
{
	struct fixture f = { .script.command = answer_extents };
	struct rblk_extent extents[ROOM];
	u32 nothing = RBLK_EXTENT_IS_HOLE | RBLK_EXTENT_IS_ZERO;

	lib_open(&f);
	assert_true(rblk_volume_info(f.volume)->can_extents);
	set(0, 4, RBLK_EXTENT_HOLE | RBLK_EXTENT_ZERO);
	set(1, 5, 0);
	set(2, 6, 0);
	set(3, 1, RBLK_EXTENT_ZERO);
	assert_int_equal(rblk_get_extents(f.volume, 100 * 512, 1024, extents, ROOM), 3);
	assert_int_equal(script.asked_lba, 2);
	assert_int_equal(script.asked_blocks, 100);
	assert_int_equal(script.asked_bytes, ROOM * sizeof(struct rblk_wire_extent));
	assert_extent(&extents[0], 1024, 4 * 512, nothing);
	assert_extent(&extents[1], 6 * 512, 11 * 512, 0);
	assert_extent(&extents[2], 17 * 512, 512, RBLK_EXTENT_IS_ZERO);
	/* The library asks for no more extents than the caller has room for. */
	set(0, 4, 0);
	assert_int_equal(rblk_get_extents(f.volume, 100 * 512, 0, extents, 1), 1);
	assert_int_equal(script.asked_bytes, sizeof(struct rblk_wire_extent));
	lib_close(&f);
}

static void expect_malformed(struct fixture *f)
{
	struct rblk_extent extents[ROOM];

	assert_int_equal(rblk_get_extents(f->volume, 100 * 512, 0, extents, ROOM), -EPROTO);
	lib_assert_words(rblk_session_error(f->session), "list of extents is malformed");
}

static void malformed_reports_are_refused(void **state)
{
	struct fixture f = { .script.command = answer_extents };

	lib_open(&f);
	script.count = 0;
	expect_malformed(&f);
	set(0, 101, 0); /* beyond the range that was asked about */
	expect_malformed(&f);
	set(0, 1, 4); /* an unknown flag */
	expect_malformed(&f);
	set(ROOM - 1, 1, 0); /* extent 0 is empty */
	script.extents[0].blocks = 0;
	expect_malformed(&f);
	set(0, 1, 0);
	script.count = ROOM + 1; /* more than there was room for */
	expect_malformed(&f);
	lib_close(&f);
}

/* The callback asks again from where the last answer ended, until the end of the volume. */
struct walk {
	struct fixture *f;
	struct rblk_extent extent;
	unsigned int calls;
};

static void walk_next(void *arg, const struct rblk_result *result)
{
	struct walk *walk = arg;
	u64 end = FAKE_VOLUME_BLOCKS * 512, next = walk->extent.offset + walk->extent.bytes;

	assert_int_equal(result->error, 0);
	assert_int_equal(result->value, 1);
	walk->calls++;
	if (next < end)
		assert_int_equal(rblk_extents(walk->f->volume, end - next, next, &walk->extent, 1,
					      walk_next, walk),
				 0);
}

static void a_callback_asks_on(void **state)
{
	struct fixture f = { .script.command = answer_extents };
	struct walk walks[4] = { 0 };

	lib_open(&f);
	set(0, FAKE_VOLUME_BLOCKS / 8, 0);
	/* As many as a session may have outstanding; one more fails. */
	for (int i = 0; i < 4; i++) {
		walks[i].f = &f;
		assert_int_equal(rblk_extents(f.volume, FAKE_VOLUME_BLOCKS * 512, 0,
					      &walks[i].extent, 1, walk_next, &walks[i]),
				 0);
	}
	assert_int_equal(rblk_extents(f.volume, 512, 0, &walks[0].extent, 1, walk_next, &walks[0]),
			 -EAGAIN);
	while (walks[0].calls + walks[1].calls + walks[2].calls + walks[3].calls < 4 * 8)
		assert_true(rblk_wait(f.session, 20000) > 0);
	lib_close(&f);
}

static void refuse_feature(struct rblk_wire_accept *accept)
{
	accept->features &= ~rblk_to_le32(RBLK_FEATURE_EXTENTS);
}

static void without_the_feature(void **state)
{
	struct fixture f = { .script = { .command = answer_extents, .accept = refuse_feature } };
	struct rblk_extent extent;

	lib_open(&f);
	assert_false(rblk_volume_info(f.volume)->can_extents);
	assert_int_equal(rblk_get_extents(f.volume, 512, 0, &extent, 1), -EOPNOTSUPP);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_EXTENTS), 0);
	lib_close(&f);
}

static void bad_arguments(void **state)
{
	struct fixture f = { .script.command = answer_extents };
	struct rblk_extent extent;
	u64 end = FAKE_VOLUME_BLOCKS * 512;

	lib_open(&f);
	assert_int_equal(rblk_get_extents(f.volume, 0, 0, &extent, 1), -EINVAL);
	assert_int_equal(rblk_get_extents(f.volume, 511, 0, &extent, 1), -EINVAL);
	assert_int_equal(rblk_get_extents(f.volume, 512, 1, &extent, 1), -EINVAL);
	assert_int_equal(rblk_get_extents(f.volume, 512, 0, &extent, 0), -EINVAL);
	assert_int_equal(rblk_get_extents(f.volume, 512, 0, NULL, 1), -EINVAL);
	assert_int_equal(rblk_get_extents(f.volume, 512, end, &extent, 1), -ERANGE);
	assert_int_equal(rblk_get_extents(f.volume, end, 512, &extent, 1), -ERANGE);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_EXTENTS), 0);
	lib_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(extents_are_handed_on),
		cmocka_unit_test(malformed_reports_are_refused),
		cmocka_unit_test(a_callback_asks_on),
		cmocka_unit_test(without_the_feature),
		cmocka_unit_test(bad_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
