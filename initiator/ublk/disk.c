/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a server: its queues, its device, what it tells of itself, and its end. The disk's thread does what blocks (the
 * commands of control.c, files, the log); the queues wait for it only before the disk is there. The first server makes
 * the disk; another takes it over from the last one. Called by keeper.c; see disk.h.
 */
#include "initiator/ublk/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "initiator/ublk/control.h"
#include "initiator/ublk/kept.h"
#include "initiator/ublk/parameters.h"
#include "initiator/ublk/queue.h"
#include "initiator/ublk/record.h"
#include "initiator/ublk/summary.h"

#define DISK_NODE_POLLS 100 /* for the node of a device that has just been made */
#define DISK_NODE_POLL_MS 50
#define DISK_BACK_POLL_MS 10 /* until the kernel has taken back what the last server had */
#define DISK_LEAVE_MS 2000   /* to answer what is begun */
#define DISK_NOTICE_MS 500   /* a server that is killed with all tags of a queue */

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
	bool untold;		/* the record could not be written, and the log knows */
	bool successor;         /* the device is there, and another server had it */
	bool controlled, added; /* the control device is open; the kernel has the device */
	int signal_fd;
	int signal; /* that came before there was a disk to serve; 0: none */
};

/* -- queues ------------------------------------------------------------------------------------ */

