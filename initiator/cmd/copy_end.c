/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Owns one end of a copy: a file, a pipe or a volume, its data and its holes. copy.h declares it. */
#include "initiator/cmd/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- ends -------------------------------------------------------------------------------------- */

/* One end of a copy: a file, a pipe or a volume is opened, read, written, made durable and closed. copy.h declares it. */

int copy_end_open_volume(struct copy_end *end, const char *uri, bool output,
			 const struct cmd_connect *connect, uint32_t depth)
{
	struct rblk_options options = { .credits = depth < 4 ? 4 : depth };

	end->name = uri;
	end->output = output;
	end->fd = -1;
	end->session = cmd_session_open(uri, connect, &options);
	if (!end->session)
		return -EIO;
	end->volume = cmd_volume_open(end->session, output ? 0 : RBLK_VOLUME_OPEN_READ_ONLY);
	if (!end->volume)
		return -EIO;
	end->info = rblk_volume_info(end->volume);
	end->bytes = end->info->bytes;
	end->block_bytes = end->info->block_bytes;
	if (output && end->info->read_only) {
		cmd_error("%s: the volume is read only", uri);
		return -EROFS;
	}
	return 0;
}

/* The kind and the length of the file end->fd. */
static int copy_end_examine(struct copy_end *end)
{
	struct stat status;
	off_t length;

	if (fstat(end->fd, &status)) {
		cmd_error("%s: %s", end->name, strerror(errno));
		return -errno;
	}
	if (S_ISDIR(status.st_mode)) {
		cmd_error("%s: is a directory", end->name);
		return -EISDIR;
	}
	end->block_bytes = 1;
	end->regular = S_ISREG(status.st_mode);
	end->seekable = end->regular || S_ISBLK(status.st_mode);
	if (end->regular) {
		end->bytes = end->output ? COPY_UNKNOWN : (uint64_t)status.st_size;
	} else if (end->seekable) {
		length = lseek(end->fd, 0, SEEK_END);
		if (length < 0) {
			cmd_error("%s: %s", end->name, strerror(errno));
			return -errno;
		}
		end->bytes = (uint64_t)length;
	} else {
		end->bytes = COPY_UNKNOWN;
	}
	return 0;
}

static int copy_end_open_file(struct copy_end *end, const char *path, int flags, int standard)
{
	int result;

	if (!strcmp(path, "-")) {
		end->standard = true;
		end->name = end->output ? "standard output" : "standard input";
		end->fd = fcntl(standard, F_DUPFD_CLOEXEC, 3);
	} else {
		end->name = path;
		end->fd = open(path, flags | O_CLOEXEC, 0666);
	}
	if (end->fd < 0) {
		result = -errno;
		cmd_error("%s: %s%s", end->name, strerror(errno),
			  flags & O_EXCL && result == -EBUSY
				  ? ": it is mounted, or another program or device has it"
				  : "");
		return result;
	}
	return copy_end_examine(end);
}

int copy_end_open_source(struct copy_end *end, const char *path)
{
	end->output = false;
	return copy_end_open_file(end, path, O_RDONLY, STDIN_FILENO);
}

/* A block device that has a file system mounted, or is part of another device, is not opened: O_EXCL. */
static int copy_end_flags(const char *path)
{
	struct stat status;

	if (lstat(path, &status))
		return O_WRONLY | O_CREAT | O_EXCL;
	if (stat(path, &status))
		return O_WRONLY | O_CREAT;
	return S_ISBLK(status.st_mode) ? O_WRONLY | O_EXCL : O_WRONLY;
}

int copy_end_open_destination(struct copy_end *end, const char *path)
{
	int flags = copy_end_flags(path), result;

	end->output = true;
	result = copy_end_open_file(end, path, flags, STDOUT_FILENO);
	if (result)
		return result;
	end->created = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
	/* `rblk copy ... - > file` may append: then it is a stream like any other. */
	if (!strcmp(path, "-"))
		end->seekable = end->regular = end->created = false;
	return 0;
}

