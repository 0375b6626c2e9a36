/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way in and out of submit.h: limits, turns, and what becomes of an error. sync.c handles what
 * a failed sync means for all others. Reactors call it, each with its own channel; what they share is
 * in struct tgt_volume_trouble and atomic.
 */
#include "target/store/submit.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include "proto/core/env.h"
#include "target/base/daemon_event.h"
#include "target/base/text.h"
#include "target/store/sync.h"

static const char *const kind_names[TGT_IO_KINDS] = {
	[TGT_IO_READ] = "READ",
	[TGT_IO_WRITE] = "WRITE",
	[TGT_IO_FLUSH] = "FLUSH",
	[TGT_IO_DISCARD] = "DISCARD",
	[TGT_IO_WRITE_ZEROES] = "WRITE_ZEROES",
	[TGT_IO_EXTENTS] = "EXTENTS",
};

/* -- errors ------------------------------------------------------------------------------------ */

static void volume_failed(struct tgt_channel *channel, const struct tgt_io *io, int error)
{
	struct tgt_volume *volume = io->volume;
	uint64_t count = atomic_fetch_add(&volume->trouble.errors[io->kind], 1) + 1;
	uint64_t now_ns = tgt_time_now_ns(), none = 0;
	const struct tgt_daemon_event_about about = {
		.kind = TGT_DAEMON_EVENT_IO_FAILED, .volume = volume->config.name, .error = -error};

	atomic_store(&volume->trouble.error, -error);
	atomic_compare_exchange_strong(&volume->trouble.first_error_time_ns, &none, now_ns);
	atomic_store(&volume->trouble.error_time_ns, now_ns);
	if (io->kind == TGT_IO_FLUSH)
		tgt_daemon_event(&about, &channel->log_limit, TGT_LOG_ERROR,
				 "volume %s: FLUSH failed (failure %" PRIu64 "): %s", volume->config.name,
				 count, strerror(-error));
	else
		tgt_daemon_event(&about, &channel->log_limit, TGT_LOG_ERROR,
				 "volume %s: %s%s of %" PRIu64 " bytes at byte %" PRIu64
				 " failed (failure %" PRIu64 "): %s",
				 volume->config.name, kind_names[io->kind],
				 io->flags & TGT_IO_FUA ? " with FUA" : "", io->bytes, io->offset, count,
				 strerror(-error));
}

static void volume_told(struct tgt_channel *channel, struct tgt_io *io, int error)
{
	/* A volume that is lost tells nobody, and loses nothing that was acknowledged. */
	if (error && tgt_volume_why_lost(io->volume))
		error = 0;
	if (error)
		volume_failed(channel, io, error);
	tgt_sync_end(io, error);
}

/* The store has answered: its failures are logged and remembered, and what its syncs found. */
static inline void volume_answered(struct tgt_channel *channel, struct tgt_io *io, int error)
{
	if (error || io->sync)
		volume_told(channel, io, error);
}

/* -- limits ------------------------------------------------------------------------------------ */

/* The limits of a store that does not say how much it takes. */
#define TRANSFERS_MAX 256u
#define RANGES_MAX 2u
#define LOOKUPS_MAX 2u
/* A channel's part of the transfers is no smaller, however many channels there are. */
#define PART_MIN 8u

/* READs and WRITEs that are paced have a half of the part at most, so that both together have no more than it. */
static unsigned int paced_most(const struct tgt_channel *channel)
{
	return channel->part / 2;
}

static void channel_resize(struct tgt_channel *channel)
{
	struct tgt_inflight *const inflight[] = {&channel->transfers, &channel->reads};

	for (unsigned int i = 0; i < 2; i++) {
		unsigned int window = channel->pace[i].window, most = paced_most(channel);

		inflight[i]->most = !channel->paced ? channel->part : window < most ? window : most;
	}
}

/* Reactors that serve the volume take together what the store takes; others come and go. */
static void channel_share(struct tgt_channel *channel)
{
	unsigned int all = channel->store->info.depths.transfers, channels, part;

	if (!all)
		return;
	channels = atomic_load_explicit(&channel->trouble->channels, memory_order_relaxed);
	if (channels == channel->sharers)
		return;
	channel->sharers = channels;
	part = all / channels;
	channel->part = part > PART_MIN ? part : PART_MIN;
	channel_resize(channel);
}

