/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Goal: a target that is told to stop in the middle of logins ends cleanly: it refuses late logins,
 * and uses nothing of them after it was freed. Method: processes that connect, open and leave
 * without end, while one daemon after the other is stopped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/e2e/daemon.h"
#include "tests/e2e/raw.h"

#define STORMERS 3u
#define DAEMONS 4u
#define LOGINS 20u

/* Connects until the target has ended. Then the raw initiator aborts the process. */
static void storm(const char *host)
{
	struct rlimit no_core = {0, 0};
	int null = open("/dev/null", O_WRONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	/* cmocka and sanitizers handle SIGABRT; here it only ends the process. */
	signal(SIGABRT, SIG_DFL);
	dup2(null, STDERR_FILENO);
	for (;;) {
		struct raw raw;

		raw_init(&raw);
		/* The target refuses it while it drains: try again until the target has ended. */
		if (raw_connect(&raw, host))
			raw_open(&raw, "mem");
		raw_close(&raw);
	}
}

static void stopped_in_the_middle_of_logins(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < DAEMONS; round++) {
		struct e2e_daemon server;
		pid_t pids[STORMERS];

		e2e_daemon_start(&server, "--memory", "mem=1M", "--reactors", "2", NULL);
		for (unsigned int i = 0; i < STORMERS; i++) {
			pids[i] = fork();
			assert_true(pids[i] >= 0);
			if (!pids[i])
				storm(server.host);
		}
		/* The processes are connecting by now. */
		for (unsigned int i = 0; i < LOGINS; i++) {
			struct raw raw;

			raw_init(&raw);
			assert_true(raw_connect(&raw, server.host));
			raw_close(&raw);
		}
		assert_int_equal(e2e_daemon_stop(&server), 0);
		for (unsigned int i = 0; i < STORMERS; i++) {
			kill(pids[i], SIGKILL);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped_in_the_middle_of_logins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
