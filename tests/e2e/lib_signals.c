/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a signal ends rblk_wait(), and calls that block if the program wants that; a session that is stopped calls
 * nothing back before rblk_poll(). Method: rblkd that is stopped (SIGSTOP) or killed while a command is under way, and a
 * timer whose signals have a handler.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/session.h"

#define BYTES 4096u

static struct e2e_daemon server;
static struct e2e_file file;
static volatile sig_atomic_t alarms, wakes_at;

static void on_alarm(int number)
{
	(void)number;
	if (++alarms == wakes_at)
		kill(server.pid, SIGCONT);
}

static void server_stands_still(void)
{
	int status;

	assert_int_equal(kill(server.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(server.pid, &status, WUNTRACED), server.pid);
	assert_true(WIFSTOPPED(status));
}

static void alarms_on(bool on)
{
	const struct timeval often = {.tv_usec = on ? 20000 : 0};
	const struct itimerval timer = {.it_interval = often, .it_value = often};

	alarms = 0;
	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* Volumes are closed with it. */
static struct rblk_session *open_session(bool interruptible, struct rblk_volume **volume, uint8_t **data)
{
	struct rblk_options options = RBLK_OPTIONS_INIT;
	struct rblk_session *session;

	options.interruptible = interruptible;
	session = e2e_session_open(e2e_daemon_uri(&server, "disk"), &options);
	*volume = rblk_volume_open(session, NULL, 0);
	*data = rblk_buffer_alloc(session, BYTES);
	assert_non_null(*volume);
	assert_non_null(*data);
	return session;
}

static void wait_for_loss(struct rblk_session *session)
{
	while (rblk_session_state(session) != RBLK_SESSION_RECOVERING)
		assert_true(rblk_wait(session, 10) >= 0);
}

static int start(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};

	(void)state;
	sigemptyset(&action.sa_mask);
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	e2e_disk_start(&server, &file, NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	kill(server.pid, SIGCONT); /* where a test has failed */
	return e2e_disk_stop(&server, &file);
}

static void rblk_wait_ends(void **state)
{
	struct rblk_volume *volume;
	struct rblk_session *session;
	uint8_t *data;
	int result;

	(void)state;
	session = open_session(false, &volume, &data);
	alarms_on(true);
	while ((result = rblk_wait(session, 60000)) >= 0)
		;
	alarms_on(false);
	assert_int_equal(result, -EINTR);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_READY);
	assert_int_equal(rblk_pread(volume, data, BYTES, 0), 0);
	rblk_session_close(session);
}

/* As without signals. */
static void others_do_not(void **state)
{
	struct rblk_volume *volume;
	struct rblk_session *session;
	uint8_t *data;

	(void)state;
	session = open_session(false, &volume, &data);
	server_stands_still();
	wakes_at = 3;
	alarms_on(true);
	assert_int_equal(rblk_pread(volume, data, BYTES, 0), 0);
	assert_true(alarms >= 3);
	alarms_on(false);
	wakes_at = 0;
	rblk_session_close(session);
}

/* To a target that does not answer, while signals come. */
static struct rblk_session *stuck_begin(struct rblk_volume **volume, uint8_t **data)
{
	struct rblk_session *session = open_session(true, volume, data);

	server_stands_still();
	alarms_on(true);
	return session;
}

static void stuck_end(struct rblk_session *session)
{
	assert_int_equal(kill(server.pid, SIGCONT), 0);
	rblk_session_close(session);
}

/* The target cannot drop it, either. */
static void a_read_ends(void **state)
{
	struct rblk_volume *volume;
	struct rblk_session *session;
	uint8_t *data;

	(void)state;
	session = stuck_begin(&volume, &data);
	assert_int_equal(rblk_pread(volume, data, BYTES, 0), -EINTR);
	alarms_on(false);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_FAILED);
	assert_non_null(strstr(rblk_session_error(session), ": interrupted by a signal"));
	stuck_end(session);
}

static void a_session_command_ends(void **state)
{
	struct rblk_volume_info *list;
	struct rblk_volume *volume;
	struct rblk_session *session;
	uint8_t *data;

	(void)state;
	session = stuck_begin(&volume, &data);
	assert_int_equal(rblk_list(session, &list, sizeof(*list)), -EINTR);
	alarms_on(false);
	stuck_end(session);
}

/* Nothing was sent: the session goes on. */
static void without_a_connection(void **state)
{
	struct rblk_volume_info *list;
	struct rblk_volume *volume;
	struct rblk_session *session;
	uint8_t *data;

	(void)state;
	session = open_session(true, &volume, &data);
	e2e_daemon_kill(&server);
	wait_for_loss(session);
	alarms_on(true);
	assert_int_equal(rblk_list(session, &list, sizeof(*list)), -EINTR);
	assert_int_equal(rblk_pread(volume, data, BYTES, 0), -EINTR);
	alarms_on(false);
	assert_int_equal(rblk_session_state(session), RBLK_SESSION_RECOVERING);
	e2e_daemon_start_again(&server, "--cache", "buffered", file.volume, NULL);
	assert_int_equal(rblk_pread(volume, data, BYTES, 0), 0);
	rblk_session_close(session);
}

static void connecting_ends(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rblk_options options = RBLK_OPTIONS_INIT;
	char error[RBLK_ERROR_BYTES] = "", uri[64];
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	/* Nobody answers there. */
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	snprintf(uri, sizeof(uri), "rblk+tcp://127.0.0.1:%u/disk", ntohs(address.sin_port));
	options.interruptible = true;
	options.connect_timeout_ms = 3600000;
	alarms_on(true);
	assert_null(rblk_session_open(uri, &options, error));
	assert_int_equal(errno, EINTR);
	alarms_on(false);
	assert_non_null(strstr(error, ": interrupted by a signal"));
	close(fd);
}

/* -- stop -------------------------------------------------------------------------------------- */

static unsigned int called;

static void on_list(void *arg, struct rblk_volume_info *list, int count)
{
	(void)arg;
	assert_null(list);
	assert_int_equal(count, -ECANCELED);
	called++;
}

/* A list that waits for a connection is called back when the session stops, and not before rblk_poll(). */
static void stop_calls_nothing_back(void **state)
{
	struct rblk_volume *volume;
	struct rblk_session *session;
	uint8_t *data;
	int result;

	(void)state;
	session = open_session(false, &volume, &data);
	server_stands_still();
	assert_int_equal(rblk_list_start(session, sizeof(struct rblk_volume_info), on_list, NULL), 0);
	assert_int_equal(rblk_submit(session), 0);
	e2e_daemon_kill(&server);
	wait_for_loss(session);
	rblk_session_stop(session);
	assert_int_equal(called, 0);
	assert_int_equal(rblk_arm(session), 1);
	while ((result = rblk_poll(session, 0)) >= 0)
		;
	assert_int_equal(result, -ECANCELED);
	assert_int_equal(called, 1);
	rblk_session_close(session);
	e2e_daemon_start_again(&server, "--cache", "buffered", file.volume, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rblk_wait_ends),
		cmocka_unit_test(others_do_not),
		cmocka_unit_test(a_read_ends),
		cmocka_unit_test(a_session_command_ends),
		cmocka_unit_test(without_a_connection),
		cmocka_unit_test(connecting_ends),
		cmocka_unit_test(stop_calls_nothing_back),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