static void channel_limit(struct tgt_channel *channel)
{
	const struct tgt_depths *depths = &channel->store->info.depths;

	channel->part = TRANSFERS_MAX;
	channel->paced = false;
	channel->window_told = 0;
	tgt_inflight_init(&channel->transfers, TRANSFERS_MAX);
	tgt_inflight_init(&channel->reads, TRANSFERS_MAX);
	tgt_inflight_init(&channel->ranges, depths->ranges ? depths->ranges : RANGES_MAX);
	tgt_inflight_init(&channel->lookups, depths->lookups ? depths->lookups : LOOKUPS_MAX);
	channel->sharers = 0;
	TAILQ_INIT(&channel->flushed);
	TAILQ_INIT(&channel->unflushed);
}

/* FLUSH has no such bound: flush_next(). */
static inline struct tgt_inflight *inflight_of(struct tgt_channel *channel, const struct tgt_io *io)
{
	if (io->kind > TGT_IO_WRITE)
		return io->kind == TGT_IO_EXTENTS ? &channel->lookups : &channel->ranges;
	if (__builtin_expect(io->paced, 0) && io->kind == TGT_IO_READ)
		return &channel->reads;
	return &channel->transfers;
}

/* -- limit = auto ------------------------------------------------------------------------------ */

/* `pace`: of the kind that there is news of, or NULL. */
static void pace_tell(struct tgt_channel *channel, const struct tgt_pace *pace)
{
	struct tgt_volume_pace *told = &channel->volume->pace;
	unsigned int window = channel->paced ? channel->pace[0].window + channel->pace[1].window : 0;

	atomic_fetch_add(&told->window, window - channel->window_told);
	channel->window_told = window;
	if (!pace)
		return;
	atomic_store(&told->mean_ns, pace->mean_ns);
	atomic_store(&told->mean_quiet_ns, pace->mean_quiet_ns);
}

void tgt_volume_pace(struct tgt_channel *channel, bool paced)
{
	if (channel->paced == paced)
		return;
	channel->paced = paced;
	tgt_pace_init(channel->pace, env_now_ns());
	channel_resize(channel);
	pace_tell(channel, NULL);
}

/* The store has done a READ or WRITE that it was given while the window was there. What fails takes any time. */
static void pace_ended(const struct tgt_io *io)
{
	enum tgt_pace_kind kind = io->kind == TGT_IO_READ       ? TGT_PACE_READ
				  : io->flags & TGT_IO_FUA ? TGT_PACE_DURABLE_WRITE
							   : TGT_PACE_WRITE;
	struct tgt_channel *channel = io->channel;
	struct tgt_pace *pace = &channel->pace[io->kind == TGT_IO_READ];
	struct tgt_inflight *inflight = inflight_of(channel, io);

	if (!channel->paced || io->error)
		return;
	pace->wanted |= !TAILQ_EMPTY(&inflight->waiting);
	if (!tgt_pace_ended(channel->pace, kind, io->bytes, io->begun_ns, env_now_ns(), inflight->count,
			    paced_most(channel)))
		return;
	channel_resize(channel);
	pace_tell(channel, pace);
}

/* -- the way of an operation ------------------------------------------------------------------- */

static void io_done(struct tgt_io *io, int error);

/* As submit in struct tgt_store_ops, of an operation that was let in. */
static inline __attribute__((always_inline)) int io_begin(struct tgt_io *io)
{
	int status;

	/* F9: its result would mean nothing. */
	if (io->kind == TGT_IO_FLUSH && tgt_sync_is_lost(io->volume))
		return -EIO;
	io->done = io_done;
	if (io->paced)
		io->begun_ns = env_now_ns();
	tgt_sync_begin(io);
	status = io->channel->store->ops->submit(io->channel, io);
	if (status == 0)
		return 0;
	tgt_write_end(&io->channel->range_locks, &io->write);
	if (status == -EBUSY) {
		tgt_sync_end(io, 0); /* nothing was begun */
		return status;
	}
	volume_answered(io->channel, io, status > 0 ? 0 : status);
	if (status > 0)
		status = tgt_sync_judge(io);
	return status ? status : 1;
}

/* `io` begins after it had waited; if the store answers at once, it goes to *ended. */
static bool io_begin_late(struct tgt_io *io, struct tgt_waiter_list *ended)
{
	int status = io_begin(io);

	if (status == 0)
		return true;
	io->error = status > 0 ? 0 : status;
	TAILQ_INSERT_TAIL(ended, &io->waiter, link);
	return false;
}