/* Until the eventfd or a signal is there, or the time is over; the signal, or 0. */
static int disk_wait(struct disk *disk, int timeout_ms)
{
	struct pollfd fds[2] = {
		{ .fd = disk->shared.wake_fd, .events = POLLIN },
		{ .fd = disk->signal_fd, .events = POLLIN },
	};
	struct signalfd_siginfo signal;
	uint64_t count;

	if (poll(fds, 2, timeout_ms) < 0)
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

/*
 * A signal at the start. The user of a disk that is taken over has not sent it: it is for the disk, when that is
 * served; but who takes it over next need not wait.
 */
static int disk_signal(struct disk *disk, int signal, char words[UBLK_WORDS_BYTES])
{
	if (!disk->successor)
		return ublk_disk_fail(words, "stopped by a signal", -EINTR);
	if (signal == UBLK_SIGNAL_LEAVE && disk->shared.kept->stage != UBLK_KEPT_HANDED)
		_exit(UBLK_SERVER_ENDED);
	disk->signal = signal;
	return 0;
}

/* Until all queues have come so far. -errno, and words: one has ended, or a signal came. */
static int disk_await(struct disk *disk, enum ublk_queue_phase phase, char words[UBLK_WORDS_BYTES])
{
	int err = 0;

	while (!err && !disk_all(disk, phase)) {
		int signal = disk_wait(disk, -1);

		err = signal ? disk_signal(disk, signal, words) : disk_ended(disk, words);
	}
	return err ? err : disk_ended(disk, words);
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
			return ublk_disk_fail(words, "its queues reach different volumes", -ESTALE);
		if (view.info.max_io_bytes < info->max_io_bytes)
			info->max_io_bytes = view.info.max_io_bytes;
		if (view.credits < *credits)
			*credits = view.credits;
	}
	/* The block layer would let fsync() succeed. */
	if (!info->can_flush && info->volatile_cache && !info->read_only && !disk->options->read_only &&
	    !disk->options->accept_volatile) {
		snprintf(words, UBLK_WORDS_BYTES,
			 "it cannot be flushed, and is lost with the target: attach it as volatile, or not at all");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int disk_connect(struct disk *disk, struct rblk_volume_info *info, unsigned int *credits, char words[UBLK_WORDS_BYTES])
{
	unsigned int wanted = disk->successor ? disk->info.nr_hw_queues : ublk_parameters_queues(disk->options->queues);
	int err;

	disk->shared.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	disk->shared.leave_fd = eventfd(0, EFD_CLOEXEC);
	if (disk->shared.wake_fd < 0 || disk->shared.leave_fd < 0)
		return ublk_disk_fail(words, "eventfd", -errno);
	for (; disk->queue_count < wanted; disk->queue_count++) {
		disk->queues[disk->queue_count] = ublk_queue_create(&disk->shared, disk->queue_count);
		if (!disk->queues[disk->queue_count])
			return ublk_disk_fail(words, "thread", -errno);
	}
	err = disk_await(disk, UBLK_QUEUE_CONNECTED, words);
	return err ? err : disk_agree(disk, info, credits, words);
}

/* -- the device -------------------------------------------------------------------------------- */

/* The kernel has it: from here on nothing is left behind without being named. */
static int disk_link(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	struct ublk_kept *kept = disk->shared.kept;
	int err;

	disk->added = true;
	kept->id = disk->info.dev_id;
	kept->attachment = disk->info.ublksrv_flags;
	kept->kernel_flushes = disk->shared.kernel_flushes;
	kept->stage = UBLK_KEPT_ADDED;
	err = ublk_kept_link("", kept);
	return err ? ublk_disk_fail(words, UBLK_RECORD_FOLDER, err) : 0;
}

static int disk_open_device(struct disk *disk, char words[UBLK_WORDS_BYTES])
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
	return ublk_disk_fail(words, path, -errno);
}

static int disk_add(struct disk *disk, const struct rblk_volume_info *info, unsigned int credits, char words[UBLK_WORDS_BYTES])
{
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	int err;

	disk->shared.io_bytes = ublk_parameters_io_bytes(info, page);
	disk->shared.depth = credits < disk->options->session.credits ? credits : disk->options->session.credits;
	err = ublk_parameters_make(info, disk->options->read_only, disk->shared.io_bytes, page, &disk->parameters);
	if (err) {
		snprintf(words, UBLK_WORDS_BYTES,
			 "its blocks of %u bytes and requests of %u do not fit this machine's pages of %u",
			 info->block_bytes, info->max_io_bytes, page);
		return err;
	}
	disk->shared.kernel_flushes = ublk_parameters_flushes(&disk->parameters);
	disk->info = (struct ublksrv_ctrl_dev_info){
		.nr_hw_queues = (uint16_t)disk->queue_count,
		.queue_depth = (uint16_t)disk->shared.depth,
		.max_io_buf_bytes = disk->shared.io_bytes,
		.flags = UBLK_F_CMD_IOCTL_ENCODE | UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE |
			 (disk->control.features & UBLK_F_UPDATE_SIZE),
		.ublksrv_flags = ublk_record_attachment(), /* the kernel keeps it */
	};
	err = ublk_control_add(&disk->control, &disk->info);
	if (err)
		return ublk_disk_fail(words, "the kernel cannot add an ublk device", err);
	err = disk_link(disk, words);
	if (err)
		return err;
	if (disk->info.nr_hw_queues != disk->queue_count)
		return ublk_disk_fail(words, "the kernel gives it fewer queues than it needs", -ENOSPC);
	err = disk_open_device(disk, words);
	if (err)
		return err;
	err = ublk_control_set_parameters(&disk->control, disk->info.dev_id, &disk->parameters);
	return err ? ublk_disk_fail(words, "the kernel refuses the disk's parameters", err) : 0;
}

/* -- taking over ------------------------------------------------------------------------------- */

/* The kernel's device, as the last server had it. -ENODEV: it was detached meanwhile. */
static int disk_find(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	const struct ublk_kept *kept = disk->shared.kept;
	int err = ublk_control_info(&disk->control, kept->id, &disk->info);

	/* The number may be another program's device by now. */
	disk->added = !err && disk->info.ublksrv_flags == kept->attachment;
	if (!err && (!disk->added || disk->info.state == UBLK_S_DEV_DEAD))
		err = -ENODEV;
	return err ? ublk_disk_fail(words, "the kernel does not have the disk", err) : 0;
}

/* The volume may have become another while no session of ours knew it. */
static int disk_fits(struct disk *disk, const struct rblk_volume_info *info, char words[UBLK_WORDS_BYTES])
{
	disk->shared.depth = disk->info.queue_depth;
	disk->shared.io_bytes = disk->info.max_io_buf_bytes;
	disk->shared.kernel_flushes = disk->shared.kept->kernel_flushes;
	if (info->block_bytes == disk->record.block_bytes && info->max_io_bytes >= disk->shared.io_bytes)
		return 0;
	return ublk_disk_fail(words, "its blocks have another size now, or its target takes less at once", -EOPNOTSUPP);
}

/*
 * F5: all queues have opened the volume, so nothing of the last server is under way at the target. The kernel is asked
 * as long as it has not got all of the last server's requests back.
 */
static int disk_take_over(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	struct ublk_kept *kept = disk->shared.kept;
	int err, signal;

	for (;;) {
		err = ublk_control_settle(&disk->control, disk->info.dev_id);
		if (!err) {
			kept->stage = UBLK_KEPT_HANDED;
			err = ublk_control_start_recovery(&disk->control, disk->info.dev_id);
		}
		if (!err)
			break;
		kept->stage = UBLK_KEPT_STARTED;
		if (err != -EBUSY)
			return ublk_disk_fail(words, "the kernel does not give the disk to another server", err);
		signal = disk_wait(disk, DISK_BACK_POLL_MS);
		err = signal ? disk_signal(disk, signal, words) : 0;
		if (!err)
			err = disk_find(disk, words);
		if (!err)
			err = disk_ended(disk, words);
		if (err)
			return err;
	}
	return disk_open_device(disk, words);
}

/* -- the record -------------------------------------------------------------------------------- */

/* This part is fixed while it serves. */
static void disk_record_begin(struct disk *disk, const struct rblk_volume_info *info)
{
	struct ublk_record *r = &disk->record;

	ublk_summary_options(r, disk->options);
	r->id = disk->info.dev_id;
	r->server = getpid();
	r->attachment = disk->info.ublksrv_flags;
	snprintf(r->volume, sizeof(r->volume), "%s", info->name);
	memcpy(r->uuid, info->uuid, sizeof(r->uuid));
	/* The kernel has what the first server has told it, and the last one's size. */
	if (!disk->successor) {
		r->bytes = info->bytes;
		r->read_only = disk->parameters.basic.attrs & UBLK_ATTR_READ_ONLY;
	}
	r->volume_bytes = r->bytes;
	r->block_bytes = info->block_bytes;
	r->queues = disk->queue_count;
	r->credits = disk->shared.depth;
}

static void disk_record_write(struct disk *disk)
{
	int err = ublk_record_write("", &disk->record);

	if (err && !disk->untold)
		syslog(LOG_WARNING, "/dev/ublkb%u: its record in %s cannot be written: %s", disk->record.id,
		       UBLK_RECORD_FOLDER, strerror(-err));
	disk->untold = err;
}

/* A successor does not serve yet. */
static void disk_record_recovering(struct disk *disk, const char *words)
{
	struct ublk_record *r = &disk->record;

	r->server = getpid();
	snprintf(r->state, sizeof(r->state), "recovering");
	snprintf(r->words, sizeof(r->words), "%.*s", (int)sizeof(r->words) - 1, words);
	disk_record_write(disk);
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

static void disk_record_update(struct disk *disk)
{
	struct ublk_record *r = &disk->record;
	struct ublk_queue_view view;
	char before[sizeof(r->state)];

	disk_resize(disk);
	snprintf(before, sizeof(before), "%s", r->state);
	ublk_summary_begin(r);
	for (unsigned int i = 0; i < disk->queue_count; i++) {
		ublk_queue_look(disk->queues[i], &view);
		ublk_summary_add(r, &view);
	}
	if (strcmp(before, r->state) && ublk_record_write_udev("", r))
		syslog(LOG_WARNING, "/dev/ublkb%u: udev's links are not updated: %s: %m", r->id, UBLK_RECORD_FOLDER);
	if (strcmp(before, r->state))
		syslog(strcmp(r->state, "live") ? LOG_WARNING : LOG_INFO, "/dev/ublkb%u %s: %s%s%s", r->id, r->uri, r->state,
		       r->words[0] ? ": " : "", r->words);
	disk_record_write(disk);
}

/* -- beginning and end ------------------------------------------------------------------------- */

/* The keeper has blocked them. */
static int disk_take_signals(struct disk *disk)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, UBLK_SIGNAL_ACKNOWLEDGE);
	sigaddset(&set, UBLK_SIGNAL_LEAVE);
	disk->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return disk->signal_fd < 0 ? -errno : 0;
}

