/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a volume that a target cannot serve after its restart keeps nobody else waiting. Its own commands wait, in places
 * of their own, until it is served, or is given up; it can be closed meanwhile, and no other volume's handle is taken for
 * its old one. Nor does a target that is slow to answer OPENs. Method: a scripted target (fake_target.h) that forgets the
 * session, and answers BUSY to the OPENs of one of two volumes from then on, or holds some.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include "tests/e2e/lib_fixture.h"

#define CREDITS 8	/* the fake target's */
#define SILENT_BLOCKS 3 /* READs of so many are not answered */

static atomic_bool served; /* the late volume */
static bool forgot;
static atomic_uint busy_opens;

/* The volumes are opened again in turn, the newest first: that one is late. */
static enum fake_answer answer(struct fake_target *fake, const struct rblk_wire_command *command,
			       struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_FLUSH && !forgot) {
		forgot = true;
		fake_target_forget(fake);
		return FAKE_CLOSE;
	}
	if (command->opcode == RBLK_OP_READ && rblk_le32(command->blocks) == SILENT_BLOCKS)
		return FAKE_SILENT;
	if (command->opcode == RBLK_OP_OPEN && forgot && !served && fake_target_seen(fake, RBLK_OP_OPEN) != 4) {
		completion->status = rblk_to_le16(RBLK_E_BUSY);
		busy_opens++;
	}
	return FAKE_REPLY;
}

/* The session has come back, and f->volume is in use; the other one is late. */
static struct rblk_volume *begin(struct fixture *f, u32 give_up_ms)
{
	struct rblk_volume *late;

	served = forgot = false;
	busy_opens = 0;
	f->script.command = answer;
	f->options = fake_target_options();
	f->options.no_reconnect = false;
	f->options.give_up_ms = give_up_ms;
	f->options.credits = CREDITS;
	lib_open(f);
	late = rblk_volume_open(f->session, NULL, 0);
	assert_non_null(late);
	/* It is answered on the second connection. */
	assert_int_equal(rblk_fsync(f->volume), 0);
	assert_true(forgot && busy_opens > 0);
	return late;
}

static void on_volume(void *arg, struct rblk_volume *volume, int error)
{
	(void)volume;
	assert_int_equal(error, 0);
	++*(unsigned int *)arg;
}

static void others_go_on(void **state)
{
	struct fixture f = {.volume = NULL};
	struct outcome many[CREDITS] = {0};
	struct rblk_volume *late = begin(&f, 0);
	unsigned int before = busy_opens;

	(void)state;
	for (unsigned int i = 0; i < CREDITS; i++)
		assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &many[i]), 0);
	assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &f.outcomes[0]), -EAGAIN);
	/* The others have all their credits, for as long as it takes: it is asked for again and again. */
	while (busy_opens < before + 3) {
		assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
		lib_start_io(&f, true);
		while (!f.outcomes[0].calls || !f.outcomes[1].calls || !f.outcomes[2].calls || !f.outcomes[3].calls)
			assert_true(rblk_wait(f.session, -1) >= 0);
		for (unsigned int i = 0; i < COMMANDS; i++) {
			assert_int_equal(f.outcomes[i].last.error, 0);
			f.outcomes[i].calls = 0;
		}
	}
	for (unsigned int i = 0; i < CREDITS; i++)
		assert_int_equal(many[i].calls, 0);
	served = true;
	for (unsigned int i = 0; i < CREDITS; i++) {
		while (!many[i].calls)
			assert_true(rblk_wait(f.session, -1) >= 0);
		assert_int_equal(many[i].last.error, 0);
	}
	assert_int_equal(rblk_pread(late, f.data, 512, 0), 0);
	lib_close(&f);
}

/*
 * When it is served, more commands are under way than may be begun: a call that has begun goes on all the same, with
 * the place of what it has done.
 */
static void what_has_begun_goes_on(void **state)
{
	struct fixture f = {.volume = NULL};
	struct outcome silent = {0}, writes = {0}, aborted = {0}, vector = {0};
	struct rblk_volume *late = begin(&f, 0);
	const struct iovec iov[2] = {{f.data, 512}, {f.data + 1024, 512}};

	(void)state;
	for (unsigned int i = 0; i < CREDITS - 1; i++)
		assert_int_equal(rblk_read(f.volume, f.data, SILENT_BLOCKS * 512, 0, 0, lib_done, &silent), 0);
	for (unsigned int i = 0; i < CREDITS - 2; i++)
		assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &writes), 0);
	assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &aborted), 0);
	/* There is a place for its first piece. */
	assert_int_equal(rblk_readv(late, iov, 2, 0, 0, lib_done, &vector), 0);
	assert_int_equal(rblk_abort(late, lib_done, &aborted), 0);
	while (!aborted.calls)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &writes), 0);
	served = true;
	while (!vector.calls || writes.calls < CREDITS - 1)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(vector.last.error, 0);
	assert_int_equal(silent.calls, 0);
	lib_close(&f);
}

