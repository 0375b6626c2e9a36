/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store on an NVMe namespace by passthrough: each operation is one command of the NVM command set, or several in
 * turn, that io_uring hands to the driver past the block layer. FLUSH is the device's Flush, FUA its own bit. This file
 * does what the block layer does for others: larger transfers are split, and commands repeated that the device or the
 * driver gave back for now. Opening, locking and limits are nvme_path.c's.
 */
#include "target/store/store.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "target/base/error.h"
#include "target/base/log.h"
#include "target/base/settings.h"
#include "target/store/nvme_command.h"
#include "target/store/nvme_path.h"
#include "target/store/nvme_status.h"

/*
 * A command that was given back is repeated after so long, and so often: for half a minute, which is the time that the
 * kernel gives each command itself. A controller that is reset is back within seconds.
 */
#define PAUSE_NS 100000000
#define RETRIES_MAX 300u
/* In io->retries: what it goes on with is not to be a fixed buffer. */
#define WITHOUT_FIXED (1u << 31)
/* The kernel has refused so many fixed buffers of a channel and taken the same without: no more are tried. */
#define REFUSALS_MAX 16u

/* More than submit.c lets in at a time. */
#define DISCARDS_MAX 8u

struct nvme_store {
	struct tgt_store store; /* first: the struct tgt_store that others hold */
	struct tgt_nvme_path path;
	_Atomic bool formatted; /* blocks have another size now: no command would mean what it should */
};

/* The range that the device reads of a DISCARD while it is under way. */
struct nvme_discard {
	const struct tgt_io *io; /* NULL: free */
	struct tgt_nvme_range range;
};

/* Its reactor's; lives as long as the reactor serves the volume. */
struct nvme_channel {
	struct tgt_channel channel; /* first: the struct tgt_channel that others hold */
	int generic_index;    /* in the table of the ring's wide half */
	int block_index;      /* likewise. F6: only to be held as long as the ring has I/O under way */
	unsigned int refusals;
	struct tgt_log_limit log_limit;
	struct nvme_discard discards[DISCARDS_MAX];
};

static struct nvme_store *to_nvme(struct tgt_store *store)
{
	return (struct nvme_store *)store;
}

/* -- opening ----------------------------------------------------------------------------------- */

/* The block device of the same namespace, whose lock this one has given back, goes through the block layer. */
static int nvme_fall_back(const struct tgt_volume_config *config, const char *block, const char *reason,
			  struct tgt_store **store, char *error)
{
	struct tgt_volume_config other = *config;
	int err;

	memcpy(other.path, block, strlen(block) + 1);
	err = tgt_store_uring.open(&other, store, error);
	if (!err)
		tgt_log(TGT_LOG_WARNING, "volume %s: %s: no passthrough: %s is served through the block layer (set path = %s "
					 "and store = uring to avoid this warning)",
			config->name, reason, block, block);
	return err;
}

static int nvme_open(const struct tgt_volume_config *config, struct tgt_store **store, char *error)
{
	struct nvme_store *nvme = calloc(1, sizeof(*nvme));
	char reason[TGT_ERROR_BYTES], block[sizeof(nvme->path.namespace.block)];
	int err;

	if (!nvme)
		return tgt_error(error, -ENOMEM, "%s: out of memory", config->path);
	err = tgt_nvme_open(config, &nvme->path, &nvme->store.info, reason);
	if (err) {
		memcpy(block, nvme->path.namespace.block, sizeof(block));
		free(nvme);
		if (err == -EOPNOTSUPP && block[0])
			return nvme_fall_back(config, block, reason, store, error);
		return tgt_error(error, err, "%s", reason);
	}
	nvme->store.ops = &tgt_store_nvme;
	nvme->store.info.can_compare = true;
	*store = &nvme->store;
	return 0;
}

/* The block device's flush is the namespace's own: it covers what was passed through, too. */
static int nvme_sync(struct tgt_store *store)
{
	return fdatasync(to_nvme(store)->path.block.fd) < 0 ? -errno : 0;
}

static void nvme_close(struct tgt_store *store)
{
	tgt_nvme_close(&to_nvme(store)->path);
	free(to_nvme(store));
}

/* Any thread. */
static int nvme_device_bytes(struct tgt_store *store, uint64_t *bytes)
{
	struct nvme_store *nvme = to_nvme(store);
	int err = tgt_nvme_size(&nvme->path, bytes);

	if (err == -ESTALE && !atomic_exchange(&nvme->formatted, true))
		tgt_log(TGT_LOG_ERROR,
			"%s: was formatted to blocks of another size while it was served: its I/O fails from now on",
			nvme->path.namespace.generic);
	return err;
}