/* The kernel has a device, and all queues reach its volume. */
static int disk_prepare(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	struct rblk_volume_info info;
	unsigned int credits = 0;
	int err = disk->successor ? disk_find(disk, words) : 0;

	if (!err)
		err = disk_connect(disk, &info, &credits, words);
	if (!err)
		err = disk->successor ? disk_fits(disk, &info, words) : disk_add(disk, &info, credits, words);
	if (err)
		return err;
	disk_record_begin(disk, &info);
	atomic_store(&disk->shared.go, UBLK_GO_PREPARE);
	return disk_await(disk, UBLK_QUEUE_PREPARED, words);
}

/* /dev/ublkbN goes on, or is there. */
static int disk_start(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	int err;

	if (disk->successor)
		err = ublk_control_end_recovery(&disk->control, disk->info.dev_id, getpid());
	else
		err = ublk_control_start(&disk->control, disk->info.dev_id, getpid());
	if (err)
		return ublk_disk_fail(words, "the kernel does not start the disk", err);
	disk->shared.kept->stage = UBLK_KEPT_STARTED;
	disk->shared.kept->served = 1;
	return 0;
}

/* -errno, and words. */
static int disk_begin(struct disk *disk, char words[UBLK_WORDS_BYTES])
{
	int err = disk_take_signals(disk);

	if (err)
		return ublk_disk_fail(words, "signalfd", err);
	err = ublk_control_open(&disk->control);
	if (err)
		return ublk_disk_fail(words, UBLK_CONTROL_PATH, err);
	disk->controlled = true;
	err = disk_prepare(disk, words);
	if (!err && disk->successor)
		err = disk_take_over(disk, words);
	if (err)
		return err;
	/* A first one that is killed now has left a record; a next one still has its predecessor's. */
	if (!disk->successor)
		disk_record_update(disk);
	atomic_store(&disk->shared.go, UBLK_GO_SERVE);
	err = disk_await(disk, UBLK_QUEUE_SERVING, words);
	if (!err)
		err = disk_start(disk, words);
	if (err)
		return err;
	disk_record_update(disk);
	if (!disk->successor)
		ublk_control_no_scheduler(disk->info.dev_id);
	if (ublk_control_notice(disk->info.dev_id, DISK_NOTICE_MS))
		syslog(LOG_WARNING, "/dev/ublkb%u: io_timeout: %m: if the server is killed, I/O may pause for 30 s",
		       disk->info.dev_id);
	return 0;
}

