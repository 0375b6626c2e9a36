/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The replacing of folder.h (write, sync, rename), and what a folder of a container is on. */
#include "target/store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "target/base/denied.h"
#include "target/base/error.h"
#include "target/base/owner.h"

#define ENGINE_NAME_DIGITS 64u

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
	char advice[TGT_DENIED_BYTES];
	int err = 0;

	if (!mkdir(folder, 0700))
		err = parent_sync(folder);
	else if (errno != EEXIST)
		err = -errno;
	if (!err && access(folder, R_OK | W_OK | X_OK))
		err = -errno;
	return err ? tgt_error(error, err, "%s: %s%s", folder, strerror(-err), tgt_denied(folder, err, advice)) : 0;
}

/* -- volumes of containers --------------------------------------------------------------------- */

/* The folder's place in its file system's own tree, as mountinfo has it. False: that cannot be told. */
static bool mount_root(const char *folder, char root[PATH_MAX])
{
	unsigned long long mount = 0;
	size_t bytes = 0;
	char *line = NULL;
	struct statx stx;
	FILE *mounts;

	if (statx(AT_FDCWD, folder, 0, STATX_MNT_ID, &stx) || !(stx.stx_mask & STATX_MNT_ID))
		return false;
	mounts = fopen("/proc/self/mountinfo", "re");
	if (!mounts)
		return false;
	while (getline(&line, &bytes, mounts) > 0)
		if (sscanf(line, "%llu %*u %*s %4095s", &mount, root) == 2 && mount == stx.stx_mnt_id)
			break;
	free(line);
	fclose(mounts);
	return mount == stx.stx_mnt_id;
}

bool tgt_folder_is_anonymous(const char *folder)
{
	static const char data[] = "/_data";
	char root[PATH_MAX], *name;
	size_t length;

	if (!mount_root(folder, root))
		return false;
	length = strlen(root);
	/* Docker and Podman: .../volumes/NAME/_data; containerd: .../volumes/NAME. They draw 32 random bytes as the name of one
	 * that was given none. */
	if (length > strlen(data) && !strcmp(root + length - strlen(data), data))
		root[length - strlen(data)] = 0;
	name = strrchr(root, '/');
	return name && strspn(name + 1, "0123456789abcdef") == ENGINE_NAME_DIGITS && !name[1 + ENGINE_NAME_DIGITS];
}

/* -- files ------------------------------------------------------------------------------------- */

/* If the process is killed here, the next one replaces its file, whoever that runs as. */
static int file_write(const char *path, const void *data, size_t bytes)
{
	int err = 0, fd;

	if (unlink(path) && errno != ENOENT)
		return -errno;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	tgt_owner_give(fd, path);
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
