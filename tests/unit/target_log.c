/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: whoever logs goes on where nobody reads stderr; what is read later are whole lines, each
 * thread's in its order, and what was left out is counted; stopping waits for no reader. Method:
 * stderr is a small pipe, read late, or never.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "target/base/log.h"
#include "target/base/log_writer.h"

#define THREADS 4
#define LINES 1000
#define HANG_S 120 /* ample: one that waits for a reader waits for ever */

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
		if (sscanf(line, "rblkd: %u %*s dropped: stderr was not %15s", &count, end) != 2)
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
		cmocka_unit_test_setup_teardown(lines_wait_for_a_late_reader, setup, teardown),
		/* Last: its thread is never done. */
		cmocka_unit_test_setup_teardown(the_end_waits_for_no_reader, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
