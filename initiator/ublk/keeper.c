/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a disk's keeper, see keeper.h: its servers one after the other, and the change from one keeper to another
 * program's.
 */
#include "initiator/ublk/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "initiator/ublk/control.h"
#include "initiator/ublk/record.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif
#define KEEPER_PROGRAM "rblk-ublk-keep"
#define KEEPER_SERVER "rblk-ublk"
#define KEEPER_CGROUPS "/sys/fs/cgroup"
#define KEEPER_SOON_MS 3000     /* a server that is killed within this may be so again */
#define KEEPER_EARLY_MAX 10     /* then the disk fails */
#define KEEPER_PAUSE_MS 10      /* it doubles from the second early end on */
#define KEEPER_PAUSE_MAX_MS 5000
#define KEEPER_UNREACHED_MS 500 /* between two servers that do not reach the volume */
#define KEEPER_POLL_MS 10
#define KEEPER_LEAVE_MS 5000    /* then the other keeper is killed; its server needs 2 s at most */
#define KEEPER_KILL_MS 30000    /* a process that is killed gives back what devices use */

struct keeper {
	const struct ublk_disk_options *options;
	struct ublk_kept *kept;
	int fd; /* kept's, with its lock */
};

/* -- how often --------------------------------------------------------------------------------- */

uint32_t ublk_keeper_pause_ms(struct ublk_keeper_history *history, uint64_t start_ms, uint64_t now, bool served,
			      bool unreached, uint64_t limit_ms)
{
	uint32_t pause_ms = KEEPER_PAUSE_MS;

	if (served || !history->without_ms)
		history->without_ms = now;
	if (now - history->without_ms >= limit_ms)
		return UBLK_KEEPER_STOP;
	if (unreached)
		return KEEPER_UNREACHED_MS;
	if (now - start_ms >= KEEPER_SOON_MS) {
		history->early = 0;
		return 0;
	}
	if (history->early == KEEPER_EARLY_MAX)
		return UBLK_KEEPER_STOP;
	for (unsigned int i = 0; i < history->early; i++)
		pause_ms *= 2;
	/* The first may be one that somebody has killed by hand, or another program's upgrade. */
	if (!history->early++)
		return 0;
	return pause_ms < KEEPER_PAUSE_MAX_MS ? pause_ms : KEEPER_PAUSE_MAX_MS;
}

/* -- the process ------------------------------------------------------------------------------- */

/*
 * The kernel may need this disk to get memory: keeper and server have all they need, and ask for none by writing; and
 * are not those that are killed for memory.
 */
static int keeper_protect(char words[UBLK_WORDS_BYTES])
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t written = fd < 0 ? -1 : write(fd, "-1000", 5);

	if (fd >= 0)
		close(fd);
	if (written != 5)
		return ublk_disk_fail(words, "/proc/self/oom_score_adj", -errno);
	mallopt(M_ARENA_MAX, 1); /* or each thread would reserve, and lock, 64 MiB */
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		return ublk_disk_fail(words, "PR_SET_IO_FLUSHER", -errno);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return ublk_disk_fail(words, "its memory cannot be locked", -errno);
	return 0;
}

/* Nothing of who started it is left: no terminal, no files but `kept`, no folder. */
static void keeper_leave_parent(int kept)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		dup2(null, fd);
	if (kept > 3)
		close_range(3, (unsigned int)kept - 1, 0);
	close_range((unsigned int)kept + 1, ~0u, 0);
	umask(022);
	if (chdir("/"))
		return; /* it keeps a folder busy, no more */
}

/* `set` comes by sigtimedwait(). Those that end a disk are for its server, which inherits that they are blocked. */
static void keeper_take_signals(sigset_t *set)
{
	sigset_t blocked;

	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, UBLK_SIGNAL_LEAVE);
	blocked = *set;
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, UBLK_SIGNAL_ACKNOWLEDGE);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

/* -- servers ----------------------------------------------------------------------------------- */

