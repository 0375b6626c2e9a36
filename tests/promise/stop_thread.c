/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stops one thread of another process, and no other, until standard input ends: a reactor that is late.
 *   stop_thread TID    prints "stopped"
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t thread = argc == 2 ? (pid_t)atoi(argv[1]) : 0;
	char byte;

	if (thread <= 0) {
		fprintf(stderr, "usage: stop_thread TID\n");
		return 2;
	}
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0 ||
	    waitpid(thread, NULL, __WALL) < 0) {
		perror("stop_thread");
		return 1;
	}
	printf("stopped\n");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	/* It goes on, also if this process is killed. */
	return ptrace(PTRACE_DETACH, thread, NULL, NULL) < 0;
}
