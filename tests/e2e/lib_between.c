/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a call that takes several session commands survives the loss of the connection between two
 * of them: the session comes back, so it is no error. Method: a scripted target (fake_target.h)
 * that answers the first command and ends; the library sees both in one turn.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include "tests/e2e/fake_target.h"
#include "tests/e2e/session.h"

#define CALLED_NOT INT32_MAX

/* The first of two parts. */
static enum fake_answer answer(struct fake_target *fake, const struct rblk_wire_command *command,
			       struct rblk_wire_completion *completion)
{
	const struct rblk_wire_volume volume = {
		.name = "disk",
		.uuid = {1},
		.blocks = rblk_to_le64(FAKE_VOLUME_BLOCKS),
		.block_bytes = rblk_to_le32(512),
		.physical_bytes = rblk_to_le32(512),
		.max_io_bytes = rblk_to_le32(1 << 20),
	};

	if (command->opcode == RBLK_OP_LIST) {
		fake_target_report(fake, command, &volume, sizeof(volume));
		completion->result = rblk_to_le64(2ull << 32 | 1);
	}
	return FAKE_REPLY;
}

struct program {
	struct fake_script script;
	struct fake_target *fake;
	struct rblk_session *session;
	struct rblk_volume *volume;
	int result;
};

static void begin(struct program *p)
{
	struct rblk_options options = fake_target_options();

	*p = (struct program){.script.command = answer, .result = CALLED_NOT};
	p->fake = fake_target_start(&p->script);
	options.no_reconnect = false;
	p->session = e2e_session_open(fake_target_uri(p->fake), &options);
	p->volume = e2e_volume_open(p->session, "disk", 0);
}

/* What was started is sent and answered; the target ends. Then the program polls. */
static void answer_and_end(struct program *p, u8 opcode)
{
	unsigned int before = fake_target_seen(p->fake, opcode);

	assert_int_equal(rblk_poll(p->session, 0), 0);
	while (rblk_arm(p->session))
		rblk_poll(p->session, 0);
	while (fake_target_seen(p->fake, opcode) == before)
		sched_yield();
	fake_target_stop(p->fake);
	while (rblk_session_state(p->session) == RBLK_SESSION_READY)
		assert_true(rblk_wait(p->session, 1000) >= 0);
}

static void end(struct program *p)
{
	rblk_session_stop(p->session);
	while (rblk_wait(p->session, -1) >= 0)
		;
	rblk_session_close(p->session);
}

static void list_done(void *arg, struct rblk_volume_info *list, int count)
{
	struct program *p = arg;

	p->result = count;
	free(list);
}

static void a_list_goes_on_in_the_next_connection(void **state)
{
	struct program p;

	(void)state;
	begin(&p);
	assert_int_equal(rblk_list_start(p.session, sizeof(struct rblk_volume_info), list_done, &p),
			 0);
	answer_and_end(&p, RBLK_OP_LIST);
	assert_int_equal(p.result, CALLED_NOT);
	end(&p);
	assert_int_equal(p.result, -ECANCELED);
}

static void volume_done(void *arg, struct rblk_volume *volume, int error)
{
	struct program *p = arg;

	(void)volume;
	p->result = error;
}

static void a_volume_is_refreshed_by_the_first_answer(void **state)
{
	struct program p;

	(void)state;
	begin(&p);
	assert_int_equal(rblk_volume_refresh_start(p.volume, volume_done, &p), 0);
	answer_and_end(&p, RBLK_OP_OPEN);
	assert_int_equal(p.result, 0);
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_goes_on_in_the_next_connection),
		cmocka_unit_test(a_volume_is_refreshed_by_the_first_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
