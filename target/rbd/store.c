/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The store on an open image: each operation is one of librbd's asynchronous calls, from and to the request's own
 * memory. It completes on a thread of librados, which posts the operation to its reactor's ring; a burst wakes the
 * reactor once (messages.h). librbd has no such call for EXTENTS: a worker does it. Nothing here makes a reactor wait.
 */
#include "target/rbd/rbd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "target/store/worker.h"

/* Operations of a channel: what submit.c lets in by info.depths, and one FLUSH. */
#define TRANSFERS_MAX 256u
#define RANGES_MAX 8u
#define LOOKUPS_MAX 4u
#define OPS_MAX (TRANSFERS_MAX + RANGES_MAX + LOOKUPS_MAX + 1)
/*
 * If another client has locked the image by hand (`rbd lock`, rbd_lock_acquire), librbd fails a write with -EROFS, and
 * nothing was written. It is tried again for half a minute; the image is not read-only for that.
 */
#define PAUSE_NS 100000000ull
#define RETRIES_MAX 300u
#define RETRIES_SAID 10u /* by then the image is known not to be a secondary one: the lock is logged */

struct rbd_store {
	struct tgt_store store; /* first: the struct tgt_store that others hold */
	struct rbd_image image;
	struct tgt_worker worker; /* for what librbd has no asynchronous call: EXTENTS */
	struct rbd_user user; /* of the image's client */
	char path[RBD_PATH_BYTES];
	_Atomic bool locked; /* it was logged that another client has locked the image by hand */
};

struct rbd_channel;

/* Its reactor owns it while it is free, and from its message on; librados, the keeper or the worker in between. */
struct rbd_op {
	struct tgt_job job; /* first */
	struct rbd_task again;
	struct rbd_channel *channel;
	struct tgt_io *io;
	struct rbd_op *next; /* in the channel's `free` */
	unsigned int retries;
	uint64_t differs; /* of a TGT_IO_COMPARE: the offset of the first difference, as librbd gives it */
	int error;
};

/* Owned by its reactor, for as long as that serves the volume. */
struct rbd_channel {
	struct tgt_channel channel; /* first: the struct tgt_channel that others hold */
	struct rbd_op *free;
	struct rbd_op ops[OPS_MAX];
};

static struct rbd_store *to_rbd(struct tgt_store *store)
{
	return (struct rbd_store *)store;
}

struct tgt_store *tgt_rbd_store_of(struct rbd_store *store)
{
	return &store->store;
}

/* -- completion -------------------------------------------------------------------------------- */

/* The reactor's thread. */
static void op_ended(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct rbd_op *op = (struct rbd_op *)message; /* through its first members */
	struct rbd_channel *channel = op->channel;
	struct tgt_io *io = op->io;
	int error = op->error;

	(void)reactor;
	op->next = channel->free;
	channel->free = op;
	io->done(io, error);
}

static struct rbd_store *op_store(const struct rbd_op *op)
{
	return to_rbd(op->channel->channel.store);
}

/*
 * 0 or the errno that the volume's users are told. -EBUSY and the like say that nothing was begun, so they become -EIO,
 * and so does -EROFS, which would make the disk read-only for good.
 */
static int op_error(struct rbd_op *op, ssize_t result)
{
	if (op->io->kind == TGT_IO_READ && result >= 0)
		return (uint64_t)result == op->io->bytes ? 0 : -EIO; /* the image has shrunk */
	if (op->io->flags & TGT_IO_COMPARE && (result >= 0 || result == -EILSEQ)) {
		/* librbd counts from the beginning of the object (16.2), whose size is a multiple of this. */
		op->io->progress = result < 0 ? op->differs % RBD_COMPARE_BYTES : op->io->bytes;
		return 0;
	}
	if (result >= 0)
		return 0;
	if (result == -ESHUTDOWN)
		tgt_rbd_client_fenced(op_store(op)->image.client, NULL); /* no user hears of results after this */
	if (result == -ENOSPC || result == -EDQUOT || result == -ENOMEM || result == -EILSEQ)
		return (int)result;
	return -EIO;
}

/* Logs when the lock by hand begins and ends. */
static void op_locked(struct rbd_op *op, bool locked)
{
	struct rbd_store *store = op_store(op);

	if (atomic_load_explicit(&store->locked, memory_order_relaxed) == locked ||
	    atomic_exchange(&store->locked, locked) == locked)
		return;
	tgt_rbd_host->log(TGT_LOG_WARNING, "rbd: %s: %s", store->path,
			  locked ? "another client has locked the image: writes wait"
				 : "the image is no longer locked");
}

