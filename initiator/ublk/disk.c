/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a server: its queues, its device, what it tells of itself, and its end. The disk's thread does what blocks (the
 * commands of control.c, files, the log); the queues wait for it only before the disk is there. Called by the
 * command; see disk.h.
 */
#include "initiator/ublk/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "initiator/ublk/control.h"
#include "initiator/ublk/parameters.h"
#include "initiator/ublk/queue.h"
#include "initiator/ublk/record.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif
#define DISK_PROGRAM "rblk-ublk"
#define DISK_NODE_POLLS 100 /* for the node of a device that has just been made */
#define DISK_NODE_POLL_MS 50

/* The process's only one; its thread's, but for what queue.h says of the shared part. */
struct disk {
	const struct ublk_disk_options *options;
	struct ublk_shared shared;
	struct ublk_queue *queues[UBLK_QUEUES_MAX];
	unsigned int queue_count;
	struct ublk_control control;
	struct ublksrv_ctrl_dev_info info;
	struct ublk_params parameters;
	struct ublk_record record;
	bool controlled, added; /* the control device is open; the kernel has the device */
	int lock_fd, signal_fd;
};

static int disk_fail(char words[UBLK_WORDS_BYTES], const char *what, int err)
{
	snprintf(words, UBLK_WORDS_BYTES, "%s: %s", what, strerror(-err));
	return err;
}

/* -- queues ------------------------------------------------------------------------------------ */

/* Until the eventfd or a signal is there; the signal, or 0. */
static int disk_wait(struct disk *disk)
{
	struct pollfd fds[2] = {
		{ .fd = disk->shared.wake_fd, .events = POLLIN },
		{ .fd = disk->signal_fd, .events = POLLIN },
	};
	struct signalfd_siginfo signal;
	uint64_t count;

	if (poll(fds, 2, -1) < 0)
		return 0;
	if (fds[0].revents && read(disk->shared.wake_fd, &count, sizeof(count)) < 0)
		count = 0; /* it is polled again */
	if (fds[1].revents && read(disk->signal_fd, &signal, sizeof(signal)) == sizeof(signal))
		return (int)signal.ssi_signo;
	return 0;
}

/* Have all queues come so far, or have ended? */
static bool disk_all(struct disk *disk, enum ublk_queue_phase phase)
{
	struct ublk_queue_view view;

	for (unsigned int i = 0; i < disk->queue_count; i++) {
		ublk_queue_look(disk->queues[i], &view);
		if (view.phase < phase)
			return false;
	}
	return true;
}

/* 0: none has ended. Else -errno, and its words. */
static int disk_ended(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	struct ublk_queue_view view;

	for (unsigned int i = 0; i < disk->queue_count; i++) {
		ublk_queue_look(disk->queues[i], &view);
		if (view.phase != UBLK_QUEUE_ENDED)
			continue;
		snprintf(words, UBLK_WORDS_BYTES, "%s", view.words);
		return -EIO;
	}
	return 0;
}

/* Until all queues have come so far. -errno, and words: one has ended, or a signal came. */
static int disk_await(struct disk *disk, enum ublk_queue_phase phase, char words[UBLK_WORDS_BYTES])
{
	int err = 0;

	while (!err && !disk_all(disk, phase))
		err = disk_wait(disk) ? disk_fail(words, disk->options->uri, -EINTR) : disk_ended(disk, words);
	return err ? err : disk_ended(disk, words);
}

static unsigned int disk_queues(unsigned int asked)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int most = processors > 0 ? (unsigned int)processors : 1, count = asked ? asked : UBLK_QUEUES;

	/* The kernel has no use for more queues than processors. */
	count = count < most ? count : most;
	return count < UBLK_QUEUES_MAX ? count : UBLK_QUEUES_MAX;
}