/* Undoes what disk_begin() has done, however far it came; the queues end first. */
static void disk_end(struct disk *disk)
{
	if (atomic_load(&disk->shared.go) == UBLK_GO_SERVE) {
		/* A tag that the kernel gets after the stop would never come back. */
		while (!disk_all(disk, UBLK_QUEUE_SERVING))
			disk_wait(disk, -1);
		ublk_control_stop(&disk->control, disk->info.dev_id);
	} else {
		atomic_store(&disk->shared.go, UBLK_GO_END);
	}
	for (unsigned int i = 0; i < disk->queue_count; i++)
		ublk_queue_destroy(disk->queues[i]);
	if (disk->shared.device_fd >= 0)
		close(disk->shared.device_fd);
	/* In this order: once the device is deleted, its number may be another disk's. */
	if (disk->added) {
		ublk_record_remove("", disk->info.dev_id);
		ublk_control_delete(&disk->control, disk->info.dev_id);
	}
	if (disk->controlled)
		ublk_control_close(&disk->control);
}

/* At a shutdown, or by hand. Not under those who use it: file systems are unmounted before the last signal comes. */
static void disk_stop_unused(struct disk *disk)
{
	bool live = !strcmp(disk->record.state, "live");
	int fd = -1;
	pid_t user;

	/* If it were killed while it waits for its own disk, it would never end, and no other would be started. */
	if (live && ublk_disk_claim(disk->info.dev_id, &fd, &user) == UBLK_DISK_UNUSED && !fsync(fd))
		ublk_control_stop(&disk->control, disk->info.dev_id);
	else
		syslog(LOG_WARNING, "/dev/ublkb%u: not detached: %s", disk->info.dev_id,
		       live ? "it is in use, or its data cannot be written" : "its target cannot be reached");
	if (fd >= 0)
		close(fd);
}

