/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a program with a loop of its own, written as librblk(3) says (poll; if there was nothing,
 * arm; then sleep), never sleeps when what it waits for has already happened. Method: that loop
 * against rblkd; the loop checks this each time before it sleeps. No clocks.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

static struct e2e_daemon daemon_;

static int start(void **state)
{
	e2e_daemon_start(&daemon_, "--memory", "disk=16M", NULL);
	return 0;
}

static int stop(void **state)
{
	return e2e_daemon_stop(&daemon_);
}

/* What the program waits for: true when it has happened, even if no call has reported it. */
typedef bool (*condition)(const void *arg);

/*
 * The loop of librblk(3), until rblk_poll() returns something. If the loop slept after the event
 * had already happened, only a timer could wake it, and a loop may have none.
 */
static int loop(struct rblk_session *session, condition happened, const void *arg)
{
	struct pollfd fd = { .fd = rblk_fd(session), .events = POLLIN };

	for (;;) {
		int count = rblk_poll(session, 0);

		if (count)
			return count;
		if (rblk_arm(session))
			continue;
		assert_false(happened(arg));
		poll(&fd, 1, rblk_timeout_ms(session));
	}
}

/* -- connecting -------------------------------------------------------------------------------- */

static bool not_connecting(const void *session)
{
	return rblk_session_state(session) != RBLK_SESSION_CONNECTING;
}

static struct rblk_session *start_session(const char *uri, uint32_t queues)
{
	struct rblk_options options = { .size = sizeof(options), .queues = queues };
	char error[RBLK_ERROR_BYTES] = "";
	struct rblk_session *session = rblk_session_start(uri, &options, error);

	if (!session)
		fail_msg("%s", error);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_CONNECTING);
	return session;
}

static void ready_is_told(void **state)
{
	for (uint32_t queues = 1; queues <= 4; queues++) {
		struct rblk_session *session =
			start_session(e2e_daemon_uri(&daemon_, "disk"), queues);

		assert_int_equal(loop(session, not_connecting, session), 1);
		assert_int_equal(rblk_session_state(session), RBLK_SESSION_READY);
		/* Told once. */
		assert_int_equal(rblk_poll(session, 0), 0);
		rblk_session_close(session);
	}
}

static void ready_ends_a_wait_without_limit(void **state)
{
	/* With one queue, always a callback makes the session READY: the answer to IDENTIFY. */
	for (uint32_t queues = 1; queues <= 4; queues++) {
		struct rblk_session *session =
			start_session(e2e_daemon_uri(&daemon_, "disk"), queues);

		assert_int_equal(rblk_wait(session, -1), 1);
		assert_int_equal(rblk_session_state(session), RBLK_SESSION_READY);
		assert_int_equal(rblk_wait(session, -1), 0);
		rblk_session_close(session);
	}
}

static void failed_is_told(void **state)
{
	struct rblk_session *session = start_session("rblk+tcp://127.0.0.1:1/disk", 1);

	assert_int_equal(loop(session, not_connecting, session), -ECONNREFUSED);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_FAILED);
	rblk_session_close(session);
}

/* What a stop has begun goes on at the next rblk_poll(), for which nothing wakes the loop. */
static void a_stop_is_due(void **state)
{
	struct rblk_session *session = start_session(e2e_daemon_uri(&daemon_, "disk"), 2);

	assert_int_equal(loop(session, not_connecting, session), 1);
	while (rblk_arm(session))
		assert_int_equal(rblk_poll(session, 0), 0);
	rblk_session_stop(session);
	assert_int_equal(rblk_arm(session), 1);
	rblk_session_close(session);
}

/* -- I/O --------------------------------------------------------------------------------------- */

static void read_done(void *arg, const struct rblk_result *result)
{
	assert_int_equal(result->error, 0);
	*(bool *)arg = true;
}

static bool is_true(const void *arg)
{
	return *(const bool *)arg;
}

static void completions_are_told(void **state)
{
	struct rblk_session *session = start_session(e2e_daemon_uri(&daemon_, "disk"), 1);
	struct rblk_volume *volume;
	void *data;

	assert_int_equal(loop(session, not_connecting, session), 1);
	volume = e2e_volume_open(session, NULL, 0);
	data = rblk_buffer_alloc(session, 4096);
	assert_non_null(data);
	for (int i = 0; i < 100; i++) {
		bool finished = false;

		assert_int_equal(rblk_read(volume, data, 4096, 0, 0, read_done, &finished), 0);
		assert_int_equal(loop(session, is_true, &finished), 1);
		assert_true(finished);
	}
	rblk_session_close(session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ready_is_told),
		cmocka_unit_test(ready_ends_a_wait_without_limit),
		cmocka_unit_test(failed_is_told),
		cmocka_unit_test(a_stop_is_due),
		cmocka_unit_test(completions_are_told),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
