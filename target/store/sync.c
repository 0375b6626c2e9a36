/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of sync.h. Outstanding syncs are counted in buckets (orphans.h), so that one that has
 * ended knows which others were there. An operation that has to wait for them puts its channel on a
 * stack; each sync that ends takes the whole stack and posts to the ring of each channel. Without
 * contention there is no lock and no message.
 */
#include "target/store/sync.h"

#include <errno.h>
#include <string.h>
#include "proto/core/env.h"
#include "target/base/daemon_event.h"
#include "target/base/list.h"
#include "target/base/text.h"
#include "target/store/failed_sync_file.h"

/* -- a failure is not forgotten ---------------------------------------------------------------- */

/*
 * May acknowledged writes be lost now? The kernel reports a failed writeback to one fdatasync and
 * then takes the pages for clean, and a device that failed to flush its cache may have dropped what
 * was in it: in both cases the next sync succeeds and means nothing. A durable write is a write and
 * a sync in one operation, and its error does not tell which of them failed, but for some stores.
 */
static bool sync_lost(const struct tgt_io *io, int error)
{
	if (io->kind == TGT_IO_FLUSH)
		return error != -EOPNOTSUPP;
	if (!(io->flags & TGT_IO_FUA) || error == -EOPNOTSUPP || io->volume->store->info.fua_alone)
		return false;
	/* Without the page cache only the write itself can lack space, and it is not acknowledged.
	 */
	return io->volume->store->info.buffered ||
	       (error != -ENOSPC && error != -EDQUOT && error != -EFBIG);
}

void tgt_sync_new_epoch(struct tgt_volume *volume)
{
	struct tgt_volume_trouble *trouble = &volume->trouble;
	uint64_t change;

	do
		env_random(&change, sizeof(change));
	while (!change);
	/* Two reactors may run this at once: in any order, volume and file end with the same
	 * epoch. */
	atomic_fetch_xor(&trouble->epoch, change);
	if (trouble->file)
		atomic_fetch_xor(&trouble->file->epoch, change);
}

static void volume_latch(struct tgt_volume *volume)
{
	struct tgt_volume_trouble *trouble = &volume->trouble;
	uint64_t now_ns = tgt_time_now_ns(), none = 0;

	/* The epoch first: an OPEN after the latch is off again must see the new one. */
	tgt_sync_new_epoch(volume);
	/* The first one's time stays. */
	if (trouble->file)
		atomic_compare_exchange_strong(&trouble->file->lost_ns, &none, now_ns);
	none = 0;
	if (atomic_compare_exchange_strong(&trouble->lost_ns, &none, now_ns))
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_WRITES_LOST,
								  .volume = volume->config.name},
				 NULL, TGT_LOG_ERROR,
				 "volume %s: acknowledged writes may be lost: FLUSH fails until every "
				 "session has closed the volume%s",
				 volume->config.name,
				 trouble->file ? "" : ", or until rblkd ends: no state directory");
}

void tgt_sync_failed(struct tgt_volume *volume, int error)
{
	tgt_log(TGT_LOG_ERROR, "volume %s: making durable what was written failed: %s", volume->config.name,
		strerror(-error));
	if (error != -EOPNOTSUPP)
		volume_latch(volume);
}

void tgt_sync_forget(struct tgt_volume *volume)
{
	if (volume->trouble.file)
		atomic_store(&volume->trouble.file->lost_ns, 0);
	if (atomic_exchange(&volume->trouble.lost_ns, 0))
		tgt_daemon_event(&(struct tgt_daemon_event_about){.kind = TGT_DAEMON_EVENT_FLUSH_AGAIN,
								  .volume = volume->config.name},
				 NULL, TGT_LOG_WARNING,
				 "volume %s: every session has closed it: FLUSH is possible again",
				 volume->config.name);
}

/* -- syncs beside each other ------------------------------------------------------------------- */

/* Channels that wait check again. Each is on the stack once, and only this takes it off. */
static void waiting_wake(struct tgt_volume_trouble *trouble)
{
	struct tgt_channel *channel, *next;

	if (!atomic_load(&trouble->waiting))
		return;
	for (channel = atomic_exchange(&trouble->waiting, NULL); channel; channel = next) {
		/* After the post it may belong to another thread. */
		next = channel->next_waiting;
		tgt_ring_post(channel->ring, &channel->look);
	}
}

/* Takes out of `kept` what waits for no sync any more. */
static void kept_take(struct tgt_channel *channel, struct tgt_waiter_list *ready)
{
	struct tgt_waiter *waiter, *following;

	TAILQ_FOREACH_SAFE(waiter, &channel->kept, link, following) {
		struct tgt_io *io = tgt_io_of(waiter);

		io->others = tgt_orphans_left(&channel->trouble->syncs, io->others);
		if (io->others)
			continue;
		TAILQ_REMOVE(&channel->kept, waiter, link);
		TAILQ_INSERT_TAIL(ready, waiter, link);
	}
}

