/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Owns a block device, a file, or a folder of files, through io_uring; see disk.h. A device is
 * opened with O_DIRECT and written whole blocks; FUA is RWF_DSYNC. In a folder each file has
 * file_bytes of the whole and is made by the first write to it; a flush is fdatasync() of each file
 * that was written and fsync() of the folder if it has a new one.
 */
#include "tests/promise/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <liburing.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 1024u
#define IO_BYTES_MAX (256u << 10)
#define PAGE_BYTES 4096u

/* One command; a flush has several parts. */
struct command {
	struct command *next; /* while it is free */
	promise_done done;
	void *arg;
	unsigned int parts;
	uint32_t expected; /* result of a write; 0: a flush */
	int error;
};

struct path_disk {
	struct promise_disk disk; /* first: what others hold */
	struct io_uring ring;
	bool ring_made, folder_changed;
	int folder;	    /* -1: there is only one file */
	int fds[FILES_MAX]; /* -1: not open */
	bool dirty[FILES_MAX];
	uint64_t file_bytes; /* 0: one file has all */
	struct promise_disk_options options;
	struct command *commands, *free;
	void **buffers; /* of `depth` */
	uint32_t buffer_count;
};

static struct path_disk *to_path(struct promise_disk *disk)
{
	return (struct path_disk *)disk;
}

static void *path_disk_buffer(struct promise_disk *disk, size_t bytes)
{
	struct path_disk *path = to_path(disk);
	void *buffer = NULL;

	if (path->buffer_count < path->options.depth)
		buffer = aligned_alloc(PAGE_BYTES, (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1));
	if (buffer)
		path->buffers[path->buffer_count++] = buffer;
	return buffer;
}

/* -- files ------------------------------------------------------------------------------------- */

/* The descriptor of the file that has `offset`, which becomes one within it. Negative errno:
 * -ENOENT, ... */
static int file_of(struct path_disk *path, uint64_t *offset, unsigned int *index, bool create)
{
	uint64_t file = path->file_bytes ? *offset / path->file_bytes : 0;
	char name[64];

	if (file >= FILES_MAX)
		return -EFBIG;
	*index = (unsigned int)file;
	if (path->file_bytes)
		*offset %= path->file_bytes;
	if (path->fds[file] >= 0)
		return path->fds[file];
	snprintf(name, sizeof(name), "promise-%" PRIu32 "-%" PRIu64, path->options.writer, file);
	path->fds[file] = openat(path->folder, name, O_RDWR | O_CLOEXEC);
	if (path->fds[file] < 0 && errno == ENOENT && create) {
		path->fds[file] = openat(path->folder, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		path->folder_changed = true;
	}
	return path->fds[file] < 0 ? -errno : path->fds[file];
}

static int path_disk_read(struct promise_disk *disk, void *data, uint32_t bytes, uint64_t offset)
{
	unsigned int index;
	int fd = file_of(to_path(disk), &offset, &index, false);
	ssize_t got;

	if (fd < 0 && fd != -ENOENT)
		return fd;
	got = fd < 0 ? 0 : pread(fd, data, bytes, (off_t)offset);
	if (got < 0)
		return -errno;
	memset((char *)data + got, 0, bytes - (size_t)got);
	return 0;
}

/* -- commands ---------------------------------------------------------------------------------- */

static struct command *command_take(struct path_disk *path, promise_done done, void *arg)
{
	struct command *command = path->free;

	if (!command)
		return NULL;
	path->free = command->next;
	*command = (struct command){.done = done, .arg = arg};
	return command;
}

static void part_done(struct path_disk *path, struct command *command, int result)
{
	if (result < 0 && !command->error)
		command->error = result;
	else if (command->expected && result != (int)command->expected && !command->error)
		command->error = -EIO;
	if (--command->parts)
		return;
	command->next = path->free;
	path->free = command;
	/* The kernel's answer may be that of a device that does not know. */
	command->done(command->arg, command->error, !command->error);
}

static int path_disk_write(struct promise_disk *disk, const void *data, uint32_t bytes,
			   uint64_t offset, bool fua, promise_done done, void *arg)
{
	struct path_disk *path = to_path(disk);
	unsigned int index;
	int fd = file_of(path, &offset, &index, path->options.create);
	struct io_uring_sqe *sqe = fd < 0 ? NULL : io_uring_get_sqe(&path->ring);
	struct command *command;

	if (fd < 0)
		return fd;
	command = sqe ? command_take(path, done, arg) : NULL;
	if (!command)
		return -EAGAIN;
	path->dirty[index] = true;
	command->parts = 1;
	command->expected = bytes;
	io_uring_prep_write(sqe, fd, data, bytes, offset);
	if (fua)
		sqe->rw_flags = RWF_DSYNC;
	io_uring_sqe_set_data(sqe, command);
	return 0;
}

static void flush_part(struct path_disk *path, struct command *command, int fd, unsigned int flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&path->ring);

	if (!sqe) {
		io_uring_submit(&path->ring);
		sqe = io_uring_get_sqe(&path->ring);
	}
	command->parts++;
	if (!sqe) {
		part_done(path, command, -EBUSY);
		return;
	}
	io_uring_prep_fsync(sqe, fd, flags);
	io_uring_sqe_set_data(sqe, command);
}