static int nvme_refresh(struct tgt_store *store)
{
	return nvme_device_bytes(store, &store->info.bytes);
}

static int nvme_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	struct nvme_store *nvme = to_nvme(store);
	struct nvme_channel *one = calloc(1, sizeof(*one));
	int err;

	if (!one)
		return -ENOMEM;
	one->channel.store = store;
	one->channel.ring = ring;
	err = tgt_ring_widen(ring);
	if (err)
		goto err_free;
	err = one->generic_index = tgt_ring_register_wide_file(ring, nvme->path.fd);
	if (err < 0)
		goto err_free;
	err = one->block_index = tgt_ring_register_wide_file(ring, nvme->path.block.fd);
	if (err < 0)
		goto err_unregister;
	if (nvme->path.fixed && !tgt_ring_wide_has_buffer(ring, 0))
		tgt_log(TGT_LOG_DEBUG, "%s: without fixed buffers (memlock limit? ulimit -l, LimitMEMLOCK=)",
			nvme->path.namespace.generic);
	*channel = &one->channel;
	return 0;

err_unregister:
	tgt_ring_unregister_wide_file(ring, one->generic_index);
err_free:
	free(one);
	return err;
}

static void nvme_detach(struct tgt_channel *channel)
{
	struct nvme_channel *one = (struct nvme_channel *)channel;

	tgt_ring_unregister_wide_file(channel->ring, one->block_index);
	tgt_ring_unregister_wide_file(channel->ring, one->generic_index);
	free(one);
}

/* -- one command ------------------------------------------------------------------------------- */

static uint64_t piece_max(const struct tgt_nvme_path *path, enum tgt_io_kind kind)
{
	switch (kind) {
	case TGT_IO_DISCARD:
		return path->discard_bytes;
	case TGT_IO_WRITE_ZEROES:
		return path->zeroes_bytes;
	default:
		return path->transfer_bytes;
	}
}

/* The bytes of the command that does the next part of `io`, and of the one under way. */
static uint64_t piece_bytes(const struct tgt_nvme_path *path, const struct tgt_io *io)
{
	uint64_t left = io->bytes - io->progress, max = piece_max(path, io->kind);

	return left < max ? left : max;
}

/* The part under way may have been given a fixed buffer. */
static bool may_be_fixed(const struct tgt_nvme_path *path, const struct tgt_io *io)
{
	return path->fixed && !(io->retries & WITHOUT_FIXED) &&
	       tgt_ring_wide_has_buffer(io->channel->ring, io->buffer_index);
}

/* The fixed buffer to use, or -1. */
static int piece_buffer(const struct tgt_nvme_path *path, const struct tgt_io *io)
{
	const struct nvme_channel *channel = (const struct nvme_channel *)io->channel;

	return may_be_fixed(path, io) && channel->refusals < REFUSALS_MAX ? io->buffer_index : -1;
}

/* The one of `io` (NULL: one that is free), or NULL. */
static struct nvme_discard *channel_discard(struct nvme_channel *channel, const struct tgt_io *io)
{
	for (unsigned int i = 0; i < DISCARDS_MAX; i++)
		if (channel->discards[i].io == io)
			return &channel->discards[i];
	return NULL;
}

static void prep_blocks(const struct tgt_nvme_path *path, const struct tgt_io *io, struct tgt_nvme_command *command)
{
	uint64_t first = (io->offset + io->progress) >> path->block_shift;

	command->cdw10 = (uint32_t)first;
	command->cdw11 = (uint32_t)(first >> 32);
	command->cdw12 = (uint32_t)(piece_bytes(path, io) >> path->block_shift) - 1;
	if (io->flags & TGT_IO_FUA && io->kind != TGT_IO_READ)
		command->cdw12 |= TGT_NVME_FUA;
}

static void prep_discard(const struct tgt_nvme_path *path, const struct tgt_io *io, struct tgt_nvme_command *command)
{
	struct tgt_nvme_range *range = &channel_discard((struct nvme_channel *)io->channel, io)->range;

	range->attributes = 0;
	range->blocks = htole32((uint32_t)(piece_bytes(path, io) >> path->block_shift));
	range->first = htole64((io->offset + io->progress) >> path->block_shift);
	command->opcode = TGT_NVME_DATASET_MANAGEMENT;
	command->cdw10 = 0; /* the number of ranges, less one */
	command->cdw11 = TGT_NVME_ATTRIBUTE_DEALLOCATE;
	command->data = range;
	command->data_bytes = sizeof(*range);
}

