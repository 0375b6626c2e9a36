/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store on a file or block device, through the reactor's io_uring: fixed files, fixed buffers
 * where the caller has them, nothing that blocks (its worker does that). Durability relies on the
 * kernel: FLUSH is fdatasync, FUA is RWF_DSYNC. Opening, locking and probing are path.c's.
 */
#include "target/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "target/base/settings.h"
#include "target/base/error.h"
#include "target/store/nvme_path.h"
#include "target/store/path.h"
#include "target/store/seek.h"
#include "target/store/worker.h"

/*
 * -EAGAIN and -EINTR are tried again, each time through the ring, so that the reactor continues
 * with other work. The kernel needs a handful at most: this many in a row is a failing device.
 */
#define RETRIES_MAX 1000
/* In io->retries: the device has refused to punch. */
#define WITHOUT_PUNCH (1u << 31)

/* Opened by the configuring thread, closed as volume.c says; the file is fixed in between. */
struct uring_store {
	struct tgt_store store; /* first: the struct tgt_store that others hold */
	struct tgt_path path;
	struct tgt_worker worker;
};

/* Its reactor's; lives as long as the reactor serves the volume. */
struct uring_channel {
	struct tgt_channel channel; /* first: the struct tgt_channel that others hold */
	int file_index;	      /* in the ring's table of fixed files */
};

static struct uring_store *to_uring(struct tgt_store *store)
{
	return (struct uring_store *)store;
}

static int uring_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	struct uring_store *uring;
	int status;

	if (tgt_nvme_is_generic(config->path))
		return tgt_store_nvme.open(config, store, error);
	uring = calloc(1, sizeof(*uring));
	if (!uring)
		return tgt_error(error, -ENOMEM, "%s: out of memory", config->path);
	status = tgt_path_open(config, &uring->path, &uring->store.info, error);
	if (status < 0) {
		free(uring);
		return status;
	}
	status = tgt_worker_init(&uring->worker, "store");
	if (status < 0) {
		close(uring->path.fd);
		free(uring);
		return tgt_error(error, status, "%s: out of memory", config->path);
	}
	uring->store.ops = &tgt_store_uring;
	uring->store.info.can_compare = true;
	*store = &uring->store;
	return 0;
}

static int uring_sync(struct tgt_store *store)
{
	return fdatasync(to_uring(store)->path.fd) < 0 ? -errno : 0;
}

static void uring_close(struct tgt_store *store)
{
	struct uring_store *uring = to_uring(store);

	tgt_worker_fini(&uring->worker);
	close(uring->path.fd);
	free(uring);
}

static int uring_refresh(struct tgt_store *store)
{
	return tgt_path_size(&to_uring(store)->path, &store->info.bytes);
}

/* For a file, the file system would have to be asked, which may be one of a network. */
static int uring_device_bytes(struct tgt_store *store, uint64_t *bytes)
{
	const struct tgt_path *path = &to_uring(store)->path;

	return path->device ? tgt_path_size(path, bytes) : -EOPNOTSUPP;
}

/* The kernel says what it knows by now: a file server that does not answer is not waited for. */
static bool uring_file_look(struct tgt_store *store, struct tgt_store_file *file)
{
	const unsigned int wanted = STATX_NLINK | STATX_SIZE;
	const struct tgt_path *path = &to_uring(store)->path;
	struct statx stx;

	if (path->device || statx(path->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, wanted, &stx) ||
	    (stx.stx_mask & wanted) != wanted)
		return false;
	*file = (struct tgt_store_file){.deleted = !stx.stx_nlink, .bytes = stx.stx_size};
	return true;
}

static int uring_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	struct uring_channel *uring = calloc(1, sizeof(*uring));

	if (!uring)
		return -ENOMEM;
	uring->channel.store = store;
	uring->channel.ring = ring;
	/* Lookups block the worker. */
	uring->file_index = tgt_ring_register_file(ring, to_uring(store)->path.fd,
						   store->info.depths.transfers + store->info.depths.ranges + TGT_FLUSHES_MAX);
	if (uring->file_index < 0) {
		int status = uring->file_index;

		free(uring);
		return status;
	}
	*channel = &uring->channel;
	return 0;
}

static void uring_detach(struct tgt_channel *channel)
{
	struct uring_channel *uring = (struct uring_channel *)channel;

	tgt_ring_unregister_file(channel->ring, uring->file_index);
	free(uring);
}

/* -- one operation ----------------------------------------------------------------------------- */