/* All sessions reach the volume, and it is one. *info and *credits: what all of them have. */
static int disk_agree(struct disk *disk, struct rblk_volume_info *info, unsigned int *credits, char words[UBLK_WORDS_BYTES])
{
	struct ublk_queue_view view;

	for (unsigned int i = 0; i < disk->queue_count; i++) {
		ublk_queue_look(disk->queues[i], &view);
		if (!i) {
			*info = view.info;
			*credits = view.credits;
		}
		if (memcmp(info->uuid, view.info.uuid, sizeof(info->uuid)) || info->bytes != view.info.bytes ||
		    info->block_bytes != view.info.block_bytes)
			return disk_fail(words, "its queues reach different volumes", -ESTALE);
		if (view.info.max_io_bytes < info->max_io_bytes)
			info->max_io_bytes = view.info.max_io_bytes;
		if (view.credits < *credits)
			*credits = view.credits;
	}
	/* The block layer would let fsync() succeed. */
	if (!info->can_flush && info->volatile_cache && !info->read_only && !disk->options->read_only &&
	    !disk->options->accept_volatile) {
		snprintf(words, UBLK_WORDS_BYTES, "%s: cannot be flushed, and is lost with the target: attach it as volatile, or not at all",
			 disk->options->uri);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int disk_connect(struct disk *disk, struct rblk_volume_info *info, unsigned int *credits, char words[UBLK_WORDS_BYTES])
{
	unsigned int wanted = disk_queues(disk->options->queues);
	int err;

	disk->shared.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (disk->shared.wake_fd < 0)
		return disk_fail(words, "eventfd", -errno);
	for (; disk->queue_count < wanted; disk->queue_count++) {
		disk->queues[disk->queue_count] = ublk_queue_create(&disk->shared, disk->queue_count);
		if (!disk->queues[disk->queue_count])
			return disk_fail(words, "thread", -errno);
	}
	err = disk_await(disk, UBLK_QUEUE_CONNECTED, words);
	return err ? err : disk_agree(disk, info, credits, words);
}

/* -- the device -------------------------------------------------------------------------------- */

/* No other attach until the next reboot has it. */
static uint64_t disk_attachment(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)getpid() << 40 ^ ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static int disk_open_device(struct disk *disk)
{
	const struct timespec pause = { .tv_nsec = DISK_NODE_POLL_MS * 1000000L };
	char path[32];

	snprintf(path, sizeof(path), "/dev/ublkc%u", disk->info.dev_id);
	for (int i = 0; i < DISK_NODE_POLLS; i++) {
		disk->shared.device_fd = open(path, O_RDWR | O_CLOEXEC);
		if (disk->shared.device_fd >= 0)
			return 0;
		nanosleep(&pause, NULL);
	}
	return -errno;
}

static int disk_add(struct disk *disk, const struct rblk_volume_info *info, unsigned int credits, char words[UBLK_WORDS_BYTES])
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	int err;

	disk->shared.io_bytes = ublk_parameters_io_bytes(info, page);
	disk->shared.depth = credits < UBLK_MAX_QUEUE_DEPTH ? credits : UBLK_MAX_QUEUE_DEPTH;
	err = ublk_parameters_make(info, disk->options->read_only, disk->shared.io_bytes, page, &disk->parameters);
	if (err) {
		snprintf(words, UBLK_WORDS_BYTES, "%s: its blocks of %u bytes and requests of %u do not fit this machine's pages of %u",
			 disk->options->uri, info->block_bytes, info->max_io_bytes, page);
		return err;
	}
	disk->shared.kernel_flushes = ublk_parameters_flushes(&disk->parameters);
	disk->info = (struct ublksrv_ctrl_dev_info){
		.nr_hw_queues = (uint16_t)disk->queue_count,
		.queue_depth = (uint16_t)disk->shared.depth,
		.max_io_buf_bytes = disk->shared.io_bytes,
		.flags = UBLK_F_CMD_IOCTL_ENCODE | (disk->control.features & UBLK_F_UPDATE_SIZE),
		.ublksrv_flags = disk_attachment(), /* the kernel keeps it */
	};
	err = ublk_control_add(&disk->control, &disk->info);
	if (err)
		return disk_fail(words, "the kernel makes no ublk device", err);
	disk->added = true;
	if (disk->info.nr_hw_queues != disk->queue_count)
		return disk_fail(words, "the kernel has fewer queues", -ENOSPC);
	err = disk_open_device(disk);
	if (err)
		return disk_fail(words, "/dev/ublkc", err);
	err = ublk_control_set_parameters(&disk->control, disk->info.dev_id, &disk->parameters);
	return err ? disk_fail(words, "the kernel refuses the disk's parameters", err) : 0;
}

/* -- the record -------------------------------------------------------------------------------- */

/* This part is fixed while it serves. */
static void disk_record_begin(struct disk *disk, const struct rblk_volume_info *info)
{
	const struct rblk_options *session = &disk->options->session;
	struct ublk_record *r = &disk->record;

	r->id = disk->info.dev_id;
	r->server = getpid();
	r->attachment = disk->info.ublksrv_flags;
	snprintf(r->uri, sizeof(r->uri), "%s", disk->options->uri);
	snprintf(r->name, sizeof(r->name), "%s", disk->options->name ? disk->options->name : "");
	snprintf(r->volume, sizeof(r->volume), "%s", info->name);
	memcpy(r->uuid, info->uuid, sizeof(r->uuid));
	snprintf(r->key, sizeof(r->key), "%s", session->key_file ? session->key_file : "");
	r->bytes = r->volume_bytes = info->bytes;
	r->block_bytes = info->block_bytes;
	r->queues = disk->queue_count;
	r->credits = disk->shared.depth;
	r->connect_ms = session->connect_timeout_ms;
	r->command_ms = session->command_timeout_ms;
	r->give_up_ms = session->give_up_ms;
	r->read_only = disk->parameters.basic.attrs & UBLK_ATTR_READ_ONLY;
	r->digest = session->digest;
}

/* Adds a queue's: connections are counted, and the oldest's time is told. All queues have the same hosts. */
static void disk_record_paths(struct ublk_record *r, const struct ublk_queue_view *view)
{
	for (; r->path_count < view->path_count; r->path_count++)
		r->paths[r->path_count] = (struct rblk_path_info){ .tls = true, .proven = true, .digest = true };
	for (unsigned int i = 0; i < view->path_count; i++) {
		struct rblk_path_info *path = &r->paths[i];
		const struct rblk_path_info *own = &view->paths[i];

		memcpy(path->host, own->host, sizeof(path->host));
		if (!own->connections) {
			memcpy(path->words, own->words, sizeof(path->words));
			continue;
		}
		if (!path->connections || own->connected_ms < path->connected_ms)
			path->connected_ms = own->connected_ms;
		path->connections += own->connections;
		path->tls &= own->tls;
		path->proven &= own->proven;
		path->digest &= own->digest;
		memcpy(path->peer, own->peer, sizeof(path->peer));
		memcpy(path->device, own->device, sizeof(path->device));
	}
}

static void disk_record_count(struct ublk_record *r, const struct ublk_queue_view *view)
{
	r->losses += view->losses;
	r->stats.commands += view->stats.commands;
	r->stats.sends += view->stats.sends;
	r->stats.replies += view->stats.replies;
	r->stats.immediates += view->stats.immediates;
	r->stats.doorbells += view->stats.doorbells;
	r->stats.retries += view->stats.retries;
	r->stats.digest_retries += view->stats.digest_retries;
}

/* The volume has another size, once all queues have learned it. */
static void disk_resize(struct disk *disk)
{
	struct ublk_record *r = &disk->record;
	struct ublk_queue_view view;
	uint64_t bytes = 0;
	int err;

	for (unsigned int i = 0; i < disk->queue_count; i++) {
		ublk_queue_look(disk->queues[i], &view);
		if (i && view.info.bytes != bytes)
			return;
		bytes = view.info.bytes;
	}
	if (bytes == r->volume_bytes)
		return;
	r->volume_bytes = bytes;
	err = ublk_control_resize(&disk->control, r->id, bytes);
	if (!err)
		r->bytes = bytes;
	syslog(err ? LOG_WARNING : LOG_INFO, "/dev/ublkb%u %s: the volume has %" PRIu64 " bytes now%s%s", r->id, r->uri, bytes,
	       err ? ", and the disk has not: attach it again: " : "", err ? strerror(-err) : "");
}

/* The disk's state is its worst queue's. */
static void disk_record_update(struct disk *disk)
{
	const char *state = "live", *words = "";
	struct ublk_record *r = &disk->record;
	struct ublk_queue_view view;
	char before[sizeof(r->state)];

	snprintf(before, sizeof(before), "%s", r->state);
	r->losses = r->path_count = 0;
	r->writes_lost = false;
	r->stats = (struct rblk_stats){ 0 };
	for (unsigned int i = 0; i < disk->queue_count; i++) {
		ublk_queue_look(disk->queues[i], &view);
		if (!i || !r->peer[0])
			snprintf(r->peer, sizeof(r->peer), "%s", view.peer);
		disk_record_paths(r, &view);
		disk_record_count(r, &view);
		r->writes_lost |= view.writes_lost;
		if (view.session == RBLK_SESSION_FAILED)
			state = "failed";
		else if (view.session == RBLK_SESSION_RECOVERING && strcmp(state, "failed"))
			state = "recovering";
		else
			continue;
		snprintf(r->words, sizeof(r->words), "%s", view.words);
		words = r->words;
	}
	if (!words[0])
		r->words[0] = '\0';
	snprintf(r->state, sizeof(r->state), "%s", state);
	if (strcmp(before, state) && ublk_record_write_udev("", r))
		syslog(LOG_WARNING, "/dev/ublkb%u: no links to it: %s: %m", r->id, UBLK_RECORD_FOLDER);
	if (strcmp(before, state))
		syslog(strcmp(state, "live") ? LOG_WARNING : LOG_INFO, "/dev/ublkb%u %s: %s%s%s", r->id, r->uri, state,
		       words[0] ? ": " : "", words);
	if (ublk_record_write("", r))
		syslog(LOG_WARNING, "/dev/ublkb%u: its record in %s cannot be written: %m", r->id, UBLK_RECORD_FOLDER);
}

/* -- beginning and end ------------------------------------------------------------------------- */

/*
 * The kernel may need this disk to get memory: the server has all it needs, and asks for none by writing; and is not the
 * one that is killed for memory.
 */
static int disk_protect(char words[UBLK_WORDS_BYTES])
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t written = fd < 0 ? -1 : write(fd, "-1000", 5);

	if (fd >= 0)
		close(fd);
	if (written != 5)
		return disk_fail(words, "/proc/self/oom_score_adj", -errno);
	mallopt(M_ARENA_MAX, 1); /* or each thread would reserve, and lock, 64 MiB */
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		return disk_fail(words, "PR_SET_IO_FLUSHER", -errno);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return disk_fail(words, "its memory cannot be locked", -errno);
	return 0;
}

