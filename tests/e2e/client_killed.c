/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: hundreds of initiators that are killed at any moment leave nothing behind at the target and
 * harm no other client. Method: this program runs itself again as clients, each a load of several
 * queues that checks its data. It kills them at a random moment: while they connect, while they
 * work or, often, right after they have done some work. The target has few sessions and buffers: if
 * a killed client kept some, later clients would get none.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/load.h"
#include "tests/e2e/session.h"

#define CLIENTS 4u /* at a time */
#define KILLS 60u
#define PART (256u << 10) /* of the volume, per client: no other's late write */
#define SESSIONS "12"

static struct e2e_daemon server;

/* -- the client -------------------------------------------------------------------------------- */

/* Runs until it is killed. Writes a byte to standard output once its I/O completes. */
static int client(const char *uri, unsigned int number)
{
	struct load_options options = {
		.uri = uri,
		.queues = 1 + number % 3,
		.depth = 4u << number % 3,
		.offset = (uint64_t)number * PART,
		.bytes = PART,
		.seed = number,
	};
	struct load *load;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	load = load_start(&options);
	load_wait(load, 1);
	if (write(STDOUT_FILENO, "", 1) != 1)
		abort();
	for (;;)
		load_wait(load, 1);
}

/* -- the killer -------------------------------------------------------------------------------- */

static int start(void **state)
{
	(void)state;
	e2e_daemon_start(&server, "--memory", "victim=64M", "--memory", "steady=2M", "--reactors",
			 "2", "--sessions", SESSIONS, "--receive-buffers", "1024", "--keepalive",
			 "2s", NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	return e2e_daemon_stop(&server);
}

struct victim {
	pid_t pid;
	int out;
};

static void begin(struct victim *victim, unsigned int number)
{
	char uri[256], text[16];
	int pipes[2];

	snprintf(uri, sizeof(uri), "%s", e2e_daemon_uri(&server, "victim"));
	snprintf(text, sizeof(text), "%u", number);
	assert_int_equal(pipe(pipes), 0);
	victim->pid = fork();
	if (victim->pid == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		execl("/proc/self/exe", "client", uri, text, (char *)NULL);
		_exit(127);
	}
	assert_true(victim->pid > 0);
	close(pipes[1]);
	victim->out = pipes[0];
}

/* True: the client had done some work. The kill must end it, not an error that it found.
 */
static bool finish(struct victim *victim, bool after_work)
{
	/* The moment is random: that is what this test is about. It waits for no condition. */
	const struct timespec moment = {.tv_nsec = rand() % 20000000};
	char byte;
	bool worked = after_work && read(victim->out, &byte, 1) == 1;
	int status;

	nanosleep(&moment, NULL);
	assert_int_equal(kill(victim->pid, SIGKILL), 0);
	assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	if (!worked)
		worked = read(victim->out, &byte, 1) == 1;
	close(victim->out);
	return worked;
}

static void the_killed_leave_nothing_behind(void **state)
{
	struct load_options options = {.queues = 2, .depth = 4, .bytes = 2u << 20};
	struct victim victims[CLIENTS];
	unsigned int descriptors, worked = 0;
	struct load *steady;

	(void)state;
	options.uri = e2e_daemon_uri(&server, "steady");
	steady = load_start(&options);
	load_wait(steady, 1);
	descriptors = e2e_daemon_descriptors(&server);
	for (unsigned int i = 0; i < CLIENTS; i++)
		begin(&victims[i], i);
	for (unsigned int i = 0; i < KILLS; i++) {
		worked += finish(&victims[i % CLIENTS], i % 3);
		load_wait(steady, 1);
		if (i + CLIENTS < KILLS)
			begin(&victims[i % CLIENTS], i + CLIENTS);
	}
	assert_true(worked >= KILLS / 2);
	e2e_daemon_wait_descriptors(&server, descriptors);
	load_stop(steady);
}

/* The target has released the sessions and buffers of killed clients: all can be used again. */
static void all_sessions_can_be_had_again(void **state)
{
	struct rblk_session *sessions[CLIENTS];

	(void)state;
	for (unsigned int i = 0; i < CLIENTS; i++) {
		struct rblk_options options = {.size = sizeof(options), .queues = 2};

		sessions[i] = e2e_session_open(e2e_daemon_uri(&server, "victim"), &options);
		assert_non_null(rblk_volume_open(sessions[i], NULL, 0));
	}
	for (unsigned int i = 0; i < CLIENTS; i++)
		rblk_session_close(sessions[i]);
	assert_int_equal(e2e_daemon_log_count(&server, "refused"), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_killed_leave_nothing_behind),
		cmocka_unit_test(all_sessions_can_be_had_again),
	};

	if (argc == 3)
		return client(argv[1], (unsigned int)atoi(argv[2]));
	return cmocka_run_group_tests(tests, start, stop);
}
