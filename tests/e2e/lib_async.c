/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the calls that open, close, refresh and list without blocking call back once, from
 * rblk_poll(), whatever the target does; and the program hears of every event of a session once, in
 * order. Method: a scripted target (fake_target.h), and a program that never calls anything that
 * blocks.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "proto/wire/wire.h"
#include "tests/e2e/lib_fixture.h"

/* -- a program and its callbacks
 * ------------------------------------------------------------------- */

#define EVENTS_MAX 16

struct program {
	struct fake_script script;
	struct fake_target *fake;
	struct rblk_session *session;
	struct rblk_session_event events[EVENTS_MAX];
	unsigned int event_count;

	/* The result of the last session command. */
	int calls, error;
	struct rblk_volume *volume;
	struct rblk_volume_info *list;
};

static void event_done(void *arg, struct rblk_session *session,
		       const struct rblk_session_event *event)
{
	struct program *p = arg;

	assert_ptr_equal(session, p->session);
	assert_true(p->event_count < EVENTS_MAX);
	p->events[p->event_count++] = *event;
}

static void volume_done(void *arg, struct rblk_volume *volume, int error)
{
	struct program *p = arg;

	p->calls++;
	p->volume = volume;
	p->error = error;
}

static void list_done(void *arg, struct rblk_volume_info *list, int count)
{
	struct program *p = arg;

	p->calls++;
	p->list = list;
	p->error = count;
}

/* Waits for a callback. Returns a negative count if the session is over. */
static int wait_call(struct program *p)
{
	int before = p->calls, count = 1;

	while (p->calls == before && count > 0)
		count = rblk_wait(p->session, 20000);
	return count;
}

static void wait_event(struct program *p, enum rblk_session_event_type type)
{
	unsigned int before = p->event_count;
	int count = 1;

	while (p->event_count == before && count > 0)
		count = rblk_wait(p->session, 20000);
	assert_int_equal(p->event_count, before + 1);
	assert_int_equal(p->events[before].type, type);
}

static void begin(struct program *p)
{
	struct rblk_options options = fake_target_options();
	char text[RBLK_ERROR_BYTES] = "";

	p->fake = fake_target_start(&p->script);
	p->session = rblk_session_start(fake_target_uri(p->fake), &options, text);
	if (!p->session)
		fail_msg("%s", text);
	rblk_session_on_event(p->session, event_done, p);
	wait_event(p, RBLK_SESSION_EVENT_READY);
	assert_int_equal(rblk_session_state(p->session), RBLK_SESSION_READY);
}

static void begin_open(struct program *p)
{
	begin(p);
	assert_int_equal(rblk_volume_open_start(p->session, NULL, 0, volume_done, p), 0);
	assert_int_equal(p->calls, 0);
	assert_int_equal(wait_call(p), 1);
	assert_int_equal(p->error, 0);
	assert_non_null(p->volume);
}

static void end(struct program *p)
{
	unsigned int events = p->event_count;

	rblk_session_close(p->session);
	fake_target_stop(p->fake);
	assert_int_equal(p->event_count, events); /* no event for closing: the program did it */
}

/* -- volumes ----------------------------------------------------------------------------------- */

static u64 blocks;

static void report_script(struct rblk_wire_volume *volume)
{
	volume->blocks = rblk_to_le64(blocks);
}

static void a_volume_lives_without_blocking(void **state)
{
	struct program p = { .script.volume = report_script };
	struct rblk_volume *volume;

	blocks = 100;
	begin_open(&p);
	volume = p.volume;
	assert_int_equal(rblk_volume_info(volume)->bytes, 51200);
	/* Opened again, by the same handle. */
	blocks = 200;
	assert_int_equal(rblk_volume_refresh_start(volume, volume_done, &p), 0);
	assert_int_equal(rblk_volume_refresh_start(volume, volume_done, &p), -EBUSY);
	assert_int_equal(rblk_volume_close_start(volume, volume_done, &p), -EBUSY);
	assert_int_equal(wait_call(&p), 1);
	assert_int_equal(p.error, 0);
	assert_ptr_equal(p.volume, volume);
	assert_int_equal(rblk_volume_info(volume)->bytes, 102400);
	assert_int_equal(fake_target_seen(p.fake, RBLK_OP_CLOSE), 0);
	assert_int_equal(rblk_volume_close_start(volume, volume_done, &p), 0);
	assert_int_equal(wait_call(&p), 1);
	assert_int_equal(p.error, 0);
	assert_null(p.volume);
	assert_int_equal(fake_target_seen(p.fake, RBLK_OP_CLOSE), 1);
	assert_int_equal(p.calls, 3);
	end(&p);
}