static int disk_take_signals(struct disk *disk)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, UBLK_SIGNAL_ACKNOWLEDGE);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	disk->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return disk->signal_fd < 0 ? -errno : 0;
}

/* -errno, and words. */
static int disk_begin(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	struct rblk_volume_info info;
	unsigned int credits = 0;
	int err;

	err = disk_take_signals(disk);
	if (err)
		return disk_fail(words, "signalfd", err);
	err = disk_protect(words);
	if (err)
		return err;
	err = ublk_control_open(&disk->control);
	if (err)
		return disk_fail(words, UBLK_CONTROL_PATH, err);
	disk->controlled = true;
	err = disk_connect(disk, &info, &credits, words);
	if (!err)
		err = disk_add(disk, &info, credits, words);
	if (err)
		return err;
	disk->lock_fd = ublk_record_lock("", disk->info.dev_id);
	if (disk->lock_fd < 0)
		return disk_fail(words, UBLK_RECORD_FOLDER, disk->lock_fd);
	disk_record_begin(disk, &info);
	disk_record_update(disk);
	atomic_store(&disk->shared.go, UBLK_GO_SERVE);
	err = disk_await(disk, UBLK_QUEUE_SERVING, words);
	if (err)
		return err;
	err = ublk_control_start(&disk->control, disk->info.dev_id, getpid());
	return err ? disk_fail(words, "the kernel does not start the disk", err) : 0;
}

