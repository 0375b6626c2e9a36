/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns the question whether somebody uses a disk; see disk.h. The kernel does not count for us who has a disk open. */
#include "initiator/ublk/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "/dev/ublkb1" or a partition, "/dev/ublkb1p2"; not "/dev/ublkb12". */
static bool claim_is(const char *path, const char *disk)
{
	size_t length = strlen(disk);

	return !strncmp(path, disk, length) && (!path[length] || path[length] == 'p');
}

static bool claim_process_has(pid_t process, const char *disk)
{
	char folder[64], path[sizeof(folder) + NAME_MAX + 2], target[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)process);
	dir = opendir(folder);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t length;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		found = claim_is(target, disk);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* The first process that has it open, but for this one; 0: none. */
static pid_t claim_user(const char *disk)
{
	struct dirent *entry;
	pid_t user = 0;
	DIR *dir = opendir("/proc");

	while (dir && !user && (entry = readdir(dir))) {
		pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);

		if (process > 0 && process != getpid() && claim_process_has(process, disk))
			user = process;
	}
	if (dir)
		closedir(dir);
	return user;
}

int ublk_disk_claim(uint32_t id, int *fd, pid_t *user)
{
	char disk[32];

	*user = 0;
	snprintf(disk, sizeof(disk), "/dev/ublkb%u", id);
	*fd = open(disk, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (*fd < 0)
		return errno == EBUSY ? UBLK_DISK_CLAIMED : -errno;
	*user = claim_user(disk);
	return *user ? UBLK_DISK_OPEN : UBLK_DISK_UNUSED;
}
