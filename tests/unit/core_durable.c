/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: an initiator notices exactly when acknowledged, unflushed writes may be lost, whichever of
 * its opens wrote and whichever learns of it, and each open is told (F7). Method: histories of
 * writes, FLUSHes and OPENs of two opens, with the answer that each must give.
 */
#include "tests/unit/unit.h"
#include "proto/core/durable.h"
#include "proto/wire/wire.h"

static const u8 ONE[16] = {1}, TWO[16] = {2};

static struct core_durable durable;
static struct core_durable_open first, second;

/* A handle that this OPEN gives, of a volume with a volatile cache. */
static bool opened(struct core_durable_open *open, const u8 epoch[16])
{
	bool lost = core_durable_learn(&durable, open, epoch);

	core_durable_adopt(open, true);
	return lost;
}

static bool answered(u32 generation)
{
	return !core_durable_noted(&durable, generation) &&
	       core_durable_wrote(&durable, generation);
}

/* A write without FUA is acknowledged. True: it may be lost. */
static bool wrote(const struct core_durable_open *open)
{
	return answered(core_durable_owes(open, RBLK_OP_WRITE, 0));
}

static bool flushed(const struct core_durable_open *open, u64 number)
{
	return core_durable_flushed(&durable, core_durable_owes(open, RBLK_OP_FLUSH, 0), number);
}

static bool flush(const struct core_durable_open *open)
{
	u64 number = core_durable_flush(&durable);

	return core_durable_may_flush(&durable, number) && flushed(open, number);
}

/* By users who have heard of every loss. */
static void closed(struct core_durable_open *open)
{
	core_durable_leave(&durable, open, open->unaware);
}

static int begin(void **state)
{
	(void)state;
	core_durable_init(&durable);
	memset(&first, 0, sizeof(first));
	memset(&second, 0, sizeof(second));
	core_durable_join(&durable, &first);
	core_durable_join(&durable, &second);
	assert_false(opened(&first, ONE));
	assert_false(opened(&second, ONE));
	return 0;
}

static void test_nothing_written(void **state)
{
	(void)state;
	assert_false(core_durable_dirty(&durable));
	assert_false(opened(&first, TWO));
	assert_true(flush(&first));
	assert_true(flush(&second));
}

static void test_what_owes(void **state)
{
	static const u8 writes[] = {RBLK_OP_WRITE, RBLK_OP_WRITE_ZEROES, RBLK_OP_COMPARE_AND_WRITE};
	static const u8 others[] = {RBLK_OP_READ, RBLK_OP_DISCARD, RBLK_OP_CHECKSUM,
				    RBLK_OP_EXTENTS};

	(void)state;
	for (unsigned int i = 0; i < sizeof(writes); i++) {
		assert_true(core_durable_owes(&first, writes[i], 0));
		assert_false(core_durable_owes(&first, writes[i], RBLK_CMD_FUA));
	}
	for (unsigned int i = 0; i < sizeof(others); i++)
		assert_false(core_durable_owes(&first, others[i], 0));
}

/* A volume that has no volatile cache owes nothing; but it can be flushed. */
static void test_no_cache(void **state)
{
	(void)state;
	assert_false(wrote(&first));
	core_durable_adopt(&first, false);
	assert_false(core_durable_owes(&first, RBLK_OP_WRITE, 0));
	assert_true(core_durable_dirty(&durable)); /* before it had none */
	assert_true(flush(&first));
	assert_false(core_durable_dirty(&durable));
	assert_false(opened(&first, TWO));
	assert_true(flush(&first));
}

static void test_written_and_lost(void **state)
{
	(void)state;
	assert_false(wrote(&second));
	assert_true(core_durable_dirty(&durable));
	assert_false(opened(&first, ONE)); /* nothing changed */
	assert_true(opened(&first, TWO));
	assert_false(core_durable_dirty(&durable)); /* FLUSH fails anyway */
	assert_false(opened(&second, TWO));	    /* known already */
	assert_false(flush(&first));
	assert_false(flush(&second));
	/* All have to know. */
	assert_true(core_durable_acknowledge(&durable, &second));
	assert_false(core_durable_acknowledge(&durable, &second));
	assert_false(flush(&second));
	assert_true(core_durable_acknowledge(&durable, &first));
	assert_true(flush(&second));
	/* What is written after the loss counts anew. */
	assert_false(wrote(&first));
	assert_true(opened(&second, ONE));
}

static void test_one_closes(void **state)
{
	(void)state;
	assert_false(wrote(&first));
	assert_true(opened(&second, TWO));
	closed(&first);
	assert_false(flush(&second));
	closed(&second);
	core_durable_join(&durable, &first);
	assert_true(flush(&first));
}

/* Who opens it behind the loss waits for the others, and has nothing to acknowledge. */
static void test_one_comes_later(void **state)
{
	(void)state;
	closed(&second);
	assert_false(wrote(&first));
	assert_true(opened(&first, TWO));
	core_durable_join(&durable, &second);
	assert_false(opened(&second, TWO));
	assert_false(flush(&second));
	assert_false(core_durable_acknowledge(&durable, &second));
	assert_true(core_durable_acknowledge(&durable, &first));
	assert_true(flush(&second));
}

/* Closed by who has not heard of the loss: the next one has to know. */
static void test_closed_untold(void **state)
{
	(void)state;
	assert_false(wrote(&first));
	assert_true(opened(&second, TWO));
	core_durable_leave(&durable, &first, 0);
	closed(&second);
	core_durable_join(&durable, &second);
	assert_false(flush(&second));
	assert_true(core_durable_acknowledge(&durable, &second));
	core_durable_join(&durable, &first);
	assert_true(flush(&first));
}