/*
 * Another program takes the disk over. What was begun is answered; the kernel has all else, and gives it to the next
 * server, whose sessions end these. If the target does not answer, the next one asks it again.
 */
static _Noreturn void disk_leave(struct disk *disk)
{
	const uint64_t one = 1;

	if (write(disk->shared.leave_fd, &one, sizeof(one)) == sizeof(one))
		for (int i = 0; i < DISK_LEAVE_MS / DISK_BACK_POLL_MS && !disk_all(disk, UBLK_QUEUE_LEFT); i++)
			disk_wait(disk, DISK_BACK_POLL_MS);
	syslog(LOG_INFO, "/dev/ublkb%u %s: another program takes it over", disk->info.dev_id, disk->options->uri);
	_exit(UBLK_SERVER_ENDED);
}

/* Until the kernel has taken all tags back: somebody has stopped the disk. */
static void disk_run(struct disk *disk)
{
	int signal = disk->signal;

	while (!disk_all(disk, UBLK_QUEUE_ENDED)) {
		if (!signal)
			signal = disk_wait(disk, -1);
		if (signal == UBLK_SIGNAL_LEAVE)
			disk_leave(disk);
		if (signal == UBLK_SIGNAL_ACKNOWLEDGE)
			atomic_fetch_add(&disk->shared.acknowledged, 1);
		else if (signal)
			disk_stop_unused(disk);
		signal = 0;
		if (atomic_load(&disk->shared.failed))
			disk->shared.kept->failed = 1;
		disk_record_update(disk);
	}
}

/* -- the process ------------------------------------------------------------------------------- */

int ublk_disk_fail(char words[UBLK_WORDS_BYTES], const char *what, int err)
{
	snprintf(words, UBLK_WORDS_BYTES, "%s: %s", what, strerror(-err));
	return err;
}

bool ublk_disk_tell(int fd, const struct ublk_disk_started *started)
{
	return write(fd, started, sizeof(*started)) == sizeof(*started);
}

int ublk_disk_serve(const struct ublk_disk_options *options, struct ublk_kept *kept, int fd)
{
	struct ublk_disk_started started = { .works = false };
	struct disk disk = {
		.options = options,
		.shared = { .uri = options->uri, .options = &options->session, .kept = kept, .device_fd = -1,
			    .open_flags = options->read_only ? RBLK_VOLUME_OPEN_READ_ONLY : 0 },
		.successor = kept->stage == UBLK_KEPT_STARTED,
	};
	int err;

	if (disk.successor && !ublk_record_read("", kept->id, &disk.record))
		disk_record_recovering(&disk, "its server has ended, and the next one begins");
	err = disk_begin(&disk, started.words);
	started.works = !err;
	started.id = disk.info.dev_id;
	if (err && disk.successor && err != -ENODEV) {
		/* Nothing is undone: it is the next one's. */
		syslog(LOG_WARNING, "/dev/ublkb%u %s: %s", kept->id, options->uri, started.words);
		disk_record_recovering(&disk, started.words);
		_exit(UBLK_SERVER_UNREACHED);
	}
	/* A command that was interrupted meanwhile does not want the disk any more. */
	if ((ublk_disk_tell(fd, &started) || disk.successor) && started.works) {
		if (fd >= 0)
			close(fd);
		disk_run(&disk);
		syslog(LOG_INFO, "/dev/ublkb%u %s: detached", disk.info.dev_id, options->uri);
	}
	disk_end(&disk);
	return started.works || disk.successor ? UBLK_SERVER_ENDED : UBLK_SERVER_FAILED;
}
