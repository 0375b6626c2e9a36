/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd as a child process of a test: started on 127.0.0.1 and a port of the system's choice,
 * its log kept in a file, ended (or killed) with the test; and a file for it to serve.
 */
#ifndef RBLK_TESTS_E2E_DAEMON_H
#define RBLK_TESTS_E2E_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct e2e_daemon {
	pid_t pid;       /* 0: not running */
	char log[64];    /* the file with what it said */
	char host[64];   /* "127.0.0.1:40123" */
};

/* Arguments beside --listen, NULL at the end. Returns when it serves; aborts the test if not. */
void e2e_daemon_start(struct e2e_daemon *daemon, const char *argument, ...)
	__attribute__((sentinel));
/* Likewise, where the one listened that was stopped or killed. */
void e2e_daemon_start_again(struct e2e_daemon *daemon, const char *argument, ...)
	__attribute__((sentinel));
/* Likewise, but returns at once: it may have to wait for its predecessor's end. */
void e2e_daemon_begin_again(struct e2e_daemon *daemon, const char *argument, ...)
	__attribute__((sentinel));
/* Until one that was begun serves; aborts the test if it ends instead. */
void e2e_daemon_await(struct e2e_daemon *daemon);
/* Likewise, and it may open so many descriptors. */
void e2e_daemon_start_limited(struct e2e_daemon *daemon, unsigned int descriptors,
			      const char *argument, ...) __attribute__((sentinel));
/* SIGTERM; its exit status as of waitpid(). Prints the log where that is not 0. */
int e2e_daemon_stop(struct e2e_daemon *daemon);
void e2e_daemon_kill(struct e2e_daemon *daemon);
/* How many descriptors it has open, give or take a constant. */
unsigned int e2e_daemon_descriptors(const struct e2e_daemon *daemon);
/* Until they are no more than that; aborts the test if they stay. */
void e2e_daemon_wait_descriptors(const struct e2e_daemon *daemon, unsigned int most);
/* How many lines of its log have these words. A thread writes the log: what has just happened may be missing. */
unsigned int e2e_daemon_log_count(const struct e2e_daemon *daemon, const char *words);
/* Until there are so many; aborts the test if they do not come. Returns how many there are. */
unsigned int e2e_daemon_log_wait(const struct e2e_daemon *daemon, const char *words,
				 unsigned int least);
/* "rblk+tcp://host/volume", or "rblk://..." over RDMA; static storage. */
const char *e2e_daemon_uri(const struct e2e_daemon *daemon, const char *volume);

/*
 * A file in /var/tmp, full of zeroes, and the daemon's argument to serve it. /var/tmp, because /tmp
 * often knows no direct I/O; a test that does not want any says --cache buffered all the same.
 */
struct e2e_file {
	char path[32];
	char volume[64]; /* "name=path" */
};
void e2e_file_create(struct e2e_file *file, const char *name, uint64_t bytes);
void e2e_file_remove(const struct e2e_file *file);

#endif