/* Its commands can be aborted, without a word to the target, which has nothing of it; and it can be closed. */
static void it_can_be_closed(void **state)
{
	struct fixture f = {.volume = NULL};
	struct rblk_volume *late = begin(&f, 0);
	struct outcome outcome = {0};

	(void)state;
	assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &outcome), 0);
	assert_int_equal(rblk_abort(late, lib_done, &outcome), 0);
	while (!outcome.calls)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(outcome.last.error, -ECANCELED);
	assert_int_equal(rblk_volume_close(late), 0);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_CLOSE), 1);
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	lib_close(&f);
}

static unsigned int removed;

static void on_event(void *arg, struct rblk_session *session, const struct rblk_session_event *event)
{
	(void)session;
	if (event->type == RBLK_SESSION_EVENT_VOLUME_REMOVED) {
		assert_ptr_equal(event->volume, arg);
		removed++;
	}
}

static void it_is_given_up(void **state)
{
	struct fixture f = {.volume = NULL};
	struct rblk_volume *late = begin(&f, 3000);
	struct outcome outcome = {0};

	(void)state;
	removed = 0;
	rblk_session_on_event(f.session, on_event, late);
	assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &outcome), 0);
	while (!outcome.calls || !removed)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(outcome.last.error, -ENODEV);
	assert_int_equal(rblk_write(late, f.data, 512, 0, 0, lib_done, &outcome), -ENODEV);
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	assert_int_equal(rblk_volume_close(late), 0);
	assert_int_equal(fake_target_seen(f.fake, RBLK_OP_CLOSE), 1);
	assert_int_equal(removed, 1);
	lib_close(&f);
}

/* -- OPENs that are not answered at once ------------------------------------------------------- */

#define LATE 4

static atomic_uint opens;

static void begin_opens(struct fixture *f, unsigned int late)
{
	forgot = false;
	opens = 0;
	f->options = fake_target_options();
	f->options.no_reconnect = false;
	f->options.command_timeout_ms = 5000;
	lib_open(f);
	while (late--)
		assert_non_null(rblk_volume_open(f->session, NULL, 0));
}

static void keepalive_soon(struct rblk_wire_accept *accept)
{
	accept->keepalive_ms = rblk_to_le32(1000);
}

/* The late ones are refused at first in the new epoch, and their next OPENs are held. */
static enum fake_answer answer_none_then(struct fake_target *fake, const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	if (command->opcode != RBLK_OP_OPEN)
		return answer(fake, command, completion);
	opens++;
	if (opens <= LATE + 1 || opens == 2 * (LATE + 1))
		return FAKE_REPLY;
	completion->status = rblk_to_le16(RBLK_E_BUSY);
	return opens < 2 * (LATE + 1) ? FAKE_REPLY : FAKE_SILENT;
}

static void the_connection_stays_alive(void **state)
{
	struct fixture f = {.script.command = answer_none_then, .script.accept = keepalive_soon};

	(void)state;
	begin_opens(&f, LATE);
	assert_int_equal(rblk_fsync(f.volume), 0);
	/* Another connection would begin with other OPENs. */
	while (fake_target_seen(f.fake, RBLK_OP_KEEPALIVE) < 3) {
		assert_true(rblk_wait(f.session, 100) >= 0);
		assert_in_range(opens, 2 * (LATE + 1), 2 * (LATE + 1) + 2);
	}
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	lib_close(&f);
}

/* The first OPEN of the new epoch is held. */
static enum fake_answer answer_one_of_two(struct fake_target *fake, const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_OPEN)
		return ++opens == 3 ? FAKE_SILENT : FAKE_REPLY;
	return answer_none_then(fake, command, completion);
}

static void others_do_not_wait_for_its_answer(void **state)
{
	struct fixture f = {.script.command = answer_one_of_two};

	(void)state;
	begin_opens(&f, 1);
	assert_int_equal(rblk_fsync(f.volume), 0);
	assert_int_equal(opens, 4);
	lib_close(&f);
}

static enum fake_answer answer_refresh(struct fake_target *fake, const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	(void)completion;
	if (command->opcode != RBLK_OP_OPEN || ++opens != 2)
		return FAKE_REPLY;
	fake_target_forget(fake);
	return FAKE_CLOSE;
}

/* A refresh that is lost with its epoch opens the volume in the next one, without a second OPEN. */
static void a_refresh_is_the_only_open(void **state)
{
	struct fixture f = {.script.command = answer_refresh};
	unsigned int refreshed = 0;

	(void)state;
	begin_opens(&f, 0);
	assert_int_equal(rblk_volume_refresh_start(f.volume, on_volume, &refreshed), 0);
	while (!refreshed)
		assert_true(rblk_wait(f.session, -1) >= 0);
	assert_int_equal(rblk_pread(f.volume, f.data, 512, 0), 0);
	assert_int_equal(opens, 3);
	lib_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_go_on),
		cmocka_unit_test(what_has_begun_goes_on),
		cmocka_unit_test(it_can_be_closed),
		cmocka_unit_test(it_is_given_up),
		cmocka_unit_test(the_connection_stays_alive),
		cmocka_unit_test(others_do_not_wait_for_its_answer),
		cmocka_unit_test(a_refresh_is_the_only_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