static int path_disk_flush(struct promise_disk *disk, promise_done done, void *arg)
{
	struct path_disk *path = to_path(disk);
	struct command *command = command_take(path, done, arg);

	if (!command)
		return -EAGAIN;
	/* A part of its own, so that no other one is the last meanwhile. */
	command->parts = 1;
	for (unsigned int i = 0; i < FILES_MAX; i++)
		if (path->fds[i] >= 0 && (path->dirty[i] || !path->file_bytes)) {
			path->dirty[i] = false;
			flush_part(path, command, path->fds[i], IORING_FSYNC_DATASYNC);
		}
	if (path->folder_changed)
		flush_part(path, command, path->folder, 0);
	path->folder_changed = false;
	if (command->parts == 1)
		flush_part(path, command, path->folder >= 0 ? path->folder : path->fds[0], 0);
	command->parts--;
	return 0;
}

static int path_disk_wait(struct promise_disk *disk)
{
	struct path_disk *path = to_path(disk);
	struct __kernel_timespec second = {.tv_sec = 1};
	struct io_uring_cqe *cqe;
	int err = io_uring_submit_and_wait_timeout(&path->ring, &cqe, 1, &second, NULL);

	if (err < 0 && err != -ETIME && err != -EINTR)
		return err;
	while (io_uring_peek_cqe(&path->ring, &cqe) == 0) {
		struct command *command = io_uring_cqe_get_data(cqe);
		int result = cqe->res;

		io_uring_cqe_seen(&path->ring, cqe);
		if (command)
			part_done(path, command, result);
	}
	return 0;
}

/*
 * An error of a file is told once, so what a second fsync() says is worth nothing. A device of
 * rblk.ko is told that its writer knows.
 */
static bool path_disk_acknowledge(struct promise_disk *disk)
{
	const char *file = to_path(disk)->options.acknowledge;
	int fd = file ? open(file, O_WRONLY | O_CLOEXEC) : -1;
	bool taken = fd >= 0 && write(fd, "1", 1) == 1;

	if (fd >= 0)
		close(fd);
	return taken;
}

static void path_disk_close(struct promise_disk *disk)
{
	struct path_disk *path = to_path(disk);

	if (path->ring_made)
		io_uring_queue_exit(&path->ring);
	for (unsigned int i = 0; i < FILES_MAX; i++)
		if (path->fds[i] >= 0)
			close(path->fds[i]);
	if (path->folder >= 0)
		close(path->folder);
	for (uint32_t i = 0; i < path->buffer_count; i++)
		free(path->buffers[i]);
	free(path->buffers);
	free(path->commands);
	free(path);
}

static const struct promise_disk_ops ops = {
	.buffer = path_disk_buffer,
	.write = path_disk_write,
	.flush = path_disk_flush,
	.wait = path_disk_wait,
	.read = path_disk_read,
	.acknowledge = path_disk_acknowledge,
	.close = path_disk_close,
};

/* -- opening ----------------------------------------------------------------------------------- */

static int open_one(struct path_disk *path, const char *name)
{
	int access = path->options.read_only ? O_RDONLY : O_RDWR;
	int logical = 512;
	struct stat st;

	path->fds[0] = open(name, access | O_DIRECT | O_CLOEXEC);
	if (path->fds[0] < 0 && errno == EINVAL)
		path->fds[0] = open(name, access | O_CLOEXEC);
	if (path->fds[0] < 0 || fstat(path->fds[0], &st))
		return -errno;
	path->disk.can_fua = true;
	path->disk.bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && (ioctl(path->fds[0], BLKGETSIZE64, &path->disk.bytes) ||
				    ioctl(path->fds[0], BLKSSZGET, &logical)))
		return -errno;
	path->disk.block_bytes = (uint32_t)logical;
	return 0;
}

static int open_any(struct path_disk *path, const char *name)
{
	struct stat st;

	if (stat(name, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return open_one(path, name);
	path->folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	path->file_bytes = path->options.file_bytes;
	path->disk.block_bytes = 512;
	path->disk.io_bytes =
		path->file_bytes < IO_BYTES_MAX ? (uint32_t)path->file_bytes : IO_BYTES_MAX;
	return path->folder < 0 ? -errno : 0;
}

struct promise_disk *promise_disk_open_path(const char *name,
					    const struct promise_disk_options *options, char *error)
{
	struct path_disk *path = calloc(1, sizeof(*path));
	int err = -ENOMEM;

	if (!path)
		goto err_say;
	path->disk.ops = &ops;
	path->disk.io_bytes = IO_BYTES_MAX;
	path->options = *options;
	path->folder = -1;
	for (unsigned int i = 0; i < FILES_MAX; i++)
		path->fds[i] = -1;
	path->commands = calloc(options->depth, sizeof(*path->commands));
	path->buffers = calloc(options->depth, sizeof(*path->buffers));
	if (!path->commands || !path->buffers)
		goto err_close;
	for (uint32_t i = 0; i < options->depth; i++) {
		path->commands[i].next = path->free;
		path->free = &path->commands[i];
	}
	err = io_uring_queue_init(options->depth + FILES_MAX, &path->ring, 0);
	path->ring_made = !err;
	if (!err)
		err = open_any(path, name);
	if (!err)
		return &path->disk;

err_close:
	path_disk_close(&path->disk);
err_say:
	snprintf(error, PROMISE_ERROR_BYTES, "%s: %s", name, strerror(-err));
	return NULL;
}

struct promise_disk *promise_disk_open(const char *where,
				       const struct promise_disk_options *options, char *error)
{
	if (strstr(where, "://"))
		return promise_disk_open_rblk(where, options, error);
	return promise_disk_open_path(where, options, error);
}
