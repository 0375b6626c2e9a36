/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: logging threads continue if nothing reads stderr, or if it is a file that hangs; a later
 * reader gets whole lines, those of each thread in order, and dropped lines are counted; stopping
 * does not wait for a reader that has stopped, nor for all lines of a slow one. Method: stderr is a
 * small pipe, read late, slowly, or never, or a file to which write() does not return.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "proto/core/env.h"
#include "target/base/log.h"
#include "target/base/log_writer.h"

#define THREADS 4
#define LINES 1000
#define HANG_S 120 /* generous: a thread that waits for a reader would wait for ever */

static int saved = -1, pipes[2];
static FILE *reader;

static int setup(void **state)
{
	alarm(HANG_S);
	signal(SIGPIPE, SIG_IGN); /* as rblkd does */
	if (pipe2(pipes, O_CLOEXEC) || fcntl(pipes[1], F_SETPIPE_SZ, 4096) < 0)
		return -1;
	fflush(stderr);
	saved = dup(STDERR_FILENO);
	return dup2(pipes[1], STDERR_FILENO) < 0;
}

static int teardown(void **state)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
	if (reader)
		fclose(reader);
	else
		close(pipes[0]);
	reader = NULL;
	alarm(0);
	return 0;
}

static void *talk(void *argument)
{
	for (unsigned int i = 0; i < LINES; i++)
		tgt_log(TGT_LOG_INFO, "thread %u line %u %s", *(unsigned int *)argument, i,
			"of some length, as lines are that name an object and a reason");
	return NULL;
}

static void all_talk(void)
{
	static unsigned int numbers[THREADS];
	pthread_t threads[THREADS];

	for (unsigned int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, talk, &numbers[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Until the "end" line, which is the last. */
static void read_all(void)
{
	unsigned int next[THREADS] = {0}, lines = 0, dropped = 0, thread, number, count;
	char line[4096], end[32];

	while (fgets(line, sizeof(line), reader) && strcmp(line, "rblkd: end\n")) {
		if (sscanf(line,
			   "rblkd: thread %u line %u of some length, as lines are that name "
			   "an object and a %15s",
			   &thread, &number, end) == 3) {
			assert_string_equal(end, "reason");
			if (thread >= THREADS || number < next[thread])
				fail_msg("after line %u: %s", thread < THREADS ? next[thread] : 0, line);
			next[thread] = number + 1;
			lines++;
			continue;
		}
		if (sscanf(line, "rblkd: %u %*s dropped: stderr did not take %15s", &count, end) != 2)
			fail_msg("torn: %s", line);
		dropped += count;
	}
	assert_int_equal(lines + dropped, THREADS * LINES);
	assert_true(dropped > 0);
}

static void *stop(void *argument)
{
	tgt_log_stop();
	tgt_log(TGT_LOG_INFO, "end");
	return NULL;
}

static void lines_wait_for_a_late_reader(void **state)
{
	pthread_t thread;

	assert_int_equal(tgt_log_start(), 0);
	all_talk();
	reader = fdopen(pipes[0], "r");
	assert_non_null(reader);
	assert_int_equal(pthread_create(&thread, NULL, stop, NULL), 0);
	read_all();
	pthread_join(thread, NULL);
}

/* Linked instead of write(). */
static _Atomic bool hangs;
static sem_t hung, go;

ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	if (fd == STDERR_FILENO && atomic_load(&hangs)) {
		sem_post(&hung);
		sem_wait(&go);
	}
	return __real_write(fd, data, bytes);
}

/* A log file on a server that does not answer: no logging thread waits for it. */
static void a_file_may_hang(void **state)
{
	char line[256];

	reader = tmpfile();
	assert_non_null(reader);
	dup2(fileno(reader), STDERR_FILENO);
	sem_init(&hung, 0, 0);
	sem_init(&go, 0, 0);
	assert_int_equal(tgt_log_start(), 0);
	atomic_store(&hangs, true);
	tgt_log(TGT_LOG_INFO, "first");
	sem_wait(&hung);
	tgt_log(TGT_LOG_INFO, "second");
	atomic_store(&hangs, false);
	sem_post(&go);
	tgt_log_stop();
	rewind(reader);
	assert_non_null(fgets(line, sizeof(line), reader));
	assert_string_equal(line, "rblkd: first\n");
	assert_non_null(fgets(line, sizeof(line), reader));
	assert_string_equal(line, "rblkd: second\n");
}

/* Empties the pipe from time to time, so that stopping sees progress each time. */
static _Atomic bool stopped;
static size_t taken;

static void *read_slowly(void *argument)
{
	const struct timespec pause = {.tv_nsec = 500000000};
	char page[4096];
	ssize_t bytes = 1;

	while (!atomic_load(&stopped) && bytes > 0) {
		nanosleep(&pause, NULL);
		bytes = read(pipes[0], page, sizeof(page));
		taken += bytes > 0 ? (size_t)bytes : 0;
	}
	return NULL;
}

static int stop_before_all_is_read(void)
{
	pthread_t thread;

	if (tgt_log_start())
		return 1;
	all_talk();
	if (pthread_create(&thread, NULL, read_slowly, NULL))
		return 1;
	tgt_log_stop();
	atomic_store(&stopped, true);
	pthread_join(thread, NULL);
	/* For all lines this reader needs six times as long as stopping may take. */
	return taken < TGT_LOG_RING_BYTES / 2 ? 0 : 2;
}

/* In its own process, because after stopping nothing is logged any more. */
static void the_end_does_not_wait_for_all_of_a_slow_reader(void **state)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(HANG_S);
		_exit(stop_before_all_is_read());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A limit that is used up for an hour, and one that is not. Before any log thread, lines are written at once. */
static void a_limit_drops_lines_and_counts_them(void **state)
{
	struct tgt_log_limit limit = {.paid_ns = env_now_ns() + 3600000000000ull};
	char line[256];

	reader = fdopen(pipes[0], "r");
	assert_non_null(reader);
	tgt_log_limited(&limit, TGT_LOG_INFO, "one");
	tgt_log_limited(&limit, TGT_LOG_INFO, "two");
	assert_int_equal(limit.dropped, 2);
	limit.paid_ns = 0;
	tgt_log_limited(&limit, TGT_LOG_INFO, "three");
	assert_non_null(fgets(line, sizeof(line), reader));
	assert_string_equal(line, "rblkd: three (2 similar lines suppressed)\n");
	assert_int_equal(limit.dropped, 0);
	assert_true(limit.paid_ns > 0);
	/* A burst at once, whatever time it takes. */
	limit.paid_ns = 0;
	for (unsigned int i = 0; i < TGT_LOG_BURST; i++) {
		tgt_log_limited(&limit, TGT_LOG_INFO, "%u", i);
		assert_non_null(fgets(line, sizeof(line), reader));
	}
	assert_int_equal(limit.dropped, 0);
}

static void the_end_waits_for_no_reader(void **state)
{
	assert_int_equal(tgt_log_start(), 0);
	all_talk();
	tgt_log_stop();
	tgt_log(TGT_LOG_INFO, "this, too, waits for nobody");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_limit_drops_lines_and_counts_them, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_wait_for_a_late_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_may_hang, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_does_not_wait_for_all_of_a_slow_reader,
						setup, teardown),
		/* The last one, because its thread never ends. */
		cmocka_unit_test_setup_teardown(the_end_waits_for_no_reader, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