/* A thread of librados, or the reactor's where nothing was begun. */
static void op_done(struct rbd_op *op, ssize_t result)
{
	struct rbd_image *image = &op_store(op)->image;
	bool locked = result == -EROFS && image->use != RBD_READS && !atomic_load(&image->secondary);

	if (op->retries >= RETRIES_SAID)
		op_locked(op, locked);
	if (locked) /* or it is the secondary one by now */
		tgt_rbd_keeper_later(&image->look, PAUSE_NS);
	if (locked && op->retries++ < RETRIES_MAX) {
		tgt_rbd_keeper_later(&op->again, PAUSE_NS);
		return;
	}
	op->error = op_error(op, result);
	/* Last: from here on the operation, and with the last one the channel, may be gone. */
	tgt_rbd_host->ring_post(op->channel->channel.ring, &op->job.message);
}

static void op_completed(rbd_completion_t completion, void *arg)
{
	ssize_t result = rbd_aio_get_return_value(completion);

	rbd_aio_release(completion);
	op_done(arg, result);
}

/* -- submission -------------------------------------------------------------------------------- */

static int op_call(struct rbd_op *op, rbd_completion_t completion)
{
	const struct tgt_io *io = op->io;
	rbd_image_t image = op_store(op)->image.image;

	switch (io->kind) {
	case TGT_IO_READ:
		return rbd_aio_read(image, io->offset, io->bytes, io->buffer, completion);
	case TGT_IO_WRITE: /* with FUA, too: there is no cache */
		if (io->flags & TGT_IO_COMPARE)
			return rbd_aio_compare_and_write(image, io->offset, io->bytes, io->buffer,
							 (char *)io->buffer + io->bytes, completion, &op->differs, 0);
		return rbd_aio_write(image, io->offset, io->bytes, io->buffer, completion);
	case TGT_IO_FLUSH:
		return rbd_aio_flush(image, completion);
	case TGT_IO_DISCARD:
		return rbd_aio_discard(image, io->offset, io->bytes, completion);
	case TGT_IO_WRITE_ZEROES:
		return rbd_aio_write_zeroes(image, io->offset, io->bytes, completion,
					    io->flags & TGT_IO_NO_UNMAP ? RBD_WRITE_ZEROES_FLAG_THICK_PROVISION : 0, 0);
	case TGT_IO_EXTENTS: /* op_look() */
		break;
	}
	return -EOPNOTSUPP;
}

static void op_begin(struct rbd_op *op)
{
	rbd_completion_t completion;
	int err = -ESHUTDOWN;

	/* A client that others take for dead submits nothing more. */
	if (!tgt_rbd_client_is_fenced(op_store(op)->image.client))
		err = rbd_aio_create_completion(op, op_completed, &completion);
	if (!err) {
		err = op_call(op, completion);
		if (err)
			rbd_aio_release(completion);
	}
	if (err < 0)
		op_done(op, err);
}

/* The keeper's thread. */
static void op_again(struct rbd_task *task)
{
	op_begin((struct rbd_op *)((char *)task - offsetof(struct rbd_op, again)));
}

/* The worker's thread. */
static int op_look(struct tgt_job *job)
{
	struct rbd_op *op = (struct rbd_op *)job; /* its first member */

	op->error = op_error(op, tgt_rbd_extents(&op_store(op)->image, op->io));
	return 0;
}

static int rbd_submit(struct tgt_channel *channel, struct tgt_io *io)
{
	struct rbd_channel *rbd = (struct rbd_channel *)channel;
	struct rbd_op *op = rbd->free;

	if (!op)
		return -EBUSY;
	io->channel = channel;
	op->io = io;
	op->retries = 0;
	if (io->kind == TGT_IO_EXTENTS) {
		int err = tgt_rbd_host->worker_submit(&op_store(op)->worker, channel->ring, &op->job);

		if (!err)
			rbd->free = op->next;
		return err;
	}
	rbd->free = op->next;
	/* Before it is begun: it may be posted before op_begin() has returned. */
	tgt_rbd_host->ring_expect(channel->ring);
	op_begin(op);
	return 0;
}

/* -- the table --------------------------------------------------------------------------------- */

