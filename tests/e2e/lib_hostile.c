/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whatever a target does to a session, break the protocol, keep silent, vanish, every command
 * is called back exactly once, the session fails with words that name the cause, and nothing hangs.
 * Method: a scripted target in a thread (fake_target.h), one wrong thing per test. Sessions that do
 * not even begin are lib_refused.c's.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "initiator/rblk.h"
#include "tests/e2e/fake_target.h"

#define COMMANDS 4
#define BYTES 8192 /* more than travels in a capsule */

struct outcome {
	int calls;
	struct rblk_result last;
};

static void done(void *arg, const struct rblk_result *result)
{
	struct outcome *outcome = arg;

	outcome->calls++;
	outcome->last = *result;
}

static void assert_words(const char *words, const char *expected)
{
	if (!strstr(words, expected))
		fail_msg("\"%s\" lacks \"%s\"", words, expected);
}

/* -- commands that are not answered as they should be ------------------------------------------- */

struct fixture {
	struct fake_script script;
	struct fake_target *fake;
	struct rblk_session *session;
	struct rblk_volume *volume;
	u8 *data;
	struct outcome outcomes[COMMANDS];
};

static void open_fixture(struct fixture *f, u32 command_timeout_ms)
{
	struct rblk_options options = fake_target_options();
	char text[RBLK_ERROR_BYTES] = "";

	if (command_timeout_ms)
		options.command_timeout_ms = command_timeout_ms;
	f->fake = fake_target_start(&f->script);
	f->session = rblk_session_open(fake_target_uri(f->fake), &options, text);
	if (!f->session)
		fail_msg("%s", text);
	f->volume = rblk_volume_open(f->session, NULL, 0);
	if (!f->volume)
		fail_msg("%s", rblk_session_error(f->session));
	f->data = rblk_buffer_alloc(f->session, COMMANDS * BYTES);
	assert_non_null(f->data);
}

static void close_fixture(struct fixture *f)
{
	rblk_session_close(f->session);
	fake_target_stop(f->fake);
	for (int i = 0; i < COMMANDS; i++)
		assert_true(f->outcomes[i].calls <= 1);
}

static void start_io(struct fixture *f, bool writes)
{
	for (int i = 0; i < COMMANDS; i++) {
		void *data = f->data + i * BYTES;
		u32 bytes = i % 2 ? BYTES : 512;

		if (writes)
			assert_int_equal(rblk_write(f->volume, data, bytes, 0, 0, done,
						    &f->outcomes[i]),
					 0);
		else
			assert_int_equal(rblk_read(f->volume, data, bytes, 0, 0, done,
						   &f->outcomes[i]),
					 0);
	}
}

/* Until every command was called back once; all with `error`, and the session with `words`. */
static void expect_failure(struct fixture *f, int error, const char *words)
{
	int count = 0, polled;

	while ((polled = rblk_wait(f->session, 20000)) > 0)
		count += polled;
	assert_int_equal(polled, error);
	assert_int_equal(count, COMMANDS);
	for (int i = 0; i < COMMANDS; i++)
		assert_int_equal(f->outcomes[i].calls, 1);
	assert_int_equal(rblk_session_state(f->session), RBLK_SESSION_FAILED);
	assert_words(rblk_session_error(f->session), words);
	assert_int_equal(f->outcomes[COMMANDS - 1].last.error, error);
	/* And from now on at once. */
	assert_int_equal(rblk_read(f->volume, f->data, 512, 0, 0, done, &f->outcomes[0]),
			 -ENOTCONN);
	assert_int_equal(rblk_submit(f->session), -ENOTCONN);
	assert_int_equal(rblk_poll(f->session, 0), error);
	assert_int_equal(f->outcomes[0].calls, 1);
}

