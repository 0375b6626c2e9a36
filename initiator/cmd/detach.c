/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns `rblk detach`: who still uses the disk, what has to be written before it goes, and its end. */
#include "initiator/cmd/attach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* -- who uses a disk --------------------------------------------------------------------------- */

/*
 * The users of a disk that do not end by themselves: a file system, swap, a device mapped over it;
 * of the disk or of its partitions. The module only counts opens; this says what to end first.
 */

/* "259:3" of the folder's device, which identifies it in mountinfo. */
static bool users_number(const char *folder, char *number, int bytes)
{
	char path[PATH_MAX];
	bool found;
	FILE *file;

	snprintf(path, sizeof(path), "%s/dev", folder);
	file = fopen(path, "re");
	if (!file)
		return false;
	found = fgets(number, bytes, file) != NULL;
	fclose(file);
	number[strcspn(number, "\n")] = '\0';
	return found;
}

static bool users_holder(const char *folder, char *text, size_t bytes)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/holders", folder);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		found = entry->d_name[0] != '.';
		if (found)
			snprintf(text, bytes, "used by %s", entry->d_name);
	}
	closedir(dir);
	return found;
}

/* mountinfo: "36 35 98:0 /root /mountpoint options ...", blanks in it are \040. */
static bool users_mount(const char *root, const char *number, char *text, size_t bytes)
{
	char path[PATH_MAX], line[2 * PATH_MAX], device[32], point[PATH_MAX];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		found = sscanf(line, "%*d %*d %31s %*s %4095s", device, point) == 2 &&
			!strcmp(device, number);
		if (found)
			snprintf(text, bytes, "mounted at %s", point);
	}
	fclose(file);
	return found;
}

static bool users_swap(const char *root, const char *name, char *text, size_t bytes)
{
	char path[PATH_MAX], line[PATH_MAX + 64], device[PATH_MAX], own[300];
	bool found = false;
	FILE *file;

	snprintf(own, sizeof(own), "/dev/%s", name);
	snprintf(path, sizeof(path), "%s/proc/swaps", root);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%4095s", device) == 1 && !strcmp(device, own);
	fclose(file);
	if (found)
		snprintf(text, bytes, "in use as swap");
	return found;
}

/* One disk or partition. */
static bool users_of(const char *root, const char *folder, const char *name, char *text,
		     size_t bytes)
{
	char number[32];

	return users_number(folder, number, sizeof(number)) &&
	       (users_mount(root, number, text, bytes) || users_holder(folder, text, bytes) ||
		users_swap(root, name, text, bytes));
}

bool attached_users(const char *root, const char *device, char *text, size_t bytes)
{
	char folder[PATH_MAX], part[PATH_MAX + NAME_MAX + 2], own[ATTACH_REASON_BYTES];
	struct dirent *entry;
	bool found;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%s/sys/block/%s", root, device);
	found = users_of(root, folder, device, text, bytes);
	dir = found ? NULL : opendir(folder);
	while (dir && !found && (entry = readdir(dir))) {
		/* The folders of partitions begin with the disk's name. */
		if (strncmp(entry->d_name, device, strlen(device)))
			continue;
		snprintf(part, sizeof(part), "%s/%s", folder, entry->d_name);
		found = users_of(root, part, entry->d_name, own, sizeof(own));
		if (found)
			snprintf(text, bytes, "its partition %s is %s", entry->d_name, own);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* -- what its users have not written ----------------------------------------------------------- */

/*
 * Writes a disk's dirty data before it is detached by force: the disk, its partitions, what is
 * mapped over them (dm, md), and the file systems on each. A child process does it, because a
 * process that waits for a disk cannot be interrupted: it may stay until the forced detach fails
 * its I/O.
 */

#define FLUSH_POLL_MS 50
#define FLUSH_DEPTH_MAX 8 /* dm over md over a partition, and so on */

/* 0, or an errno. */
static int flush_node(const char *name)
{
	char path[PATH_MAX];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	/* The first syncs a file system on it too, in whatever name space it is mounted; the second
	 * reports errors and flushes the disk's own cache. */
	if (ioctl(fd, BLKFLSBUF, 0) || fsync(fd))
		err = errno;
	close(fd);
	return err;
}

static int flush_tree(const char *name, unsigned int depth);

/* The folder's entries with this prefix. */
static int flush_entries(const char *folder, const char *begin, unsigned int depth)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int err, first = 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strncmp(entry->d_name, begin, strlen(begin)))
			continue;
		err = flush_tree(entry->d_name, depth);
		if (!first)
			first = err;
	}
	if (dir)
		closedir(dir);
	return first;
}