/* Undoes what disk_begin() has done, however far it came; the queues end first. */
static void disk_end(struct disk *disk)
{
	if (atomic_load(&disk->shared.go) == UBLK_GO_SERVE) {
		/* A tag that the kernel gets after the stop would never come back. */
		while (!disk_all(disk, UBLK_QUEUE_SERVING))
			disk_wait(disk);
		ublk_control_stop(&disk->control, disk->info.dev_id);
	} else {
		atomic_store(&disk->shared.go, UBLK_GO_END);
	}
	for (unsigned int i = 0; i < disk->queue_count; i++)
		ublk_queue_destroy(disk->queues[i]);
	if (disk->shared.device_fd >= 0)
		close(disk->shared.device_fd);
	/* While the kernel still has the number: behind that it may be another server's. */
	if (disk->lock_fd >= 0)
		ublk_record_remove("", disk->info.dev_id);
	if (disk->added)
		ublk_control_delete(&disk->control, disk->info.dev_id);
	if (disk->controlled)
		ublk_control_close(&disk->control);
}

/* At a shutdown, or by hand. Not under those who use it: file systems are unmounted before the last signal comes. */
static void disk_stop_unused(struct disk *disk)
{
	pid_t user;
	int fd, use = ublk_disk_claim(disk->info.dev_id, &fd, &user);

	if (use == UBLK_DISK_UNUSED && !fsync(fd))
		ublk_control_stop(&disk->control, disk->info.dev_id);
	else
		syslog(LOG_WARNING, "/dev/ublkb%u: is in use, and stays", disk->info.dev_id);
	if (fd >= 0)
		close(fd);
}