/* The server's process. enum ublk_server_end */
static int keeper_serve(struct keeper *k, int tell)
{
	struct ublk_disk_started started = { .works = false };

	k->kept->server = getpid();
	prctl(PR_SET_NAME, KEEPER_SERVER);
	openlog(KEEPER_SERVER, LOG_PID, LOG_DAEMON);
	/* Locked memory is not inherited. */
	if (!keeper_protect(started.words))
		return ublk_disk_serve(k->options, k->kept, tell);
	syslog(LOG_ERR, "%s: %s", k->options->uri, started.words);
	if (k->kept->stage == UBLK_KEPT_STARTED)
		return UBLK_SERVER_UNREACHED;
	ublk_disk_tell(tell, &started);
	return UBLK_SERVER_FAILED;
}

/* The child's number, or -errno. */
static pid_t keeper_fork(struct keeper *k, int tell)
{
	pid_t child;

	k->kept->served = 0;
	child = fork();
	if (!child)
		_exit(keeper_serve(k, tell));
	if (child > 0)
		k->kept->server = child;
	return child < 0 ? -errno : child;
}

/* Until the child has ended: its status. *leave: another program wants the disk. */
static int keeper_wait(struct keeper *k, pid_t child, const sigset_t *set, bool *leave)
{
	int status;

	for (;;) {
		pid_t ended = waitpid(child, &status, WNOHANG);

		if (ended == child)
			break;
		if (sigtimedwait(set, NULL, NULL) == UBLK_SIGNAL_LEAVE) {
			*leave = true;
			kill(child, UBLK_SIGNAL_LEAVE);
		}
	}
	k->kept->server = 0;
	return status;
}

/* True: another program wants the disk. */
static bool keeper_pause(const sigset_t *set, uint32_t ms)
{
	const struct timespec limit = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	int signal;

	while ((signal = sigtimedwait(set, NULL, &limit)) == SIGCHLD)
		;
	return signal == UBLK_SIGNAL_LEAVE;
}

/*
 * The disk's I/O fails, and the kernel removes it, as a disk that is unplugged. The record says so until it is
 * detached.
 */
static void keeper_stop(const struct keeper *k, const char *why)
{
	uint32_t id = k->kept->id;
	struct ublk_control control;
	struct ublk_record record;

	k->kept->failed = 1;
	syslog(LOG_ERR, "/dev/ublkb%u %s: fails: %s", id, k->options->uri, why);
	if (!ublk_record_read("", id, &record)) {
		char before[sizeof(record.words)];

		memcpy(before, record.words, sizeof(before));
		snprintf(record.state, sizeof(record.state), "failed");
		snprintf(record.words, sizeof(record.words), "%.100s%s%.140s", why, before[0] ? ": " : "", before);
		ublk_record_write("", &record);
	}
	if (ublk_control_open(&control))
		return;
	ublk_control_stop(&control, id);
	ublk_control_close(&control);
}

/* The first server was killed before the disk was there. */
static void keeper_clean(const struct keeper *k)
{
	struct ublk_control control;

	ublk_record_remove("", k->kept->id);
	if (ublk_control_open(&control))
		return;
	ublk_control_delete(&control, k->kept->id);
	ublk_control_close(&control);
}

/* A server has ended otherwise than with its disk. NULL: another one may follow, after *pause_ms; else why not. */
static const char *keeper_judge(const struct keeper *k, struct ublk_keeper_history *history, uint64_t start_ms,
				int status, uint32_t *pause_ms)
{
	uint64_t connect_ms = k->options->session.connect_timeout_ms, limit_ms = k->options->session.give_up_ms;
	bool unreached = WIFEXITED(status) && WEXITSTATUS(status) == UBLK_SERVER_UNREACHED;

	if (limit_ms < connect_ms)
		limit_ms = connect_ms;
	if (k->kept->failed)
		return "its server had given up, and has ended";
	if (k->kept->stage == UBLK_KEPT_HANDED)
		return "a server was killed while the kernel gave it the disk: the kernel does that only once";
	*pause_ms = ublk_keeper_pause_ms(history, start_ms, ublk_record_now_ms(), k->kept->served, unreached, limit_ms);
	if (*pause_ms != UBLK_KEEPER_STOP)
		return NULL;
	return unreached ? "no server has reached the volume" : "its servers are killed again and again";
}

