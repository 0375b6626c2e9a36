/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whatever an initiator sends, the target ends that connection with one line that names the
 * rule, and every other session goes on. Method: a real rblkd; for each offence a connection of
 * its own over the bare fabric, while a well-behaved session writes and reads back after each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define BLOCK 512u

static struct e2e_daemon daemon;
static struct raw good;
static uint32_t good_volume;

/* -- helpers ----------------------------------------------------------------------------------- */

/* Does the daemon's log have a line with both of these? */
static bool log_says(const char *first, const char *second)
{
	FILE *log = fopen(daemon.log, "r");
	char line[1024];
	bool found = false;

	while (log && !found && fgets(line, sizeof(line), log))
		found = strstr(line, first) && strstr(line, second);
	if (log)
		fclose(log);
	return found;
}

/* The well-behaved session's data goes round. */
static void good_goes_on(void)
{
	static unsigned int round;

	round++;
	memset(good.memory + RAW_DATA, (int)round, 8 * BLOCK);
	raw_io(&good, RBLK_OP_WRITE, 1, good_volume, 64, 8, 8 * BLOCK);
	assert_int_equal(raw_wait(&good, 1), RBLK_OK);
	memset(good.memory + RAW_DATA, 0, 8 * BLOCK);
	raw_io(&good, RBLK_OP_READ, 2, good_volume, 64, 8, 8 * BLOCK);
	assert_int_equal(raw_wait(&good, 2), RBLK_OK);
	for (unsigned int i = 0; i < 8 * BLOCK; i++)
		assert_int_equal((unsigned char)good.memory[RAW_DATA + i], (unsigned char)round);
}

static int start(void **state)
{
	(void)state;
	e2e_daemon_start(&daemon, "--memory", "mem=16M", "--null", "nul=64M", "--reactors", "2",
			 NULL);
	raw_init(&good);
	assert_true(raw_connect(&good, daemon.host));
	good_volume = raw_open(&good, "mem");
	assert_int_not_equal(good_volume, 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	raw_close(&good);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	return 0;
}

/* -- offences ---------------------------------------------------------------------------------- */

static void offend_truncated(struct raw *raw)
{
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, 60);
}

static void offend_empty(struct raw *raw)
{
	raw_send(raw, 0);
}

static void offend_oversized(struct raw *raw)
{
	memset(raw->memory + RAW_SEND, 0, 32768);
	raw_fill(raw, raw_command(raw, 32768 - 64, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, 32768);
}

static void offend_opcode(struct raw *raw)
{
	raw_fill(raw, raw_command(raw, 0, 0), 0, 200, 0);
	raw_send(raw, 64);
}

static void offend_reserved_byte(struct raw *raw)
{
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_command(raw, 0, 0)->reserved1[7] = 1;
	raw_send(raw, 64);
}

static void offend_batch(struct raw *raw)
{
	raw_fill(raw, raw_command(raw, 0, 0), 63, RBLK_OP_PING, 0);
	raw_send(raw, 64);
}

static void offend_capsule_gap(struct raw *raw)
{
	struct rblk_wire_command *command = raw_command(raw, 1024, 0);

	raw_fill(raw, command, 0, RBLK_OP_WRITE, 0);
	command->flags = RBLK_CMD_CAPSULE;
	command->volume = rblk_to_le32(1);
	command->blocks = rblk_to_le32(1);
	command->segment.address = rblk_to_le64(512);
	command->segment.length = rblk_to_le32(512);
	raw_send(raw, 1024 + 64);
}

static void offend_sequence(struct raw *raw)
{
	assert_int_equal(raw_simple(raw, RBLK_OP_PING, 0), RBLK_OK);
	raw->sequence = 0;
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, 64);
}

static void offend_sequence_skipped(struct raw *raw)
{
	raw->sequence = 7;
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 0);
	raw_send(raw, 64);
}

/* The first is still in its slot when the second of the same message is looked at. */
static void offend_tag_in_use(struct raw *raw)
{
	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, 3);
	raw_fill(raw, raw_command(raw, 0, 1), 1, RBLK_OP_PING, 3);
	raw_send(raw, 128);
}