static void run_failure(enum fake_answer (*command)(struct fake_target *,
						    const struct rblk_wire_command *,
						    struct rblk_wire_completion *),
			int error, const char *words)
{
	for (int writes = 0; writes < 2; writes++) {
		struct fixture f = { .script.command = command };

		open_fixture(&f, 0);
		start_io(&f, writes);
		expect_failure(&f, error, words);
		close_fixture(&f);
	}
}

static bool is_io(const struct rblk_wire_command *command)
{
	return command->opcode == RBLK_OP_READ || command->opcode == RBLK_OP_WRITE;
}

static enum fake_answer wrong_sequence(struct fake_target *fake,
				       const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	if (is_io(command))
		completion->sequence = rblk_to_le32(rblk_le32(completion->sequence) + 1000);
	return FAKE_REPLY;
}

static enum fake_answer wrong_tag(struct fake_target *fake, const struct rblk_wire_command *command,
				  struct rblk_wire_completion *completion)
{
	if (is_io(command))
		completion->tag = rblk_to_le16(7); /* granted, not in use */
	return FAKE_REPLY;
}

static enum fake_answer tag_out_of_range(struct fake_target *fake,
					 const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	if (is_io(command))
		completion->tag = rblk_to_le16(8 + RBLK_RESERVED_TAGS);
	return FAKE_REPLY;
}

static enum fake_answer unknown_status(struct fake_target *fake,
				       const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	if (is_io(command))
		completion->status = rblk_to_le16(999);
	return FAKE_REPLY;
}

static enum fake_answer half_a_completion(struct fake_target *fake,
					  const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	if (!is_io(command))
		return FAKE_REPLY;
	fake_target_script(fake)->raw_bytes = 16;
	return FAKE_REPLY_RAW;
}

static void answers_that_break_the_protocol(void **state)
{
	run_failure(wrong_sequence, -EPROTO, "another command's sequence number");
	run_failure(wrong_tag, -EPROTO, "a command that is not outstanding");
	run_failure(tag_out_of_range, -EPROTO, "the tag is out of range");
	run_failure(unknown_status, -EPROTO, "the status is unknown");
	run_failure(half_a_completion, -EPROTO, "too short");
}

/* The first answer is right, its double is not: one command succeeds, the rest fail. */
static enum fake_answer twice(struct fake_target *fake, const struct rblk_wire_command *command,
			      struct rblk_wire_completion *completion)
{
	return is_io(command) ? FAKE_REPLY_TWICE : FAKE_REPLY;
}

static void an_answer_given_twice(void **state)
{
	struct fixture f = { .script.command = twice };

	open_fixture(&f, 0);
	start_io(&f, false);
	expect_failure(&f, -EPROTO, "a command that is not outstanding");
	assert_int_equal(f.outcomes[0].last.error, 0);
	close_fixture(&f);
}

static enum fake_answer immediate_always(struct fake_target *fake,
					 const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	return command->opcode == RBLK_OP_READ ? FAKE_IMMEDIATE : FAKE_REPLY;
}

static void accept_no_features(struct rblk_wire_accept *accept)
{
	accept->features = 0;
}

static void an_immediate_that_was_not_allowed(void **state)
{
	struct fixture f = { .script = { .command = immediate_always } };
	struct rblk_stats stats;
	int count = 0;

	/* Allowed first: the tag and nothing else comes back, and reads are done. */
	open_fixture(&f, 0);
	start_io(&f, false);
	while (count < COMMANDS)
		count += rblk_wait(f.session, -1);
	for (int i = 0; i < COMMANDS; i++)
		assert_int_equal(f.outcomes[i].last.error, 0);
	rblk_session_stats(f.session, &stats);
	assert_int_equal(stats.immediates, COMMANDS);
	close_fixture(&f);

	f = (struct fixture){ .script = { .command = immediate_always,
					  .accept = accept_no_features } };
	open_fixture(&f, 0);
	start_io(&f, false);
	expect_failure(&f, -EPROTO, "an immediate for a command that did not allow it");
	close_fixture(&f);
}

static enum fake_answer close_on_io(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	return is_io(command) ? FAKE_CLOSE : FAKE_REPLY;
}

