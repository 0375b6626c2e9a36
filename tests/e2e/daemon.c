/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the daemon of a test, see daemon.h. RBLKD, set by ctest, is the program to run. A test
 * program that fails prints the logs of its last daemons. RBLK_E2E_LISTEN is where it listens,
 * rblk+tcp://127.0.0.1:0 if not set: with rblk://address:0 the same tests run over verbs, if there
 * is a device.
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

#define ARGUMENTS_MAX 48
#define LOGS_MAX 8
#define LOG_SHOWN_BYTES 65536 /* the end of each */
#define DESCRIPTORS_MAX 2048u /* for a test that sets a limit */
#define START_S 60 /* generous: sanitizers and emulation are slow */
#define CLOSE_S 60 /* likewise */
#define LOG_S 60 /* likewise */

static const char *listen_address(void)
{
	const char *address = getenv("RBLK_E2E_LISTEN");

	return address ? address : "rblk+tcp://127.0.0.1:0";
}

static bool over_rdma(void)
{
	return !strncmp(listen_address(), "rblk://", strlen("rblk://"));
}

/* -- logs --------------------------------------------------------------------------------------- */

/* Logs of the last daemons of this program. They are printed if the program fails. */
static char logs[LOGS_MAX][sizeof(((struct e2e_daemon *)0)->log)];
static unsigned int log_count;
static pid_t log_owner;

/* Also called from a signal handler. */
static void logs_show(void)
{
	static char text[LOG_SHOWN_BYTES];
	unsigned int kept = log_count < LOGS_MAX ? log_count : LOGS_MAX;

	for (unsigned int i = log_count - kept; i < log_count; i++) {
		const char *path = logs[i % LOGS_MAX];
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t bytes;

		if (fd < 0)
			continue;
		if (lseek(fd, -(off_t)sizeof(text), SEEK_END) < 0)
			lseek(fd, 0, SEEK_SET);
		bytes = read(fd, text, sizeof(text));
		close(fd);
		if (write(STDERR_FILENO, "log of rblkd:\n", 14) < 0 ||
		    (bytes > 0 && write(STDERR_FILENO, text, (size_t)bytes) < 0))
			return;
	}
}

static void logs_remove(void)
{
	for (unsigned int i = 0; i < log_count && i < LOGS_MAX; i++)
		unlink(logs[i]);
}

static void state_remove(void);

static void logs_at_exit(int status, void *arg)
{
	(void)arg;
	if (getpid() != log_owner)
		return; /* a child before its exec */
	if (status)
		logs_show();
	logs_remove();
	state_remove();
}

static void logs_at_abort(int signal_number)
{
	(void)signal_number;
	logs_show();
	logs_remove();
}

static void logs_keep(const char *path)
{
	struct sigaction action = { .sa_handler = logs_at_abort, .sa_flags = (int)SA_RESETHAND };

	if (!log_owner) {
		log_owner = getpid();
		on_exit(logs_at_exit, NULL);
		sigaction(SIGABRT, &action, NULL);
	}
	if (log_count >= LOGS_MAX)
		unlink(logs[log_count % LOGS_MAX]);
	strcpy(logs[log_count++ % LOGS_MAX], path);
}

static void give_up_on(const char *what, const char *words)
{
	fprintf(stderr, "%s%s\n", what, words);
	abort();
}

static void give_up(const char *what)
{
	give_up_on(what, "");
}

/* -- what daemons remember ---------------------------------------------------------------------- */

/* One folder for all daemons of this program. */
static char state[] = "/tmp/rblk-e2e-state-XXXXXX";
static bool state_made;

static void state_remove(void)
{
	DIR *dir = state_made ? opendir(state) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(state);
}

static void state_make(void)
{
	if (!state_made && !mkdtemp(state))
		give_up("no folder for the daemon's state");
	state_made = true;
}

/* -- starting ----------------------------------------------------------------------------------- */

/* The daemon ends at once if its limit is below the size of io_uring's table. So the limit stays
 * high, and this uses up all descriptors but `descriptors`. */
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
	/* The daemon is killed when its test ends. */
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

