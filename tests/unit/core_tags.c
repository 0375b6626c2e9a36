/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the initiator's accounting of tags is right: no tag twice, reserved tags apart from
 * credits, sequence numbers in the order of sending, and every answer that fits no command is
 * detected. Method: direct calls, and a long random run against a model.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include "proto/core/tags.h"

#define CREDITS 8
#define COUNT (CREDITS + RBLK_RESERVED_TAGS)

struct fixture {
	struct core_tags tags;
	struct core_tag array[COUNT];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	core_tags_init(&f->tags, f->array, CREDITS);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void credits_are_as_many_as_granted(void **state)
{
	struct fixture *f = *state;
	bool seen[COUNT] = { false };

	for (int i = 0; i < CREDITS; i++) {
		int tag = core_tags_take(&f->tags, false);

		assert_in_range(tag, 0, CREDITS - 1);
		assert_false(seen[tag]);
		seen[tag] = true;
	}
	assert_int_equal(core_tags_take(&f->tags, false), -EAGAIN);
	assert_int_equal(f->tags.taken_io, CREDITS);
	/* The reserved tags are still free. */
	for (int i = 0; i < RBLK_RESERVED_TAGS; i++) {
		int tag = core_tags_take(&f->tags, true);

		assert_in_range(tag, CREDITS, COUNT - 1);
		assert_false(seen[tag]);
		seen[tag] = true;
		assert_true(core_tags_reserved(&f->tags, (u16)tag));
	}
	assert_int_equal(core_tags_take(&f->tags, true), -EAGAIN);
	for (u16 tag = 0; tag < COUNT; tag++)
		core_tags_put(&f->tags, tag);
	assert_int_equal(f->tags.taken_io, 0);
	assert_int_equal(f->tags.taken_reserved, 0);
	assert_in_range(core_tags_take(&f->tags, false), 0, CREDITS - 1);
}

static void sequence_follows_the_order_of_sending(void **state)
{
	struct fixture *f = *state;
	u16 first = (u16)core_tags_take(&f->tags, false);
	u16 second = (u16)core_tags_take(&f->tags, false);

	assert_int_equal(core_tags_send(&f->tags, second), 0);
	assert_int_equal(core_tags_send(&f->tags, first), 1);
	assert_int_equal(f->tags.sent, 2);
	assert_int_equal(core_tags_answer(&f->tags, second, 0), CORE_TAGS_OK);
	/* Sent again after BUSY, it is a new command to the target. */
	core_tags_retake(&f->tags, second);
	assert_int_equal(core_tags_send(&f->tags, second), 2);
	assert_int_equal(core_tags_answer(&f->tags, second, 2), CORE_TAGS_OK);
	assert_int_equal(core_tags_answer(&f->tags, first, 1), CORE_TAGS_OK);
	assert_int_equal(f->tags.sent, 0);
}

static void sequence_wraps(void **state)
{
	struct fixture *f = *state;
	u16 tag = (u16)core_tags_take(&f->tags, false);

	f->tags.next_sequence = UINT32_MAX;
	assert_int_equal(core_tags_send(&f->tags, tag), UINT32_MAX);
	assert_int_equal(core_tags_answer(&f->tags, tag, UINT32_MAX), CORE_TAGS_OK);
	core_tags_retake(&f->tags, tag);
	assert_int_equal(core_tags_send(&f->tags, tag), 0);
}

static void answers_that_do_not_fit(void **state)
{
	struct fixture *f = *state;
	u16 tag = (u16)core_tags_take(&f->tags, false);
	u32 sequence;

	assert_int_equal(core_tags_answer(&f->tags, COUNT, 0), CORE_TAGS_UNKNOWN);
	assert_int_equal(core_tags_answer_immediate(&f->tags, 0xffff), CORE_TAGS_UNKNOWN);
	/* Taken, not sent. */
	assert_int_equal(core_tags_answer(&f->tags, tag, 0), CORE_TAGS_NOT_SENT);
	sequence = core_tags_send(&f->tags, tag);
	assert_int_equal(core_tags_answer(&f->tags, tag, sequence + 1), CORE_TAGS_SEQUENCE);
	/* That changed nothing. */
	assert_int_equal(core_tags_answer(&f->tags, tag, sequence), CORE_TAGS_OK);
	/* Twice. */
	assert_int_equal(core_tags_answer(&f->tags, tag, sequence), CORE_TAGS_NOT_SENT);
	assert_int_equal(core_tags_answer_immediate(&f->tags, tag), CORE_TAGS_NOT_SENT);
	core_tags_put(&f->tags, tag);
	/* Free. */
	assert_int_equal(core_tags_answer_immediate(&f->tags, tag), CORE_TAGS_NOT_SENT);
	assert_string_not_equal(core_tags_error_text(CORE_TAGS_SEQUENCE),
				core_tags_error_text(CORE_TAGS_NOT_SENT));
}

static void recall_returns_what_was_sent(void **state)
{
	struct fixture *f = *state;
	u16 sent = (u16)core_tags_take(&f->tags, false);
	u16 taken = (u16)core_tags_take(&f->tags, true);

	core_tags_send(&f->tags, sent);
	core_tags_recall(&f->tags);
	assert_int_equal(f->array[sent].state, CORE_TAG_ANSWERED);
	assert_int_equal(f->array[taken].state, CORE_TAG_TAKEN);
	assert_int_equal(f->tags.sent, 0);
	core_tags_put(&f->tags, sent);
	core_tags_put(&f->tags, taken);
	assert_int_equal(f->tags.taken_io + f->tags.taken_reserved, 0);
}

/* A model that is too simple to be wrong: an array of states and a count. */
static void random_run_agrees_with_a_model(void **state)
{
	struct fixture *f = *state;
	u8 model[COUNT] = { CORE_TAG_FREE };
	u32 sequence[COUNT] = { 0 }, next = 0;
	unsigned int seed = 1;

	for (int step = 0; step < 200000; step++) {
		u16 tag = (u16)(rand_r(&seed) % COUNT);

		switch (model[tag]) {
		case CORE_TAG_FREE: {
			int taken = core_tags_take(&f->tags, tag >= CREDITS);

			assert_in_range(taken, 0, COUNT - 1);
			assert_int_equal(model[taken], CORE_TAG_FREE);
			assert_int_equal(taken >= CREDITS, tag >= CREDITS);
			model[taken] = CORE_TAG_TAKEN;
			break;
		}
		case CORE_TAG_TAKEN:
			sequence[tag] = core_tags_send(&f->tags, tag);
			assert_int_equal(sequence[tag], next++);
			model[tag] = CORE_TAG_SENT;
			break;
		case CORE_TAG_SENT:
			assert_int_equal(core_tags_answer(&f->tags, tag, sequence[tag]),
					 CORE_TAGS_OK);
			model[tag] = CORE_TAG_ANSWERED;
			break;
		case CORE_TAG_ANSWERED:
			if (rand_r(&seed) % 8) {
				core_tags_put(&f->tags, tag);
				model[tag] = CORE_TAG_FREE;
			} else {
				core_tags_retake(&f->tags, tag);
				model[tag] = CORE_TAG_TAKEN;
			}
			break;
		}
		for (u16 t = 0; t < COUNT; t++)
			assert_int_equal(f->array[t].state, model[t]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(credits_are_as_many_as_granted, setup, teardown),
		cmocka_unit_test_setup_teardown(sequence_follows_the_order_of_sending, setup,
						teardown),
		cmocka_unit_test_setup_teardown(sequence_wraps, setup, teardown),
		cmocka_unit_test_setup_teardown(answers_that_do_not_fit, setup, teardown),
		cmocka_unit_test_setup_teardown(recall_returns_what_was_sent, setup, teardown),
		cmocka_unit_test_setup_teardown(random_run_agrees_with_a_model, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
