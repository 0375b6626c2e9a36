/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a wake-up takes is measured once, and leaves nothing behind in the process. Method: its threads, descriptors
 * and signal mask before and after are compared.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <signal.h>
#include "proto/core/env.h"

static unsigned int entries(const char *folder)
{
	unsigned int count = 0;
	DIR *dir = opendir(folder);

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void it_is_measured_once_and_leaves_nothing(void **state)
{
	unsigned int threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
	sigset_t before, after;
	uint64_t wake_ns;

	(void)state;
	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	sigprocmask(SIG_BLOCK, &before, NULL);
	sigprocmask(SIG_BLOCK, NULL, &before);
	wake_ns = env_wake_ns();
	assert_true(wake_ns > 0);
	assert_true(env_wake_ns() == wake_ns);
	sigemptyset(&after);
	sigprocmask(SIG_BLOCK, NULL, &after);
	for (int i = 1; i < 32; i++)
		assert_int_equal(sigismember(&after, i), sigismember(&before, i));
	/* A thread that was joined may be in the list for a moment. */
	while (entries("/proc/self/task") != threads)
		;
	assert_int_equal(entries("/proc/self/fd"), descriptors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_measured_once_and_leaves_nothing),
	};

	return cmocka_run_group_tests_name("what a wake-up takes", tests, NULL, NULL);
}