static void prep_transfer(struct io_uring_sqe *sqe, int file, struct tgt_io *io)
{
	unsigned int bytes = (unsigned int)(io->bytes - io->progress);
	char *place = (char *)io->buffer + io->progress;
	uint64_t offset = io->offset + io->progress;
	/* Linux takes untorn writes of plain memory alone (generic_atomic_write_valid() of 6.12). */
	bool fixed = io->buffer_index >= 0 && !(io->flags & TGT_IO_UNTORN);

	if (io->kind == TGT_IO_READ && fixed)
		io_uring_prep_read_fixed(sqe, file, place, bytes, offset, io->buffer_index);
	else if (io->kind == TGT_IO_READ)
		io_uring_prep_read(sqe, file, place, bytes, offset);
	else if (fixed)
		io_uring_prep_write_fixed(sqe, file, place, bytes, offset, io->buffer_index);
	else
		io_uring_prep_write(sqe, file, place, bytes, offset);
	/* On a file, and through a device's FUA or flush: durable before it completes. Untorn: one operation there. */
	if (io->kind == TGT_IO_WRITE && io->flags)
		sqe->rw_flags = (io->flags & TGT_IO_FUA ? RWF_DSYNC : 0) |
				(io->flags & TGT_IO_UNTORN ? TGT_RWF_ATOMIC : 0);
}

static bool range_punches(const struct tgt_path *path, const struct tgt_io *io)
{
	if (io->retries & WITHOUT_PUNCH)
		return false;
	return io->kind == TGT_IO_DISCARD || (path->punch && !(io->flags & TGT_IO_NO_UNMAP));
}

static int range_mode(const struct tgt_path *path, const struct tgt_io *io)
{
	if (range_punches(path, io))
		return FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	return FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
}

/* The rest of `io`. */
static int uring_issue(struct tgt_io *io)
{
	struct uring_channel *channel = (struct uring_channel *)io->channel;
	const struct tgt_path *path = &to_uring(io->channel->store)->path;
	struct io_uring_sqe *sqe = tgt_ring_get(channel->channel.ring, &io->ring_op);

	if (!sqe)
		return -EBUSY;
	switch (io->kind) {
	case TGT_IO_READ:
	case TGT_IO_WRITE:
		prep_transfer(sqe, channel->file_index, io);
		break;
	case TGT_IO_DISCARD:
	case TGT_IO_WRITE_ZEROES:
		if (io->progress < io->bytes) {
			io_uring_prep_fallocate(sqe, channel->file_index, range_mode(path, io),
						(off_t)io->offset, (off_t)io->bytes);
			break;
		}
		__attribute__((fallthrough)); /* zeroed, and now FUA */
	case TGT_IO_FLUSH:
		io_uring_prep_fsync(sqe, channel->file_index, IORING_FSYNC_DATASYNC);
		break;
	case TGT_IO_EXTENTS: /* never comes here */
		return -EINVAL;
	}
	sqe->flags |= IOSQE_FIXED_FILE;
	return 0;
}

/* Once more. False: too often. */
static bool retried(struct tgt_io *io)
{
	return (io->retries++ & ~WITHOUT_PUNCH) < RETRIES_MAX;
}

/*
 * So much more of a transfer is done. Direct I/O wants its memory aligned, for some devices to more
 * than a block: what follows the last such boundary is done again with the rest.
 */
static int transfer_advance(struct tgt_io *io, unsigned int bytes)
{
	uint32_t alignment = io->channel->store->info.alignment;
	uint64_t done = io->progress + bytes;

	/* The rest would be another operation: the promise is broken already, and is not to be broken silently. */
	if (done < io->bytes && io->kind == TGT_IO_WRITE && io->flags & TGT_IO_UNTORN)
		return -EIO;
	if (done < io->bytes && alignment)
		done -= done % alignment;
	if (done == io->progress)
		return retried(io) ? 1 : -EIO;
	io->progress = done;
	return done < io->bytes;
}

/* The state after a completion: negative errno, 0 when all is done, 1 when there is more. */
static int uring_advance(struct tgt_io *io, int result)
{
	if (result == TGT_RING_NO_ROOM)
		return 1;
	if (result == -EAGAIN || result == -EINTR)
		return retried(io) ? 1 : -EIO;
	if (result < 0)
		return result;
	switch (io->kind) {
	case TGT_IO_READ:
	case TGT_IO_WRITE:
		/* 0 bytes: the file has shrunk under a READ, or takes no more of a WRITE. */
		if (result == 0)
			return -EIO;
		return transfer_advance(io, (unsigned int)result);
	case TGT_IO_WRITE_ZEROES:
		if (io->progress == io->bytes)
			return 0;
		io->progress = io->bytes;
		return (io->flags & TGT_IO_FUA) != 0;
	case TGT_IO_DISCARD:
	case TGT_IO_FLUSH:
	case TGT_IO_EXTENTS:
		break;
	}
	return 0;
}