static void keeper_run(struct keeper *k, int tell)
{
	struct ublk_keeper_history history = { 0 };
	bool leave = false;
	sigset_t set;

	keeper_take_signals(&set);
	for (;;) {
		uint64_t start_ms = ublk_record_now_ms();
		pid_t child = keeper_fork(k, tell);
		int status = child < 0 ? UBLK_SERVER_UNREACHED << 8 : keeper_wait(k, child, &set, &leave);
		const char *why;
		uint32_t pause_ms;

		if (WIFEXITED(status) && WEXITSTATUS(status) == UBLK_SERVER_ENDED)
			return;
		if (k->kept->stage < UBLK_KEPT_STARTED) {
			if (k->kept->stage == UBLK_KEPT_ADDED && WIFSIGNALED(status))
				keeper_clean(k);
			ublk_kept_discard("", k->kept);
			return;
		}
		if (leave)
			return;
		if (k->kept->served && tell >= 0) {
			close(tell);
			tell = -1;
		}
		why = keeper_judge(k, &history, start_ms, status, &pause_ms);
		if (why) {
			keeper_stop(k, why);
			return;
		}
		syslog(LOG_WARNING, "/dev/ublkb%u %s: its server, process %d, has ended (%s %d): the next one follows",
		       k->kept->id, k->options->uri, (int)child, WIFSIGNALED(status) ? "signal" : "status",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		if (keeper_pause(&set, pause_ms))
			return;
	}
}

/* -- from another keeper ----------------------------------------------------------------------- */

static int keeper_await_lock(const struct keeper *k, unsigned int limit_ms)
{
	const struct timespec pause = { .tv_nsec = KEEPER_POLL_MS * 1000000L };
	int err = ublk_kept_lock(k->fd);

	for (unsigned int ms = 0; err == -EAGAIN && ms < limit_ms; ms += KEEPER_POLL_MS) {
		nanosleep(&pause, NULL);
		err = ublk_kept_lock(k->fd);
	}
	return err;
}

/* Is this number still a keeper's or server's? The lock says that one of them lives; a stranger may have the other's. */
static bool keeper_lives(pid_t pid)
{
	char path[64], name[sizeof(KEEPER_SERVER)] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	file = pid > 0 ? fopen(path, "re") : NULL;
	if (!file)
		return false;
	if (!fgets(name, sizeof(name), file))
		name[0] = '\0';
	fclose(file);
	return !strcmp(name, KEEPER_SERVER); /* fgets() ends at its length: the keeper's begins so, too */
}

/* To a keeper or server, unless it has ended. Its number may be another process's at any time, which gets no signal. */
static void keeper_signal(pid_t pid, int signal)
{
	int fd = pid > 0 ? pidfd_open(pid, 0) : -1;

	if (fd < 0)
		return;
	if (keeper_lives(pid))
		pidfd_send_signal(fd, signal, NULL, 0);
	close(fd);
}

/* Keeper and server have ended, and the lock is this process's; or -errno. */
static int keeper_kill_and_lock(const struct keeper *k)
{
	int err = ublk_kept_lock(k->fd);

	for (unsigned int ms = 0; err == -EAGAIN && ms < KEEPER_KILL_MS; ms += 100) {
		/* The keeper first: it would start another server. */
		keeper_signal(k->kept->keeper, SIGKILL);
		keeper_signal(k->kept->server, SIGKILL);
		err = keeper_await_lock(k, 100);
	}
	return err;
}

/*
 * This process belongs where the last one does: to the unit that has attached the disk, and not to the login session
 * from which the packages were upgraded, with which it would be killed. Without cgroups there is nothing to belong to.
 */
static void keeper_join(pid_t last)
{
	char path[64], line[256], group[sizeof(line) + 32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)last);
	file = last > 0 ? fopen(path, "re") : NULL;
	group[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::/", 4))
			snprintf(group, sizeof(group), KEEPER_CGROUPS "%s/cgroup.procs", line + 3);
	}
	if (file)
		fclose(file);
	file = group[0] ? fopen(group, "we") : NULL;
	if (!file)
		return;
	fputs("0", file);
	fclose(file);
}

