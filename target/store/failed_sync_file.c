/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files of failed_sync_file.h: "f-DEVICE-INODE" of a file, "d-DEVICE" of a block device, in hexadecimal. */
#include "target/store/failed_sync_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/owner.h"

static const char magic[8] = "rblkF9a";

static_assert(sizeof(struct tgt_failed_sync_file) == 64, "the same in every version that knows its magic");

static int file_path(const char *folder, const struct tgt_store_id *id, char path[PATH_MAX])
{
	int length;

	if (id->is_device)
		length = snprintf(path, PATH_MAX, "%s/d-%" PRIx64, folder, id->device);
	else
		length = snprintf(path, PATH_MAX, "%s/f-%" PRIx64 "-%" PRIx64, folder, id->device,
				  id->inode);
	return length < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/*
 * Another user could cut it short while it is mapped, which would kill the process; and a link
 * would lead to another file, which must not be written.
 */
static bool file_is_ours(const struct stat *st, const char *path)
{
	return S_ISREG(st->st_mode) && tgt_owner_is_ours(st, path) && st->st_nlink == 1;
}

/* A file that is not ours is replaced, if the folder lets us. All it knew is lost, so the next epoch is another one (epoch.c). */
static int file_create(const char *folder, const char *path, char *error)
{
	int fd;

	if (!unlink(path))
		tgt_log(TGT_LOG_WARNING,
			"%s: replaced, as it was not a file of rblkd's own: initiators are told that writes which they "
			"did not flush may be lost",
			path);
	else if (errno == EACCES || errno == EPERM)
		return tgt_error(error, -EPERM, "%s: not a file of rblkd's own; remove it", path);
	else if (errno != ENOENT)
		return tgt_error(error, -errno, "%s: %s", path, strerror(errno));
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return tgt_error(error, -errno, "%s: %s", folder, strerror(errno));
	tgt_owner_give(fd, path);
	return fd;
}

/* Allocates all of it: a store to the mapping never finds the file system full. */
static int file_own(const char *folder, const char *path, char *error)
{
	static const struct tgt_failed_sync_file none;
	struct stat st;
	int fd, status;

	if (mkdir(folder, 0700) && errno != EEXIST)
		return tgt_error(error, -errno, "%s: %s", folder, strerror(errno));
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !file_is_ours(&st, path))) {
		close(fd);
		fd = -1;
	}
	if (fd < 0) {
		fd = file_create(folder, path, error);
		if (fd < 0)
			return fd;
		st.st_size = 0;
	}
	if (st.st_size == sizeof(none))
		return fd;
	errno = ENOSPC; /* of a write that is short */
	if (ftruncate(fd, 0) == 0 && pwrite(fd, &none, sizeof(none), 0) == sizeof(none))
		return fd;
	status = -errno;
	close(fd);
	unlink(path);
	return tgt_error(error, status, "%s: %s", folder, strerror(-status));
}

/* Is it of this boot, and of this file or device? */
static bool file_is_of(const struct tgt_failed_sync_file *file, const struct tgt_store_info *info)
{
	return !memcmp(file->magic, magic, sizeof(magic)) &&
	       !memcmp(file->cache_epoch, info->cache_epoch, sizeof(file->cache_epoch)) &&
	       file->born_s == info->born_s && file->born_ns == info->born_ns;
}

int tgt_failed_sync_file_open(const char *folder, const struct tgt_store_info *info, struct tgt_failed_sync_file **out,
			      char *error)
{
	struct tgt_failed_sync_file *file = MAP_FAILED;
	char path[PATH_MAX];
	int fd = file_path(folder, &info->id, path);

	if (fd < 0)
		return tgt_error(error, fd, "%s: %s", folder, strerror(-fd));
	fd = file_own(folder, path, error);
	if (fd < 0)
		return fd;
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return tgt_error(error, -errno, "%s: %s", path, strerror(errno));
	if (!file_is_of(file, info)) {
		/* The magic last: a process that is killed here leaves an invalid file. */
		memset(file->magic, 0, sizeof(file->magic));
		memcpy(file->cache_epoch, info->cache_epoch, sizeof(file->cache_epoch));
		file->born_s = info->born_s;
		file->born_ns = info->born_ns;
		atomic_store(&file->epoch, 0);
		atomic_store(&file->lost_ns, 0);
		atomic_store(&file->state, TGT_STORE_CLEAN);
		memcpy(file->magic, magic, sizeof(magic));
	}
	*out = file;
	return 0;
}

bool tgt_failed_sync_file_find(const char *folder, const struct tgt_store_info *info, struct tgt_failed_sync_file *file)
{
	char path[PATH_MAX];
	struct stat st;
	bool found;
	int fd;

	if (file_path(folder, &info->id, path) < 0)
		return false;
	/* A pipe that somebody has put there must not hold us up. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	found = fstat(fd, &st) == 0 && file_is_ours(&st, path) && st.st_size == sizeof(*file) &&
		pread(fd, file, sizeof(*file), 0) == sizeof(*file) && file_is_of(file, info);
	close(fd);
	return found;
}

void tgt_failed_sync_file_close(struct tgt_failed_sync_file *file)
{
	munmap(file, sizeof(*file));
}