/* Whatever lies on a disk or partition is flushed before it: data is written from top to bottom. */
static int flush_tree(const char *name, unsigned int depth)
{
	char folder[PATH_MAX];
	int err, first;

	if (depth == FLUSH_DEPTH_MAX)
		return ELOOP;
	snprintf(folder, sizeof(folder), "/sys/class/block/%s/holders", name);
	first = flush_entries(folder, "", depth + 1);
	/* The folders of partitions begin with the disk's name. */
	snprintf(folder, sizeof(folder), "/sys/class/block/%s", name);
	err = flush_entries(folder, name, depth + 1);
	if (!first)
		first = err;
	err = flush_node(name);
	return first ? first : err;
}

static bool flush_worthwhile(const struct attached *attached)
{
	struct attached now;

	return !attached_read("", attached->device, &now) &&
	       !strcmp(now.attachment, attached->attachment) && !strcmp(now.state, "live");
}

/*
 * Write the disk's dirty data, the file systems on it first. At most limit_ms, and not after the
 * end of its connection. 0, -ETIMEDOUT, or -errno of the first failure.
 */
static int attached_flush(const struct attached *attached, uint64_t limit_ms)
{
	const struct timespec pause = { .tv_nsec = FLUSH_POLL_MS * 1000000L };
	int status, err = 0;
	uint64_t passed_ms;
	pid_t child, done;

	if (!flush_worthwhile(attached))
		return -ENOTCONN;
	child = fork();
	if (child < 0)
		return -errno;
	if (!child)
		_exit(flush_tree(attached->device, 0));
	for (passed_ms = 0; !err; passed_ms += FLUSH_POLL_MS) {
		done = waitpid(child, &status, WNOHANG);
		if (done == child)
			return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
		if (passed_ms >= limit_ms)
			err = -ETIMEDOUT;
		else if (!flush_worthwhile(attached))
			err = -ENOTCONN;
		else
			nanosleep(&pause, NULL);
	}
	kill(child, SIGKILL);
	return err;
}

/* -- the verb ---------------------------------------------------------------------------------- */

/*
 * rblk detach: by device, by the name or the URI that it was attached with, or everything. Names
 * the users of a busy disk; waits for one that has it open only for a short time, such as udev.
 * Before a detach by force, dirty data is written if the target can be reached.
 */

#define DETACH_UNSAID UINT64_MAX
#define DETACH_WAIT_MS 3000 /* for short users: udev after the last close */
#define DETACH_POLL_MS 50
#define DETACH_FLUSH_MS 10000 /* at a shutdown the target may be down without notice */

static struct detach_values {
	uint64_t wait_ms;
	bool all, force;
} values = { .wait_ms = DETACH_UNSAID };

static const struct cmd_option options[] = {
	{ "all", 'a', CMD_OPTION_FLAG, offsetof(struct detach_values, all), 0, 0, NULL,
	  "detach all disks" },
	{ "force", 'f', CMD_OPTION_FLAG, offsetof(struct detach_values, force), 0, 0, NULL,
	  "detach even while the disk is in use: I/O in flight fails" },
	{ "wait", 'w', CMD_OPTION_TIME, offsetof(struct detach_values, wait_ms), 0, 86400000,
	  "TIME", "how long to wait until nobody uses it; then fail, or use force" },
	CMD_OPTION_HELP,
	CMD_OPTIONS_END,
};

static uint64_t detach_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * One line to the module, if the device is still the one that was meant: others may have detached
 * it and attached another volume as rblkN. -ENODEV: it is not attached any more. Else 0 or -errno,
 * with the answer.
 */
