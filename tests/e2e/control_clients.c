/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: clients of the control socket that are wrong, huge, slow or many harm nobody: each is told what is
 * wrong, or is disconnected, and another one is answered meanwhile. Method: raw connections to the socket of a
 * daemon, which ends in order at the end.
 */
#include "tests/unit/unit.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"

#define STATUS "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}\n"
#define CHANGE "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"change\",\"params\":{\"edits\":["
#define ADD "{\"edit\":\"add\",\"section\":\"volume more\",\"keys\":{\"store\":\"memory\",\"size\":\"8K\"}}"
/* More than the daemon takes. */
#define MANY 40

static struct e2e_daemon server;
static char path[64];

static int client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	/* A limit for a broken daemon, longer than any of its own. */
	struct timeval limit = {.tv_sec = 300};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strcpy(address.sun_path, path);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	return fd;
}

static void put(int fd, const char *text, size_t bytes)
{
	assert_int_equal(send(fd, text, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

/* One line; "" at the end of the connection. */
static void get(int fd, char *line, size_t bytes)
{
	size_t used = 0;
	ssize_t got;

	while (used < bytes - 1) {
		got = recv(fd, line + used, 1, 0);
		/* A daemon that closes with unread bytes resets the connection. */
		if (got <= 0 || line[used++] == '\n')
			break;
	}
	line[used] = '\0';
}

/* A client that does nothing wrong is answered. */
static void check_answers(int fd)
{
	char line[8192];

	put(fd, STATUS, strlen(STATUS));
	get(fd, line, sizeof(line));
	assert_non_null(strstr(line, "\"state\":\"serving\""));
	assert_non_null(strstr(line, "\"volumes\":1"));
}

static void wrong_requests_get_errors(void **state)
{
	static const struct {
		const char *text, *words;
	} wrong[] = {
		{"GET / HTTP/1.1\n", "-32700"},
		{"\n", "-32700"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"format\"}\n", "unknown method \\\"format\\\""},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"log-level\",\"params\":{\"level\":7}}\n",
		 "is not one of error, warning, info, debug"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{\"more\":7}}\n",
		 "status: unknown parameter \\\"more\\\""},
		{CHANGE "]}}\n", "edits is not an array of edits"},
		{CHANGE "{\"edit\":\"add\"}]}}\n", "an edit has edit (add, set or remove), section"},
		{CHANGE "{\"edit\":\"drop\",\"section\":\"volume ram\"}]}}\n", "an edit has edit"},
		{CHANGE "{\"edit\":\"set\",\"section\":\"target\",\"keys\":{\"open\":7}}]}}\n",
		 "[target] open: is neither a text, nor some texts, nor null"},
		/* All or nothing: the first edit is right. */
		{CHANGE ADD ",{\"edit\":\"remove\",\"section\":\"volume none\"}]}}\n",
		 "there is no section [volume none]"},
		{CHANGE ADD "," ADD "]}}\n", "section [volume more] is already there"},
		{"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"reload\"}]\n", "not in a batch"},
	};
	int fd = client();
	char line[8192];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put(fd, wrong[i].text, strlen(wrong[i].text));
		get(fd, line, sizeof(line));
		if (!strstr(line, wrong[i].words))
			fail_msg("%s: %s", wrong[i].text, line);
		check_answers(fd);
	}
	/* Zeroes are bytes as others are. */
	put(fd, "\0\0\n", 3);
	get(fd, line, sizeof(line));
	assert_non_null(strstr(line, "-32700"));
	check_answers(fd);
	/* Several at once, and in pieces. */
	put(fd, STATUS STATUS "{\"jsonrpc\"", 2 * strlen(STATUS) + 10);
	get(fd, line, sizeof(line));
	get(fd, line, sizeof(line));
	assert_non_null(strstr(line, "serving"));
	put(fd, &STATUS[10], strlen(STATUS) - 10);
	get(fd, line, sizeof(line));
	assert_non_null(strstr(line, "serving"));
	close(fd);
}

static void a_huge_request_ends_the_connection(void **state)
{
	char *huge = malloc(1 << 20), line[8192];
	int fd = client(), other = client();

	(void)state;
	assert_non_null(huge);
	memset(huge, ' ', 1 << 20);
	/* The daemon may close before all of it has been sent. */
	if (send(fd, huge, 1 << 20, MSG_NOSIGNAL) < 0)
		print_message("closed early\n");
	get(fd, line, sizeof(line));
	if (line[0])
		assert_non_null(strstr(line, "the request is too long"));
	get(fd, line, sizeof(line));
	assert_string_equal(line, "");
	check_answers(other);
	free(huge);
	close(fd);
	close(other);
}

static void a_slow_request_ends_the_connection(void **state)
{
	int silent = client(), half = client(), other = client();
	char line[8192];

	(void)state;
	put(half, STATUS, strlen(STATUS) / 2);
	check_answers(other);
	get(half, line, sizeof(line));
	assert_string_equal(line, "");
	get(silent, line, sizeof(line));
	assert_string_equal(line, "");
	/* This one has sent a request, and may think about the next. */
	check_answers(other);
	close(silent);
	close(half);
	close(other);
}

static void who_takes_no_answers_ends(void **state)
{
	int deaf = client(), other = client();
	char *many = malloc(1000 * sizeof(STATUS));
	size_t bytes = 0;
	int small = 4096;

	(void)state;
	assert_non_null(many);
	setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (int i = 0; i < 1000; i++, bytes += strlen(STATUS))
		memcpy(many + bytes, STATUS, strlen(STATUS));
	/* As much as fits: the daemon reads no further while its answers are not taken. */
	assert_true(send(deaf, many, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0);
	check_answers(other);
	/* It is disconnected: writing fails then, and until then only waits. */
	while (send(deaf, " ", 1, MSG_NOSIGNAL) == 1)
		check_answers(other);
	check_answers(other);
	free(many);
	close(deaf);
	close(other);
}

static void clients_beyond_the_bound_are_told(void **state)
{
	int fds[MANY], refused = 0;
	char line[8192];

	(void)state;
	for (int i = 0; i < MANY; i++) {
		fds[i] = client();
		if (send(fds[i], STATUS, strlen(STATUS), MSG_NOSIGNAL) < 0)
			print_message("refused at once\n");
	}
	for (int i = 0; i < MANY; i++) {
		get(fds[i], line, sizeof(line));
		if (!strstr(line, "serving")) {
			/* Its request was not read, so the message may be lost with the connection. */
			assert_true(!line[0] || strstr(line, "too many clients"));
			refused++;
		}
	}
	assert_true(refused >= MANY - 32 && refused < MANY);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	/* There is room again, as soon as the daemon has seen the ends. */
	do {
		int fd = client();

		line[0] = '\0';
		if (send(fd, STATUS, strlen(STATUS), MSG_NOSIGNAL) > 0)
			get(fd, line, sizeof(line));
		close(fd);
	} while (!strstr(line, "serving"));
}

/* Those who ask for changes, and go without the answer, leave nothing behind. */
static void who_asks_and_goes_harms_nobody(void **state)
{
	static const char reload[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"reload\"}\n";
	int other = client();

	(void)state;
	for (int i = 0; i < 2 * MANY; i++) {
		int fd = client();

		if (send(fd, reload, strlen(reload), MSG_NOSIGNAL) < 0)
			print_message("refused at once\n");
		close(fd);
	}
	check_answers(other);
	close(other);
}

static int start(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/rblk-control-%d", (int)getpid());
	e2e_daemon_start(&server, "--memory", "ram=1M", "--control-socket", path, NULL);
	return 0;
}

static int stop(void **state)
{
	char lock[80];

	(void)state;
	assert_int_equal(e2e_daemon_stop(&server), 0);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	unlink(lock);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_requests_get_errors),
		cmocka_unit_test(a_huge_request_ends_the_connection),
		cmocka_unit_test(a_slow_request_ends_the_connection),
		cmocka_unit_test(who_takes_no_answers_ends),
		cmocka_unit_test(clients_beyond_the_bound_are_told),
		cmocka_unit_test(who_asks_and_goes_harms_nobody),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
