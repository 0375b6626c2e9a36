/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The replacing of folder.h: write, sync, rename. */
#include "target/store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "target/base/error.h"

int tgt_folder_sync(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd))
		err = -errno;
	close(fd);
	return err;
}

/* A folder that was made just now is a name in its parent. The next one to make it tries again. */
static int parent_sync(const char *folder)
{
	char parent[PATH_MAX];
	int err = -ENAMETOOLONG;

	if (snprintf(parent, sizeof(parent), "%s/..", folder) < (int)sizeof(parent))
		err = tgt_folder_sync(parent);
	if (err)
		rmdir(folder);
	return err;
}

int tgt_folder_make(const char *folder, char *error)
{
	int err = 0;

	if (!mkdir(folder, 0700))
		err = parent_sync(folder);
	else if (errno != EEXIST)
		err = -errno;
	if (!err && access(folder, R_OK | W_OK | X_OK))
		err = -errno;
	return err ? tgt_error(error, err, "%s: %s", folder, strerror(-err)) : 0;
}

/* If the process is killed here, the next one overwrites its file. */
static int file_write(const char *path, const void *data, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < bytes && !err;) {
		ssize_t count = write(fd, (const char *)data + done, bytes - done);

		if (count < 0)
			err = -errno;
		else
			done += (size_t)count;
	}
	if (!err && fsync(fd))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

int tgt_folder_replace(const char *path, const void *data, size_t bytes)
{
	char fresh[PATH_MAX];
	int err;

	if (snprintf(fresh, sizeof(fresh), "%s.new", path) >= (int)sizeof(fresh))
		return -ENAMETOOLONG;
	err = file_write(fresh, data, bytes);
	if (!err && rename(fresh, path))
		err = -errno;
	if (err)
		unlink(fresh);
	return err;
}
