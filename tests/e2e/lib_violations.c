/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the library detects a target that breaks a rule of the specification. The session fails
 * with words that name the rule, every command is called back exactly once and none as done, and
 * the target's report is rejected. Method: a scripted target (fake_target.h) and tables of answers,
 * acceptances and reports, each with one wrong field and the rule that it breaks.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/e2e/hostile_rules.h"
#include "tests/e2e/lib_fixture.h"
#include "tests/e2e/session.h"

#define TAGS (8 + RBLK_RESERVED_TAGS) /* as the scripted target grants them */
#define OF_COMPLETION(name)                          \
	offsetof(struct rblk_wire_completion, name), \
		sizeof(((struct rblk_wire_completion *)0)->name)
#define OF_ACCEPT(name) \
	offsetof(struct rblk_wire_accept, name), sizeof(((struct rblk_wire_accept *)0)->name)
#define OF_VOLUME(name) \
	offsetof(struct rblk_wire_volume, name), sizeof(((struct rblk_wire_volume *)0)->name)

/* Little-endian; bytes beyond the value are zero. */
static void set_bytes(void *data, u16 offset, u16 bytes, u64 value)
{
	for (u16 i = 0; i < bytes; i++)
		((u8 *)data)[offset + i] = i < 8 ? (u8)(value >> 8 * i) : 0;
}

/* -- answers ----------------------------------------------------------------------------------- */

struct lie {
	const char *rule;
	enum fake_answer answer;
	u16 offset, bytes; /* of the completion; 0 bytes: all fields are right */
	u64 value;
	u32 message_bytes; /* FAKE_REPLY_RAW: of zeroes */
	const char *words;
};

#define COMPLETION(name, value) FAKE_REPLY, OF_COMPLETION(name), value, 0
#define LENGTH(bytes) FAKE_REPLY_RAW, 0, 0, 0, bytes
#define EVENT_WRONG "a flag that does not belong"

/* clang-format off */
static const struct lie lies[] = {
	{ "V5", LENGTH(0), "too short" },
	{ "V5", LENGTH(16), "too short" },
	{ "V5", LENGTH(31), "too short" },
	{ "V5", LENGTH(33), "too short" },
	{ "V5", FAKE_REPLY, 5, 1, 1, 0, "a reserved byte or flag" },
	{ "V5", FAKE_REPLY, 7, 1, 0x80, 0, "a reserved byte or flag" },
	{ "V5", COMPLETION(flags, 0x08), "a reserved byte or flag" },
	{ "V5", COMPLETION(flags, 0x80), "a reserved byte or flag" },
	{ "V5", COMPLETION(flags, RBLK_CPL_DIGEST), "a flag that does not belong" },
	{ "V5 V8", COMPLETION(flags, RBLK_CPL_INVALIDATED), "a flag that does not belong" },
	{ "V5", COMPLETION(digest, 1), "a digest without its flag" },
	{ "V5", COMPLETION(status, RBLK_E_MAX), "the status is unknown" },
	{ "V5", COMPLETION(status, 0xffff), "the status is unknown" },
	{ "V5", COMPLETION(tag, TAGS), "the tag is out of range" },
	{ "V5", COMPLETION(tag, RBLK_TAG_EVENT), "the tag is out of range" },
	{ "V5", FAKE_REPLY_WITH_IMMEDIATE, 0, 0, 0, 0, "not a plain SEND" },
	{ "V6", COMPLETION(tag, 7), "a command that is not outstanding" },
	{ "V6", COMPLETION(tag, TAGS - 1), "a command that is not outstanding" },
	{ "V6", COMPLETION(sequence, 1000), "another command's sequence number" },
	{ "V6", FAKE_IMMEDIATE_ELSEWHERE, OF_COMPLETION(tag), 7, 0, "a command that is not outstanding" },
	{ "V6", FAKE_IMMEDIATE_ELSEWHERE, OF_COMPLETION(tag), 0xffff, 0, "a tag that this queue does not have" },
	{ "V8", FAKE_REPLY_INVALIDATE, 0, 0, 0, 0, "an invalidation" },
	{ "V5 C7", LENGTH(RBLK_REPLY_BATCH_MAX * 32 + 32), "a reply longer than its receive" },
	{ "V5", COMPLETION(flags, RBLK_CPL_EVENT | RBLK_CPL_DIGEST), EVENT_WRONG },
	{ "V5", COMPLETION(flags, RBLK_CPL_EVENT), "the tag is out of range" },
};
/* clang-format on */

static enum fake_answer tell(struct fake_target *fake, const struct rblk_wire_command *command,
			     struct rblk_wire_completion *completion)
{
	struct fake_script *script = fake_target_script(fake);
	const struct lie *lie = script->arg;

