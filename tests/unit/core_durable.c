/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an initiator notices exactly when acknowledged, unflushed writes may be lost (F7).
 * Method: histories of writes, FLUSHes and OPENs of two writers, with the answer that each must
 * give.
 */
#include "tests/unit/unit.h"
#include "proto/core/durable.h"

static const u8 ONE[16] = {1}, TWO[16] = {2};

static struct core_durable durable;
static u64 writer[2];

static void begin(void)
{
	core_durable_init(&durable);
	writer[0] = writer[1] = 0;
	assert_false(core_durable_opened(&durable, ONE, false));
}

static bool dirty(void)
{
	return core_durable_dirty(&durable, writer[0]) || core_durable_dirty(&durable, writer[1]);
}

static void test_nothing_written(void **state)
{
	(void)state;
	begin();
	assert_false(dirty());
	assert_false(core_durable_opened(&durable, TWO, dirty()));
	assert_false(durable.lost);
}

static void test_written_and_lost(void **state)
{
	(void)state;
	begin();
	core_durable_wrote(&durable, &writer[1]);
	assert_true(dirty());
	assert_false(core_durable_opened(&durable, ONE, dirty())); /* nothing changed */
	assert_true(core_durable_opened(&durable, TWO, dirty()));
	assert_true(durable.lost);
	/* A loss is reported once, and `lost` stays set until it is acknowledged. */
	assert_false(dirty());
	assert_false(core_durable_opened(&durable, TWO, dirty()));
	assert_true(durable.lost);
	core_durable_acknowledge(&durable);
	assert_false(durable.lost);
	/* A write after the acknowledgement can be lost again. */
	core_durable_wrote(&durable, &writer[0]);
	assert_true(dirty());
	assert_true(core_durable_opened(&durable, ONE, dirty()));
}

static void test_flushed(void **state)
{
	u64 first, second;

	(void)state;
	begin();
	core_durable_wrote(&durable, &writer[0]);
	first = core_durable_flush(&durable);
	assert_true(dirty());			  /* only once FLUSH has succeeded */
	core_durable_wrote(&durable, &writer[1]); /* after the FLUSH began: not covered */
	second = core_durable_flush(&durable);
	core_durable_flushed(&durable, first);
	assert_false(core_durable_dirty(&durable, writer[0]));
	assert_true(core_durable_dirty(&durable, writer[1]));
	core_durable_flushed(&durable, second);
	assert_false(dirty());
	assert_false(core_durable_opened(&durable, TWO, dirty()));
	assert_false(durable.lost);
}

static void test_flushes_overtake(void **state)
{
	u64 first, second;

	(void)state;
	begin();
	core_durable_wrote(&durable, &writer[0]);
	first = core_durable_flush(&durable);
	second = core_durable_flush(&durable);
	core_durable_flushed(&durable, second);
	assert_false(dirty());
	core_durable_wrote(&durable, &writer[0]);
	core_durable_flushed(&durable, first); /* an older FLUSH: covers less */
	assert_true(dirty());
}

static void test_flush_failed(void **state)
{
	(void)state;
	begin();
	core_durable_wrote(&durable, &writer[0]);
	core_durable_flush(&durable);
	core_durable_wrote(&durable, &writer[0]);
	assert_true(dirty());
	assert_true(core_durable_opened(&durable, TWO, dirty()));
}

/* It was sent before the loss, and would be sent again after that was acknowledged. */
static void test_flush_outlives_a_loss(void **state)
{
	u64 before, after;

	(void)state;
	begin();
	core_durable_wrote(&durable, &writer[0]);
	before = core_durable_flush(&durable);
	assert_false(core_durable_outlived(&durable, before));
	assert_true(core_durable_opened(&durable, TWO, dirty()));
	core_durable_acknowledge(&durable);
	assert_true(core_durable_outlived(&durable, before));
	after = core_durable_flush(&durable);
	assert_false(core_durable_outlived(&durable, after));
	core_durable_flushed(&durable, after);
	/* Where nothing was lost, it may be sent again. */
	assert_false(core_durable_opened(&durable, ONE, dirty()));
	assert_false(core_durable_outlived(&durable, after));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_written), cmocka_unit_test(test_written_and_lost),
		cmocka_unit_test(test_flushed),		cmocka_unit_test(test_flushes_overtake),
		cmocka_unit_test(test_flush_failed),	cmocka_unit_test(test_flush_outlives_a_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