/*
 * One FLUSH at a time: it makes durable what was acknowledged before it began, so all that had come
 * by then end with it, and those that come later wait for the next.
 */
static void flush_next(struct tgt_channel *channel, struct tgt_waiter_list *ended)
{
	struct tgt_waiter *waiter;

	do {
		struct tgt_io *leader = channel->flushing;

		while ((waiter = TAILQ_FIRST(&channel->flushed))) {
			TAILQ_REMOVE(&channel->flushed, waiter, link);
			tgt_io_of(waiter)->error = leader->error;
			TAILQ_INSERT_TAIL(ended, waiter, link);
		}
		channel->flushing = NULL;
		if (TAILQ_EMPTY(&channel->unflushed))
			return;
		TAILQ_FOREACH(waiter, &channel->unflushed, link)
			waiter->waiting = false;
		waiter = TAILQ_FIRST(&channel->unflushed);
		TAILQ_REMOVE(&channel->unflushed, waiter, link);
		TAILQ_CONCAT(&channel->flushed, &channel->unflushed, link);
		channel->flushing = tgt_io_of(waiter);
	} while (!io_begin_late(channel->flushing, ended));
}

/* `io` has ended; those that waited for it go on, and those that ended with it are in *ended. */
static void channel_next(struct tgt_channel *channel, struct tgt_io *io, struct tgt_waiter_list *ended)
{
	struct tgt_inflight *inflight;
	struct tgt_waiter *waiter;

	if (io->kind == TGT_IO_FLUSH) {
		flush_next(channel, ended);
		return;
	}
	inflight = inflight_of(channel, io);
	tgt_inflight_leave(inflight);
	channel_share(channel);
	while ((waiter = tgt_inflight_next(inflight)))
		if (!io_begin_late(tgt_io_of(waiter), ended))
			tgt_inflight_leave(inflight);
}

/* `io` has ended; its result is final except for the other syncs. */
static void io_over(struct tgt_io *io)
{
	struct tgt_waiter_list ended = TAILQ_HEAD_INITIALIZER(ended);
	struct tgt_waiter *waiter;

	if (!io->error)
		io->error = tgt_sync_judge(io);
	TAILQ_INSERT_TAIL(&ended, &io->waiter, link);
	channel_next(io->channel, io, &ended);
	/* Last, because the owners may release the channel. */
	while ((waiter = TAILQ_FIRST(&ended))) {
		TAILQ_REMOVE(&ended, waiter, link);
		tgt_io_of(waiter)->ended(tgt_io_of(waiter), tgt_io_of(waiter)->error);
	}
}

static void io_done(struct tgt_io *io, int error)
{
	/* It was begun: -EBUSY, which makes owners retry, is only for operations that were not. */
	io->error = error == -EBUSY ? -EIO : error;
	tgt_write_end(&io->channel->range_locks, &io->write);
	volume_answered(io->channel, io, error);
	if (io->paced && io->kind <= TGT_IO_WRITE)
		pace_ended(io);
	if (!io->error && tgt_sync_keep(io))
		return;
	io_over(io);
}

/* True: it may begin. */
static inline __attribute__((always_inline)) bool channel_enter(struct tgt_channel *channel, struct tgt_io *io)
{
	if (io->kind != TGT_IO_FLUSH) {
		channel_share(channel);
		return tgt_inflight_enter(inflight_of(channel, io), &io->waiter);
	}
	if (channel->flushing) {
		io->waiter.waiting = true;
		TAILQ_INSERT_TAIL(&channel->unflushed, &io->waiter, link);
		return false;
	}
	channel->flushing = io;
	return true;
}

bool tgt_volume_withdraw(struct tgt_io *io)
{
	struct tgt_channel *channel = io->channel;

	if (tgt_write_withdraw(&channel->range_locks, &io->write))
		return true;
	if (!io->waiter.waiting)
		return false;
	tgt_write_end(&channel->range_locks, &io->write);
	if (io->kind == TGT_IO_FLUSH) {
		io->waiter.waiting = false;
		TAILQ_REMOVE(&channel->unflushed, &io->waiter, link);
	} else {
		tgt_inflight_withdraw(inflight_of(channel, io), &io->waiter);
	}
	return true;
}