static void offend_out_of_credit(struct raw *raw)
{
	uint16_t tags = rblk_le16(raw->accept.credits) + RBLK_RESERVED_TAGS;

	raw_fill(raw, raw_command(raw, 0, 0), 0, RBLK_OP_PING, tags);
	raw_send(raw, 64);
}

static void offend_reserved_tag(struct raw *raw)
{
	uint32_t volume = raw_open(raw, "mem");

	assert_int_not_equal(volume, 0);
	raw_io(raw, RBLK_OP_READ, rblk_le16(raw->accept.credits), volume, 0, 1, BLOCK);
}

/* Well formed, but the memory that it names is not exposed. */
static void offend_key(struct raw *raw)
{
	uint32_t volume = raw_open(raw, "nul");
	struct rblk_wire_command *command = raw_command(raw, 0, 0);

	assert_int_not_equal(volume, 0);
	raw_fill(raw, command, 0, RBLK_OP_WRITE, 1);
	command->volume = rblk_to_le32(volume);
	command->blocks = rblk_to_le32(8);
	command->segment.address = rblk_to_le64((uintptr_t)raw->memory + RAW_DATA);
	command->segment.rkey = rblk_to_le32(0x12345678);
	command->segment.length = rblk_to_le32(8 * BLOCK);
	raw_send(raw, 64);
}

static const struct offence {
	void (*commit)(struct raw *raw);
	const char *rule; /* what the line says */
} offences[] = {
	{offend_truncated, "protocol"},
	{offend_empty, "protocol"},
	{offend_oversized, "longer"},
	{offend_opcode, "opcode"},
	{offend_reserved_byte, "reserved"},
	{offend_batch, "protocol"},
	{offend_capsule_gap, "in-capsule"},
	{offend_sequence, "sequence number is not the next"},
	{offend_sequence_skipped, "sequence number is not the next"},
	{offend_tag_in_use, "tag is in use"},
	{offend_out_of_credit, "tag beyond the credits granted"},
	{offend_reserved_tag, "reserved tag used for I/O"},
	{offend_key, "does not expose the memory"},
};

static void each_offence_ends_its_connection_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(offences) / sizeof(offences[0]); i++) {
		uint64_t until_ns = env_now_ns() + RAW_WAIT_MS * 1000000ull;

		/* Lines are rate-limited: one that is missing comes with a later offence. */
		do {
			struct raw bad;

			assert_true(env_now_ns() < until_ns);
			raw_init(&bad);
			assert_true(raw_connect(&bad, daemon.host));
			offences[i].commit(&bad);
			raw_wait_gone(&bad);
			raw_close(&bad);
			good_goes_on();
		} while (!log_says("closed: ", offences[i].rule));
	}
}

/* -- what is wrong but no offence -------------------------------------------------------------- */

static void io_before_open_is_answered(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, daemon.host));
	raw_io(&raw, RBLK_OP_READ, 0, 12345, 0, 1, BLOCK);
	assert_int_equal(raw_wait(&raw, 0), RBLK_E_NO_VOLUME);
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 0), RBLK_OK);
	raw_close(&raw);
}

static void ranges_and_lengths_are_checked(void **state)
{
	struct raw raw;
	uint32_t volume;

	(void)state;
	raw_init(&raw);
	assert_true(raw_connect(&raw, daemon.host));
	volume = raw_open(&raw, "mem");
	raw_io(&raw, RBLK_OP_READ, 0, volume, 32768, 1, BLOCK);
	assert_int_equal(raw_wait(&raw, 0), RBLK_E_RANGE);
	raw_io(&raw, RBLK_OP_READ, 0, volume, 32767, 2, 2 * BLOCK);
	assert_int_equal(raw_wait(&raw, 0), RBLK_E_RANGE);
	raw_io(&raw, RBLK_OP_WRITE, 0, volume, UINT64_MAX, 1, BLOCK);
	assert_int_equal(raw_wait(&raw, 0), RBLK_E_RANGE);
	raw_io(&raw, RBLK_OP_READ, 0, volume, 0, 2, BLOCK);
	assert_int_equal(raw_wait(&raw, 0), RBLK_E_INVALID);
	raw_io(&raw, RBLK_OP_READ, 0, volume, 32767, 1, BLOCK);
	assert_int_equal(raw_wait(&raw, 0), RBLK_OK);
	raw_close(&raw);
}

