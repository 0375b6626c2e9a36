/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a program that would have the library, or the device, use memory that is freed is ended
 * with a message. Method: a child process for each, with a scripted target (fake_target.h).
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/e2e/lib_fixture.h"

static struct rblk_session *session;

/* What the child says last. Its sanitizers and cmocka do not handle its end. */
static void expect_end(void (*child)(void), const char *words)
{
	char text[1024] = "";
	size_t used = 0;
	ssize_t got;
	int pipe_fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		dup2(pipe_fds[1], STDERR_FILENO);
		child();
		_exit(0);
	}
	close(pipe_fds[1]);
	while (used < sizeof(text) - 1 &&
	       (got = read(pipe_fds[0], text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	close(pipe_fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in: %s", words, text);
}

static void close_session(void *arg, const struct rblk_result *result)
{
	(void)arg;
	(void)result;
	rblk_session_close(session);
}

static void child_closes_in_a_callback(void)
{
	struct fixture f = {.volume = NULL};

	lib_open(&f);
	session = f.session;
	if (!rblk_flush(f.volume, close_session, NULL))
		while (rblk_wait(session, -1) >= 0)
			;
}

static void a_session_is_not_closed_in_a_callback(void **state)
{
	(void)state;
	expect_end(child_closes_in_a_callback, "rblk_session_close(): called from a callback");
}

static enum fake_answer no_answer(struct fake_target *fake, const struct rblk_wire_command *command,
				  struct rblk_wire_completion *completion)
{
	(void)fake;
	(void)completion;
	return lib_is_io(command) ? FAKE_SILENT : FAKE_REPLY;
}

static void child_frees_a_buffer_in_use(void)
{
	struct fixture f = {.script = {.command = no_answer}};

	lib_open(&f);
	lib_start_io(&f, false);
	rblk_buffer_free(f.session, f.data);
}

static void a_buffer_in_use_is_not_freed(void **state)
{
	(void)state;
	expect_end(child_frees_a_buffer_in_use, "rblk_buffer_free(): not a buffer of the session");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_is_not_closed_in_a_callback),
		cmocka_unit_test(a_buffer_in_use_is_not_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