/* The address that the log says it serves on; false: none yet. */
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

/* False, too, if it is not known any more: it was waited for. */
static bool has_ended(const struct e2e_daemon *daemon)
{
	siginfo_t info = {0};

	return daemon->pid && !waitid(P_PID, (id_t)daemon->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

void e2e_daemon_await(struct e2e_daemon *daemon)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	time_t until = time(NULL) + START_S;

	while (!find_address(daemon)) {
		if (has_ended(daemon))
			give_up("rblkd ended instead of serving");
		if (time(NULL) > until)
			give_up("rblkd does not log that it serves");
		nanosleep(&pause, NULL);
	}
}

static void launch(struct e2e_daemon *daemon, const char *listen, unsigned int descriptors,
		   const char *argument, va_list more)
{
	/* A small pool: to make one of the usual size is most of what a start costs. A test's own size comes later, and holds. */
	char *arguments[ARGUMENTS_MAX] = {getenv("RBLKD"), "--listen", (char *)listen, "--state-dir", state,
					  "--control-socket", "none", "--journal", "none", "--reservations-dir", state,
					  "--pool-size", "8M"};
	pid_t parent = getpid();
	int log, n = 13;

	memset(daemon, 0, sizeof(*daemon));
	state_make();
	strcpy(daemon->log, "/tmp/rblk-e2e-log-XXXXXX");
	log = mkostemp(daemon->log, O_CLOEXEC);
	if (log >= 0)
		logs_keep(daemon->log);
	if (log < 0 || !arguments[0])
		give_up("no log file, or RBLKD is not set");
	for (; argument && n < ARGUMENTS_MAX - 1; argument = va_arg(more, const char *))
		arguments[n++] = (char *)argument;
	daemon->pid = fork();
	if (daemon->pid == 0)
		child(log, arguments, descriptors, parent);
	close(log);
	if (daemon->pid < 0)
		give_up("fork failed");
}

void e2e_daemon_start(struct e2e_daemon *daemon, const char *argument, ...)
{
	va_list more;

	va_start(more, argument);
	launch(daemon, listen_address(), 0, argument, more);
	va_end(more);
	e2e_daemon_await(daemon);
}

static void launch_again(struct e2e_daemon *daemon, const char *argument, va_list more)
{
	char listen[128];

	snprintf(listen, sizeof(listen), "%s://%s", over_rdma() ? "rblk" : "rblk+tcp", daemon->host);
	launch(daemon, listen, 0, argument, more);
}

void e2e_daemon_start_again(struct e2e_daemon *daemon, const char *argument, ...)
{
	va_list more;

	va_start(more, argument);
	launch_again(daemon, argument, more);
	va_end(more);
	e2e_daemon_await(daemon);
}

void e2e_daemon_begin_again(struct e2e_daemon *daemon, const char *argument, ...)
{
	va_list more;

	va_start(more, argument);
	launch_again(daemon, argument, more);
	va_end(more);
}

void e2e_daemon_start_limited(struct e2e_daemon *daemon, unsigned int descriptors,
			      const char *argument, ...)
{
	va_list more;

	va_start(more, argument);
	launch(daemon, listen_address(), descriptors, argument, more);
	va_end(more);
	e2e_daemon_await(daemon);
}

static int finish(struct e2e_daemon *daemon, int signal_number)
{
	int status = 0;

	if (!daemon->pid)
		return 0;
	kill(daemon->pid, signal_number);
	waitpid(daemon->pid, &status, 0);
	daemon->pid = 0;
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
		give_up("rblkd has ended");
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

unsigned int e2e_daemon_resident_kib(const struct e2e_daemon *daemon)
{
	unsigned int kib = 0;
	char path[64], line[128];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", daemon->pid);
	status = fopen(path, "r");
	if (!status)
		give_up("rblkd has ended");
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %u kB", &kib) == 1)
			break;
	fclose(status);
	if (!kib)
		give_up("rblkd has no memory");
	return kib;
}

void e2e_daemon_wait_descriptors(const struct e2e_daemon *daemon, unsigned int most)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	time_t until = time(NULL) + CLOSE_S;
	unsigned int open;

	while ((open = e2e_daemon_descriptors(daemon)) > most) {
		if (time(NULL) > until) {
			fprintf(stderr, "%u descriptors are open, not %u\n", open, most);
			give_up("rblkd keeps descriptors");
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

unsigned int e2e_daemon_log_wait(const struct e2e_daemon *daemon, const char *words,
				 unsigned int least)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	time_t until = time(NULL) + LOG_S;
	unsigned int count;

	for (;;) {
		bool ended = has_ended(daemon);

		count = e2e_daemon_log_count(daemon, words);
		if (count >= least)
			return count;
		if (ended)
			give_up_on("rblkd ended without logging: ", words);
		if (time(NULL) > until)
			give_up_on("rblkd does not log: ", words);
		nanosleep(&pause, NULL);
	}
}

const char *e2e_daemon_uri(const struct e2e_daemon *daemon, const char *volume)
{
	static char uri[256];

	snprintf(uri, sizeof(uri), "%s://%s/%s", over_rdma() ? "rblk" : "rblk+tcp", daemon->host,
		 volume);
	return uri;
}

/* The log names both addresses: "serving 1 volume on rblk+tcp://127.0.0.1:1,
 * rblk+tcp://127.0.0.1:2". */
void e2e_daemon_second_host(const struct e2e_daemon *daemon, char host[64])
{
	char line[512], *at = NULL;
	FILE *log = fopen(daemon->log, "r");

	while (log && !at && fgets(line, sizeof(line), log))
		if (strstr(line, "serving ") && (at = strstr(line, ", ")))
			at = strstr(at, "://");
	if (log)
		fclose(log);
	if (!at) {
		fprintf(stderr, "%s: rblkd tells of no second address\n", daemon->log);
		abort();
	}
	snprintf(host, 64, "%.*s", (int)strcspn(at + 3, ", \n"), at + 3);
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

void e2e_disk_start(struct e2e_daemon *daemon, struct e2e_file *file, const char *listen)
{
	e2e_file_create(file, "disk", 1 << 20);
	e2e_daemon_start(daemon, "--cache", "buffered", file->volume, listen ? "--listen" : NULL, listen, NULL);
}

int e2e_disk_stop(struct e2e_daemon *daemon, const struct e2e_file *file)
{
	int status = e2e_daemon_stop(daemon);

	e2e_file_remove(file);
	return status;
}

void e2e_turning_turn(const struct e2e_turning *turning, const struct e2e_file *to)
{
	unlink(turning->path);
	if (symlink(to->path, turning->path)) {
		perror(turning->path);
		abort();
	}
}

void e2e_turning_create(struct e2e_turning *turning)
{
	FILE *file;

	e2e_file_create(&turning->first, "first", 1u << 20);
	e2e_file_create(&turning->second, "second", 1u << 20);
	snprintf(turning->path, sizeof(turning->path), "%s.link", turning->first.path);
	snprintf(turning->config, sizeof(turning->config), "%s.conf", turning->first.path);
	file = fopen(turning->config, "w");
	if (!file) {
		perror(turning->config);
		abort();
	}
	fprintf(file,
		"[volume disk]\npath = %s\ncache = buffered\n"
		"fence_domain = 6d1f0c1e-7d4a-4a53-9a0e-2f1d5b7c9e11\n",
		turning->path);
	fclose(file);
	e2e_turning_turn(turning, &turning->first);
}

void e2e_turning_remove(const struct e2e_turning *turning)
{
	unlink(turning->path);
	unlink(turning->config);
	e2e_file_remove(&turning->first);
	e2e_file_remove(&turning->second);
}

void e2e_folder_create(char path[64])
{
	strcpy(path, "/var/tmp/rblk-e2e-XXXXXX");
	if (!mkdtemp(path)) {
		perror(path);
		abort();
	}
}

void e2e_folder_remove(const char *path)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", path);
	if (system(command)) {
		fprintf(stderr, "%s cannot be removed\n", path);
		abort();
	}
}
