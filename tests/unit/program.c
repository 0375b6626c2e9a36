/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a program that was started with closed standard descriptors has all three, on nothing that it opens later;
 * a write beyond the limit of a file's size is an error; one whose parent ignores SIGCHLD hears of its children's end;
 * output that could not be written is an exit status. Method: a child for each set of closed descriptors.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "proto/program/program.h"

/* In a child; its exit status. */
static int run(void (*test)(int argument), int argument)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		test(argument);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void closed(int which)
{
	struct stat before[3], now, null;

	if (stat("/dev/null", &null))
		_exit(10);
	for (int fd = 0; fd <= 2; fd++) {
		if (fstat(fd, &before[fd]))
			_exit(11);
		if (which & 1 << fd)
			close(fd);
	}
	rblk_program_begin();
	for (int fd = 0; fd <= 2; fd++) {
		const struct stat *wanted = which & 1 << fd ? &null : &before[fd];

		if (fstat(fd, &now) || now.st_ino != wanted->st_ino || now.st_rdev != wanted->st_rdev)
			_exit(20 + fd);
	}
	if (open("/", O_RDONLY) <= 2)
		_exit(30);
}

static void test_descriptors(void **state)
{
	(void)state;
	for (int which = 0; which < 8; which++)
		assert_int_equal(run(closed, which), 0);
}

static void beyond(int argument)
{
	struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
	int fd = memfd_create("file", 0);

	(void)argument;
	rblk_program_begin();
	if (fd < 0 || setrlimit(RLIMIT_FSIZE, &limit) || ftruncate(fd, 0))
		_exit(10);
	if (pwrite(fd, "x", 1, 8192) != -1 || errno != EFBIG)
		_exit(20);
}

static void test_file_size(void **state)
{
	(void)state;
	assert_int_equal(run(beyond, 0), 0);
}

/* As the keeper of a disk of ublk waits for its server: without SIGCHLD it would wait for ever. */
static void parent(int argument)
{
	siginfo_t info;
	int status;
	pid_t child;

	(void)argument;
	signal(SIGCHLD, SIG_IGN);
	rblk_program_begin();
	child = fork();
	if (!child)
		_exit(3);
	if (child < 0 || waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT))
		_exit(10);
	if (waitpid(child, &status, WNOHANG) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
		_exit(20);
}

static void test_children(void **state)
{
	(void)state;
	assert_int_equal(run(parent, 0), 0);
}

static void ended(int status)
{
	int full = open("/dev/full", O_WRONLY);

	if (full < 0 || dup2(full, STDOUT_FILENO) < 0)
		_exit(10);
	close(STDERR_FILENO);
	if (rblk_program_end("unit", status) != status)
		_exit(20);
	printf("something");
	_exit(rblk_program_end("unit", status));
}

static void test_end(void **state)
{
	(void)state;
	assert_int_equal(run(ended, 0), 1);
	assert_int_equal(run(ended, 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_file_size),
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