/* -- vanishing --------------------------------------------------------------------------------- */

/* Commands of every kind are under way when the connection goes; nothing is left behind. */
static void vanishing_leaves_nothing_behind(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < 30; round++) {
		static const char *const names[] = {"mem", "nul"};
		struct raw raw;
		uint32_t volume;

		raw_init(&raw);
		assert_true(raw_connect(&raw, daemon.host));
		volume = raw_open(&raw, names[round % 2]);
		for (uint16_t tag = 1; tag < 16; tag++)
			raw_io(&raw, tag % 2 ? RBLK_OP_READ : RBLK_OP_WRITE, tag, volume, tag, 256,
			       256 * BLOCK);
		/* Mostly before the answers. */
		raw_close(&raw);
		good_goes_on();
	}
}

/* -- logins ------------------------------------------------------------------------------------ */

/* Connect, which is refused; why. */
static uint16_t login_reason(struct raw *raw)
{
	uint16_t reason;

	assert_false(raw_connect(raw, daemon.host));
	reason = rblk_le16(raw->reject.reason);
	raw_close(raw);
	return reason;
}

static void logins_are_refused_with_a_reason(void **state)
{
	struct raw raw;

	(void)state;
	raw_init(&raw);
	raw.login.version = rblk_to_le16(99);
	assert_int_equal(login_reason(&raw), RBLK_REJECT_VERSION);
	raw_init(&raw);
	raw.login.credits = 0;
	assert_int_equal(login_reason(&raw), RBLK_REJECT_MALFORMED);
	raw_init(&raw);
	raw.login.queue_count = rblk_to_le16(2);
	raw.login.queue_index = rblk_to_le16(1);
	assert_int_equal(login_reason(&raw), RBLK_REJECT_NO_SESSION);
	raw_init(&raw);
	raw.login = good.login;
	assert_int_equal(login_reason(&raw), RBLK_REJECT_STALE_INCARNATION);
	assert_true(log_says("login from 127.0.0.1", "refused: "));
	good_goes_on();
}

/*
 * A second login of a session's queue: it is accepted when the first connection has ended. Returns
 * what a READ through the handle of the first one is answered.
 */
static enum rblk_status read_after_login(void (*change)(struct rblk_wire_login *login))
{
	enum rblk_status status;
	struct raw old, new;
	uint32_t volume;

	raw_init(&old);
	assert_true(raw_connect(&old, daemon.host));
	volume = raw_open(&old, "mem");
	raw_init(&new);
	new.login = old.login;
	change(&new.login);
	raw_connect_begin(&new, daemon.host);
	/* Both are on this thread: neither may wait for the other. */
	while (!old.gone) {
		raw_step(&new);
		raw_step(&old);
	}
	assert_true(raw_connect_wait(&new));
	raw_io(&new, RBLK_OP_READ, 1, volume, 0, 1, BLOCK);
	status = raw_wait(&new, 1);
	raw_close(&old);
	raw_close(&new);
	return status;
}

static void next_incarnation(struct rblk_wire_login *login)
{
	login->incarnation = rblk_to_le32(2);
	login->fence_incarnation = rblk_to_le32(1);
}

static void next_epoch(struct rblk_wire_login *login)
{
	login->session_epoch = rblk_to_le64(2);
}

/* F5: the handles of an older incarnation go on. */
static void newer_incarnation_takes_over(void **state)
{
	(void)state;
	assert_int_equal(read_after_login(next_incarnation), RBLK_OK);
}

/* A higher epoch begins from nothing: the old life's handles lead nowhere. */
static void higher_epoch_begins_anew(void **state)
{
	(void)state;
	assert_int_equal(read_after_login(next_epoch), RBLK_E_NO_VOLUME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_offence_ends_its_connection_alone),
		cmocka_unit_test(io_before_open_is_answered),
		cmocka_unit_test(ranges_and_lengths_are_checked),
		cmocka_unit_test(vanishing_leaves_nothing_behind),
		cmocka_unit_test(logins_are_refused_with_a_reason),
		cmocka_unit_test(newer_incarnation_takes_over),
		cmocka_unit_test(higher_epoch_begins_anew),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
