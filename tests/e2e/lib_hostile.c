/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: when a target is silent, disappears or is busy, every command is called back exactly once,
 * the session fails with words that name the cause, and nothing hangs. Method: a scripted target in
 * a thread (fake_target.h), one fault per test. lib_violations.c tests targets that break the
 * protocol, lib_refused.c sessions that cannot begin.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/lib_fixture.h"

/* -- commands that are not answered, or answered wrongly
 * -------------------------------------------- */

static struct rblk_options impatient(u32 command_timeout_ms)
{
	struct rblk_options options = fake_target_options();

	options.command_timeout_ms = command_timeout_ms;
	return options;
}

static void run_failure(enum fake_answer (*command)(struct fake_target *,
						    const struct rblk_wire_command *,
						    struct rblk_wire_completion *),
			int error, const char *words)
{
	for (int writes = 0; writes < 2; writes++) {
		struct fixture f = { .script.command = command };

		lib_open(&f);
		lib_start_io(&f, writes);
		lib_expect_failure(&f, error, words);
		lib_close(&f);
	}
}

static enum fake_answer close_on_io(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	return lib_is_io(command) ? FAKE_CLOSE : FAKE_REPLY;
}

static void a_target_that_vanishes(void **state)
{
	run_failure(close_on_io, -ECONNRESET, "connection lost");
}

static enum fake_answer silent_on_io(struct fake_target *fake,
				     const struct rblk_wire_command *command,
				     struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_ABORT)
		completion->result = rblk_to_le64(RBLK_ABORT_UNKNOWN);
	return lib_is_io(command) ? FAKE_SILENT : FAKE_REPLY;
}

/* It says itself that it has answered. */
static void a_target_that_keeps_silent(void **state)
{
	struct fixture f = { .script.command = silent_on_io, .options = impatient(300) };

	lib_open(&f);
	lib_start_io(&f, true);
	lib_expect_failure(&f, -ETIMEDOUT, "and the target does not have it");
	lib_close(&f);
}

static void closing_with_commands_outstanding(void **state)
{
	struct fixture f = { .script.command = silent_on_io };

	lib_open(&f);
	lib_start_io(&f, true);
	assert_int_equal(rblk_submit(f.session), 0);
	assert_int_equal(rblk_volume_close(f.volume), -EBUSY);
	lib_close(&f);
	for (int i = 0; i < COMMANDS; i++) {
		assert_int_equal(f.outcomes[i].calls, 1);
		assert_int_equal(f.outcomes[i].last.error, -ECANCELED);
	}
}

static void buffers_in_use_stay(void **state)
{
	struct fixture f = { .script.command = silent_on_io };
	u8 *own = aligned_alloc(4096, 8192);

	lib_open(&f);
	assert_int_equal(rblk_buffer_register(f.session, own, 8192, 0), 0);
	assert_int_equal(rblk_buffer_register(f.session, own + 4096, 4096, 0), -EEXIST);
	assert_non_null(strstr(rblk_session_error(f.session), "overlap"));
	assert_int_equal(rblk_buffer_register(f.session, NULL, 4096, 0), -EINVAL);
	assert_non_null(strstr(rblk_session_error(f.session), "no such memory"));
	assert_int_equal(rblk_read(f.volume, own, 8192, 0, 0, lib_done, &f.outcomes[0]), 0);
	assert_int_equal(rblk_buffer_unregister(f.session, own), -EBUSY);
	assert_non_null(strstr(rblk_session_error(f.session), "commands use it"));
	assert_int_equal(rblk_buffer_unregister(f.session, own + 1), -ENOENT);
	assert_non_null(strstr(rblk_session_error(f.session), "not registered"));
	/* Across the end of the buffer, and outside of any buffer. */
	assert_int_equal(rblk_read(f.volume, own + 4096, 8192, 0, 0, lib_done, &f.outcomes[1]),
			 -EFAULT);
	assert_int_equal(rblk_read(f.volume, &f, 512, 0, 0, lib_done, &f.outcomes[1]), -EFAULT);
	lib_close(&f);
	assert_int_equal(f.outcomes[0].calls, 1);
	free(own);
}

/* -- BUSY --------------------------------------------------------------------------------------- */

static enum fake_answer busy_three_times(struct fake_target *fake,
					 const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	if (lib_is_io(command) && fake_target_seen(fake, command->opcode) <= 3)
		completion->status = rblk_to_le16(RBLK_E_BUSY);
	return FAKE_REPLY;
}

static void busy_is_tried_again(void **state)
{
	struct fixture f = { .script.command = busy_three_times };
	struct rblk_stats stats;

	lib_open(&f);
	assert_int_equal(rblk_pwrite(f.volume, f.data, 512, 0, 0), 0);
	rblk_session_stats(f.session, &stats, sizeof(stats));
	assert_int_equal(stats.busy_retries, 3);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_WRITE), 4);
	assert_int_equal(stats.commands, 1);
	lib_close(&f);
}

static enum fake_answer busy_for_ever(struct fake_target *fake,
				      const struct rblk_wire_command *command,
				      struct rblk_wire_completion *completion)
{
	if (lib_is_io(command))
		completion->status = rblk_to_le16(RBLK_E_BUSY);
	return FAKE_REPLY;
}

