/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Locks on ranges of a volume: they make COMPARE_AND_WRITE one step. While a range lock is held, no
 * write to its range is in flight and none begins, on any reactor. Range locks and writes that overlap
 * take turns in the order in which they came, so neither starves the other.
 *
 * On a volume without a range lock, a write only enters a list of its channel, and uses nothing that
 * reactors share. A range lock takes the volume's lock, and one message to each other reactor that
 * serves the volume, because only its thread knows which writes it has in flight.
 */
#ifndef RBLK_TARGET_STORE_RANGE_LOCK_H
#define RBLK_TARGET_STORE_RANGE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct tgt_range_lock_check;
struct tgt_ring;

/* The most range locks of a volume at a time, and those kept for hosts that have fewer, so that one host alone cannot
 * keep the others from COMPARE_AND_WRITE. */
#define TGT_RANGE_LOCKS_MAX 256u
#define TGT_RANGE_LOCKS_KEPT (TGT_RANGE_LOCKS_MAX / 8)

enum tgt_write_state {
	TGT_WRITE_NONE,	     /* in no list */
	TGT_WRITE_UNDER_WAY, /* in channel->writes */
	TGT_WRITE_BLOCKED,   /* in channel->blocked */
};

/* A write's entry; a member of the struct that writes. Its channel's thread only. */
struct tgt_write {
	TAILQ_ENTRY(tgt_write) link;
	uint64_t offset, bytes;
	uint64_t stamp; /* BLOCKED: the last range lock that came before it */
	enum tgt_write_state state;
};
TAILQ_HEAD(tgt_write_list, tgt_write);

/* Allocated and freed by its holder, on its channel's thread. range_lock.c owns the fields, under the
 * volume's lock. */
struct tgt_range_lock {
	TAILQ_ENTRY(tgt_range_lock) link; /* range_locks->list, the oldest first */
	struct tgt_range_locks_channel *channel;
	uint64_t offset, bytes;
	uint64_t host; /* the same number for all sessions of a host, on any reactor */
	uint64_t serial;
	uint64_t unseen; /* channels that may have earlier writes to its range in flight: a bit each */
	bool granted;
	void (*grant)(struct tgt_range_lock *range_lock); /* set by the holder: the range lock is held now */
};
TAILQ_HEAD(tgt_range_lock_list, tgt_range_lock);
TAILQ_HEAD(tgt_range_locks_channels, tgt_range_locks_channel);

/* A volume's. */
struct tgt_range_locks {
	pthread_mutex_t lock;	    /* of all below, and of fields of channels; innermost */
	_Atomic unsigned int count; /* of `list`: writes look at it without the lock */
	struct tgt_range_lock_list list;
	struct tgt_range_locks_channels channels;
	uint64_t bits;	 /* of `channels` */
	uint64_t serial; /* of the last range lock */
};

/* A channel's part; a member of it. */
struct tgt_range_locks_channel {
	struct tgt_range_locks *volume;
	struct tgt_ring *ring;	       /* of its thread */
	struct tgt_write_list writes;  /* under way */
	struct tgt_write_list blocked; /* wait for range locks, in the order in which they came */
	void (*unblocked)(struct tgt_write *write); /* called when the write is in flight; fixed */
	struct tgt_range_lock_check *check;	    /* the message to its thread */
	TAILQ_ENTRY(tgt_range_locks_channel) link; /* range_locks->channels */
	/* Under the volume's lock: */
	uint64_t bit;
	unsigned int blocked_count;
};

void tgt_range_locks_init(struct tgt_range_locks *range_locks);
void tgt_range_locks_fini(struct tgt_range_locks *range_locks); /* no channel and no range lock is left */

/* A channel of the volume begins and ends, with nothing under way; on its thread. 0 or -ENOMEM. */
int tgt_range_locks_attach(struct tgt_range_locks *range_locks, struct tgt_range_locks_channel *channel,
			   struct tgt_ring *ring, void (*unblocked)(struct tgt_write *write));
/* No effect if it was detached before. */
void tgt_range_locks_detach(struct tgt_range_locks_channel *channel);

/* -- writes ------------------------------------------------------------------------------------ */

/* Is there any range lock on the volume? If not, this thread may write at once. */
static inline bool tgt_range_locks_any(const struct tgt_range_locks_channel *channel)
{
	return atomic_load(&channel->volume->count);
}
/* A part of a write in flight; the write may end before its part. */
static inline void tgt_write_goes_on(struct tgt_range_locks_channel *channel, struct tgt_write *part, uint64_t offset,
				     uint64_t bytes)
{
	part->offset = offset;
	part->bytes = bytes;
	part->state = TGT_WRITE_UNDER_WAY;
	TAILQ_INSERT_TAIL(&channel->writes, part, link);
}
/* True: a range lock overlaps it, it waits. */
bool tgt_write_block(struct tgt_range_locks_channel *channel, struct tgt_write *write, uint64_t offset,
		     uint64_t bytes);
/*
 * A write to [offset, offset + bytes) begins. True: it is in flight until tgt_write_end(). False: a
 * range lock overlaps it; channel->unblocked() is called when it is in flight.
 *
 * A range lock of another reactor may come after this thread has read the count and before the write is
 * in the list. It waits for this thread's answer, which comes after both.
 */
static inline bool tgt_write_begin(struct tgt_range_locks_channel *channel, struct tgt_write *write, uint64_t offset,
				   uint64_t bytes)
{
	if (tgt_range_locks_any(channel) && tgt_write_block(channel, write, offset, bytes))
		return false;
	tgt_write_goes_on(channel, write, offset, bytes);
	return true;
}
/* As tgt_write_begin(), for a write that cannot wait: false if there is any range lock at all; then
 * it has not begun. */
bool tgt_write_begin_now(struct tgt_range_locks_channel *channel, struct tgt_write *write, uint64_t offset,
			 uint64_t bytes);
/* A range lock may have waited for this write. */
void tgt_write_gone(struct tgt_range_locks_channel *channel, const struct tgt_write *write);
/* No effect unless it is in flight. */
static inline void tgt_write_end(struct tgt_range_locks_channel *channel, struct tgt_write *write)
{
	if (write->state != TGT_WRITE_UNDER_WAY)
		return;
	write->state = TGT_WRITE_NONE;
	TAILQ_REMOVE(&channel->writes, write, link);
	if (tgt_range_locks_any(channel))
		tgt_write_gone(channel, write);
}
/* True: it was blocked, and is not any more; `unblocked` is not called. */
bool tgt_write_withdraw(struct tgt_range_locks_channel *channel, struct tgt_write *write);

/* -- range locks ------------------------------------------------------------------------------- */

/* 1: it is held. 0: range_lock->grant() is called later, on this thread. -EBUSY: there are too many, of
 * this host or of all. */
int tgt_range_lock_begin(struct tgt_range_locks_channel *channel, struct tgt_range_lock *range_lock, uint64_t host,
			 uint64_t offset, uint64_t bytes);
/* Ends it; also one that waits: then `grant` is not called. */
void tgt_range_lock_end(struct tgt_range_lock *range_lock);

#endif
