/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: when storage is slow, storage fails, the target is killed in the middle, or many sessions
 * come and go, every command is called back once with an error that fits, and nothing hangs.
 * Method: rblkd with a fault plan; kill -9; waiting for conditions only.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define DEPTH 32
#define SESSIONS 24

struct outcome {
	int calls, error;
};

static void done(void *arg, const struct rblk_result *result)
{
	struct outcome *outcome = arg;

	outcome->calls++;
	outcome->error = result->error;
}

static struct rblk_session *open_session(const struct e2e_daemon *daemon,
					 const struct rblk_options *options)
{
	struct rblk_session *session = e2e_session_open(e2e_daemon_uri(daemon, "disk"), options);

	return session;
}

static void slow_storage_times_out(void **state)
{
	struct rblk_options options = { .size = sizeof(options), .command_timeout_ms = 300,
					.begun_timeout_ms = 300 };
	struct outcome outcomes[DEPTH] = { { 0 } };
	struct e2e_daemon daemon;
	struct rblk_session *session;
	struct rblk_volume *volume;
	const char *words;
	uint8_t *data;
	int count = 0, polled;

	e2e_daemon_start(&daemon, "--memory", "disk=16M", "--fault", "delay=write:3s", NULL);
	session = open_session(&daemon, &options);
	volume = rblk_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, DEPTH * 65536);
	/* Reads are not delayed. */
	assert_int_equal(rblk_pread(volume, data, 65536, 0), 0);
	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(rblk_write(volume, data + i * 65536, i % 2 ? 65536 : 4096,
					    i * 65536u, 0, done, &outcomes[i]),
				 0);
	while (count < DEPTH) {
		assert_true((polled = rblk_wait(session, -1)) >= 0);
		count += polled;
	}
	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(outcomes[i].calls, 1);
		assert_int_equal(outcomes[i].error, -ETIMEDOUT);
	}
	/* An attempt to come back that has waited for the fence in vain is told instead. */
	words = rblk_session_error(session);
	assert_true(strstr(words, "WRITE was not answered within 300ms") || strstr(words, "no answer"));
	/* Only the connection was lost, and it comes back. */
	assert_int_equal(rblk_pread(volume, data, 4096, 0), 0);
	rblk_session_close(session);
	/* The target goes on serving. */
	session = open_session(&daemon, NULL);
	assert_non_null(rblk_volume_open(session, NULL, 0));
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
}

/*
 * A command that has begun may take as long as the store, and nothing is lost: neither the connection nor what other
 * volumes have on it.
 */
static void what_has_begun_runs_on(void **state)
{
	struct rblk_options options = {.size = sizeof(options),
				       .command_timeout_ms = 1000};
	struct outcome slow = {0};
	struct e2e_daemon daemon;
	struct rblk_session *session;
	struct rblk_volume *volume, *other;
	struct rblk_stats stats;
	void *data;

	e2e_daemon_start(&daemon, "--memory", "disk=16M", "--fault", "delay=write:3s", "--memory", "other=16M", NULL);
	session = open_session(&daemon, &options);
	volume = rblk_volume_open(session, NULL, 0);
	other = rblk_volume_open(session, "other", 0);
	data = rblk_buffer_alloc(session, 65536);
	assert_int_equal(rblk_write(volume, data, 65536, 0, 0, done, &slow), 0);
	while (!slow.calls) {
		assert_int_equal(rblk_pread(other, data, 4096, 0), 0); /* reads are not delayed */
		assert_true(rblk_wait(session, 10) >= 0);
	}
	assert_int_equal(slow.error, 0);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_READY);
	rblk_session_stats(session, &stats, sizeof(stats));
	assert_int_equal(stats.retries, 0);
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
}

/* The target drops a waiting command when its time is over; nothing of it was done. */
static void what_has_not_begun_is_aborted(void **state)
{
	struct rblk_options options = {.size = sizeof(options),
				       .command_timeout_ms = 300,
				       .begun_timeout_ms = 60000};
	struct outcome outcomes[3] = {{0}};
	struct e2e_daemon daemon;
	struct rblk_session *session;
	struct rblk_volume *volume;
	uint8_t *data;

	/* The pool holds two of these at a time, and one session gets one. */
	e2e_daemon_start(&daemon, "--pool-size", "1M", "--fault", "delay=read:2s", "--null",
			 "disk=4M", NULL);
	session = open_session(&daemon, &options);
	volume = rblk_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, 3 * 524288);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rblk_read(volume, data + i * 524288, 524288, 0, 0, done,
					   &outcomes[i]),
				 0);
	while (outcomes[0].calls + outcomes[1].calls + outcomes[2].calls < 3)
		assert_true(rblk_wait(session, -1) >= 0);
	assert_int_equal(outcomes[0].error, 0);
	assert_int_equal(outcomes[2].error, -ETIMEDOUT);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_READY);
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
}

