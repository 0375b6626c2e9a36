/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes a disk's dirty data before it is detached by force: the disk, its partitions, what is
 * mapped over them (dm, md), and the file systems on each. A child process does it, because a
 * process that waits for a disk cannot be interrupted: it may stay until the forced detach fails
 * its I/O.
 */
#include "initiator/cmd/attach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

int attached_flush(const struct attached *attached, uint64_t limit_ms)
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