	if (!lib_is_io(command))
		return FAKE_REPLY;
	set_bytes(completion, lie->offset, lie->bytes, lie->value);
	script->raw_bytes = lie->message_bytes;
	return lie->answer;
}

static void every_wrong_answer_is_found_out(void **state)
{
	for (unsigned int i = 0; i < 2 * UNIT_LENGTH(lies); i++) {
		const struct lie *lie = &lies[i / 2];
		struct fixture f = {.script = {.command = tell, .arg = (void *)lie}};

		print_message("%s: %s\n", lie->rule, lie->words);
		lib_open(&f);
		lib_start_io(&f, i % 2);
		lib_expect_failure(&f, -EPROTO, lie->words);
		for (int n = 0; n < COMMANDS; n++)
			assert_int_not_equal(f.outcomes[n].last.error, 0);
		lib_close(&f);
	}
}

/* -- answers that are sent twice --------------------------------------------------------------- */

static enum fake_answer twice(struct fake_target *fake, const struct rblk_wire_command *command,
			      struct rblk_wire_completion *completion)
{
	return lib_is_io(command) ? FAKE_REPLY_TWICE : FAKE_REPLY;
}

/* V6: the first answer is right, its copy is not: one command succeeds, the rest fail. */
static void an_answer_given_twice(void **state)
{
	struct fixture f = {.script.command = twice};

	lib_open(&f);
	lib_start_io(&f, false);
	lib_expect_failure(&f, -EPROTO, "a command that is not outstanding");
	assert_int_equal(f.outcomes[0].last.error, 0);
	lib_close(&f);
}

static enum fake_answer immediate_always(struct fake_target *fake,
					 const struct rblk_wire_command *command,
					 struct rblk_wire_completion *completion)
{
	return lib_is_io(command) ? FAKE_IMMEDIATE : FAKE_REPLY;
}

static void accept_no_features(struct rblk_wire_accept *accept)
{
	accept->features = 0;
}

/* V7 */
static void an_immediate_that_was_not_allowed(void **state)
{
	struct fixture f = {.script = {.command = immediate_always}};
	struct rblk_stats stats;
	int count = 0;

	/* Allowed first: only the tag comes back, and the reads succeed. */
	lib_open(&f);
	lib_start_io(&f, false);
	while (count < COMMANDS)
		count += rblk_wait(f.session, -1);
	for (int i = 0; i < COMMANDS; i++)
		assert_int_equal(f.outcomes[i].last.error, 0);
	rblk_session_stats(f.session, &stats, sizeof(stats));
	assert_int_equal(stats.immediates, COMMANDS);
	lib_close(&f);

	f = (struct fixture){.script = {.command = immediate_always, .accept = accept_no_features}};
	lib_open(&f);
	lib_start_io(&f, false);
	lib_expect_failure(&f, -EPROTO, "an immediate for a command that did not allow it");
	lib_close(&f);
}

/* -- events ------------------------------------------------------------------------------------ */

static enum fake_answer two_events(struct fake_target *fake,
				   const struct rblk_wire_command *command,
				   struct rblk_wire_completion *completion)
{
	if (!lib_is_io(command))
		return FAKE_REPLY;
	fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 2, 0);
	return FAKE_SILENT;
}

/* It comes again when it has been confirmed. */
static enum fake_answer event_again(struct fake_target *fake, const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion)
{
	if (command->opcode == RBLK_OP_KEEPALIVE && rblk_le64(command->argument) == 1)
		fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	if (!lib_is_io(command))
		return FAKE_REPLY;
	/* Of several commands, that have different tags. */
	if (!command->tag)
		fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	return FAKE_SILENT;
}

static enum fake_answer event_elsewhere(struct fake_target *fake,
					const struct rblk_wire_command *command,
					struct rblk_wire_completion *completion)
{
	if (!lib_is_io(command))
		return FAKE_REPLY;
	if (fake_target_queue(fake) == 1)
		fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	return FAKE_SILENT;
}

static enum fake_answer event_unknown(struct fake_target *fake,
				      const struct rblk_wire_command *command,
				      struct rblk_wire_completion *completion)
{
	if (!lib_is_io(command))
		return FAKE_REPLY;
	fake_target_send_event(fake, RBLK_EVENT_MAX, 1, 0);
	return FAKE_SILENT;
}

static enum fake_answer event_without_number(struct fake_target *fake,
					     const struct rblk_wire_command *command,
					     struct rblk_wire_completion *completion)
{
	if (!lib_is_io(command))
		return FAKE_REPLY;
	fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 0, 0);
	return FAKE_SILENT;
}