static enum fake_answer refuse_open(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_OPEN)
		completion->status = rblk_to_le16(RBLK_E_DENIED);
	return FAKE_REPLY;
}

static void refusals_are_called_back(void **state)
{
	struct program p = { .script.command = refuse_open };

	begin(&p);
	assert_int_equal(rblk_volume_open_start(p.session, NULL, 0, volume_done, &p), 0);
	assert_int_equal(wait_call(&p), 1);
	assert_int_equal(p.error, -EACCES);
	assert_null(p.volume);
	lib_assert_words(rblk_session_error(p.session), "not allowed");
	/* These fail at once, without a callback. */
	assert_int_equal(rblk_volume_open_start(p.session, "a/b", 0, volume_done, &p), -EINVAL);
	lib_assert_words(rblk_session_error(p.session), "not a volume's name");
	assert_int_equal(rblk_volume_open_start(p.session, NULL, 0, NULL, &p), -EINVAL);
	assert_int_equal(rblk_list_start(p.session, sizeof(size_t), list_done, &p), -EINVAL);
	assert_int_equal(p.calls, 1);
	end(&p);
}

static enum fake_answer silent_open(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	return command->opcode == RBLK_OP_OPEN ? FAKE_SILENT : FAKE_REPLY;
}

static void what_is_outstanding_at_the_end_is_called_back(void **state)
{
	struct program p = { .script.command = silent_open };
	uint64_t cpu_ns;

	begin(&p);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rblk_volume_open_start(p.session, NULL, 0, volume_done, &p), 0);
	/* One reserved tag stays free, so that a session whose OPENs wait long can still send a
	 * keep-alive. */
	assert_int_equal(rblk_volume_open_start(p.session, NULL, 0, volume_done, &p), -EAGAIN);
	assert_int_equal(rblk_list_start(p.session, sizeof(*p.list), list_done, &p), -EAGAIN);
	assert_int_equal(rblk_ping(p.session, &cpu_ns), 0);
	assert_int_equal(p.calls, 0);
	rblk_session_stop(p.session);
	while (rblk_wait(p.session, 20000) > 0)
		;
	assert_int_equal(p.calls, 3);
	assert_int_equal(p.error, -ECANCELED);
	assert_null(p.volume);
	assert_int_equal(p.event_count, 2);
	assert_int_equal(p.events[1].type, RBLK_SESSION_EVENT_FAILED);
	assert_int_equal(p.events[1].error, -ECANCELED);
	assert_int_equal(rblk_volume_open_start(p.session, NULL, 0, volume_done, &p), -ENOTCONN);
	assert_int_equal(rblk_poll(p.session, 0), -ECANCELED);
	end(&p);
}

static void closing_calls_back_as_well(void **state)
{
	struct program p = { .script.command = silent_open };

	begin(&p);
	assert_int_equal(rblk_volume_open_start(p.session, NULL, 0, volume_done, &p), 0);
	rblk_submit(p.session);
	end(&p);
	assert_int_equal(p.calls, 1);
	assert_int_equal(p.error, -ECANCELED);
}

/* -- lists ------------------------------------------------------------------------------------- */

static enum fake_answer answer_list(struct fake_target *fake,
				    const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	struct rblk_wire_volume volume = {
		.name = "a",
		.blocks = rblk_to_le64(8),
		.block_bytes = rblk_to_le32(512),
		.physical_bytes = rblk_to_le32(512),
		.max_io_bytes = rblk_to_le32(4096),
	};

	if (command->opcode != RBLK_OP_LIST)
		return FAKE_REPLY;
	/* Three volumes, one in each answer. */
	volume.name[0] = (char)('a' + rblk_le64(command->lba));
	fake_target_report(fake, command, &volume, sizeof(volume));
	completion->result = rblk_to_le64(3ull << 32 | 1);
	return FAKE_REPLY;
}

static void a_list_comes_in_parts(void **state)
{
	struct program p = { .script.command = answer_list };

	begin(&p);
	assert_int_equal(rblk_list_start(p.session, sizeof(*p.list), list_done, &p), 0);
	assert_int_equal(wait_call(&p), 1);
	assert_int_equal(p.error, 3);
	assert_string_equal(p.list[0].name, "a");
	assert_string_equal(p.list[1].name, "b");
	assert_string_equal(p.list[2].name, "c");
	assert_int_equal(fake_target_seen(p.fake, RBLK_OP_LIST), 3);
	free(p.list);
	end(&p);
}

/* -- events ------------------------------------------------------------------------------------ */

/* The target sends it after its answer to a FLUSH, with the numbers that the protocol asks for. */
static struct {
	u16 event;
	u32 number, handle;
} next_event;