/* The next command of `io`. */
static int nvme_issue(struct tgt_io *io)
{
	struct nvme_channel *channel = (struct nvme_channel *)io->channel;
	const struct tgt_nvme_path *path = &to_nvme(io->channel->store)->path;
	struct io_uring_sqe *sqe = tgt_ring_get_wide(channel->channel.ring, &io->ring_op);
	struct tgt_nvme_command command = {.nsid = path->nsid, .buffer_index = -1};

	if (!sqe)
		return -EBUSY;
	switch (io->kind) {
	case TGT_IO_READ:
	case TGT_IO_WRITE:
		command.opcode = io->kind == TGT_IO_READ ? TGT_NVME_READ : TGT_NVME_WRITE;
		command.data = (char *)io->buffer + io->progress;
		command.data_bytes = (uint32_t)piece_bytes(path, io);
		command.buffer_index = piece_buffer(path, io);
		prep_blocks(path, io, &command);
		break;
	case TGT_IO_WRITE_ZEROES:
		command.opcode = TGT_NVME_WRITE_ZEROES;
		prep_blocks(path, io, &command);
		if (path->deallocates && !(io->flags & TGT_IO_NO_UNMAP))
			command.cdw12 |= TGT_NVME_DEALLOCATE;
		break;
	case TGT_IO_DISCARD:
		prep_discard(path, io, &command);
		break;
	case TGT_IO_FLUSH:
	case TGT_IO_EXTENTS: /* never comes here */
		command.opcode = TGT_NVME_FLUSH;
		break;
	}
	tgt_nvme_prep(sqe, channel->generic_index, &command);
	return 0;
}

/* -- completion -------------------------------------------------------------------------------- */

enum nvme_next {
	NVME_END,	   /* with an error, or 0 */
	NVME_GO_ON,	   /* the next command, or the same one in another way */
	NVME_AFTER_PAUSE,  /* the same one */
};

static const char *const kind_names[TGT_IO_KINDS] = {
	[TGT_IO_READ] = "READ",
	[TGT_IO_WRITE] = "WRITE",
	[TGT_IO_FLUSH] = "FLUSH",
	[TGT_IO_DISCARD] = "DISCARD",
	[TGT_IO_WRITE_ZEROES] = "WRITE_ZEROES",
};

/* Logs what only this store knows of it: submit.c logs the rest. */
static void log_status(struct tgt_io *io, int status)
{
	struct nvme_channel *channel = (struct nvme_channel *)io->channel;

	tgt_log_limited(&channel->log_limit, TGT_LOG_ERROR, "%s: %s at byte %" PRIu64 ": NVMe status %#x: %s%s",
			to_nvme(io->channel->store)->path.namespace.generic, kind_names[io->kind],
			io->offset + io->progress, (unsigned int)status, tgt_nvme_words(status),
			(io->retries & ~WITHOUT_FIXED) >= RETRIES_MAX ? ", for too long" : "");
}

/*
 * Negative errno: the driver did not take it, or gave it back unfinished. -EINTR: the controller was reset, or is gone;
 * what the command did is unknown, and all commands here may be done twice.
 */
static bool error_is_transient(const struct tgt_nvme_path *path, int error)
{
	if (error == -EAGAIN || error == -EINTR)
		return true;
	/* No path now; or the one that was chosen has just gone. */
	return path->namespace.shared && (error == -EINVAL || error == -ENODEV || error == -EWOULDBLOCK);
}

/* The device's, or the kernel's; of what it was for. */
static int status_error(const struct tgt_io *io, int result)
{
	int error = result > 0 ? tgt_nvme_errno(result) : result;

	/* Only ranges may be unsupported: the others were promised at OPEN, and their failure is one (F9). */
	if (error == -EOPNOTSUPP && io->kind != TGT_IO_DISCARD && io->kind != TGT_IO_WRITE_ZEROES)
		return -EIO;
	return error;
}

static enum nvme_next nvme_failed(struct tgt_io *io, int result, int *error)
{
	const struct tgt_nvme_path *path = &to_nvme(io->channel->store)->path;
	bool transient = result > 0 ? tgt_nvme_is_transient(result) : error_is_transient(path, result);

