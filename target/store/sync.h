/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * F9: whether the result of a volume's sync can be trusted. A sync is a FLUSH or a command with
 * FUA. One that failed is remembered for all sessions until no reactor has the volume open. All
 * reactors share the store's one file description, and the kernel tells a failed writeback to one
 * sync of a description only: so a sync that succeeded is trusted when those that were outstanding
 * at the same time, on any reactor, have ended without a failure. Called by submit.c; any reactor's
 * thread, each with its own channels.
 */
#ifndef RBLK_TARGET_STORE_SYNC_H
#define RBLK_TARGET_STORE_SYNC_H

#include "target/store/volume.h"

/* `over` is called for each operation that tgt_sync_keep() has kept, on the channel's thread. */
void tgt_sync_channel_init(struct tgt_channel *channel, struct tgt_volume *volume,
			   void (*over)(struct tgt_io *io));

static inline bool tgt_sync_is(const struct tgt_io *io)
{
	return io->kind == TGT_IO_FLUSH || io->flags & TGT_IO_FUA;
}

/* Before the store has `io`, and when it has answered; what is no sync passes through both. */
static inline void tgt_sync_begin(struct tgt_io *io)
{
	io->others = 0;
	io->sync = tgt_sync_is(io) ? tgt_orphans_begin(&io->channel->trouble->syncs) : 0;
}
/* A failure that may have lost acknowledged writes is remembered from here on. */
void tgt_sync_ended(struct tgt_io *io, int error);
static inline void tgt_sync_end(struct tgt_io *io, int error)
{
	if (error || io->sync)
		tgt_sync_ended(io, error);
}

/* After the end of `io`, which succeeded. True: others are under way that may get the error that
 * was meant for it; channel->over(io) is called when they have ended. */
bool tgt_sync_keep(struct tgt_io *io);
/* Can the success of `io` be trusted? 0 or -EIO. */
int tgt_sync_judge_sync(const struct tgt_io *io);
static inline int tgt_sync_judge(const struct tgt_io *io)
{
	return tgt_sync_is(io) ? tgt_sync_judge_sync(io) : 0;
}

/* Making durable what was written has failed when the store was closed. */
void tgt_sync_failed(struct tgt_volume *volume, int error);
/* F7: acknowledged writes may be lost. Any thread. */
void tgt_sync_new_epoch(struct tgt_volume *volume);
/* A FLUSH would mean nothing now. */
static inline bool tgt_sync_is_lost(const struct tgt_volume *volume)
{
	return atomic_load(&volume->trouble.lost_ns);
}
/* No reactor has the volume open any more, and none can open it during the call. */
void tgt_sync_forget(struct tgt_volume *volume);

#endif