/* It changes the volume's data, and is not part of a range lock. */
static bool io_writes(const struct tgt_io *io)
{
	return io->kind != TGT_IO_READ &&
	       (io->kind == TGT_IO_WRITE || io->kind == TGT_IO_DISCARD || io->kind == TGT_IO_WRITE_ZEROES) &&
	       !(io->flags & TGT_IO_LOCKED);
}

/* `io` has ended as it began. Those that waited would have begun before it: there is none. */
static inline __attribute__((always_inline)) void channel_leave(struct tgt_channel *channel, const struct tgt_io *io)
{
	struct tgt_inflight *inflight;

	if (io->kind == TGT_IO_FLUSH) {
		assert(TAILQ_EMPTY(&channel->flushed) && TAILQ_EMPTY(&channel->unflushed));
		channel->flushing = NULL;
		return;
	}
	inflight = inflight_of(channel, io);
	assert(TAILQ_EMPTY(&inflight->waiting));
	tgt_inflight_leave(inflight);
}

/* As tgt_volume_submit(), for an operation that no range lock blocks. */
static inline __attribute__((always_inline)) int io_enter(struct tgt_io *io)
{
	struct tgt_channel *channel = io->channel;
	int status;

	if (!channel_enter(channel, io))
		return 0;
	status = io_begin(io);
	if (status)
		channel_leave(channel, io);
	return status;
}

/* The range locks that blocked it have ended. */
static void io_unblocked(struct tgt_write *write)
{
	struct tgt_io *io = (struct tgt_io *)((char *)write - offsetof(struct tgt_io, write));
	int status = io_enter(io);

	if (status)
		io->ended(io, status > 0 ? 0 : status);
}

int tgt_volume_submit(struct tgt_volume *volume, struct tgt_channel *channel, struct tgt_io *io)
{
	io->volume = volume;
	io->epoch = atomic_load(&volume->trouble.epoch);
	io->channel = channel;
	io->waiter.waiting = false;
	io->paced = channel->paced;
	if (io_writes(io) && !tgt_write_begin(&channel->range_locks, &io->write, io->offset, io->bytes))
		return 0;
	return io_enter(io);
}

/* -- channels ---------------------------------------------------------------------------------- */

int tgt_volume_attach(struct tgt_volume *volume, struct tgt_ring *ring, struct tgt_channel **channel)
{
	int err = volume->store->ops->attach(volume->store, ring, channel);

	if (err)
		return err;
	err = tgt_range_locks_attach(&volume->range_locks, &(*channel)->range_locks, ring, io_unblocked);
	if (err) {
		volume->store->ops->detach(*channel);
		return err;
	}
	channel_limit(*channel);
	tgt_sync_channel_init(*channel, volume, io_over);
	pthread_mutex_lock(&volume->trouble.lock);
	atomic_fetch_add(&volume->trouble.channels, 1);
	pthread_mutex_unlock(&volume->trouble.lock);
	return 0;
}

bool tgt_volume_is_open(struct tgt_volume *volume)
{
	bool open;

	pthread_mutex_lock(&volume->trouble.lock);
	open = volume->trouble.channels > 0;
	pthread_mutex_unlock(&volume->trouble.lock);
	return open;
}

void tgt_volume_retire(struct tgt_channel *channel)
{
	assert(!channel->transfers.count && !channel->reads.count && !channel->ranges.count &&
	       !channel->lookups.count && !channel->flushing && TAILQ_EMPTY(&channel->kept));
	tgt_range_locks_detach(&channel->range_locks);
	tgt_volume_pace(channel, false);
}

/* F9: a volume that the target ends has not been closed by its sessions: what failed is there for the next process. */
void tgt_volume_detach(struct tgt_volume *volume, struct tgt_channel *channel)
{
	bool drained = channel->drained;

	tgt_volume_retire(channel);
	volume->store->ops->detach(channel);
	pthread_mutex_lock(&volume->trouble.lock);
	/* The last one may be a session's close beside a reactor that has drained already. */
	volume->trouble.unclosed |= drained || atomic_load(&volume->removed);
	if (atomic_fetch_sub(&volume->trouble.channels, 1) == 1 && !volume->trouble.unclosed)
		tgt_sync_forget(volume);
	pthread_mutex_unlock(&volume->trouble.lock);
}