static enum fake_answer event_at_flush(struct fake_target *fake,
				       const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_FLUSH && next_event.event)
		fake_target_send_event(fake, next_event.event, next_event.number,
				       next_event.handle);
	return FAKE_REPLY;
}

static void provoke(struct program *p, struct rblk_volume *volume, u16 event, u32 at)
{
	struct outcome outcome = { 0 };

	next_event.event = event;
	next_event.number++;
	next_event.handle = at;
	assert_int_equal(rblk_flush(volume, lib_done, &outcome), 0);
	while (!outcome.calls)
		assert_true(rblk_wait(p->session, 20000) > 0);
	assert_int_equal(outcome.last.error, 0);
	next_event.event = 0;
}

/* The event came with the answer or comes soon; the keep-alive that names it makes room for the next. */
static void expect_event(struct program *p, unsigned int index, enum rblk_session_event_type type,
			 const struct rblk_volume *volume)
{
	unsigned int keepalives = fake_target_seen(p->fake, RBLK_OP_KEEPALIVE);

	while (p->event_count <= index)
		assert_true(rblk_wait(p->session, 20000) > 0);
	assert_int_equal(p->event_count, index + 1);
	assert_int_equal(p->events[index].type, type);
	assert_ptr_equal(p->events[index].volume, volume);
	while (fake_target_seen(p->fake, RBLK_OP_KEEPALIVE) == keepalives &&
	       fake_target_seen(p->fake, RBLK_OP_KEEPALIVE) < next_event.number)
		rblk_wait(p->session, 1);
}

static void events_are_told(void **state)
{
	struct program p = { .script.command = event_at_flush };
	struct rblk_volume *volume;

	next_event.number = 0;
	begin_open(&p);
	volume = p.volume;
	provoke(&p, volume, RBLK_EVENT_VOLUME_CHANGED, FAKE_HANDLE);
	expect_event(&p, 1, RBLK_SESSION_EVENT_VOLUME_CHANGED, volume);
	assert_true(rblk_volume_info(volume)->changed);
	provoke(&p, volume, RBLK_EVENT_LIST_CHANGED, 0);
	expect_event(&p, 2, RBLK_SESSION_EVENT_LIST_CHANGED, NULL);
	provoke(&p, volume, RBLK_EVENT_VOLUME_REMOVED, FAKE_HANDLE);
	expect_event(&p, 3, RBLK_SESSION_EVENT_VOLUME_REMOVED, volume);
	provoke(&p, volume, RBLK_EVENT_DRAINING, 0);
	expect_event(&p, 4, RBLK_SESSION_EVENT_DRAINING, NULL);
	/* The volume of another program. */
	provoke(&p, volume, RBLK_EVENT_VOLUME_CHANGED, FAKE_HANDLE + 1);
	while (fake_target_seen(p.fake, RBLK_OP_KEEPALIVE) < 5)
		rblk_wait(p.session, 1);
	assert_int_equal(p.event_count, 5);
	end(&p);
}

/* One message: the event of a handle, before or after the answer to its OPEN. */
static bool event_first;

static enum fake_answer event_with_open(struct fake_target *fake,
					const struct rblk_wire_command *command,
					struct rblk_wire_completion *completion)
{
	struct fake_script *script = fake_target_script(fake);
	struct rblk_wire_completion message[2];
	struct rblk_wire_volume report = {
		.name = "disk",
		.handle = command->volume,
		.blocks = rblk_to_le64(8),
		.block_bytes = rblk_to_le32(512),
		.physical_bytes = rblk_to_le32(512),
		.max_io_bytes = rblk_to_le32(4096),
	};

	if (command->opcode != RBLK_OP_OPEN)
		return FAKE_REPLY;
	fake_target_report(fake, command, &report, sizeof(report));
	memset(message, 0, sizeof(message));
	message[event_first] = *completion;
	message[!event_first] = (struct rblk_wire_completion){
		.tag = rblk_to_le16(RBLK_TAG_EVENT),
		.status = rblk_to_le16(RBLK_EVENT_VOLUME_REMOVED),
		.flags = RBLK_CPL_EVENT,
		.result = rblk_to_le64(1ull << 32 | rblk_le32(command->volume)),
	};
	memcpy(script->raw, message, sizeof(message));
	script->raw_bytes = sizeof(message);
	return FAKE_REPLY_RAW;
}