static void failing_storage_is_told_by_its_error(void **state)
{
	struct e2e_daemon daemon;
	struct rblk_session *session;
	struct rblk_volume *volume;
	void *data;

	e2e_daemon_start(&daemon, "--memory", "disk=16M", "--fault",
			 "fail=write:ENOSPC,fail=read:EIO", NULL);
	session = open_session(&daemon, NULL);
	volume = rblk_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, 65536);
	assert_int_equal(rblk_pwrite(volume, data, 4096, 0, 0), -ENOSPC);
	assert_int_equal(rblk_pwrite(volume, data, 65536, 0, 0), -ENOSPC);
	assert_int_equal(rblk_pread(volume, data, 4096, 0), -EIO);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_READY);
	/* The target's log names the volume, operation, place, reason and number of failures. */
	assert_int_equal(e2e_daemon_log_wait(&daemon,
					      "volume disk: WRITE of 65536 bytes at byte 0 failed "
					      "(failure 2): No space left on device", 1),
			 1);
	assert_int_equal(e2e_daemon_log_wait(&daemon,
					      "volume disk: READ of 4096 bytes at byte 0 failed "
					      "(failure 1): Input/output error", 1),
			 1);
	rblk_session_close(session);
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
}

/* The target is killed after a number of completed commands that differs in each round. */
static void killed_in_the_middle(void **state)
{
	for (int round = 0; round < 10; round++) {
		struct rblk_options options = { .size = sizeof(options), .queues = 1 + round % 3,
						.no_reconnect = true };
		struct outcome outcomes[DEPTH] = { { 0 } };
		struct rblk_session *session;
		struct rblk_volume *volume;
		struct e2e_daemon daemon;
		int finished = 0, started = 0, polled;
		uint8_t *data;

		e2e_daemon_start(&daemon, "--memory", "disk=16M", NULL);
		session = open_session(&daemon, &options);
		volume = rblk_volume_open(session, NULL, 0);
		data = rblk_buffer_alloc(session, DEPTH * 65536);
		for (;;) {
			int i = started % DEPTH, err;

			err = round % 2 ? rblk_write(volume, data + i * 65536, 65536, i * 65536u, 0,
						     done, &outcomes[i]) :
					  rblk_read(volume, data + i * 65536, 65536, i * 65536u, 0,
						    done, &outcomes[i]);
			if (err == -ENOTCONN)
				break;
			assert_int_equal(err, 0);
			started++;
			if (started == 200 + 37 * round)
				e2e_daemon_kill(&daemon);
			while (started - finished == DEPTH && (polled = rblk_wait(session, -1)) > 0)
				finished += polled;
		}
		while ((polled = rblk_wait(session, -1)) > 0)
			finished += polled;
		assert_true(polled == -ECONNRESET || polled == -EIO);
		assert_int_equal(finished, started);
		finished = 0;
		for (int i = 0; i < DEPTH; i++)
			finished += outcomes[i].calls;
		assert_int_equal(finished, started);
		assert_non_null(strstr(rblk_session_error(session), "connection lost"));
		assert_non_null(strstr(rblk_session_error(session), daemon.host));
		rblk_session_close(session);
	}
}

static void many_sessions_at_a_time(void **state)
{
	struct rblk_session *sessions[SESSIONS];
	struct e2e_daemon daemon;

	e2e_daemon_start(&daemon, "--memory", "disk=16M", "--reactors", "2", NULL);
	for (int round = 0; round < 4; round++) {
		struct rblk_options options = { .size = sizeof(options), .queues = 1 + round,
						.credits = 8 };

		/* All connect at the same time; this thread drives them in turns. */
		for (int i = 0; i < SESSIONS; i++) {
			sessions[i] = rblk_session_start(e2e_daemon_uri(&daemon, "disk"), &options,
							 NULL);
			assert_non_null(sessions[i]);
		}
		for (int i = 0; i < SESSIONS; i++) {
			for (int k = 0; rblk_session_state(sessions[i]) == RBLK_SESSION_CONNECTING; k++)
				rblk_poll(sessions[k % SESSIONS], 0);
			if (rblk_session_state(sessions[i]) != RBLK_SESSION_READY)
				fail_msg("%s", rblk_session_error(sessions[i]));
		}
		for (int i = 0; i < SESSIONS; i++) {
			struct rblk_volume *volume = rblk_volume_open(sessions[i], NULL, 0);
			uint8_t *data = rblk_buffer_alloc(sessions[i], 8192);

			if (!volume)
				fail_msg("%s", rblk_session_error(sessions[i]));
			memset(data, i + 1, 4096);
			assert_int_equal(rblk_pwrite(volume, data, 4096, i * 4096u, 0), 0);
			assert_int_equal(rblk_pread(volume, data + 4096, 4096, i * 4096u), 0);
			assert_memory_equal(data, data + 4096, 4096);
		}
		for (int i = 0; i < SESSIONS; i++)
			rblk_session_close(sessions[i]);
	}
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
}

static void a_draining_target_says_so(void **state)
{
	struct e2e_daemon daemon;
	struct rblk_session *session;
	struct rblk_options options = {.size = sizeof(options), .no_reconnect = true};
	int polled;

	e2e_daemon_start(&daemon, "--memory", "disk=16M", NULL);
	session = open_session(&daemon, &options);
	assert_non_null(rblk_volume_open(session, NULL, 0));
	assert_int_equal(e2e_daemon_stop(&daemon), 0);
	while ((polled = rblk_wait(session, 1000)) == 0)
		;
	assert_int_equal(polled, -ECONNRESET);
	if (!strstr(rblk_session_error(session), "the target shut down"))
		fail_msg("%s", rblk_session_error(session));
	rblk_session_close(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_storage_times_out),
		cmocka_unit_test(what_has_begun_runs_on),
		cmocka_unit_test(what_has_not_begun_is_aborted),
		cmocka_unit_test(failing_storage_is_told_by_its_error),
		cmocka_unit_test(killed_in_the_middle),
		cmocka_unit_test(many_sessions_at_a_time),
		cmocka_unit_test(a_draining_target_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
