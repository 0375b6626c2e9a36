/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the target's time limits work: for a silent connection, for a session that does not
 * reconnect, for a command that waits for a data buffer (it gets BUSY, and the bytes of a full pool
 * come back). Method: a short keep-alive time; peers that are not stepped are silent to the target,
 * those that are stepped answer its probes without sending anything. The test waits for conditions
 * only.
 */
#include "tests/unit/unit.h"

#include "proto/core/env.h"
#include "tests/e2e/daemon.h"
#include "tests/e2e/hostile_rules.h"
#include "tests/e2e/raw.h"

#define BLOCK 512u
#define WAIT_NS (RAW_WAIT_MS * 1000000ull)

static struct e2e_daemon server;
static struct e2e_file disk;

static int start(void **state)
{
	(void)state;
	e2e_file_create(&disk, "disk", 4 << 20);
	/*
	 * Two commands of half a megabyte are a session's share of the pool; a disk that takes
	 * longer than the target lets a command wait.
	 */
	e2e_daemon_start(&server, "--keepalive", "1500ms", "--session-time", "3s", "--pool-size", "3M",
			 "--reactors", "1", "--fault", "delay=read:8s", "--cache", "buffered", disk.volume, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	e2e_file_remove(&disk);
	return e2e_daemon_stop(&server);
}

static unsigned int sessions; /* so far */

static void connect_session(struct raw *raw)
{
	assert_true(raw_connect(raw, server.host));
	sessions++;
}

/* Steps `alive`, which sends nothing, until the log has more such lines than before. */
static void step_until_logged(struct raw *alive, const char *words, unsigned int before)
{
	uint64_t until_ns = env_now_ns() + WAIT_NS;

	while (e2e_daemon_log_count(&server, words) <= before) {
		assert_true(env_now_ns() < until_ns);
		raw_step(alive);
	}
}

/* `used`: the live peer has sent a command. A queue of an idle processor never has. */
static void closed_are_the_dead_alone(bool used)
{
	struct raw alive;

	raw_init(&alive);
	connect_session(&alive);
	if (used)
		assert_int_equal(raw_simple(&alive, RBLK_OP_PING, 0), RBLK_OK);
	/* Each round takes the target two keep-alive times. */
	for (unsigned int round = 0; round < 2; round++) {
		unsigned int before = e2e_daemon_log_count(&server, "keep-alive timeout");
		struct raw dead;

		raw_init(&dead);
		connect_session(&dead);
		assert_int_equal(raw_simple(&dead, RBLK_OP_PING, 0), RBLK_OK);
		step_until_logged(&alive, "keep-alive timeout", before);
		assert_false(alive.gone);
		raw_close(&dead);
	}
	assert_int_equal(raw_simple(&alive, RBLK_OP_PING, 0), RBLK_OK);
	raw_close(&alive);
}

static void a_silent_peer_is_closed_and_one_that_answers_probes_is_not(void **state)
{
	(void)state;
	closed_are_the_dead_alone(true);
}

static void a_queue_that_has_not_been_used_yet_is_probed_too(void **state)
{
	(void)state;
	closed_are_the_dead_alone(false);
}

/* C4. The peer has no receive posted for an answer. The target does not wait for one at the cost
 * of other peers. */
static void a_peer_without_receives_is_closed_alone(void **state)
{
	unsigned int before = e2e_daemon_log_count(&server, "keep-alive timeout");
	uint64_t until_ns = env_now_ns() + WAIT_NS;
	struct raw alive, deaf;

	(void)state;
	raw_init(&alive);
	connect_session(&alive);
	raw_init(&deaf);
	deaf.receives = 0;
	connect_session(&deaf);
	for (unsigned int n = 0; n < 32; n++)
		raw_fill(&deaf, raw_command(&deaf, 0, n), n, RBLK_OP_PING, (uint16_t)n);
	raw_send(&deaf, 32 * 64);
	while (!deaf.gone) {
		assert_true(env_now_ns() < until_ns);
		raw_step(&deaf);
		assert_int_equal(raw_simple(&alive, RBLK_OP_PING, 0), RBLK_OK);
	}
	assert_int_equal(deaf.replies, 0);
	assert_int_equal(e2e_daemon_log_wait(&server, "keep-alive timeout", before + 1), before + 1);
	raw_close(&deaf);
	raw_close(&alive);
}

static void a_session_that_nobody_comes_back_to_is_forgotten(void **state)
{
	struct rblk_wire_login login;
	struct raw alive, again;
	unsigned int before;

	(void)state;
	/* All other sessions have ended; the log may be late. */
	before = e2e_daemon_log_wait(&server, " read, ", sessions);
	raw_init(&alive);
	connect_session(&alive);
	raw_init(&again);
	connect_session(&again);
	assert_int_not_equal(raw_open(&again, "disk"), 0);
	login = again.login;
	raw_close(&again);
	assert_int_equal(raw_simple(&alive, RBLK_OP_PING, 0), RBLK_OK);
	step_until_logged(&alive, " read, ", before);

	raw_init(&again);
	again.login = login;
	again.login.incarnation = rblk_to_le32(2);
	again.login.fence_incarnation = rblk_to_le32(1);
	assert_false(raw_connect(&again, server.host));
	assert_int_equal(rblk_le16(again.reject.reason), RBLK_REJECT_NO_SESSION);
	raw_close(&again);
	raw_close(&alive);
}

/* C6. Two commands have what their volume may have of the pool. The others wait in turn; commands
 * without data do not wait. */
static void a_command_that_finds_no_memory_is_answered_busy(void **state)
{
	struct raw raw;
	uint32_t volume;

	(void)state;
	raw_init(&raw);
	connect_session(&raw);
	volume = raw_open(&raw, "disk");
	assert_int_not_equal(volume, 0);
	for (uint16_t tag = 1; tag <= 4; tag++)
		raw_io(&raw, RBLK_OP_READ, tag, volume, 0, 1024, 1024 * BLOCK);
	assert_int_equal(raw_simple(&raw, RBLK_OP_PING, 5), RBLK_OK);
	assert_int_equal(raw_wait(&raw, 3), RBLK_E_BUSY);
	assert_int_equal(raw_wait(&raw, 4), RBLK_E_BUSY);
	assert_int_equal(raw_wait(&raw, 1), RBLK_OK);
	assert_int_equal(raw_wait(&raw, 2), RBLK_OK);
	/* The pool has lost nothing: as much as before can be in flight again. */
	for (uint16_t tag = 3; tag <= 4; tag++)
		raw_io(&raw, RBLK_OP_READ, tag, volume, 0, 1024, 1024 * BLOCK);
	assert_int_equal(raw_wait(&raw, 3), RBLK_OK);
	assert_int_equal(raw_wait(&raw, 4), RBLK_OK);
	raw_close(&raw);
}

static const char *rule(unsigned int index)
{
	static const char *const rules[] = {"C4", "C6"};

	return index < 2 ? rules[index] : NULL;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silent_peer_is_closed_and_one_that_answers_probes_is_not),
		cmocka_unit_test(a_queue_that_has_not_been_used_yet_is_probed_too),
		cmocka_unit_test(a_peer_without_receives_is_closed_alone),
		cmocka_unit_test(a_session_that_nobody_comes_back_to_is_forgotten),
		cmocka_unit_test(a_command_that_finds_no_memory_is_answered_busy),
	};

	if (hostile_lists(argc, argv, rule))
		return 0;
	return cmocka_run_group_tests(tests, start, stop);
}