static void a_target_that_vanishes(void **state)
{
	run_failure(close_on_io, -ECONNRESET, "connection lost");
}

static enum fake_answer silent_on_io(struct fake_target *fake,
				     const struct rblk_wire_command *command,
				     struct rblk_wire_completion *completion)
{
	return is_io(command) ? FAKE_SILENT : FAKE_REPLY;
}

static void a_target_that_keeps_silent(void **state)
{
	struct fixture f = { .script.command = silent_on_io };

	open_fixture(&f, 300);
	start_io(&f, true);
	expect_failure(&f, -ETIMEDOUT, "WRITE was not answered within 300 ms");
	close_fixture(&f);
}

static void closing_with_commands_outstanding(void **state)
{
	struct fixture f = { .script.command = silent_on_io };

	open_fixture(&f, 0);
	start_io(&f, true);
	assert_int_equal(rblk_submit(f.session), 0);
	assert_int_equal(rblk_volume_close(f.volume), -EBUSY);
	close_fixture(&f);
	for (int i = 0; i < COMMANDS; i++) {
		assert_int_equal(f.outcomes[i].calls, 1);
		assert_int_equal(f.outcomes[i].last.error, -ECANCELED);
	}
}

static void buffers_in_use_stay(void **state)
{
	struct fixture f = { .script.command = silent_on_io };
	u8 *own = aligned_alloc(4096, 8192);

	open_fixture(&f, 0);
	assert_int_equal(rblk_buffer_register(f.session, own, 8192), 0);
	assert_int_equal(rblk_buffer_register(f.session, own + 4096, 4096), -EEXIST);
	assert_int_equal(rblk_read(f.volume, own, 8192, 0, 0, done, &f.outcomes[0]), 0);
	assert_int_equal(rblk_buffer_unregister(f.session, own), -EBUSY);
	/* Across its end, and beside any buffer. */
	assert_int_equal(rblk_read(f.volume, own + 4096, 8192, 0, 0, done, &f.outcomes[1]),
			 -EFAULT);
	assert_int_equal(rblk_read(f.volume, &f, 512, 0, 0, done, &f.outcomes[1]), -EFAULT);
	close_fixture(&f);
	assert_int_equal(f.outcomes[0].calls, 1);
	free(own);
}

/* -- BUSY --------------------------------------------------------------------------------------- */

static enum fake_answer busy_three_times(struct fake_target *fake,
					 const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	if (is_io(command) && fake_target_seen(fake, command->opcode) <= 3)
		completion->status = rblk_to_le16(RBLK_E_BUSY);
	return FAKE_REPLY;
}

static void busy_is_tried_again(void **state)
{
	struct fixture f = { .script.command = busy_three_times };
	struct rblk_stats stats;

	open_fixture(&f, 0);
	assert_int_equal(rblk_pwrite(f.volume, f.data, 512, 0, 0), 0);
	rblk_session_stats(f.session, &stats);
	assert_int_equal(stats.busy_retries, 3);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_WRITE), 4);
	assert_int_equal(stats.commands, 1);
	close_fixture(&f);
}

static enum fake_answer busy_for_ever(struct fake_target *fake,
				      const struct rblk_wire_command *command,
				      struct rblk_wire_completion *completion)
{
	if (is_io(command))
		completion->status = rblk_to_le16(RBLK_E_BUSY);
	return FAKE_REPLY;
}

static void busy_is_given_up_in_time(void **state)
{
	struct fixture f = { .script.command = busy_for_ever };

	open_fixture(&f, 200);
	assert_int_equal(rblk_pwrite(f.volume, f.data, BYTES, 0, 0), -EBUSY);
	/* It was answered, after all: the session lives. */
	assert_int_equal(rblk_session_state(f.session), RBLK_SESSION_READY);
	assert_int_equal(rblk_fsync(f.volume), 0);
	close_fixture(&f);
}

