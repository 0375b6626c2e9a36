/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The turns of range_lock.h. Range locks and blocked writes are ordered by a serial number: a range lock has its
 * own, and a write that is blocked has that of the last range lock before it. Each waits for earlier
 * ones that overlap it. When one ends, a message goes to the channels concerned, and their threads
 * check which ones may go on. None goes on inside another one's call, so that submit.c's lists do
 * not change while they are walked.
 */
#include "target/store/range_lock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include "proto/core/trace.h"
#include "target/base/quota.h"
#include "target/store/ring.h"

/* The message to a channel's thread. It outlives the channel if it is in flight when the channel ends. */
struct tgt_range_lock_check {
	struct tgt_message message; /* first: leads back here */
	struct tgt_range_locks_channel *channel; /* NULL: it has ended. Its thread's */
	bool running;				 /* owned by its thread: `channel` is being handled */
	bool posted;		   /* under the volume's lock */
};

static bool overlaps(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

/* -- who waits for whom; the volume's lock is held --------------------------------------------- */

static void channel_wake(struct tgt_range_locks_channel *channel)
{
	struct tgt_range_lock_check *check = channel->check;

	if (check->posted)
		return;
	check->posted = true;
	tgt_ring_send(channel->ring, &check->message);
}

/* The first range lock up to this serial that overlaps the range, or NULL. */
static struct tgt_range_lock *range_lock_before(struct tgt_range_locks *range_locks, uint64_t serial, uint64_t offset,
						uint64_t bytes)
{
	struct tgt_range_lock *range_lock;

	TAILQ_FOREACH(range_lock, &range_locks->list, link) {
		if (range_lock->serial > serial)
			break;
		if (overlaps(range_lock->offset, range_lock->bytes, offset, bytes))
			return range_lock;
	}
	return NULL;
}

/* On the channel's thread: does the channel have a write that the range lock must wait for? */
static bool channel_writes(const struct tgt_range_locks_channel *channel, const struct tgt_range_lock *range_lock)
{
	const struct tgt_write *write;

	TAILQ_FOREACH(write, &channel->writes, link)
		if (overlaps(write->offset, write->bytes, range_lock->offset, range_lock->bytes))
			return true;
	TAILQ_FOREACH(write, &channel->blocked, link)
		if (write->stamp < range_lock->serial &&
		    overlaps(write->offset, write->bytes, range_lock->offset, range_lock->bytes))
			return true;
	return false;
}

static bool range_lock_may_go(struct tgt_range_locks *range_locks, const struct tgt_range_lock *range_lock)
{
	return !range_lock->granted && !range_lock->unseen &&
	       !range_lock_before(range_locks, range_lock->serial - 1, range_lock->offset, range_lock->bytes);
}

/* -- on the channel's thread ------------------------------------------------------------------- */

/* A write that was blocked and may go on: it is in flight now. */
static struct tgt_write *next_write(struct tgt_range_locks_channel *channel)
{
	struct tgt_write *write;

	TAILQ_FOREACH(write, &channel->blocked, link) {
		if (range_lock_before(channel->volume, write->stamp, write->offset, write->bytes))
			continue;
		TAILQ_REMOVE(&channel->blocked, write, link);
		channel->blocked_count--;
		write->state = TGT_WRITE_UNDER_WAY;
		TAILQ_INSERT_TAIL(&channel->writes, write, link);
		return write;
	}
	return NULL;
}

/* A range lock of this channel that is held now. Answers other range locks for this channel's writes. */
static struct tgt_range_lock *next_range_lock(struct tgt_range_locks_channel *channel)
{
	struct tgt_range_lock *range_lock;

	TAILQ_FOREACH(range_lock, &channel->volume->list, link) {
		bool cleared = range_lock->unseen & channel->bit && !channel_writes(channel, range_lock);

		if (cleared)
			range_lock->unseen &= ~channel->bit;
		if (range_lock->channel != channel) {
			if (cleared && !range_lock->unseen)
				channel_wake(range_lock->channel);
			continue;
		}
		if (range_lock_may_go(channel->volume, range_lock)) {
			range_lock->granted = true;
			return range_lock;
		}
	}
	return NULL;
}

/* One at a time, because each may change the lists, and even end the channel. */
static bool check_once(struct tgt_range_locks_channel *channel)
{
	struct tgt_range_locks *range_locks = channel->volume;
	struct tgt_range_lock *range_lock = NULL;
	struct tgt_write *write;

	pthread_mutex_lock(&range_locks->lock);
	write = next_write(channel);
	if (!write)
		range_lock = next_range_lock(channel);
	pthread_mutex_unlock(&range_locks->lock);
	if (write)
		channel->unblocked(write);
	else if (range_lock)
		range_lock->grant(range_lock);
	return write || range_lock;
}

/* In the reap of the channel's ring. */
static void channel_check(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_range_lock_check *check = (struct tgt_range_lock_check *)message;

	if (check->channel) {
		struct tgt_range_locks *range_locks = check->channel->volume;

		pthread_mutex_lock(&range_locks->lock);
		check->posted = false;
		pthread_mutex_unlock(&range_locks->lock);
		check->running = true;
		while (check->channel && check_once(check->channel))
			;
		check->running = false;
	} else {
		check->posted = false;
	}
	if (!check->channel && !check->posted)
		free(check);
}

/* -- volumes and channels ---------------------------------------------------------------------- */

void tgt_range_locks_init(struct tgt_range_locks *range_locks)
{
	pthread_mutex_init(&range_locks->lock, NULL);
	TAILQ_INIT(&range_locks->list);
	TAILQ_INIT(&range_locks->channels);
}

void tgt_range_locks_fini(struct tgt_range_locks *range_locks)
{
	assert(TAILQ_EMPTY(&range_locks->list) && TAILQ_EMPTY(&range_locks->channels));
	pthread_mutex_destroy(&range_locks->lock);
}

int tgt_range_locks_attach(struct tgt_range_locks *range_locks, struct tgt_range_locks_channel *channel,
			   struct tgt_ring *ring, void (*unblocked)(struct tgt_write *write))
{
	channel->check = calloc(1, sizeof(*channel->check));
	if (!channel->check)
		return -ENOMEM;
	channel->check->channel = channel;
	channel->check->message.run = channel_check;
	channel->volume = range_locks;
	channel->ring = ring;
	channel->unblocked = unblocked;
	TAILQ_INIT(&channel->writes);
	TAILQ_INIT(&channel->blocked);
	pthread_mutex_lock(&range_locks->lock);
	channel->bit = ~range_locks->bits & (range_locks->bits + 1);
	range_locks->bits |= channel->bit;
	if (channel->bit)
		TAILQ_INSERT_TAIL(&range_locks->channels, channel, link);
	pthread_mutex_unlock(&range_locks->lock);
	if (channel->bit)
		return 0;
	/* More than there are reactors. */
	free(channel->check);
	return -ENOMEM;
}

void tgt_range_locks_detach(struct tgt_range_locks_channel *channel)
{
	struct tgt_range_locks *range_locks = channel->volume;
	struct tgt_range_lock_check *check = channel->check;
	struct tgt_range_lock *range_lock;
	bool kept;

	if (!check)
		return;
	assert(TAILQ_EMPTY(&channel->writes) && TAILQ_EMPTY(&channel->blocked));
	pthread_mutex_lock(&range_locks->lock);
	TAILQ_REMOVE(&range_locks->channels, channel, link);
	range_locks->bits &= ~channel->bit;
	TAILQ_FOREACH(range_lock, &range_locks->list, link) {
		bool cleared = range_lock->unseen & channel->bit;

		range_lock->unseen &= ~channel->bit;
		if (cleared && !range_lock->unseen)
			channel_wake(range_lock->channel);
	}
	kept = check->posted || check->running;
	pthread_mutex_unlock(&range_locks->lock);
	check->channel = NULL;
	channel->check = NULL;
	if (!kept)
		free(check);
}

/* -- writes ------------------------------------------------------------------------------------ */

bool tgt_write_block(struct tgt_range_locks_channel *channel, struct tgt_write *write, uint64_t offset,
			uint64_t bytes)
{
	struct tgt_range_locks *range_locks = channel->volume;
	bool blocked;

	pthread_mutex_lock(&range_locks->lock);
	blocked = range_lock_before(range_locks, UINT64_MAX, offset, bytes);
	if (blocked) {
		write->offset = offset;
		write->bytes = bytes;
		write->stamp = range_locks->serial;
		write->state = TGT_WRITE_BLOCKED;
		TAILQ_INSERT_TAIL(&channel->blocked, write, link);
		channel->blocked_count++;
	}
	pthread_mutex_unlock(&range_locks->lock);
	return blocked;
}

bool tgt_write_begin_now(struct tgt_range_locks_channel *channel, struct tgt_write *write, uint64_t offset,
			 uint64_t bytes)
{
	if (tgt_range_locks_any(channel))
		return false;
	tgt_write_goes_on(channel, write, offset, bytes);
	return true;
}

void tgt_write_gone(struct tgt_range_locks_channel *channel, const struct tgt_write *write)
{
	struct tgt_range_locks *range_locks = channel->volume;

	pthread_mutex_lock(&range_locks->lock);
	if (range_lock_before(range_locks, UINT64_MAX, write->offset, write->bytes))
		channel_wake(channel);
	pthread_mutex_unlock(&range_locks->lock);
}

bool tgt_write_withdraw(struct tgt_range_locks_channel *channel, struct tgt_write *write)
{
	struct tgt_range_locks *range_locks = channel->volume;

	if (write->state != TGT_WRITE_BLOCKED)
		return false;
	pthread_mutex_lock(&range_locks->lock);
	TAILQ_REMOVE(&channel->blocked, write, link);
	channel->blocked_count--;
	pthread_mutex_unlock(&range_locks->lock);
	write->state = TGT_WRITE_NONE;
	tgt_write_gone(channel, write);
	return true;
}

/* -- range locks ------------------------------------------------------------------------------- */

static const struct tgt_quota range_locks_quota = {.most = TGT_RANGE_LOCKS_MAX, .kept = TGT_RANGE_LOCKS_KEPT};

/* May the host have one more? Under the lock. */
static bool range_locks_room(const struct tgt_range_locks *range_locks, uint64_t host)
{
	unsigned int used = atomic_load(&range_locks->count), own = 0;
	const struct tgt_range_lock *range_lock;

	/* Nobody is asked before that. */
	if (used >= range_locks_quota.most - range_locks_quota.kept)
		TAILQ_FOREACH(range_lock, &range_locks->list, link)
			own += range_lock->host == host;
	return tgt_quota_allows(&range_locks_quota, used, own);
}

int tgt_range_lock_begin(struct tgt_range_locks_channel *channel, struct tgt_range_lock *range_lock, uint64_t host,
			 uint64_t offset, uint64_t bytes)
{
	struct tgt_range_locks *range_locks = channel->volume;
	struct tgt_range_locks_channel *other;
	int held = -EBUSY;

	pthread_mutex_lock(&range_locks->lock);
	if (range_locks_room(range_locks, host)) {
		range_lock->channel = channel;
		range_lock->host = host;
		range_lock->offset = offset;
		range_lock->bytes = bytes;
		range_lock->serial = ++range_locks->serial;
		range_lock->unseen = range_locks->bits;
		TAILQ_INSERT_TAIL(&range_locks->list, range_lock, link);
		atomic_fetch_add(&range_locks->count, 1);
		if (!channel_writes(channel, range_lock))
			range_lock->unseen &= ~channel->bit;
		TAILQ_FOREACH(other, &range_locks->channels, link)
			if (other != channel)
				channel_wake(other);
		range_lock->granted = false;
		range_lock->granted = range_lock_may_go(range_locks, range_lock);
		held = range_lock->granted;
	}
	pthread_mutex_unlock(&range_locks->lock);
	return held;
}

void tgt_range_lock_end(struct tgt_range_lock *range_lock)
{
	struct tgt_range_locks *range_locks = range_lock->channel->volume;
	struct tgt_range_lock *later;
	struct tgt_range_locks_channel *channel;

	rblk_trace_range_lock_end(range_lock);
	pthread_mutex_lock(&range_locks->lock);
	TAILQ_REMOVE(&range_locks->list, range_lock, link);
	atomic_fetch_sub(&range_locks->count, 1);
	TAILQ_FOREACH(later, &range_locks->list, link)
		if (range_lock_may_go(range_locks, later))
			channel_wake(later->channel);
	TAILQ_FOREACH(channel, &range_locks->channels, link)
		if (channel->blocked_count)
			channel_wake(channel);
	pthread_mutex_unlock(&range_locks->lock);
}