/* Who has heard of a loss and goes on has not heard of the next: what was written between them is owed like all else. */
static void test_closed_behind_a_second_loss(void **state)
{
	u32 heard;

	(void)state;
	assert_false(wrote(&first));
	assert_true(opened(&first, TWO));
	heard = first.unaware;
	assert_int_equal(second.unaware, heard);
	assert_false(wrote(&first));
	assert_true(opened(&first, ONE));
	assert_int_not_equal(first.unaware, heard);
	core_durable_leave(&durable, &first, heard);
	closed(&second);
	core_durable_join(&durable, &first);
	assert_false(flush(&first));
	assert_true(core_durable_acknowledge(&durable, &first));
	assert_true(flush(&first));
}

/* What one has left unflushed is owed to whoever comes next; if nobody is there, nobody is told. */
static void test_all_have_closed(void **state)
{
	(void)state;
	assert_false(wrote(&first));
	closed(&first);
	closed(&second);
	assert_true(core_durable_dirty(&durable));
	core_durable_join(&durable, &second);
	assert_true(opened(&second, TWO));
	assert_false(wrote(&second));
	closed(&second);
	assert_false(opened(&first, ONE));
	assert_true(flush(&first));
}

/*
 * One has learnt of the loss when the other hears of a write that was done before: it is lost, also
 * if there was nothing else to lose, and if one of the new generation is known already. Writes
 * since then are still owed.
 */
static void test_answer_of_an_older_generation(void **state)
{
	u32 old = core_durable_owes(&first, RBLK_OP_WRITE, 0);

	(void)state;
	assert_false(opened(&second, TWO));
	assert_false(wrote(&second));
	assert_true(answered(old));
	assert_false(flush(&second));
	assert_true(core_durable_acknowledge(&durable, &first));
	assert_true(core_durable_acknowledge(&durable, &second));
	assert_true(core_durable_dirty(&durable));
	assert_true(opened(&second, ONE));
}

/* It speaks of what is gone. */
static void test_flush_of_an_older_generation(void **state)
{
	u32 old = core_durable_owes(&first, RBLK_OP_FLUSH, 0);
	u64 number;

	(void)state;
	assert_false(opened(&second, TWO));
	assert_false(wrote(&second));
	number = core_durable_flush(&durable);
	assert_true(core_durable_flushed(&durable, old, number));
	assert_true(core_durable_dirty(&durable));
}

/* An OPEN shows another cache epoch, and the old handle is used on. */
static void test_learnt_and_not_adopted(void **state)
{
	(void)state;
	assert_false(core_durable_learn(&durable, &first, TWO));
	assert_true(wrote(&first));
	core_durable_adopt(&first, true);
	core_durable_acknowledge(&durable, &second);
	core_durable_acknowledge(&durable, &first);
	assert_false(wrote(&first));
	assert_true(flush(&first));
}

static void test_flush_covers_what_was_before(void **state)
{
	u64 one, two;

	(void)state;
	wrote(&first);
	one = core_durable_flush(&durable);
	wrote(&second); /* after the FLUSH was asked for: not covered */
	two = core_durable_flush(&durable);
	assert_true(flushed(&first, one));
	assert_true(core_durable_dirty(&durable));
	assert_true(flushed(&first, two));
	assert_false(core_durable_dirty(&durable));
	assert_false(opened(&first, TWO));
}

static void test_flushes_out_of_order(void **state)
{
	u64 one, two;

	(void)state;
	wrote(&first);
	one = core_durable_flush(&durable);
	two = core_durable_flush(&durable);
	assert_true(flushed(&first, two));
	assert_false(core_durable_dirty(&durable));
	wrote(&first);
	assert_true(flushed(&first, one)); /* an older FLUSH: covers less */
	assert_true(core_durable_dirty(&durable));
}

/*
 * A FLUSH that was asked for before the loss must fail, although the loss was acknowledged before
 * its connection was drained, or its answer heard.
 */
static void test_flush_outlives_the_loss(void **state)
{
	u64 before, after;

	(void)state;
	wrote(&first);
	before = core_durable_flush(&durable);
	assert_true(core_durable_may_flush(&durable, before));
	assert_true(opened(&second, TWO));
	assert_false(core_durable_may_flush(&durable, before));
	core_durable_acknowledge(&durable, &first);
	core_durable_acknowledge(&durable, &second);
	assert_false(core_durable_may_flush(&durable, before));
	assert_false(flushed(&first, before));
	after = core_durable_flush(&durable);
	assert_true(core_durable_may_flush(&durable, after));
	assert_true(flushed(&first, after));
	/* A cache epoch that changes where nothing was lost ends no FLUSH. */
	assert_false(opened(&first, ONE));
	assert_true(core_durable_may_flush(&durable, after));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nothing_written, begin),
		cmocka_unit_test_setup(test_what_owes, begin),
		cmocka_unit_test_setup(test_no_cache, begin),
		cmocka_unit_test_setup(test_written_and_lost, begin),
		cmocka_unit_test_setup(test_one_closes, begin),
		cmocka_unit_test_setup(test_one_comes_later, begin),
		cmocka_unit_test_setup(test_closed_untold, begin),
		cmocka_unit_test_setup(test_closed_behind_a_second_loss, begin),
		cmocka_unit_test_setup(test_all_have_closed, begin),
		cmocka_unit_test_setup(test_answer_of_an_older_generation, begin),
		cmocka_unit_test_setup(test_flush_of_an_older_generation, begin),
		cmocka_unit_test_setup(test_learnt_and_not_adopted, begin),
		cmocka_unit_test_setup(test_flush_covers_what_was_before, begin),
		cmocka_unit_test_setup(test_flushes_out_of_order, begin),
		cmocka_unit_test_setup(test_flush_outlives_the_loss, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
