/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: what a wake-up takes is measured once in a process, in limited time, and leaves nothing behind. Method: a clock and a
 * poll() of the test's own, so that no figure depends on the machine; each case is a process, whose threads, descriptors and
 * signal mask before and after are compared.
 */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/core/env.h"

/* For a thread's end that the process does not wait for: 10 s, then it has not ended. */
#define END_POLLS 10000

/* What a case found, written by its process. */
static struct seen {
	uint64_t first_ns, second_ns;
	unsigned int polls;
	int poll_ms;
	unsigned int descriptors_left, threads_left, signals_changed;
} *seen;

static uint64_t clock_ns;
static uint64_t clock_step_ns;
static bool answer_lost;

uint64_t __wrap_env_now_ns(void);
uint64_t __wrap_env_now_ns(void)
{
	return clock_ns += clock_step_ns;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	seen->polls++;
	seen->poll_ms = timeout_ms;
	return answer_lost ? 0 : __real_poll(fds, count, -1);
}

static unsigned int entries(const char *folder)
{
	unsigned int count = 0;
	DIR *dir = opendir(folder);

	if (!dir)
		_exit(1);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void *nothing(void *argument)
{
	return argument;
}

/* A thread that was joined or told to end may be in the list for a moment. */
static unsigned int threads_left(unsigned int before)
{
	for (int polls = 0; entries("/proc/self/task") > before && polls < END_POLLS; polls++)
		usleep(1000);
	return entries("/proc/self/task") - before;
}

static void measure(void)
{
	unsigned int threads, descriptors;
	sigset_t before, after;
	pthread_t thread;

	/* The first thread of a process may bring a sanitizer's own, which stays. */
	if (pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL))
		_exit(1);
	usleep(10000);
	threads = entries("/proc/self/task");
	descriptors = entries("/proc/self/fd");
	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	sigprocmask(SIG_BLOCK, &before, NULL);
	sigprocmask(SIG_BLOCK, NULL, &before);
	seen->first_ns = env_wake_ns();
	seen->second_ns = env_wake_ns();
	sigprocmask(SIG_BLOCK, NULL, &after);
	for (int i = 1; i < 32; i++)
		seen->signals_changed += sigismember(&after, i) != sigismember(&before, i);
	seen->threads_left = threads_left(threads);
	seen->descriptors_left = entries("/proc/self/fd") - descriptors;
}

static void in_a_process(uint64_t step_ns, bool lost)
{
	int status;
	pid_t child;

	memset(seen, 0, sizeof(*seen));
	clock_step_ns = step_ns;
	answer_lost = lost;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		measure();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(seen->second_ns, seen->first_ns);
	assert_int_equal(seen->signals_changed, 0);
	assert_int_equal(seen->threads_left, 0);
	/* However long an answer takes, the caller goes on. */
	assert_in_range(seen->poll_ms, 1, 100);
}

static void it_is_half_a_round_measured_once(void **state)
{
	(void)state;
	in_a_process(60000, false);
	assert_int_equal(seen->first_ns, 30000);
	assert_int_equal(seen->polls, 16);
	assert_int_equal(seen->descriptors_left, 0);
}

static void slow_rounds_are_fewer(void **state)
{
	(void)state;
	in_a_process(3000000, false);
	assert_int_equal(seen->first_ns, 1500000);
	assert_int_equal(seen->polls, 4);
	assert_int_equal(seen->descriptors_left, 0);
}

/* The thread may answer after all: the descriptors are left to it. */
static void without_an_answer_it_is_not_known(void **state)
{
	(void)state;
	in_a_process(1000, true);
	assert_int_equal(seen->first_ns, 0);
	assert_int_equal(seen->polls, 1);
	assert_int_equal(seen->descriptors_left, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_half_a_round_measured_once),
		cmocka_unit_test(slow_rounds_are_fewer),
		cmocka_unit_test(without_an_answer_it_is_not_known),
	};

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests_name("what a wake-up takes", tests, NULL, NULL);
}
