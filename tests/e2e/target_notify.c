/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: the daemon tells systemd what it waits for: ready when logins are accepted, the beginning
 * and end of each reload (also of one that changes nothing), watchdog messages if systemd asked for
 * them and every reactor runs, stopping. Method: the test takes the part of systemd, with a socket
 * that NOTIFY_SOCKET names, and compares messages in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define WAIT_S 60 /* generous: sanitizers are slow */

static int notified = -1;
static struct e2e_daemon server;

/* A socket in the abstract name space: the kernel chooses its name, and no file remains. */
static int open_socket(void **state)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length = sizeof(sa_family_t);
	char name[sizeof(address.sun_path) + 1];

	(void)state;
	notified = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (notified < 0 || bind(notified, (struct sockaddr *)&address, length) ||
	    setsockopt(notified, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)))
		return -1;
	length = sizeof(address);
	if (getsockname(notified, (struct sockaddr *)&address, &length))
		return -1;
	snprintf(name, sizeof(name), "@%.*s",
		 (int)(length - offsetof(struct sockaddr_un, sun_path) - 1), address.sun_path + 1);
	return setenv("NOTIFY_SOCKET", name, 1);
}

static int close_socket(void **state)
{
	(void)state;
	e2e_daemon_kill(&server); /* no effect if the test has stopped it */
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	close(notified);
	return 0;
}

/* The next message; fails the test if none comes. */
static void receive(char *text, size_t bytes)
{
	ssize_t length = recv(notified, text, bytes - 1, 0);

	assert_true(length > 0);
	text[length] = '\0';
}

/* The next message has these lines and begins like this. */
static void expect(const char *begin)
{
	char text[512];

	receive(text, sizeof(text));
	if (strncmp(text, begin, strlen(begin)))
		fail_msg("\"%s\" instead of \"%s\"", text, begin);
}

static void expect_ready(void)
{
	char want[128];

	snprintf(want, sizeof(want), "READY=1\nSTATUS=serving 1 volume on rblk+tcp://%s", server.host);
	expect(want);
}