static enum fake_answer one_event(struct fake_target *fake, const struct rblk_wire_command *command,
				  struct rblk_wire_completion *completion)
{
	if (!lib_is_io(command))
		return FAKE_REPLY;
	fake_target_send_event(fake, RBLK_EVENT_LIST_CHANGED, 1, 0);
	return FAKE_SILENT;
}

/* clang-format off */
static const struct false_event {
	const char *rule;
	enum fake_answer (*command)(struct fake_target *fake, const struct rblk_wire_command *command,
				    struct rblk_wire_completion *completion);
	u32 queues;
	bool not_agreed;
	const char *words;
} false_events[] = {
	{ "V9", two_events, 1, false, "an event before the last one was confirmed" },
	{ "V9", event_again, 1, false, "an event before the last one was confirmed" },
	{ "V9", event_elsewhere, 2, false, "an event on another queue than the first" },
	{ "V5", event_unknown, 1, false, "the status is unknown" },
	{ "V5", event_without_number, 1, false, "the argument is missing" },
	{ "V5", one_event, 1, true, "a flag that does not belong" },
};
/* clang-format on */

static void every_false_event_is_found_out(void **state)
{
	for (unsigned int i = 0; i < UNIT_LENGTH(false_events); i++) {
		struct fixture f = {.script.command = false_events[i].command,
				    .options = fake_target_options()};

		print_message("%s: %s\n", false_events[i].rule, false_events[i].words);
		f.options.queues = false_events[i].queues;
		if (false_events[i].not_agreed)
			f.script.accept = accept_no_features;
		lib_open(&f);
		lib_start_io(&f, false);
		lib_expect_failure(&f, -EPROTO, false_events[i].words);
		lib_close(&f);
	}
}

/* -- acceptances ------------------------------------------------------------------------------- */

struct field_lie {
	const char *rule;
	u16 offset, bytes;
	u64 value;
	const char *words;
};

#define SIZES_WRONG "a size is out of its limits"
#define BATCH_WRONG "too many commands"

/* clang-format off */
static const struct field_lie accept_lies[] = {
	{ "V10", OF_ACCEPT(magic), 0, "not rblk" },
	{ "V10", OF_ACCEPT(version), 3, "another protocol version" },
	{ "V10", OF_ACCEPT(credits), 0, "the credits are out of range" },
	{ "V10", OF_ACCEPT(credits), RBLK_CREDITS_MIN - 1, "the credits are out of range" },
	{ "V10", OF_ACCEPT(credits), RBLK_CREDITS_MAX + 1, "the credits are out of range" },
	{ "V10", OF_ACCEPT(credits), RBLK_CREDITS_MAX, "more credits than were asked for" },
	{ "V10", OF_ACCEPT(incarnation), 0, "the incarnation is zero" },
	{ "V10", OF_ACCEPT(incarnation), 5, "another incarnation" },
	{ "V10", OF_ACCEPT(features), RBLK_FEATURE_DIGEST, "features that were not asked for" },
	{ "V10", OF_ACCEPT(features), RBLK_FEATURE_INVALIDATE, "features that were not asked for" },
	{ "V10", OF_ACCEPT(features), 1u << 4, "a reserved byte or flag" },
	{ "V10", OF_ACCEPT(features), 1u << 31, "a reserved byte or flag" },
	{ "V10", OF_ACCEPT(target_instance), 0, "the session or instance id is all zero" },
	{ "V10", OF_ACCEPT(session_epoch), 0, "the session epoch is zero" },
	{ "V10", OF_ACCEPT(session_epoch), 2, "another session epoch" },
	{ "V10", OF_ACCEPT(command_bytes), RBLK_COMMAND_BYTES_MIN - 1, SIZES_WRONG },
	{ "V10", OF_ACCEPT(command_bytes), RBLK_COMMAND_BYTES_MAX + 1, SIZES_WRONG },
	{ "V10", OF_ACCEPT(max_io_bytes), 0, SIZES_WRONG },
	{ "V10", OF_ACCEPT(max_io_bytes), 4096 + 512, SIZES_WRONG },
	{ "V10", OF_ACCEPT(max_io_bytes), RBLK_IO_BYTES_MAX + 4096, SIZES_WRONG },
	{ "V10", OF_ACCEPT(max_batch), 0, BATCH_WRONG },
	{ "V10", OF_ACCEPT(max_batch), RBLK_BATCH_MAX + 1, BATCH_WRONG },
	{ "V10", OF_ACCEPT(reserved), 1, "a reserved byte or flag" },
};
/* clang-format on */

/* The scripted target's thread reads it; that thread begins later and ends earlier. */
static const struct field_lie *accept_lie, *volume_lie;

static void accept_wrongly(struct rblk_wire_accept *accept)
{
	set_bytes(accept, accept_lie->offset, accept_lie->bytes, accept_lie->value);
}