	if (result == -EINVAL && (io->kind == TGT_IO_READ || io->kind == TGT_IO_WRITE) && may_be_fixed(path, io)) {
		/* Refused before it was begun: some kernels cannot map every fixed buffer. */
		io->retries |= WITHOUT_FIXED;
		return NVME_GO_ON;
	}
	if (transient && (io->retries & ~WITHOUT_FIXED) < RETRIES_MAX) {
		io->retries++;
		return NVME_AFTER_PAUSE;
	}
	*error = status_error(io, result);
	if (result > 0)
		log_status(io, result);
	return NVME_END;
}

static enum nvme_next nvme_advance(struct tgt_io *io, int result, int *error)
{
	const struct tgt_nvme_path *path = &to_nvme(io->channel->store)->path;

	*error = 0;
	if (result == TGT_RING_NO_ROOM)
		return NVME_GO_ON;
	if (result != 0)
		return nvme_failed(io, result, error);
	if (io->kind == TGT_IO_FLUSH)
		return NVME_END;
	if (io->retries & WITHOUT_FIXED)
		((struct nvme_channel *)io->channel)->refusals++;
	io->progress += piece_bytes(path, io);
	io->retries = 0;
	return io->progress < io->bytes ? NVME_GO_ON : NVME_END;
}

static void nvme_end(struct tgt_io *io, int error)
{
	struct nvme_discard *discard =
		io->kind == TGT_IO_DISCARD ? channel_discard((struct nvme_channel *)io->channel, io) : NULL;

	if (discard)
		discard->io = NULL;
	io->done(io, error);
}

static void nvme_complete(struct tgt_ring_op *op, int result, uint32_t flags);

static void nvme_paused(struct tgt_ring_op *op, int result, uint32_t flags)
{
	struct tgt_io *io = (struct tgt_io *)op; /* its first member */

	(void)result;
	(void)flags;
	op->complete = nvme_complete;
	if (nvme_issue(io))
		tgt_ring_retry(io->channel->ring, op);
}

static int nvme_pause(struct tgt_io *io)
{
	static const struct __kernel_timespec pause = {.tv_nsec = PAUSE_NS};
	struct io_uring_sqe *sqe = tgt_ring_get_wide(io->channel->ring, &io->ring_op);

	if (!sqe)
		return -EBUSY;
	io->ring_op.complete = nvme_paused;
	io_uring_prep_timeout(sqe, (struct __kernel_timespec *)&pause, 0, 0);
	return 0;
}

static void nvme_complete(struct tgt_ring_op *op, int result, uint32_t flags)
{
	struct tgt_io *io = (struct tgt_io *)op;
	int error;
	enum nvme_next next = nvme_advance(io, result, &error);

	(void)flags;
	if (next == NVME_GO_ON)
		error = nvme_issue(io);
	else if (next == NVME_AFTER_PAUSE)
		error = nvme_pause(io);
	if (next == NVME_END)
		nvme_end(io, error);
	else if (error) /* no room, for now; it was begun, so this is not BUSY */
		tgt_ring_retry(io->channel->ring, op);
}

static int nvme_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	struct nvme_discard *discard = NULL;
	int err;

	if (io->kind == TGT_IO_EXTENTS)
		return -EOPNOTSUPP;
	if (atomic_load_explicit(&to_nvme(channel->store)->formatted, memory_order_relaxed))
		return -EIO;
	io->ring_op.complete = nvme_complete;
	io->channel = channel;
	io->progress = 0;
	io->retries = 0;
	if (io->kind == TGT_IO_DISCARD) {
		discard = channel_discard((struct nvme_channel *)channel, NULL);
		if (!discard)
			return -EBUSY;
		discard->io = io;
	}
	err = nvme_issue(io);
	if (err && discard)
		discard->io = NULL;
	return err;
}

static bool nvme_is_namespace(const struct tgt_volume_config *config)
{
	return true;
}

const struct tgt_store_ops tgt_store_nvme = {
	.kind = "nvme",
	.on_path = true,
	.is_namespace = nvme_is_namespace,
	.open = nvme_open,
	.sync = nvme_sync,
	.close = nvme_close,
	.refresh = nvme_refresh,
	.device_bytes = nvme_device_bytes,
	.attach = nvme_attach,
	.detach = nvme_detach,
	.submit = nvme_submit,
};