/* By the time, systemd distinguishes the READY=1 of this reload from an earlier one. */
static void expect_reloading(void)
{
	struct timespec before, after;
	uint64_t begun_us;
	char text[512];

	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(kill(server.pid, SIGHUP), 0);
	receive(text, sizeof(text));
	clock_gettime(CLOCK_MONOTONIC, &after);
	if (sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%" SCNu64, &begun_us) != 1)
		fail_msg("\"%s\" instead of RELOADING", text);
	assert_in_range(begun_us, (uint64_t)before.tv_sec * 1000000 + before.tv_nsec / 1000,
			(uint64_t)after.tv_sec * 1000000 + after.tv_nsec / 1000);
}

/* It sends STOPPING once, as its last message, and exits with 0. */
static void stop_server(void)
{
	char text[512];

	assert_int_equal(e2e_daemon_stop(&server), 0);
	do
		receive(text, sizeof(text));
	while (!strcmp(text, "WATCHDOG=1"));
	assert_string_equal(text, "STOPPING=1\nSTATUS=draining");
	assert_int_equal(recv(notified, text, sizeof(text), MSG_DONTWAIT), -1);
}

static void its_life_is_told(void **state)
{
	struct raw raw;

	(void)state;
	e2e_daemon_start(&server, "--memory", "mem=1M", NULL);
	expect_ready();
	raw_init(&raw);
	assert_true(raw_connect(&raw, server.host));
	raw_close(&raw);
	expect_reloading();
	expect_ready();
	stop_server();
}

static void a_reload_that_fails_is_over_too(void **state)
{
	char path[] = "/tmp/rblk-e2e-conf-XXXXXX";
	int file = mkstemp(path);

	(void)state;
	assert_true(file >= 0);
	assert_int_equal(dprintf(file, "[volume mem]\nstore = memory\nsize = 1M\n"), 38);
	e2e_daemon_start(&server, "--config", path, NULL);
	expect_ready();
	assert_int_equal(dprintf(file, "nonsense = 1\n"), 13);
	expect_reloading();
	expect_ready();
	assert_int_equal(e2e_daemon_log_wait(&server, "reload failed, nothing changed", 1), 1);
	stop_server();
	close(file);
	unlink(path);
}

static void signs_of_life_come_by_themselves(void **state)
{
	(void)state;
	setenv("WATCHDOG_USEC", "100000", 1);
	e2e_daemon_start(&server, "--memory", "mem=1M", NULL);
	expect_ready();
	for (int i = 0; i < 3; i++)
		expect("WATCHDOG=1");
	stop_server();
}

/* A daemon ignores variables that are meant for its parent process. */
static void another_process_is_watched(void **state)
{
	(void)state;
	setenv("WATCHDOG_USEC", "1000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	e2e_daemon_start(&server, "--memory", "mem=1M", NULL);
	expect_ready();
	for (int i = 0; i < 3; i++) {
		expect_reloading();
		expect_ready();
	}
	stop_server();
}

/* The server's thread of this name; 0: there is none. */
static pid_t server_thread(const char *name)
{
	char path[64], comm[32];
	struct dirent *entry;
	pid_t found = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", server.pid);
	tasks = opendir(path);
	while (tasks && !found && (entry = readdir(tasks))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", server.pid, entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(comm, sizeof(comm), file) && !strncmp(comm, name, strlen(name)))
			found = atoi(entry->d_name);
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return found;
}

static void wait_for_log(const char *text)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	time_t until = time(NULL) + WAIT_S;

	while (!e2e_daemon_log_count(&server, text)) {
		if (time(NULL) > until)
			fail_msg("not in the log: %s", text);
		nanosleep(&pause, NULL);
	}
}

/* If one thread does not run, the daemon counts as hung, even if the control thread runs. */
static void a_reactor_that_hangs_is_seen(void **state)
{
	const struct timespec two_limits = { .tv_sec = 2 };
	char text[512];
	pid_t reactor;

	(void)state;
	/* Long enough that a busy machine makes no other reactor late. */
	setenv("WATCHDOG_USEC", "1000000", 1);
	e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "2", NULL);
	expect_ready();
	for (int i = 0; i < 3; i++)
		expect("WATCHDOG=1");
	reactor = server_thread("reactor-1");
	assert_true(reactor > 0);
	if (ptrace(PTRACE_SEIZE, reactor, NULL, NULL) || ptrace(PTRACE_INTERRUPT, reactor, NULL, NULL) ||
	    waitpid(reactor, NULL, __WALL) != reactor) {
		print_message("SKIPPED: a thread cannot be stopped here\n");
		stop_server();
		skip();
	}
	wait_for_log("reactor 1: hangs");
	while (recv(notified, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	nanosleep(&two_limits, NULL);
	assert_int_equal(recv(notified, text, sizeof(text), MSG_DONTWAIT), -1);
	assert_int_equal(ptrace(PTRACE_DETACH, reactor, NULL, NULL), 0);
	for (int i = 0; i < 3; i++)
		expect("WATCHDOG=1");
	assert_int_equal(e2e_daemon_log_wait(&server, "reactor 1: running again", 1), 1);
	assert_int_equal(e2e_daemon_log_count(&server, "reactor 0: hangs"), 0);
	stop_server();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(its_life_is_told, open_socket, close_socket),
		cmocka_unit_test_setup_teardown(a_reload_that_fails_is_over_too, open_socket,
						close_socket),
		cmocka_unit_test_setup_teardown(signs_of_life_come_by_themselves, open_socket,
						close_socket),
		cmocka_unit_test_setup_teardown(a_reactor_that_hangs_is_seen, open_socket,
						close_socket),
		cmocka_unit_test_setup_teardown(another_process_is_watched, open_socket,
						close_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
