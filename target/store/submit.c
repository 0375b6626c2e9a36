/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way in and out of submit.h, and what becomes of an error on it. Reactors call it, each with
 * its own port; what they share is in struct tgt_volume_trouble and atomic.
 */
#include "target/store/submit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "proto/core/env.h"

static const char *const kind_names[TGT_IO_KINDS] = {
	[TGT_IO_READ] = "READ",
	[TGT_IO_WRITE] = "WRITE",
	[TGT_IO_FLUSH] = "FLUSH",
	[TGT_IO_DISCARD] = "DISCARD",
	[TGT_IO_WRITE_ZEROES] = "WRITE_ZEROES",
	[TGT_IO_EXTENTS] = "EXTENTS",
};

/* -- F9: a failed sync is not forgotten ----------------------------------------------------------
 */

/*
 * May acknowledged writes be lost now? The kernel reports a failed writeback to one fdatasync and
 * then takes the pages for clean, and a device that failed to flush its cache may have dropped what
 * was in it: in both cases the next sync succeeds and means nothing. A durable write is a write and
 * a sync in one operation, and its error does not tell which of them failed.
 */
static bool sync_lost(const struct tgt_io *io, int error)
{
	if (io->kind == TGT_IO_FLUSH)
		return error != -EOPNOTSUPP;
	if (!(io->flags & TGT_IO_FUA) || error == -EOPNOTSUPP)
		return false;
	/* Without the page cache only the write itself can lack space, and it is not acknowledged.
	 */
	return io->volume->store->info.buffered ||
	       (error != -ENOSPC && error != -EDQUOT && error != -EFBIG);
}

static void volume_latch(struct tgt_volume *volume)
{
	struct tgt_volume_trouble *trouble = &volume->trouble;
	uint64_t epoch;

	do
		env_random(&epoch, sizeof(epoch));
	while (!epoch);
	/* The epoch first: whoever opens when the latch is off again must see the new one. */
	atomic_store(&trouble->epoch, epoch);
	if (!atomic_exchange(&trouble->lost, true))
		tgt_log(TGT_LOG_ERROR,
			"volume %s: acknowledged writes may be lost: FLUSH fails until every "
			"session has closed the volume",
			volume->config.name);
}

int tgt_volume_attach(struct tgt_volume *volume, struct tgt_ring *ring, struct tgt_port **port)
{
	int err = volume->store->ops->attach(volume->store, ring, port);

	if (!err)
		atomic_fetch_add(&volume->trouble.ports, 1);
	return err;
}

void tgt_volume_detach(struct tgt_volume *volume, struct tgt_port *port)
{
	volume->store->ops->detach(port);
	if (atomic_fetch_sub(&volume->trouble.ports, 1) != 1)
		return;
	if (atomic_exchange(&volume->trouble.lost, false))
		tgt_log(TGT_LOG_WARNING,
			"volume %s: every session has closed it: FLUSH is possible again",
			volume->config.name);
}

/* -- errors --------------------------------------------------------------------------------------
 */

static void volume_failed(struct tgt_port *port, const struct tgt_io *io, int error)
{
	struct tgt_volume *volume = io->volume;
	uint64_t count = atomic_fetch_add(&volume->trouble.errors[io->kind], 1) + 1;

	if (io->kind == TGT_IO_FLUSH)
		tgt_log_limited(&port->log_limit, TGT_LOG_ERROR,
				"volume %s: FLUSH failed (its failure %" PRIu64 "): %s",
				volume->config.name, count, strerror(-error));
	else
		tgt_log_limited(&port->log_limit, TGT_LOG_ERROR,
				"volume %s: %s%s of %" PRIu64 " bytes at byte %" PRIu64
				" failed (its failure %" PRIu64 "): %s",
				volume->config.name, kind_names[io->kind],
				io->flags & TGT_IO_FUA ? " with FUA" : "", io->bytes, io->offset,
				count, strerror(-error));
	if (sync_lost(io, error))
		volume_latch(volume);
}

/* What its owner is told. */
static int volume_result(struct tgt_port *port, const struct tgt_io *io, int error)
{
	if (error)
		volume_failed(port, io, error);
	/* F9: another sync, which ended while this one was under way, may have got the error. */
	else if (io->kind == TGT_IO_FLUSH && atomic_load(&io->volume->trouble.lost))
		error = -EIO;
	return error;
}

static void volume_io_done(struct tgt_io *io, int error)
{
	io->ended(io, volume_result(io->port, io, error));
}

int tgt_volume_submit(struct tgt_volume *volume, struct tgt_port *port, struct tgt_io *io)
{
	int status;

	io->volume = volume;
	io->port = port;
	io->done = volume_io_done;
	if (io->kind == TGT_IO_FLUSH && atomic_load(&volume->trouble.lost))
		return -EIO; /* F9 */
	status = port->store->ops->submit(port, io);
	if (status == 0 || status == -EBUSY)
		return status;
	status = volume_result(port, io, status > 0 ? 0 : status);
	return status ? status : 1;
}