static void busy_is_given_up_in_time(void **state)
{
	struct fixture f = { .script.command = busy_for_ever, .options = impatient(200) };

	lib_open(&f);
	assert_int_equal(rblk_pwrite(f.volume, f.data, BYTES, 0, 0), -EBUSY);
	/* BUSY is an answer: the session goes on. */
	assert_int_equal(rblk_session_state(f.session), RBLK_SESSION_READY);
	assert_int_equal(rblk_fsync(f.volume), 0);
	lib_close(&f);
}

static enum fake_answer draining_for_ever(struct fake_target *fake,
					  const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_WRITE)
		completion->status = rblk_to_le16(RBLK_E_DRAINING);
	return FAKE_REPLY;
}

/* It says that it shuts down, and does not. */
static void draining_is_given_up_in_time(void **state)
{
	struct fixture f = { .script.command = draining_for_ever, .options = fake_target_options() };

	f.options.no_reconnect = false;
	f.options.give_up_ms = 200;
	lib_open(&f);
	assert_int_equal(rblk_pwrite(f.volume, f.data, BYTES, 0, 0), -ESHUTDOWN);
	assert_true(fake_target_seen(f.fake, RBLK_OP_WRITE) > 1);
	assert_int_equal(rblk_session_state(f.session), RBLK_SESSION_READY);
	lib_close(&f);
}

static enum fake_answer leaving_for_ever(struct fake_target *fake, const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_WRITE)
		fake_target_send_event(fake, RBLK_EVENT_DRAINING, 1, 0);
	return draining_for_ever(fake, command, completion);
}

/* It says so, and refuses what comes; another one is known, which is gone to without waiting for its end. */
static void draining_target_is_left(void **state)
{
	struct fake_script script = { .command = leaving_for_ever };
	struct fixture f = { .options = fake_target_options() };
	struct fake_target *ending = fake_target_start(&script);
	char uri[2 * RBLK_NAME_BYTES];

	f.options.no_reconnect = false;
	f.fake = fake_target_start(&f.script);
	snprintf(uri, sizeof(uri), "%s", fake_target_uri(ending));
	snprintf(strrchr(uri, '/'), sizeof(uri) / 2, ";%s", strstr(fake_target_uri(f.fake), "127.0.0.1"));
	f.session = rblk_session_open(uri, &f.options, NULL);
	assert_non_null(f.session);
	f.volume = rblk_volume_open(f.session, NULL, 0);
	assert_non_null(f.volume);
	f.data = rblk_buffer_alloc(f.session, BYTES);
	assert_int_equal(rblk_pwrite(f.volume, f.data, BYTES, 0, 0), 0);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_WRITE), 1);
	lib_close(&f);
	fake_target_stop(ending);
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

static void an_event_is_seen_and_told(void **state)
{
	_Atomic u64 told = 0;
	struct fixture f = { .script = { .command = event_after_flush, .arg = &told } };

	lib_open(&f);
	assert_false(rblk_volume_info(f.volume)->changed);
	assert_int_equal(rblk_fsync(f.volume), 0);
	while (told != 42)
		assert_true(rblk_wait(f.session, 10) >= 0);
	assert_true(rblk_volume_info(f.volume)->changed);
	assert_int_equal(rblk_volume_refresh(f.volume), 0);
	assert_false(rblk_volume_info(f.volume)->changed);
	lib_close(&f);
}

static void accept_impatient(struct rblk_wire_accept *accept)
{
	accept->keepalive_ms = rblk_to_le32(400);
}

static void an_idle_session_keeps_alive(void **state)
{
	struct fixture f = { .script.accept = accept_impatient };
	int timeout_ms;

	lib_open(&f);
	timeout_ms = rblk_timeout_ms(f.session);
	assert_in_range(timeout_ms, 0, 401);
	while (fake_target_seen(f.fake, RBLK_OP_KEEPALIVE) < 3)
		assert_true(rblk_wait(f.session, 10) >= 0);
	assert_int_equal(rblk_session_state(f.session), RBLK_SESSION_READY);
	lib_close(&f);
}

static void credits_run_out_and_come_back(void **state)
{
	struct fixture f = { .script.command = busy_three_times };
	struct outcome outcomes[8] = { { 0 } };

	lib_open(&f);
	assert_int_equal(rblk_session_credits(f.session), 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(rblk_read(f.volume, f.data, 512, 0, 0, lib_done, &outcomes[i]), 0);
	assert_int_equal(rblk_read(f.volume, f.data, 512, 0, 0, lib_done, &f.outcomes[0]), -EAGAIN);
	/* The reserved tags are still there. */
	assert_int_equal(rblk_volume_refresh(f.volume), 0);
	assert_int_equal(rblk_volume_close(f.volume), -EBUSY);
	for (int i = 0; i < 8; i++)
		while (!outcomes[i].calls)
			rblk_wait(f.session, -1);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(outcomes[i].calls, 1);
		assert_int_equal(outcomes[i].last.error, 0);
	}
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	lib_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_that_vanishes),
		cmocka_unit_test(a_target_that_keeps_silent),
		cmocka_unit_test(closing_with_commands_outstanding),
		cmocka_unit_test(buffers_in_use_stay),
		cmocka_unit_test(busy_is_tried_again),
		cmocka_unit_test(busy_is_given_up_in_time),
		cmocka_unit_test(draining_is_given_up_in_time),
		cmocka_unit_test(draining_target_is_left),
		cmocka_unit_test(an_event_is_seen_and_told),
		cmocka_unit_test(an_idle_session_keeps_alive),
		cmocka_unit_test(credits_run_out_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