/* -- what only the worker can do --------------------------------------------------------------- */

/*
 * io_uring has no lseek(), and the file system may read from disk to answer. It has no BLKDISCARD
 * on these kernels either, which some devices need: see struct tgt_path.
 */
struct uring_job {
	struct tgt_job job; /* first: leads back here */
	struct tgt_io *io;
};

static bool needs_worker(const struct tgt_path *path, const struct tgt_io *io)
{
	return io->kind == TGT_IO_EXTENTS ||
	       (io->kind == TGT_IO_DISCARD && path->device && (!path->punch || io->retries & WITHOUT_PUNCH));
}

static int job_run(struct tgt_job *job)
{
	const struct tgt_io *io = ((struct uring_job *)job)->io;
	const struct tgt_path *path = &to_uring(io->channel->store)->path;
	uint64_t range[2] = {io->offset, io->bytes};
	uint64_t size;
	int err;

	if (io->kind == TGT_IO_DISCARD)
		return ioctl(path->fd, BLKDISCARD, range) < 0 ? -errno : 0;
	err = tgt_path_size(path, &size);
	return err ? err : tgt_seek_extents(path->fd, size, io, lseek);
}

static void job_done(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct uring_job *job = (struct uring_job *)message; /* through its first members */
	struct tgt_io *io = job->io;
	int result = job->job.result;

	free(job);
	io->done(io, result);
}

/* An allocation for each: this is rare, and a request need not carry a job for it. */
static int job_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	struct uring_job *job = calloc(1, sizeof(*job));
	int err;

	if (!job)
		return -ENOMEM;
	job->io = io;
	job->job.work = job_run;
	job->job.message.run = job_done;
	err = tgt_worker_submit(&to_uring(channel->store)->worker, channel->ring, &job->job);
	if (err)
		free(job);
	return err;
}

/*
 * A device's command for zeroes may turn out not to be one (sd, loop): the kernel forgets it then, and refuses to punch from now
 * on. Zeroes are written instead, as it does itself, and space is given back by BLKDISCARD.
 */
static bool punch_refused(struct tgt_io *io, int result)
{
	struct tgt_path *path = &to_uring(io->channel->store)->path;

	if (result != -EOPNOTSUPP || !path->device || (io->kind != TGT_IO_DISCARD && io->kind != TGT_IO_WRITE_ZEROES) ||
	    io->retries & WITHOUT_PUNCH)
		return false;
	path->punch = false;
	io->channel->store->info.writes_zeroes = true;
	io->retries |= WITHOUT_PUNCH;
	return true;
}

static int uring_go_on(struct tgt_io *io)
{
	return needs_worker(&to_uring(io->channel->store)->path, io) ? job_submit(io->channel, io) : uring_issue(io);
}

static void uring_complete(struct tgt_ring_op *op, int result, uint32_t flags)
{
	struct tgt_io *io = (struct tgt_io *)op; /* its first member */
	int status = punch_refused(io, result) ? 1 : uring_advance(io, result);

	if (status > 0) {
		status = uring_go_on(io);
		if (status == 0)
			return;
		/* No room to go on, for now; it was begun, so this is not BUSY. */
		if (status == -EBUSY) {
			tgt_ring_retry(io->channel->ring, op);
			return;
		}
	}
	io->done(io, status);
}

static int uring_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	io->ring_op.complete = uring_complete;
	io->channel = channel;
	io->progress = 0;
	io->retries = 0;
	return uring_go_on(io);
}

static bool uring_is_namespace(const struct tgt_volume_config *config)
{
	return tgt_nvme_is_generic(config->path);
}

const struct tgt_store_ops tgt_store_uring = {
	.kind = "uring",
	.on_path = true,
	.is_namespace = uring_is_namespace,
	.open = uring_open,
	.sync = uring_sync,
	.close = uring_close,
	.refresh = uring_refresh,
	.device_bytes = uring_device_bytes,
	.file_look = uring_file_look,
	.attach = uring_attach,
	.detach = uring_detach,
	.submit = uring_submit,
};