static void every_wrong_acceptance_is_refused(void **state)
{
	for (unsigned int i = 0; i < UNIT_LENGTH(accept_lies); i++) {
		struct fake_script script = {.accept = accept_wrongly};
		struct rblk_options options = fake_target_options();
		char text[RBLK_ERROR_BYTES] = "";
		struct fake_target *fake;

		print_message("acceptance %u: %s\n", i, accept_lies[i].words);
		accept_lie = &accept_lies[i];
		fake = fake_target_start(&script);
		assert_null(rblk_session_open(fake_target_uri(fake), &options, text));
		assert_int_equal(errno, EPROTO);
		lib_assert_words(text, "the target's acceptance is wrong: ");
		lib_assert_words(text, accept_lies[i].words);
		/* The library sends nothing after such an acceptance. */
		assert_int_equal(fake_target_seen(fake, RBLK_OP_IDENTIFY), 0);
		fake_target_stop(fake);
	}
}

/* -- reports ----------------------------------------------------------------------------------- */

#define PAYLOAD_WRONG "a field of the payload is out of range"
#define NAME_WRONG "a name is empty, not terminated, or has a forbidden character"
#define HANDLE_WRONG "the volume handle is missing"

/* clang-format off */
static const struct field_lie volume_lies[] = {
	{ "6.1", OF_VOLUME(name), 0, NAME_WRONG },
	{ "6.1", OF_VOLUME(name), 0x2f2e2e, NAME_WRONG },
	{ "6.1", OF_VOLUME(name), 'x', HANDLE_WRONG },
	{ "6.1", OF_VOLUME(handle), 0, HANDLE_WRONG },
	{ "6.1", OF_VOLUME(blocks), 0, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(blocks), UINT64_MAX, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(blocks), 1ull << 54, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(block_bytes), 0, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(block_bytes), 513, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(block_bytes), 256, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(block_bytes), 8192, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(physical_bytes), 0, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(physical_bytes), 3000, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(flags), RBLK_VOLUME_DISCARD, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(flags), RBLK_VOLUME_WRITE_ZEROES, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(flags), 1u << 31, "a reserved byte or flag" },
	{ "6.1", OF_VOLUME(max_io_bytes), 0, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(max_io_bytes), 513, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(max_io_bytes), RBLK_IO_BYTES_MAX + 512, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(max_capsule_bytes), 100, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(max_capsule_bytes), RBLK_CAPSULE_DATA_MAX + 512, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(discard_granularity_bytes), 512, PAYLOAD_WRONG },
	{ "6.1", OF_VOLUME(reserved0), 1, "a reserved byte or flag" },
	{ "6.1", OF_VOLUME(reserved1), 1, "a reserved byte or flag" },
};
/* clang-format on */

static void report_wrongly(struct rblk_wire_volume *volume)
{
	set_bytes(volume, volume_lie->offset, volume_lie->bytes, volume_lie->value);
}

static void every_wrong_report_is_refused(void **state)
{
	for (unsigned int i = 0; i < UNIT_LENGTH(volume_lies); i++) {
		struct fake_script script = {.volume = report_wrongly};
		struct rblk_options options = fake_target_options();
		struct rblk_session *session;
		struct fake_target *fake;

		print_message("report %u: %s\n", i, volume_lies[i].words);
		volume_lie = &volume_lies[i];
		fake = fake_target_start(&script);
		session = e2e_session_open(fake_target_uri(fake), &options);
		assert_null(rblk_volume_open(session, NULL, 0));
		lib_assert_words(rblk_session_error(session), "the target's report is wrong: ");
		lib_assert_words(rblk_session_error(session), volume_lies[i].words);
		/* Only the volume cannot be used; the session goes on. */
		assert_int_equal(rblk_session_state(session), RBLK_SESSION_READY);
		rblk_session_close(session);
		fake_target_stop(fake);
	}
}

static const char *rule(unsigned int index)
{
	if (index < UNIT_LENGTH(lies))
		return lies[index].rule;
	index -= UNIT_LENGTH(lies);
	if (index < UNIT_LENGTH(false_events))
		return false_events[index].rule;
	index -= UNIT_LENGTH(false_events);
	if (index < UNIT_LENGTH(accept_lies))
		return accept_lies[index].rule;
	return index == UNIT_LENGTH(accept_lies) ? "V7" : NULL;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_answer_is_found_out),
		cmocka_unit_test(an_answer_given_twice),
		cmocka_unit_test(an_immediate_that_was_not_allowed),
		cmocka_unit_test(every_false_event_is_found_out),
		cmocka_unit_test(every_wrong_acceptance_is_refused),
		cmocka_unit_test(every_wrong_report_is_refused),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