/* -- events, keep-alive, credits ---------------------------------------------------------------- */

static enum fake_answer event_after_flush(struct fake_target *fake,
					  const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	_Atomic u64 *told = fake_target_script(fake)->arg;

	if (command->opcode == RBLK_OP_FLUSH)
		fake_target_send_event(fake, RBLK_EVENT_VOLUME_CHANGED, 42, FAKE_HANDLE);
	if (command->opcode == RBLK_OP_KEEPALIVE)
		*told = rblk_le64(command->argument);
	return FAKE_REPLY;
}

static enum fake_answer two_events(struct fake_target *fake,
				   const struct rblk_wire_command *command,
				   struct rblk_wire_completion *completion)
{
	if (!is_io(command))
		return FAKE_REPLY;
	fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 2, 0);
	return FAKE_SILENT;
}

/* V9 */
static void events_that_do_not_wait_are_refused(void **state)
{
	run_failure(two_events, -EPROTO, "an event before the last one was confirmed");
}

static void an_event_is_seen_and_told(void **state)
{
	_Atomic u64 told = 0;
	struct fixture f = { .script = { .command = event_after_flush, .arg = &told } };

	open_fixture(&f, 0);
	assert_false(rblk_volume_info(f.volume)->changed);
	assert_int_equal(rblk_fsync(f.volume), 0);
	while (told != 42)
		assert_true(rblk_wait(f.session, 10) >= 0);
	assert_true(rblk_volume_info(f.volume)->changed);
	assert_int_equal(rblk_volume_refresh(f.volume), 0);
	assert_false(rblk_volume_info(f.volume)->changed);
	close_fixture(&f);
}

static void accept_impatient(struct rblk_wire_accept *accept)
{
	accept->keepalive_ms = rblk_to_le32(20);
}

static void an_idle_session_keeps_alive(void **state)
{
	struct fixture f = { .script.accept = accept_impatient };
	int timeout_ms;

	open_fixture(&f, 0);
	timeout_ms = rblk_timeout_ms(f.session);
	assert_in_range(timeout_ms, 0, 21);
	while (fake_target_seen(f.fake, RBLK_OP_KEEPALIVE) < 3)
		assert_true(rblk_wait(f.session, 10) >= 0);
	assert_int_equal(rblk_session_state(f.session), RBLK_SESSION_READY);
	close_fixture(&f);
}

static void credits_run_out_and_come_back(void **state)
{
	struct fixture f = { .script.command = busy_three_times };
	struct outcome outcomes[8] = { { 0 } };
	int count = 0;

	open_fixture(&f, 0);
	assert_int_equal(rblk_session_credits(f.session), 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(rblk_read(f.volume, f.data, 512, 0, 0, done, &outcomes[i]), 0);
	assert_int_equal(rblk_read(f.volume, f.data, 512, 0, 0, done, &f.outcomes[0]), -EAGAIN);
	/* The reserve is there all the same. */
	assert_int_equal(rblk_volume_refresh(f.volume), -EBUSY);
	while (count < 8)
		count += rblk_wait(f.session, -1);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(outcomes[i].calls, 1);
		assert_int_equal(outcomes[i].last.error, 0);
	}
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_that_break_the_protocol),
		cmocka_unit_test(an_answer_given_twice),
		cmocka_unit_test(an_immediate_that_was_not_allowed),
		cmocka_unit_test(a_target_that_vanishes),
		cmocka_unit_test(a_target_that_keeps_silent),
		cmocka_unit_test(closing_with_commands_outstanding),
		cmocka_unit_test(buffers_in_use_stay),
		cmocka_unit_test(busy_is_tried_again),
		cmocka_unit_test(busy_is_given_up_in_time),
		cmocka_unit_test(events_that_do_not_wait_are_refused),
		cmocka_unit_test(an_event_is_seen_and_told),
		cmocka_unit_test(an_idle_session_keeps_alive),
		cmocka_unit_test(credits_run_out_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
