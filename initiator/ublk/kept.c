/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns the file that a disk's servers share: see kept.h. Until it is linked its name is "new." and the keeper's number.
 */
#include "initiator/ublk/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void kept_path(const char *root, uint32_t id, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s" UBLK_RECORD_FOLDER "/%u.kept", root, id);
}

static void kept_new_path(const char *root, pid_t keeper, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s" UBLK_RECORD_FOLDER "/new.%d", root, (int)keeper);
}

/* 0 or -errno */
static int kept_make_folder(const char *root)
{
	char path[PATH_MAX];

	/* Each part of it but the root. */
	snprintf(path, sizeof(path), "%s" UBLK_RECORD_FOLDER, root);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0755) && errno != EEXIST ? -errno : 0;
}

/* The descriptor, or -errno; then it is closed. */
static int kept_map(int fd, struct ublk_kept **kept)
{
	void *memory = mmap(NULL, sizeof(**kept), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int err = -errno;

	if (memory == MAP_FAILED) {
		close(fd);
		return err;
	}
	*kept = memory;
	return fd;
}

int ublk_kept_create(const char *root, struct ublk_kept **kept)
{
	int fd, err = kept_make_folder(root);
	char path[PATH_MAX];

	if (err)
		return err;
	kept_new_path(root, getpid(), path);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = ublk_kept_lock(fd);
	/* All of its memory is there from now on: in a full file system a store would be a SIGBUS. */
	if (!err)
		err = -posix_fallocate(fd, 0, sizeof(**kept));
	if (err) {
		unlink(path);
		close(fd);
		return err;
	}
	fd = kept_map(fd, kept);
	if (fd >= 0) {
		(*kept)->version = UBLK_KEPT_VERSION;
		(*kept)->bytes = sizeof(**kept);
		(*kept)->keeper = getpid();
	}
	return fd;
}

int ublk_kept_link(const char *root, const struct ublk_kept *kept)
{
	char path[PATH_MAX], fresh[PATH_MAX];

	kept_new_path(root, kept->keeper, fresh);
	kept_path(root, kept->id, path);
	return rename(fresh, path) ? -errno : 0;
}

void ublk_kept_discard(const char *root, const struct ublk_kept *kept)
{
	char path[PATH_MAX];

	kept_new_path(root, kept->keeper, path);
	unlink(path);
}

int ublk_kept_open(const char *root, uint32_t id, struct ublk_kept **kept)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	kept_path(root, id, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENODEV : -errno;
	if (fstat(fd, &st) || st.st_size != sizeof(**kept)) {
		close(fd);
		return -ESTALE;
	}
	fd = kept_map(fd, kept);
	if (fd >= 0 &&
	    ((*kept)->version != UBLK_KEPT_VERSION || (*kept)->bytes != sizeof(**kept) || (*kept)->id != id)) {
		ublk_kept_close(fd, *kept);
		return -ESTALE;
	}
	return fd;
}

int ublk_kept_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;

	if (fcntl(fd, F_OFD_SETLK, &lock))
		return errno == EACCES ? -EAGAIN : -errno;
	return fstat(fd, &st) || st.st_nlink ? 0 : -ENODEV;
}

bool ublk_kept_locked(const char *root, uint32_t id)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX];
	bool locked;
	int fd;

	kept_path(root, id, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;
	locked = fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
	close(fd);
	return locked;
}

void ublk_kept_remove(const char *root, uint32_t id)
{
	char path[PATH_MAX];

	kept_path(root, id, path);
	unlink(path);
}

void ublk_kept_close(int fd, struct ublk_kept *kept)
{
	munmap(kept, sizeof(*kept));
	close(fd);
}
