/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the library calls back for an aborted command once: with -ECANCELED if nothing of it was
 * done, with its own result if it had begun. Other commands are not affected. Method: a scripted
 * target (fake_target.h) that answers a command only when an ABORT names it; then rblkd with slow
 * storage, killed while an aborted write is in its store.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include "proto/wire/wire.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/lib_fixture.h"
#include "tests/e2e/session.h"

/* -- a target that waits for an ABORT ---------------------------------------------------------- */

/* The status that it then gives the command, and how many commands it holds. */
static u16 end_status;
static _Atomic unsigned int held_count;
static struct rblk_wire_completion held[32];

/* The answer to the command, then the answer to its ABORT. */
static enum fake_answer answer_abort(struct fake_target *fake,
				     const struct rblk_wire_command *command,
				     const struct rblk_wire_completion *completion)
{
	struct fake_script *script = fake_target_script(fake);
	struct rblk_wire_completion answers[2] = {{0}};

	for (unsigned int i = 0; i < held_count; i++)
		if (rblk_le32(held[i].sequence) == rblk_le64(command->lba))
			answers[0] = held[i];
	answers[0].status = rblk_to_le16(end_status);
	answers[1] = *completion;
	answers[1].result = rblk_to_le64(end_status == RBLK_E_ABORTED);
	memcpy(script->raw, answers, sizeof(answers));
	script->raw_bytes = sizeof(answers);
	return FAKE_REPLY_RAW;
}

/* Holds READs, except those of the first block, and other commands that a test aborts. */
static enum fake_answer hold(struct fake_target *fake, const struct rblk_wire_command *command,
			     struct rblk_wire_completion *completion)
{
	switch (command->opcode) {
	case RBLK_OP_ABORT:
		return answer_abort(fake, command, completion);
	case RBLK_OP_READ:
		if (!rblk_le64(command->lba))
			return FAKE_REPLY;
		break;
	case RBLK_OP_FLUSH:
	case RBLK_OP_EXTENTS:
	case RBLK_OP_COMPARE_AND_WRITE:
		break;
	default:
		return FAKE_REPLY;
	}
	held[held_count] = *completion;
	held_count++;
	return FAKE_SILENT;
}

static void report_abilities(struct rblk_wire_volume *volume)
{
	volume->flags |= rblk_to_le32(RBLK_VOLUME_COMPARE_AND_WRITE);
}

static void open_held(struct fixture *f, u16 status)
{
	end_status = status;
	held_count = 0;
	f->script.command = hold;
	f->script.volume = report_abilities;
	lib_open(f);
}

/* Waits until the target holds `count` commands. */
static void wait_held(struct fixture *f, unsigned int count)
{
	rblk_submit(f->session);
	while (held_count < count)
		assert_true(rblk_wait(f->session, 10) >= 0);
}

static void wait_called(struct fixture *f, const struct outcome *outcome)
{
	while (!outcome->calls)
		assert_true(rblk_wait(f->session, 10) >= 0);
	assert_int_equal(outcome->calls, 1);
}

static void expect(const struct outcome *outcome, int error, u16 status)
{
	assert_int_equal(outcome->calls, 1);
	assert_int_equal(outcome->last.error, error);
	assert_int_equal(outcome->last.status, status);
}

/* -- one command ------------------------------------------------------------------------------- */

static void what_was_not_sent_is_not_sent(void **state)
{
	struct fixture f = {0};

	open_held(&f, RBLK_E_ABORTED);
	for (int i = 0; i < COMMANDS; i++)
		assert_int_equal(rblk_read(f.volume, f.data + i * BYTES, 512, 0, 0, lib_done,
					   &f.outcomes[i]),
				 0);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[1]), 0);
	assert_int_equal(f.outcomes[1].calls, 0); /* never from within rblk_abort() */
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[1]), 0);
	for (int i = 0; i < COMMANDS; i++)
		wait_called(&f, &f.outcomes[i]);
	expect(&f.outcomes[1], -ECANCELED, RBLK_E_ABORTED);
	expect(&f.outcomes[0], 0, RBLK_OK);
	expect(&f.outcomes[2], 0, RBLK_OK);
	expect(&f.outcomes[3], 0, RBLK_OK);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_READ), COMMANDS - 1);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_ABORT), 0);
	/* It was called back, so there is nothing to abort. */
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[1]), -ENOENT);
	assert_int_equal(rblk_abort(f.volume, NULL, NULL), -EINVAL);
	lib_close(&f);
}