static int detach_send(int control, const struct attached *attached, const char *force,
		       char *answer)
{
	struct attached now;
	char line[64];

	if (attached_read("", attached->device, &now) || strcmp(now.attachment, attached->attachment))
		return -ENODEV;
	if (attached->server)
		return attach_ublk_detach(&now, force[0], answer);
	snprintf(line, sizeof(line), "detach device=%s%s", attached->device, force);
	return attach_control_send(control, line, answer);
}

/*
 * Without force; as detach_send(). -EBUSY is tried again until `end`; it is final at once if a user
 * of the disk does not end by itself, unless --wait asks to wait even then.
 */
static int detach_gently(int control, const struct attached *attached, uint64_t end, char *answer)
{
	const struct timespec pause = { .tv_nsec = DETACH_POLL_MS * 1000000L };
	const char *device = attached->device;
	char user[ATTACH_REASON_BYTES];
	bool used;
	int err;

	for (;;) {
		/* It would wait in fsync() of a disk of ublk until its target is back, or the disk fails. */
		if (values.force && attached->server && !attached->left && !flush_worthwhile(attached))
			err = -EBUSY;
		else
			err = detach_send(control, attached, "", answer);
		if (err != -EBUSY)
			return err;
		used = attached_users("", device, user, sizeof(user));
		if (detach_now_ms() >= end || (used && values.wait_ms == DETACH_UNSAID))
			break;
		nanosleep(&pause, NULL);
	}
	if (used)
		snprintf(answer, ATTACH_ANSWER_BYTES, "%s: %.*s", device,
			 ATTACH_ANSWER_BYTES - 20, user);
	return err;
}

/* Data that its users have written may still be in memory; force would discard it. */
static int detach_by_force(int control, const struct attached *attached, char *answer)
{
	int err = attached->left ? 0 : attached_flush(attached, DETACH_FLUSH_MS);

	if (err && err != -ENODEV)
		cmd_error("%s: data written to it may be lost: %s", attached->device,
			  strerror(-err));
	return detach_send(control, attached, " force", answer);
}

static int detach_device(int control, const struct attached *attached)
{
	uint64_t wait_ms = values.wait_ms;
	char answer[ATTACH_ANSWER_BYTES];
	int err = -EBUSY;

	if (wait_ms == DETACH_UNSAID)
		wait_ms = values.force ? 0 : DETACH_WAIT_MS;
	/* Nothing can be written to a disk that fails everything; only force is left. */
	if (!values.force || attached->left || (wait_ms && strcmp(attached->state, "failed")))
		err = detach_gently(control, attached, detach_now_ms() + wait_ms, answer);
	if (err && err != -ENODEV && values.force)
		err = detach_by_force(control, attached, answer);
	/* Another command has already done it. */
	if (err && err != -ENODEV) {
		cmd_error("%s", answer);
		return err;
	}
	return 0;
}

static int detach_run(char **operands, int count)
{
	struct attached *list;
	int control, attached, status = CMD_OK;
	bool needed = false;

	if (values.all ? count : !count) {
		cmd_error("usage: rblk detach [OPTION]... DEVICE|NAME|VOLUME, or "
			  "rblk detach --all");
		return CMD_USAGE;
	}
	attached = attached_choose(count ? operands[0] : NULL, &list);
	if (attached < 0)
		return CMD_FAILED;
	/* Without a device of its own there is nothing to load the module for. */
	for (int i = 0; i < attached; i++)
		needed |= !list[i].server;
	control = needed ? attach_control_open() : -1;
	if (needed && control < 0)
		status = CMD_FAILED;
	for (int i = attached - 1; i >= 0; i--)
		if ((list[i].server || control >= 0) && detach_device(control, &list[i]))
			status = CMD_FAILED;
	if (control >= 0)
		close(control);
	free(list);
	return status;
}

const struct cmd_verb cmd_verb_detach = {
	.name = "detach",
	.operands = "DEVICE|NAME|VOLUME",
	.summary = "remove an attached disk",
	.options = options,
	.values = &values,
	.operands_least = 0,
	.operands_most = 1,
	.run = detach_run,
};