/* Until the kernel has taken all tags back: somebody has stopped the disk. */
static void disk_run(struct disk *disk)
{
	while (!disk_all(disk, UBLK_QUEUE_ENDED)) {
		int signal = disk_wait(disk);

		if (signal == UBLK_SIGNAL_ACKNOWLEDGE)
			atomic_fetch_add(&disk->shared.acknowledged, 1);
		else if (signal)
			disk_stop_unused(disk);
		disk_resize(disk);
		disk_record_update(disk);
	}
}

/* -- the process ------------------------------------------------------------------------------- */

static bool disk_tell(int fd, const struct ublk_disk_started *started)
{
	return write(fd, started, sizeof(*started)) == sizeof(*started);
}

/* Nothing of who started it is left: no terminal, no files but `kept`, no folder. */
static void disk_leave_parent(int kept)
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
	prctl(PR_SET_NAME, DISK_PROGRAM);
}

static int disk_serve(const struct ublk_disk_options *options, int fd)
{
	struct ublk_disk_started started = { .works = false };
	struct disk disk = {
		.options = options,
		.shared = { .uri = options->uri, .options = &options->session, .device_fd = -1,
			    .open_flags = options->read_only ? RBLK_VOLUME_OPEN_READ_ONLY : 0 },
		.lock_fd = -1,
	};

	disk_leave_parent(fd);
	openlog(DISK_PROGRAM, LOG_PID, LOG_DAEMON);
	started.works = !disk_begin(&disk, started.words);
	started.id = disk.info.dev_id;
	/* One that was interrupted meanwhile has no use for the disk. */
	if (disk_tell(fd, &started) && started.works) {
		close(fd);
		disk_run(&disk);
		syslog(LOG_INFO, "/dev/ublkb%u %s: detached", disk.info.dev_id, options->uri);
	}
	disk_end(&disk);
	return started.works ? EXIT_SUCCESS : EXIT_FAILURE;
}

int ublk_disk_attach(const struct ublk_disk_options *options, struct ublk_disk_started *started)
{
	ssize_t length;
	int ends[2];
	pid_t child;

	*started = (struct ublk_disk_started){ .works = false };
	if (pipe2(ends, O_CLOEXEC))
		return disk_fail(started->words, "pipe", -errno);
	child = fork();
	if (child < 0) {
		disk_fail(started->words, "fork", -errno);
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	if (!child)
		_exit(disk_serve(options, ends[1]));
	close(ends[1]);
	do {
		length = read(ends[0], started, sizeof(*started));
	} while (length < 0 && errno == EINTR);
	close(ends[0]);
	if (length != sizeof(*started)) {
		started->works = false;
		snprintf(started->words, sizeof(started->words), "its server has ended without a word");
	}
	if (!started->works)
		waitpid(child, NULL, 0);
	return started->works ? 0 : -1;
}