int copy_end_clear(struct copy_end *end)
{
	end->created = false;
	if (!end->regular || !end->output || !ftruncate(end->fd, 0))
		return 0;
	cmd_error("%s: %s", end->name, strerror(errno));
	return -EIO;
}

int copy_end_sync(struct copy_end *end, uint64_t bytes)
{
	int result = 0;

	if (end->session) {
		if (end->info->can_flush)
			result = rblk_fsync(end->volume);
		else
			cmd_error("%s: warning: the store cannot flush: no operation makes this copy durable",
				  end->name);
		if (result)
			cmd_error("%s: flush: %s", end->name, cmd_reason(result));
		return result;
	}
	/* The length, too: the file may end in a hole. */
	if ((end->regular && ftruncate(end->fd, (off_t)bytes)) ||
	    (end->seekable && fsync(end->fd))) {
		result = -errno;
		cmd_error("%s: %s", end->name, strerror(errno));
	}
	return result;
}

int copy_end_close(struct copy_end *end)
{
	int result = 0;

	if (end->session)
		rblk_session_close(end->session);
	if (end->created)
		unlink(end->name);
	if (end->fd >= 0 && close(end->fd) && end->output) {
		cmd_error("%s: %s", end->name, strerror(errno));
		result = -EIO;
	}
	end->session = NULL;
	end->fd = -1;
	return result;
}

int64_t copy_end_read_file(struct copy_end *end, void *data, uint32_t bytes, uint64_t offset)
{
	uint32_t done = 0;
	ssize_t length;

	while (done < bytes) {
		length = pread(end->fd, (char *)data + done, bytes - done, (off_t)(offset + done));
		if (length < 0) /* EINTR too: only the user interrupts this */
			return -errno;
		if (!length)
			break;
		done += (uint32_t)length;
	}
	return done;
}

int64_t copy_end_read_pipe(struct copy_end *end, void *data, uint32_t bytes)
{
	struct pollfd fd = { .fd = end->fd, .events = POLLIN };
	ssize_t length;

	/* Not by O_NONBLOCK: the pipe's description may be shared with other programs. */
	if (poll(&fd, 1, 0) <= 0)
		return -EAGAIN;
	length = read(end->fd, data, bytes);
	return length < 0 ? -errno : length;
}

int copy_end_write_file(struct copy_end *end, const void *data, uint32_t bytes, uint64_t offset)
{
	uint32_t done = 0;
	ssize_t length;

	while (done < bytes) {
		if (end->seekable)
			length = pwrite(end->fd, (const char *)data + done, bytes - done,
					(off_t)(offset + done));
		else
			length = write(end->fd, (const char *)data + done, bytes - done);
		if (length < 0)
			return -errno;
		done += (uint32_t)length;
	}
	return 0;
}

/* -- holes ------------------------------------------------------------------------------------- */

/*
 * Where a source reads as zeroes without being read: holes of a file, what a target knows of a volume. An
 * end remembers the last answer, which copy_run.c walks from the first byte to the last. Called by
 * copy_run.c for the source, by copy_verify.c for the volume whose checksums it asks for.
 */

#define HOLES_EXTENTS 256 /* the most of one answer */

struct copy_holes {
	uint64_t from, to; /* of the last answer for a file */
	bool zero;
	bool useless; /* the file system, or the target, does not tell */
	struct rblk_extent extents[HOLES_EXTENTS];
	unsigned int count; /* of them, known */
};

int copy_holes_init(struct copy_end *end)
{
	/* Standard input's offset must not be moved, and a pipe has no holes. */
	if (end->session ? !end->info->can_extents : !end->regular || end->standard)
		return 0;
	end->holes = calloc(1, sizeof(*end->holes));
	if (!end->holes) {
		cmd_error("out of memory");
		return -ENOMEM;
	}
	return 0;
}

void copy_holes_fini(struct copy_end *end)
{
	free(end->holes);
	end->holes = NULL;
}