/* Has the channel woken when a sync ends. */
static void channel_watch(struct tgt_channel *channel)
{
	struct tgt_volume_trouble *trouble = channel->trouble;

	if (channel->looking)
		return;
	tgt_ring_expect(channel->ring);
	channel->looking = true;
	channel->next_waiting = atomic_load(&trouble->waiting);
	while (!atomic_compare_exchange_weak(&trouble->waiting, &channel->next_waiting, channel))
		;
}

/* After channel_watch(): a sync that ended before it has woken no channel. */
static void channel_wake_missed(struct tgt_channel *channel)
{
	struct tgt_waiter *waiter;
	bool missed = false;

	TAILQ_FOREACH(waiter, &channel->kept, link)
		missed |= !tgt_orphans_left(&channel->trouble->syncs, tgt_io_of(waiter)->others);
	if (missed)
		waiting_wake(channel->trouble);
}

/* In the reap of the channel's ring. The last of `ready` may take the channel along when it is told. */
static void channel_check(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_channel *channel = (struct tgt_channel *)((char *)message - offsetof(struct tgt_channel, look));
	struct tgt_waiter_list ready = TAILQ_HEAD_INITIALIZER(ready);
	void (*over)(struct tgt_io * io) = channel->over;
	struct tgt_waiter *waiter;

	channel->looking = false;
	kept_take(channel, &ready);
	if (!TAILQ_EMPTY(&channel->kept))
		channel_watch(channel);
	channel_wake_missed(channel);
	while ((waiter = TAILQ_FIRST(&ready))) {
		TAILQ_REMOVE(&ready, waiter, link);
		over(tgt_io_of(waiter));
	}
}

void tgt_sync_channel_init(struct tgt_channel *channel, struct tgt_volume *volume,
			   void (*over)(struct tgt_io *io))
{
	channel->trouble = &volume->trouble;
	channel->over = over;
	channel->look.run = channel_check;
	TAILQ_INIT(&channel->kept);
}

/*
 * A write of a file fails like this when its file system, or what is below it, has stopped: what was acknowledged before may
 * never be written. As long as the process lives, a FLUSH says so. The next one cannot know it after a kill.
 */
static bool write_doubts(const struct tgt_io *io, int error)
{
	const struct tgt_store_info *info = &io->volume->store->info;

	return io->kind != TGT_IO_READ && io->kind != TGT_IO_EXTENTS && (info->buffered || !info->id.is_device) &&
	       (error == -EIO || error == -ENOSPC || error == -EROFS || error == -EUCLEAN);
}

void tgt_sync_ended(struct tgt_io *io, int error)
{
	struct tgt_failed_sync_file *file = io->volume->trouble.file;

	if (error && file && write_doubts(io, error))
		atomic_store(&file->state, TGT_STORE_DOUBTED);
	if (!io->sync)
		return;
	/* First the latch: a thread that sees the end of this one must see the latch, too. */
	if (error && sync_lost(io, error))
		volume_latch(io->volume);
	tgt_orphans_end(&io->channel->trouble->syncs, io->sync);
	waiting_wake(io->channel->trouble);
}

/*
 * Without the page cache a durable write's own result is enough, and that of zeroes whose command has a bit for it. A FLUSH's
 * is not: a device may have dropped its cache when another flush failed; nor is that of zeroes with a sync behind them.
 */
static bool answers_for_itself(const struct tgt_io *io)
{
	const struct tgt_store_info *info = &io->volume->store->info;

	return io->kind != TGT_IO_FLUSH && !info->buffered && (io->kind == TGT_IO_WRITE || info->fua_alone);
}

bool tgt_sync_keep(struct tgt_io *io)
{
	struct tgt_channel *channel = io->channel;

	/* Without a ring (unit tests) there is one thread, and syncs end one after the other. */
	if (!channel->ring || !io->sync || answers_for_itself(io))
		return false;
	io->others = tgt_orphans_now(&channel->trouble->syncs);
	if (!io->others)
		return false;
	channel_watch(channel);
	TAILQ_INSERT_TAIL(&channel->kept, &io->waiter, link);
	channel_wake_missed(channel);
	return true;
}

int tgt_sync_judge_sync(const struct tgt_io *io)
{
	const struct tgt_volume_trouble *trouble = &io->volume->trouble;

	if (io->kind == TGT_IO_FLUSH && atomic_load(&trouble->lost_ns))
		return -EIO;
	/* The sync of a durable command, too: another may have lost its write. */
	if (io->flags & TGT_IO_FUA && atomic_load(&trouble->epoch) != io->epoch)
		return -EIO;
	return 0;
}