/* Ends the disk's other keeper and server. 0: the disk is this keeper's; or -errno. */
static int keeper_relieve(struct keeper *k)
{
	const pid_t keeper = k->kept->keeper;
	int err = k->kept->failed ? -EIO : ublk_kept_lock(k->fd);

	/* Its first server is not to be ended: there is no disk yet that another one could have. */
	if (err == -EAGAIN && k->kept->stage < UBLK_KEPT_STARTED)
		return -EBUSY;
	if (err == -EAGAIN) {
		/* A server whose keeper has died gets the signal itself. */
		const pid_t last = keeper_lives(k->kept->keeper) ? k->kept->keeper : k->kept->server;

		if (keeper_lives(last)) {
			keeper_join(last);
			keeper_signal(last, UBLK_SIGNAL_LEAVE);
		}
		err = keeper_await_lock(k, KEEPER_LEAVE_MS);
		/* A server of another command that was killed while the kernel gives it the disk would end the disk. */
		if (err == -EAGAIN && k->kept->keeper != keeper)
			return -EALREADY;
	}
	if (err == -EAGAIN)
		err = keeper_kill_and_lock(k);
	if (err)
		return err;
	k->kept->keeper = getpid();
	k->kept->server = 0;
	return k->kept->failed || k->kept->stage != UBLK_KEPT_STARTED ? -EIO : 0;
}

int ublk_keeper_kill(uint32_t id)
{
	struct keeper k = { .options = NULL };
	int err;

	k.fd = ublk_kept_open("", id, &k.kept);
	if (k.fd < 0)
		return k.fd == -ESTALE ? -ESTALE : 0;
	err = keeper_kill_and_lock(&k);
	ublk_kept_close(k.fd, k.kept);
	return err == -EAGAIN ? -ETIMEDOUT : 0;
}

/* -- starting ---------------------------------------------------------------------------------- */

/* *k has the disk's memory, and its lock. -errno, and words. */
static int keeper_open(struct keeper *k, uint32_t id, char words[UBLK_WORDS_BYTES])
{
	int err;

	k->fd = id == UBLK_DISK_NEW ? ublk_kept_create("", &k->kept) : ublk_kept_open("", id, &k->kept);
	if (k->fd == -ESTALE) {
		snprintf(words, UBLK_WORDS_BYTES, "its server is of a version that this one cannot take over from");
		return k->fd;
	}
	if (k->fd < 0)
		return ublk_disk_fail(words, UBLK_RECORD_FOLDER, k->fd);
	err = id == UBLK_DISK_NEW ? 0 : keeper_relieve(k);
	if (err == -EIO)
		snprintf(words, UBLK_WORDS_BYTES, "it has failed: detach it and attach it again");
	else if (err == -EBUSY)
		snprintf(words, UBLK_WORDS_BYTES, "it is being attached");
	else if (err == -EALREADY)
		snprintf(words, UBLK_WORDS_BYTES, "another command takes it over");
	else if (err)
		ublk_disk_fail(words, "its server does not end", err);
	return err;
}

/* The keeper's process. */
static void keeper_begin(struct keeper *k, uint32_t id, int tell)
{
	struct ublk_disk_started started = { .works = false };
	int err;

	keeper_leave_parent(tell);
	prctl(PR_SET_NAME, KEEPER_PROGRAM);
	openlog(KEEPER_PROGRAM, LOG_PID, LOG_DAEMON);
	err = keeper_protect(started.words);
	if (!err)
		err = keeper_open(k, id, started.words);
	if (err)
		ublk_disk_tell(tell, &started);
	else
		keeper_run(k, tell);
}

int ublk_keeper_start(const struct ublk_disk_options *options, uint32_t id, struct ublk_disk_started *started)
{
	struct keeper k = { .options = options };
	ssize_t length;
	int ends[2];
	pid_t child;

	*started = (struct ublk_disk_started){ .works = false };
	if (pipe2(ends, O_CLOEXEC))
		return ublk_disk_fail(started->words, "pipe", -errno);
	child = fork();
	if (child < 0) {
		ublk_disk_fail(started->words, "fork", -errno);
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	if (!child) {
		keeper_begin(&k, id, ends[1]);
		_exit(EXIT_SUCCESS);
	}
	close(ends[1]);
	do {
		length = read(ends[0], started, sizeof(*started));
	} while (length < 0 && errno == EINTR);
	close(ends[0]);
	if (length != sizeof(*started)) {
		started->works = false;
		snprintf(started->words, sizeof(started->words),
			 "its server ended before it was ready, see the system's log");
	}
	/* A keeper without a disk ends. */
	if (!started->works)
		waitpid(child, NULL, 0);
	return started->works ? 0 : -1;
}
