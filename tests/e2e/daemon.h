/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rblkd as a child process of a test: started on 127.0.0.1 and a port of the system's choice,
 * its log kept in a file, ended (or killed) with the test; a file for it to serve, and a folder for what it keeps.
 */
#ifndef RBLK_TESTS_E2E_DAEMON_H
#define RBLK_TESTS_E2E_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Programs with a sanitizer take other memory and time than they do without. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define E2E_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define E2E_SANITIZED 1
#endif
#endif
#ifndef E2E_SANITIZED
#define E2E_SANITIZED 0
#endif

struct e2e_daemon {
	pid_t pid;       /* 0: not running */
	char log[64];    /* the file with what it said */
	char host[64];   /* "127.0.0.1:40123" */
};

/* Arguments besides --listen, NULL at the end. Returns when it serves; aborts the test if it
 * fails. */
void e2e_daemon_start(struct e2e_daemon *daemon, const char *argument, ...)
	__attribute__((sentinel));
/* Likewise, on the address of the daemon that was stopped or killed. */
void e2e_daemon_start_again(struct e2e_daemon *daemon, const char *argument, ...)
	__attribute__((sentinel));
/* Likewise, but returns at once: it may have to wait for its predecessor's end. */
void e2e_daemon_begin_again(struct e2e_daemon *daemon, const char *argument, ...)
	__attribute__((sentinel));
/* Waits until a daemon that was begun serves; aborts the test if it ends instead. */
void e2e_daemon_await(struct e2e_daemon *daemon);
/* Likewise, with a limit of descriptors. */
void e2e_daemon_start_limited(struct e2e_daemon *daemon, unsigned int descriptors,
			      const char *argument, ...) __attribute__((sentinel));
/* Sends SIGTERM. Returns the exit status as of waitpid(), and prints the log if it is not 0. */
int e2e_daemon_stop(struct e2e_daemon *daemon);
void e2e_daemon_kill(struct e2e_daemon *daemon);
/* How many descriptors it has open, plus a constant. */
unsigned int e2e_daemon_descriptors(const struct e2e_daemon *daemon);
/* Waits until there are no more than `most`; aborts the test if that does not happen. */
void e2e_daemon_wait_descriptors(const struct e2e_daemon *daemon, unsigned int most);
/* Memory that it has resident. */
unsigned int e2e_daemon_resident_kib(const struct e2e_daemon *daemon);
/* How many lines of its log have these words. A thread writes the log: the newest lines may be
 * missing. */
unsigned int e2e_daemon_log_count(const struct e2e_daemon *daemon, const char *words);
/* Waits until there are so many; aborts the test if they do not come. Returns how many there
 * are. */
unsigned int e2e_daemon_log_wait(const struct e2e_daemon *daemon, const char *words,
				 unsigned int least);
/* "rblk+tcp://host/volume", or "rblk://..." over RDMA; static storage. */
const char *e2e_daemon_uri(const struct e2e_daemon *daemon, const char *volume);

/* "127.0.0.1:port" of the second address that it listens on. */
void e2e_daemon_second_host(const struct e2e_daemon *daemon, char host[64]);

/*
 * A file in /var/tmp, full of zeroes, and the daemon's argument to serve it. /var/tmp, because /tmp
 * often does not support direct I/O. A test that needs none still passes --cache buffered.
 */
struct e2e_file {
	char path[32];
	char volume[64]; /* "name=path" */
};
void e2e_file_create(struct e2e_file *file, const char *name, uint64_t bytes);
void e2e_file_remove(const struct e2e_file *file);

/* What many tests begin and end with: "disk" of 1 MiB is served, also at `listen` if that is not NULL. */
void e2e_disk_start(struct e2e_daemon *daemon, struct e2e_file *file, const char *listen);
/* Returns what e2e_daemon_stop() returns. */
int e2e_disk_stop(struct e2e_daemon *daemon, const struct e2e_file *file);

/*
 * A configuration with the volume "disk" on a path that leads to one of two files of 1 MiB, which the
 * daemon takes for one store in one fence domain (F10): behind the other file it has another cache
 * epoch (F7).
 */
struct e2e_turning {
	struct e2e_file first, second;
	char path[40], config[40];
};
/* It leads to the first. */
void e2e_turning_create(struct e2e_turning *turning);
void e2e_turning_turn(const struct e2e_turning *turning, const struct e2e_file *to);
void e2e_turning_remove(const struct e2e_turning *turning);

/* An empty folder in /var/tmp; it is removed with all that is in it. */
void e2e_folder_create(char path[64]);
void e2e_folder_remove(const char *path);

#endif