static int rbd_attach(struct tgt_store *store, struct tgt_ring *ring, struct tgt_channel **channel)
{
	struct rbd_channel *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->channel.store = store;
	made->channel.ring = ring;
	for (unsigned int i = 0; i < OPS_MAX; i++) {
		struct rbd_op *op = &made->ops[i];

		op->job.message.run = op_ended;
		op->job.work = op_look;
		op->again.run = op_again;
		op->again.in_time = true;
		op->channel = made;
		op->next = made->free;
		made->free = op;
	}
	*channel = &made->channel;
	return 0;
}

static void rbd_detach(struct tgt_channel *channel)
{
	free(channel);
}

static int rbd_device_bytes(struct tgt_store *store, uint64_t *bytes)
{
	*bytes = atomic_load(&to_rbd(store)->image.bytes);
	return 0;
}

static bool rbd_file_look(struct tgt_store *store, struct tgt_store_file *file)
{
	file->deleted = atomic_load(&to_rbd(store)->image.trashed);
	return !rbd_device_bytes(store, &file->bytes);
}

/* The configuring thread must not wait for a cluster that does not answer, so this takes the size that is known. */
static int rbd_refresh(struct tgt_store *store)
{
	return rbd_device_bytes(store, &store->info.bytes);
}

static void rbd_fence(struct tgt_store *store, struct tgt_store_fence *fence)
{
	tgt_rbd_fence(&to_rbd(store)->image.gateway, fence);
}

static void rbd_change(struct tgt_store *store, struct tgt_store_change *change)
{
	tgt_rbd_change(&to_rbd(store)->image.gateway, change);
}

void tgt_rbd_store_close(struct tgt_store *store)
{
	tgt_rbd_client_leave(to_rbd(store)->image.client, &to_rbd(store)->user);
	tgt_rbd_host->worker_fini(&to_rbd(store)->worker);
	tgt_rbd_image_close(&to_rbd(store)->image);
	free(to_rbd(store));
}

static const struct tgt_store_ops rbd_ops = {
	.kind = "rbd",
	.silent = tgt_rbd_reach_silent,
	.open_ahead = tgt_rbd_open_ahead,
	.open = tgt_rbd_open,
	.close = tgt_rbd_store_close,
	.refresh = rbd_refresh,
	.device_bytes = rbd_device_bytes,
	.file_look = rbd_file_look,
	.attach = rbd_attach,
	.detach = rbd_detach,
	.fence = rbd_fence,
	.change = rbd_change,
	.submit = rbd_submit,
};

int tgt_rbd_store_open(const char *path, const struct rbd_name *name, enum rbd_use use, struct rbd_store **out,
		       char *error)
{
	struct rbd_store *store = calloc(1, sizeof(*store));
	int err;

	if (!store)
		return tgt_rbd_host->error(error, -ENOMEM, "out of memory");
	store->store.ops = &rbd_ops;
	snprintf(store->path, sizeof(store->path), "%s", path);
	store->store.info.depths =
		(struct tgt_depths){.transfers = TRANSFERS_MAX, .ranges = RANGES_MAX, .lookups = LOOKUPS_MAX};
	store->image.gateway.store = store->user.store = &store->store;
	store->image.gateway.path = store->path;
	err = tgt_rbd_host->worker_init(&store->worker, "rbd look");
	if (err) {
		free(store);
		return tgt_rbd_host->error(error, err, "%s", strerror(-err));
	}
	err = tgt_rbd_image_open(name, use, &store->image, &store->store.info, error);
	if (!err && tgt_rbd_client_join(store->image.client, &store->user)) {
		tgt_rbd_image_close(&store->image);
		err = tgt_rbd_host->error(error, -EAGAIN, "this process was shut out of the cluster meanwhile");
	}
	if (!err) {
		*out = store;
		return 0;
	}
	tgt_rbd_host->worker_fini(&store->worker);
	free(store);
	return err;
}

/* -- the module -------------------------------------------------------------------------------- */

const struct tgt_module_host *tgt_rbd_host;

static const struct tgt_store_ops *module_begin(const struct tgt_module_host *host)
{
	tgt_rbd_host = host;
	tgt_rbd_open_begin();
	return &rbd_ops;
}

extern const struct tgt_module TGT_MODULE_SYMBOL;
__attribute__((visibility("default"))) const struct tgt_module TGT_MODULE_SYMBOL = {
	.version = RBLK_VERSION,
	.io_bytes = sizeof(struct tgt_io),
	.info_bytes = sizeof(struct tgt_store_info),
	.begin = module_begin,
};