/* The target confirms an OPEN and removes the volume in the same turn. */
static void an_event_beside_the_answer_to_open_is_told(void **state)
{
	for (int first = 0; first < 2; first++) {
		struct program p = { .script.command = event_with_open };

		event_first = first;
		begin(&p);
		assert_int_equal(rblk_volume_open_start(p.session, NULL, 0, volume_done, &p), 0);
		assert_true(wait_call(&p) > 0);
		assert_int_equal(p.error, 0);
		while (p.event_count < 2 && !fake_target_seen(p.fake, RBLK_OP_KEEPALIVE))
			assert_true(rblk_wait(p.session, 20000) >= 0);
		assert_int_equal(p.event_count, 2);
		assert_int_equal(p.events[1].type, RBLK_SESSION_EVENT_VOLUME_REMOVED);
		assert_ptr_equal(p.events[1].volume, p.volume);
		assert_true(rblk_volume_info(p.volume)->changed);
		end(&p);
	}
}

/* Owned by the target's thread. */
static u32 last_event;

/* Each keep-alive that makes room for the next event gets one at once. */
static enum fake_answer event_without_end(struct fake_target *fake,
					  const struct rblk_wire_command *command,
					  struct rblk_wire_completion *completion)
{
	bool room = command->opcode == RBLK_OP_KEEPALIVE && last_event &&
		    rblk_le64(command->argument) == last_event;

	if (room || command->opcode == RBLK_OP_FLUSH)
		fake_target_send_event(fake, RBLK_EVENT_VOLUME_CHANGED, ++last_event, FAKE_HANDLE);
	return FAKE_REPLY;
}

#define FLOOD 100u

static struct {
	unsigned int told, depth, in_one_poll;
} flood;

/* Asks what has changed and waits for the answer; meanwhile it has changed again. */
static void refresh_at_event(void *arg, struct rblk_session *session,
			     const struct rblk_session_event *event)
{
	struct program *p = arg;
	unsigned int keepalives = fake_target_seen(p->fake, RBLK_OP_KEEPALIVE);

	assert_int_equal(event->type, RBLK_SESSION_EVENT_VOLUME_CHANGED);
	/* One event after the other, and only one in one poll. */
	assert_int_equal(flood.depth++, 0);
	assert_int_equal(flood.in_one_poll++, 0);
	flood.told++;
	while (fake_target_seen(p->fake, RBLK_OP_KEEPALIVE) == keepalives)
		assert_true(rblk_wait(session, 1) >= 0);
	assert_int_equal(rblk_volume_refresh(event->volume), 0);
	flood.depth--;
}

static void events_without_end_do_not_hold_up_a_poll(void **state)
{
	struct program p = { .script.command = event_without_end };
	struct outcome outcome = { 0 };

	last_event = 0;
	memset(&flood, 0, sizeof(flood));
	begin_open(&p);
	rblk_session_on_event(p.session, refresh_at_event, &p);
	assert_int_equal(rblk_flush(p.volume, lib_done, &outcome), 0);
	while (flood.told < FLOOD) {
		flood.in_one_poll = 0;
		assert_true(rblk_poll(p.session, 0) >= 0);
	}
	assert_int_equal(outcome.calls, 1);
	rblk_session_on_event(p.session, NULL, NULL);
	end(&p);
}

static enum fake_answer close_at_flush(struct fake_target *fake,
				       const struct rblk_wire_command *command,
				       struct rblk_wire_completion *completion)
{
	return command->opcode == RBLK_OP_FLUSH ? FAKE_CLOSE : FAKE_REPLY;
}

static void failed_is_told_behind_the_callbacks(void **state)
{
	struct program p = { .script.command = close_at_flush };
	struct outcome outcome = { 0 };
	int count;

	begin_open(&p);
	assert_int_equal(rblk_flush(p.volume, lib_done, &outcome), 0);
	while ((count = rblk_wait(p.session, 20000)) > 0)
		assert_true(p.event_count == 1 || outcome.calls);
	assert_int_equal(count, -ECONNRESET);
	assert_int_equal(outcome.calls, 1);
	assert_int_equal(outcome.last.error, -ECONNRESET);
	assert_int_equal(p.event_count, 2);
	assert_int_equal(p.events[1].type, RBLK_SESSION_EVENT_FAILED);
	assert_int_equal(p.events[1].error, -ECONNRESET);
	/* Told once. */
	assert_int_equal(rblk_poll(p.session, 0), -ECONNRESET);
	assert_int_equal(p.event_count, 2);
	end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_volume_lives_without_blocking),
		cmocka_unit_test(refusals_are_called_back),
		cmocka_unit_test(what_is_outstanding_at_the_end_is_called_back),
		cmocka_unit_test(closing_calls_back_as_well),
		cmocka_unit_test(a_list_comes_in_parts),
		cmocka_unit_test(events_are_told),
		cmocka_unit_test(an_event_beside_the_answer_to_open_is_told),
		cmocka_unit_test(events_without_end_do_not_hold_up_a_poll),
		cmocka_unit_test(failed_is_told_behind_the_callbacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
