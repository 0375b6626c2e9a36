/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the daemon of a test, see daemon.h. RBLKD, set by ctest, is the program to run.
 * RBLK_E2E_LISTEN is where it listens, rblk+tcp://127.0.0.1:0 if not set: with rblk://address:0 the same
 * tests run over verbs, where there is a device.
 */
#include "tests/e2e/daemon.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 32
#define DESCRIPTORS_MAX 2048u /* where a test wants a limit */
#define START_S 60 /* ample: sanitizers and emulation are slow */
#define CLOSE_S 60 /* likewise */

static const char *listen_address(void)
{
	const char *address = getenv("RBLK_E2E_LISTEN");

	return address ? address : "rblk+tcp://127.0.0.1:0";
}

static bool over_rdma(void)
{
	return !strncmp(listen_address(), "rblk://", strlen("rblk://"));
}

static void show_log(const struct e2e_daemon *daemon)
{
	char line[512];
	FILE *log = fopen(daemon->log, "r");

	while (log && fgets(line, sizeof(line), log))
		fprintf(stderr, "rblkd: %s", line);
	if (log)
		fclose(log);
}

static void give_up(const struct e2e_daemon *daemon, const char *what)
{
	fprintf(stderr, "%s\n", what);
	show_log(daemon);
	abort();
}

/* A limit below what io_uring's table takes would end it at once: so all others are taken. */
static void child_limit(unsigned int descriptors)
{
	const struct rlimit limit = { DESCRIPTORS_MAX, DESCRIPTORS_MAX };

	if (!descriptors)
		return;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		_exit(126);
	while (dup(STDIN_FILENO) < (int)(DESCRIPTORS_MAX - descriptors - 1))
		;
}

static void child(int log, char **arguments, unsigned int descriptors, pid_t parent)
{
	/* A test that dies takes its daemon along. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	dup2(log, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	child_limit(descriptors);
	execv(arguments[0], arguments);
	perror(arguments[0]);
	_exit(127);
}

/* The address that it says it serves on; false: not yet. */
static bool find_address(struct e2e_daemon *daemon)
{
	char line[512], *at = NULL;
	FILE *log = fopen(daemon->log, "r");

	while (log && !at && fgets(line, sizeof(line), log))
		if (strchr(line, '\n') && strstr(line, "serving "))
			at = strstr(line, "://");
	if (at)
		snprintf(daemon->host, sizeof(daemon->host), "%.*s", (int)strcspn(at + 3, ", \n"),
			 at + 3);
	if (log)
		fclose(log);
	return at != NULL;
}

static void wait_until_serving(struct e2e_daemon *daemon)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	time_t until = time(NULL) + START_S;

	while (!find_address(daemon)) {
		if (waitpid(daemon->pid, NULL, WNOHANG) == daemon->pid)
			give_up(daemon, "rblkd ended instead of serving");
		if (time(NULL) > until)
			give_up(daemon, "rblkd does not say that it serves");
		nanosleep(&pause, NULL);
	}
}

static void launch(struct e2e_daemon *daemon, unsigned int descriptors,
		   const char *argument, va_list more)
{
	char *arguments[ARGUMENTS_MAX] = { getenv("RBLKD"), "--listen",
					   (char *)listen_address() };
	pid_t parent = getpid();
	int log, n = 3;

	memset(daemon, 0, sizeof(*daemon));
	strcpy(daemon->log, "/tmp/rblk-e2e-log-XXXXXX");
	log = mkostemp(daemon->log, O_CLOEXEC);
	if (log < 0 || !arguments[0])
		give_up(daemon, "no log file, or the environment does not say where RBLKD is");
	for (; argument && n < ARGUMENTS_MAX - 1; argument = va_arg(more, const char *))
		arguments[n++] = (char *)argument;
	daemon->pid = fork();
	if (daemon->pid == 0)
		child(log, arguments, descriptors, parent);
	close(log);
	if (daemon->pid < 0)
		give_up(daemon, "fork failed");
	wait_until_serving(daemon);
}

void e2e_daemon_start(struct e2e_daemon *daemon, const char *argument, ...)
{
	va_list more;

	va_start(more, argument);
	launch(daemon, 0, argument, more);
	va_end(more);
}

void e2e_daemon_start_limited(struct e2e_daemon *daemon, unsigned int descriptors,
			      const char *argument, ...)
{
	va_list more;

	va_start(more, argument);
	launch(daemon, descriptors, argument, more);
	va_end(more);
}

static int finish(struct e2e_daemon *daemon, int signal_number)
{
	int status = 0;

	if (!daemon->pid)
		return 0;
	kill(daemon->pid, signal_number);
	waitpid(daemon->pid, &status, 0);
	daemon->pid = 0;
	if (status && signal_number == SIGTERM)
		show_log(daemon);
	unlink(daemon->log);
	return status;
}

int e2e_daemon_stop(struct e2e_daemon *daemon)
{
	return finish(daemon, SIGTERM);
}

void e2e_daemon_kill(struct e2e_daemon *daemon)
{
	finish(daemon, SIGKILL);
}

unsigned int e2e_daemon_descriptors(const struct e2e_daemon *daemon)
{
	char path[64];
	unsigned int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", daemon->pid);
	dir = opendir(path);
	if (!dir)
		give_up(daemon, "rblkd has ended");
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

void e2e_daemon_wait_descriptors(const struct e2e_daemon *daemon, unsigned int most)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	time_t until = time(NULL) + CLOSE_S;
	unsigned int open;

	while ((open = e2e_daemon_descriptors(daemon)) > most) {
		if (time(NULL) > until) {
			fprintf(stderr, "%u descriptors are open, not %u\n", open, most);
			give_up(daemon, "rblkd keeps descriptors");
		}
		nanosleep(&pause, NULL);
	}
}

unsigned int e2e_daemon_log_count(const struct e2e_daemon *daemon, const char *words)
{
	FILE *log = fopen(daemon->log, "r");
	unsigned int count = 0;
	char line[1024];

	while (log && fgets(line, sizeof(line), log))
		count += strstr(line, words) != NULL;
	if (log)
		fclose(log);
	return count;
}

const char *e2e_daemon_uri(const struct e2e_daemon *daemon, const char *volume)
{
	static char uri[256];

	snprintf(uri, sizeof(uri), "%s://%s/%s", over_rdma() ? "rblk" : "rblk+tcp", daemon->host,
		 volume);
	return uri;
}

void e2e_file_create(struct e2e_file *file, const char *name, uint64_t bytes)
{
	int fd;

	strcpy(file->path, "/var/tmp/rblk-e2e-XXXXXX");
	fd = mkostemp(file->path, O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		perror(file->path);
		abort();
	}
	close(fd);
	snprintf(file->volume, sizeof(file->volume), "%s=%s", name, file->path);
}

void e2e_file_remove(const struct e2e_file *file)
{
	unlink(file->path);
}
