/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: who takes a disk over leaves one alone that is only being attached, or that another command takes over; who
 * kills its processes kills no other one that has, or gets, one of their numbers. Method: a process that holds the
 * disk's kept file as its server does; what only root may do succeeds.
 */
#include "tests/unit/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "initiator/ublk/keeper.h"

static char root[] = "/tmp/rblk-root.XXXXXX";

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	return __real_open(strcmp(path, "/proc/self/oom_score_adj") ? path : "/dev/null", flags, 0600);
}

int __real_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	return option == PR_SET_NAME ? __real_prctl(option, a, b, c, d) : 0;
}

int __wrap_mlockall(int flags);
int __wrap_mlockall(int flags)
{
	return 0;
}

int __real_ublk_kept_open(const char *folder, uint32_t id, struct ublk_kept **kept);
int __wrap_ublk_kept_open(const char *folder, uint32_t id, struct ublk_kept **kept);
int __wrap_ublk_kept_open(const char *folder, uint32_t id, struct ublk_kept **kept)
{
	return __real_ublk_kept_open(root, id, kept);
}

int __real_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal)
{
	print_error("signal %d by number: process %d may be another one since it was looked at\n", signal, (int)pid);
	_exit(1);
}

static struct ublk_kept *kept;

static void left(int signal)
{
	kept->keeper = 1;
}

/* Its keeper and server. Told to leave, it ends; or another one, a stranger, has it at once. */
static pid_t serve(int ready, enum ublk_kept_stage stage, bool another)
{
	pid_t child = fork();

	if (child)
		return child;
	__real_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	__real_prctl(PR_SET_NAME, (unsigned long)"rblk-ublk", 0, 0, 0);
	if (ublk_kept_create(root, &kept) < 0)
		_exit(10);
	kept->id = 5;
	kept->stage = stage;
	if (another)
		signal(UBLK_SIGNAL_LEAVE, left);
	if (ublk_kept_link(root, kept) || write(ready, "", 1) != 1)
		_exit(11);
	for (;;)
		pause();
}

/* It is not taken over, and lives. */
static void refused(enum ublk_kept_stage stage, bool another, const char *words)
{
	const struct ublk_disk_options options = { .uri = "rblk://a/v" };
	struct ublk_disk_started started;
	int ready[2], status;
	char byte;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = serve(ready[1], stage, another);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(ublk_keeper_start(&options, 5, &started), -1);
	assert_string_equal(started.words, words);
	assert_int_equal(waitpid(child, &status, WNOHANG), 0);
	assert_int_equal(__real_kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	close(ready[0]);
	close(ready[1]);
}

static void a_disk_that_is_being_attached_is_left_alone(void **state)
{
	refused(UBLK_KEPT_ADDED, false, "it is being attached");
}

static void a_disk_that_another_takes_over_is_left_alone(void **state)
{
	refused(UBLK_KEPT_STARTED, true, "another command takes it over");
}

/* Its keeper has ended, and a stranger has that one's number. */
static void no_stranger_is_killed(void **state)
{
	struct ublk_kept *theirs;
	pid_t child, stranger;
	int ready[2], status, fd;
	char byte;

	assert_int_equal(pipe(ready), 0);
	child = serve(ready[1], UBLK_KEPT_STARTED, false);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	stranger = fork();
	if (!stranger)
		__real_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	while (!stranger)
		pause();
	fd = ublk_kept_open(root, 5, &theirs);
	assert_true(fd >= 0);
	theirs->keeper = stranger;
	theirs->server = child;
	ublk_kept_close(fd, theirs);
	assert_int_equal(ublk_keeper_kill(5), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(waitpid(stranger, &status, WNOHANG), 0);
	assert_int_equal(__real_kill(stranger, SIGKILL), 0);
	assert_int_equal(waitpid(stranger, &status, 0), stranger);
	close(ready[0]);
	close(ready[1]);
}

static int setup(void **state)
{
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_disk_that_is_being_attached_is_left_alone),
		cmocka_unit_test(a_disk_that_another_takes_over_is_left_alone),
		cmocka_unit_test(no_stranger_is_killed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