static void what_has_not_begun_is_dropped(void **state)
{
	struct fixture f = {0};

	open_held(&f, RBLK_E_ABORTED);
	assert_int_equal(rblk_read(f.volume, f.data, 512, 512, 0, lib_done, &f.outcomes[0]), 0);
	assert_int_equal(rblk_read(f.volume, f.data + BYTES, 512, 512, 0, lib_done, &f.outcomes[1]),
			 0);
	wait_held(&f, 2);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), 0);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), 0);
	wait_called(&f, &f.outcomes[0]);
	expect(&f.outcomes[0], -ECANCELED, RBLK_E_ABORTED);
	/* One ABORT was sent; the other command is still outstanding. */
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_ABORT), 1);
	assert_int_equal(f.outcomes[1].calls, 0);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[1]), 0);
	wait_called(&f, &f.outcomes[1]);
	assert_int_equal(rblk_session_state(f.session), RBLK_SESSION_READY);
	lib_close(&f);
}

static void what_has_begun_has_its_own_result(void **state)
{
	struct fixture f = {0};

	open_held(&f, RBLK_OK);
	assert_int_equal(rblk_flush(f.volume, lib_done, &f.outcomes[0]), 0);
	wait_held(&f, 1);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), 0);
	wait_called(&f, &f.outcomes[0]);
	expect(&f.outcomes[0], 0, RBLK_OK);
	end_status = RBLK_E_IO;
	assert_int_equal(rblk_flush(f.volume, lib_done, &f.outcomes[1]), 0);
	wait_held(&f, 2);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[1]), 0);
	wait_called(&f, &f.outcomes[1]);
	expect(&f.outcomes[1], -EIO, RBLK_E_IO);
	lib_close(&f);
}

/* BUSY means "send it again", but this command was aborted. */
static void busy_is_not_sent_again(void **state)
{
	struct fixture f = {0};

	open_held(&f, RBLK_E_BUSY);
	assert_int_equal(rblk_read(f.volume, f.data, 512, 512, 0, lib_done, &f.outcomes[0]), 0);
	wait_held(&f, 1);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), 0);
	wait_called(&f, &f.outcomes[0]);
	expect(&f.outcomes[0], -ECANCELED, RBLK_E_ABORTED);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_READ), 1);
	lib_close(&f);
}

static enum fake_answer always_busy(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	(void)fake;
	if (command->opcode == RBLK_OP_WRITE)
		completion->status = rblk_to_le16(RBLK_E_BUSY);
	return FAKE_REPLY;
}

/* A write that the target has refused as BUSY some times is aborted. */
static void abort_busy(struct fixture *f)
{
	struct rblk_stats stats = {.busy_retries = 0};

	assert_int_equal(rblk_write(f->volume, f->data, 512, 0, 0, lib_done, &f->outcomes[0]), 0);
	while (stats.busy_retries < 3) {
		assert_true(rblk_wait(f->session, 10) >= 0);
		rblk_session_stats(f->session, &stats, sizeof(stats));
	}
	assert_int_equal(rblk_abort(f->volume, lib_done, &f->outcomes[0]), 0);
	wait_called(f, &f->outcomes[0]);
}

/* The command waits in the library, to be sent again; its data was in the capsule. */
static void what_was_busy_ends_at_once(void **state)
{
	struct fixture f = {.script.command = always_busy};

	lib_open(&f);
	abort_busy(&f);
	expect(&f.outcomes[0], -ECANCELED, RBLK_E_ABORTED);
	lib_close(&f);
}

static enum fake_answer lost_then_busy(struct fake_target *fake,
				       const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	(void)fake;
	if (command->opcode != RBLK_OP_WRITE)
		return FAKE_REPLY;
	if (!(command->flags & RBLK_CMD_RETRY))
		return FAKE_CLOSE;
	completion->status = rblk_to_le16(RBLK_E_BUSY);
	return FAKE_REPLY;
}

/* It waits in the library like that, but what was done of it on a lost connection nobody knows. */
static void what_was_lost_before_is_unknown(void **state)
{
	struct fixture f = {.script.command = lost_then_busy, .options = fake_target_options()};

	f.options.no_reconnect = false;
	lib_open(&f);
	abort_busy(&f);
	expect(&f.outcomes[0], -ECANCELED, RBLK_OK);
	lib_close(&f);
}

/* -- vectors, and commands that the library sends by itself ----------------------------------- */

#define PIECES 12
#define CREDITS 8 /* the scripted target's */

static void a_vector_is_stopped(void **state)
{
	struct fixture f = {0};
	struct iovec iov[PIECES];

	open_held(&f, RBLK_OK);
	/* The pieces are not adjacent: each is a command. */
	for (int i = 0; i < PIECES; i++)
		iov[i] = (struct iovec){f.data + (size_t)i * 1024, 512};
	assert_int_equal(rblk_readv(f.volume, iov, PIECES, 512, 0, lib_done, &f.outcomes[0]), 0);
	wait_held(&f, CREDITS);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), 0);
	wait_called(&f, &f.outcomes[0]);
	/* All commands that had begun were done; the others did not begin. */
	assert_int_equal(f.outcomes[0].last.error, -ECANCELED);
	assert_int_equal(f.outcomes[0].last.status, RBLK_OK);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_READ), CREDITS);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_ABORT), CREDITS);
	lib_close(&f);
}

