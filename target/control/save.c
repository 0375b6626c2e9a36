/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes the files of a configuration: to a new file beside, which then takes the name. Whoever reads
 * meanwhile gets the old file or the new one, and so does a machine that loses power.
 */
#include "target/control/document.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(fd, text, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		text += done;
		bytes -= (size_t)done;
	}
	return 0;
}

/* Owner and mode as before; the mode first, for then the file is still ours. */
static int fill(int fd, const struct tgt_document_file *file, const struct stat *old)
{
	int status = write_all(fd, file->text, file->bytes);

	if (!status && fchmod(fd, old->st_mode & 07777))
		status = -errno;
	if (!status && (old->st_uid != geteuid() || old->st_gid != getegid()) &&
	    fchown(fd, old->st_uid, old->st_gid))
		status = -errno;
	if (!status && fsync(fd))
		status = -errno;
	return status;
}

static int folder_sync(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int status = fd < 0 || fsync(fd) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	free(copy);
	return status;
}

static int replace(const struct tgt_document_file *file, const char *path, const struct stat *old)
{
	char *fresh;
	int fd, status;

	/* A fixed name: what a daemon left that was killed here is replaced. */
	if (asprintf(&fresh, "%s.new", path) < 0)
		return -ENOMEM;
	unlink(fresh);
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		status = -errno;
		free(fresh);
		return status;
	}
	status = fill(fd, file, old);
	if (close(fd) && !status)
		status = -errno;
	if (!status && rename(fresh, path))
		status = -errno;
	if (status)
		unlink(fresh);
	free(fresh);
	return status;
}

static bool is_as_read(const struct tgt_document_file *file, const struct stat *now)
{
	return now->st_dev == file->seen.st_dev && now->st_ino == file->seen.st_ino &&
	       now->st_size == file->seen.st_size &&
	       now->st_mtim.tv_sec == file->seen.st_mtim.tv_sec &&
	       now->st_mtim.tv_nsec == file->seen.st_mtim.tv_nsec;
}

static int file_save(struct tgt_document_file *file, bool force, char *error)
{
	char *path;
	struct stat old;
	int status;

	if (!file->path[0])
		return tgt_error(error, -ENOENT,
				 "rblkd was started without --config: there is no file to save to");
	/* A link stays one: the file that it leads to is written. */
	path = realpath(file->path, NULL);
	if (!path || stat(path, &old)) {
		status = tgt_error(error, -errno, "%s: %s", file->path, strerror(errno));
	} else if (!S_ISREG(old.st_mode)) {
		status = tgt_error(error, -EINVAL, "%s: is not a regular file", file->path);
	} else if (!force && !is_as_read(file, &old)) {
		status = tgt_error(error, -EBUSY,
				   "%s: was changed since rblkd has read it: save --force overwrites it",
				   file->path);
	} else {
		status = replace(file, path, &old);
		if (status)
			tgt_error(error, status, "%s: %s: the file is as it was", file->path,
				  strerror(-status));
	}
	if (!status) {
		/* Gone again already: the next save sees that. */
		if (stat(path, &file->seen))
			memset(&file->seen, 0, sizeof(file->seen));
		free(file->saved);
		file->saved = NULL;
		file->changed = false;
		status = folder_sync(path);
		if (status)
			tgt_error(error, status, "%s: written, but its folder: %s", file->path,
				  strerror(-status));
	}
	free(path);
	return status;
}

int tgt_document_save(struct tgt_document *document, bool force, char *error)
{
	int status = 0;

	for (unsigned int i = 0; i < document->count && !status; i++)
		if (document->files[i].changed)
			status = file_save(&document->files[i], force, error);
	return status;
}