static void holes_of_file(struct copy_end *end, uint64_t offset, uint64_t limit)
{
	struct copy_holes *holes = end->holes;
	off_t next = lseek(end->fd, (off_t)offset, SEEK_DATA);
	off_t size = 0;

	holes->from = offset;
	holes->to = limit;
	holes->zero = false;
	if (next > (off_t)offset) {
		holes->zero = true;
		holes->to = (uint64_t)next;
	} else if (next >= 0) {
		next = lseek(end->fd, (off_t)offset, SEEK_HOLE);
		if (next > (off_t)offset)
			holes->to = (uint64_t)next;
	} else if (errno == ENXIO) {
		/* No data behind this; a file that has become shorter is read, which fails. */
		size = lseek(end->fd, 0, SEEK_END);
		holes->zero = size >= (off_t)limit;
	} else {
		holes->useless = true;
	}
}

/* The extent that holds this offset, or NULL. */
static const struct rblk_extent *holes_extent(const struct copy_holes *holes, uint64_t offset)
{
	unsigned int low = 0, high = holes->count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;
		const struct rblk_extent *extent = &holes->extents[middle];

		if (offset < extent->offset)
			high = middle;
		else if (offset - extent->offset < extent->bytes)
			return extent;
		else
			low = middle + 1;
	}
	return NULL;
}

/* If the target cannot tell, all is data: an error shows when that is read. */
static void holes_of_volume(struct copy_end *end, uint64_t offset, uint64_t limit)
{
	struct copy_holes *holes = end->holes;
	uint64_t most = (uint64_t)UINT32_MAX * end->block_bytes;
	uint64_t block = offset - offset % end->block_bytes;
	uint64_t bytes = (limit - block + end->block_bytes - 1) / end->block_bytes * end->block_bytes;
	int count;

	count = rblk_get_extents(end->volume, bytes < most ? bytes : most, block, holes->extents,
				 HOLES_EXTENTS);
	holes->useless = count <= 0;
	holes->count = count > 0 ? (unsigned int)count : 0;
}

void copy_holes_at(struct copy_end *end, uint64_t offset, uint64_t limit, uint64_t *to, bool *zero)
{
	struct copy_holes *holes = end->holes;
	const struct rblk_extent *extent;

	*to = limit;
	*zero = false;
	if (!holes || holes->useless)
		return;
	if (!end->session) {
		if (offset < holes->from || offset >= holes->to)
			holes_of_file(end, offset, limit);
		*to = holes->to < limit ? holes->to : limit;
		*zero = holes->zero;
		return;
	}
	extent = holes_extent(holes, offset);
	if (!extent) {
		holes_of_volume(end, offset, limit);
		extent = holes_extent(holes, offset);
	}
	if (!extent)
		return;
	if (extent->offset + extent->bytes < limit)
		*to = extent->offset + extent->bytes;
	*zero = extent->flags & RBLK_EXTENT_IS_ZERO;
}

void copy_holes_forget(struct copy_end *end)
{
	if (!end->holes)
		return;
	end->holes->from = end->holes->to = 0;
	end->holes->count = 0;
}

uint32_t copy_holes_next(struct copy *copy, uint64_t most, bool *zero)
{
	uint64_t offset = copy->next_offset, block = copy->block_bytes;
	uint64_t want = most - offset < copy->chunk_bytes ? most : offset + copy->chunk_bytes;
	uint64_t end = offset, first, last, to;
	bool is_zero;

	*zero = false;
	while (copy->source.holes && copy->hole_bytes && end < want) {
		copy_holes_at(&copy->source, end, most, &to, &is_zero);
		first = (end + block - 1) / block * block;
		last = to / block * block;
		end = to;
		if (!is_zero || last < first || last - first < COPY_HOLE_MIN)
			continue;
		if (first > offset)
			return (uint32_t)(first - offset);
		*zero = true;
		return last - offset < copy->hole_bytes ? (uint32_t)(last - offset) : copy->hole_bytes;
	}
	return (uint32_t)(want - offset);
}