static void what_the_library_wraps_is_found(void **state)
{
	struct rblk_extent extents[4];
	struct fixture f = {0};

	open_held(&f, RBLK_E_ABORTED);
	assert_int_equal(rblk_extents(f.volume, 4096, 0, extents, 4, lib_done, &f.outcomes[0]), 0);
	assert_int_equal(
		rblk_compare_and_write(f.volume, f.data, 512, 0, 0, lib_done, &f.outcomes[1]), 0);
	wait_held(&f, 2);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[1]), 0);
	wait_called(&f, &f.outcomes[1]);
	expect(&f.outcomes[1], -ECANCELED, RBLK_E_ABORTED);
	assert_int_equal(f.outcomes[0].calls, 0);
	assert_int_equal(rblk_abort(f.volume, lib_done, &f.outcomes[0]), 0);
	wait_called(&f, &f.outcomes[0]);
	expect(&f.outcomes[0], -ECANCELED, RBLK_E_ABORTED);
	lib_close(&f);
}

/* -- a target that is killed
 * ------------------------------------------------------------------------ */

static void lost_commands_are_not_sent_again(void **state)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct outcome outcomes[COMMANDS] = {{0}};
	struct rblk_session *session;
	struct rblk_volume *volume;
	struct e2e_daemon daemon;
	struct rblk_stats stats;
	uint8_t *data;

	e2e_daemon_start(&daemon, "--memory", "disk=16M", "--fault", "delay=write:60s", NULL);
	session = e2e_session_open(e2e_daemon_uri(&daemon, "disk"), &options);
	volume = rblk_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, COMMANDS * BYTES);
	memset(data, 0xa5, COMMANDS * BYTES);
	/* Three are in the store. One is aborted there, one after its connection is lost. */
	for (u64 i = 0; i < 3; i++)
		assert_int_equal(rblk_write(volume, data + i * BYTES, BYTES, i * BYTES, 0, lib_done,
					    &outcomes[i]),
				 0);
	rblk_submit(session);
	assert_int_equal(rblk_abort(volume, lib_done, &outcomes[0]), 0);
	rblk_submit(session);
	e2e_daemon_kill(&daemon);
	while (rblk_session_state(session) != RBLK_SESSION_RECOVERING)
		assert_true(rblk_wait(session, 10) >= 0);
	assert_int_equal(rblk_abort(volume, lib_done, &outcomes[1]), 0);
	/* A fourth waits for a connection; when aborted, it ends without one. */
	assert_int_equal(rblk_write(volume, data, BYTES, 3 * BYTES, 0, lib_done, &outcomes[3]), 0);
	assert_int_equal(rblk_abort(volume, lib_done, &outcomes[3]), 0);
	while (!outcomes[3].calls)
		assert_true(rblk_wait(session, 10) >= 0);
	expect(&outcomes[3], -ECANCELED, RBLK_E_ABORTED);
	assert_int_equal(outcomes[0].calls + outcomes[1].calls + outcomes[2].calls, 0);

	e2e_daemon_start_again(&daemon, "--memory", "disk=16M", NULL);
	while (outcomes[0].calls + outcomes[1].calls + outcomes[2].calls < 3)
		assert_true(rblk_wait(session, 10) >= 0);
	expect(&outcomes[0], -ECANCELED, RBLK_OK);
	expect(&outcomes[1], -ECANCELED, RBLK_OK);
	expect(&outcomes[2], 0, RBLK_OK);
	rblk_session_stats(session, &stats, sizeof(stats));
	assert_int_equal(stats.retries, 1);
	for (u64 i = 0; i < COMMANDS; i++) {
		assert_int_equal(rblk_pread(volume, data, BYTES, i * BYTES), 0);
		assert_int_equal(data[0], i == 2 ? 0xa5 : 0);
	}
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_not_sent_is_not_sent),
		cmocka_unit_test(what_has_not_begun_is_dropped),
		cmocka_unit_test(what_has_begun_has_its_own_result),
		cmocka_unit_test(busy_is_not_sent_again),
		cmocka_unit_test(what_was_busy_ends_at_once),
		cmocka_unit_test(what_was_lost_before_is_unknown),
		cmocka_unit_test(a_vector_is_stopped),
		cmocka_unit_test(what_the_library_wraps_is_found),
		cmocka_unit_test(lost_commands_are_not_sent_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
