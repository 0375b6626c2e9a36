/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fixture of lib_fixture.h.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include "tests/e2e/lib_fixture.h"
#include "tests/e2e/session.h"

void lib_done(void *arg, const struct rblk_result *result)
{
	struct outcome *outcome = arg;

	outcome->calls++;
	outcome->last = *result;
}

void lib_assert_words(const char *words, const char *expected)
{
	if (!strstr(words, expected))
		fail_msg("\"%s\" lacks \"%s\"", words, expected);
}

void lib_open(struct fixture *f)
{
	if (!f->options.size)
		f->options = fake_target_options();
	f->fake = fake_target_start(&f->script);
	f->session = e2e_session_open(fake_target_uri(f->fake), &f->options);
	f->volume = e2e_volume_open(f->session, NULL, 0);
	f->data = rblk_buffer_alloc(f->session, COMMANDS * BYTES);
	assert_non_null(f->data);
}

void lib_close(struct fixture *f)
{
	rblk_session_close(f->session);
	fake_target_stop(f->fake);
	for (int i = 0; i < COMMANDS; i++)
		assert_true(f->outcomes[i].calls <= 1);
}

void lib_start_io(struct fixture *f, bool writes)
{
	for (int i = 0; i < COMMANDS; i++) {
		void *data = f->data + i * BYTES;
		u32 bytes = i % 2 ? BYTES : 512;

		if (writes)
			assert_int_equal(
				rblk_write(f->volume, data, bytes, 0, 0, lib_done, &f->outcomes[i]),
				0);
		else
			assert_int_equal(
				rblk_read(f->volume, data, bytes, 0, 0, lib_done, &f->outcomes[i]),
				0);
		/* The queues take turns, from one submission to the next. */
		if (f->options.queues > 1)
			assert_int_equal(rblk_submit(f->session), 0);
	}
}

/* Until every command was called back once; the last with `error`, and the session with `words`. */
void lib_expect_failure(struct fixture *f, int error, const char *words)
{
	int count = 0, polled;

	while ((polled = rblk_wait(f->session, 20000)) > 0)
		count += polled;
	assert_int_equal(polled, error);
	assert_int_equal(count, COMMANDS);
	for (int i = 0; i < COMMANDS; i++)
		assert_int_equal(f->outcomes[i].calls, 1);
	assert_int_equal(rblk_session_state(f->session), RBLK_SESSION_FAILED);
	lib_assert_words(rblk_session_error(f->session), words);
	assert_int_equal(f->outcomes[COMMANDS - 1].last.error, error);
	/* From now on calls fail at once. */
	assert_int_equal(rblk_read(f->volume, f->data, 512, 0, 0, lib_done, &f->outcomes[0]),
			 -ENOTCONN);
	assert_int_equal(rblk_submit(f->session), -ENOTCONN);
	assert_int_equal(rblk_poll(f->session, 0), error);
	assert_int_equal(f->outcomes[0].calls, 1);
}

bool lib_is_io(const struct rblk_wire_command *command)
{
	return command->opcode == RBLK_OP_READ || command->opcode == RBLK_OP_WRITE;
}
