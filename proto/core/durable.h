/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An initiator's record of which writes are durable on one volume, and whether acknowledged ones
 * may be lost. Specification section 8, F7.
 *
 * FLUSHes are numbered as they are sent. Each writer (a queue: writers share nothing) keeps the
 * number of the next FLUSH as of its last acknowledged write; so a write costs one comparison.
 * Pure; the caller owns the memory, and calls all but core_durable_wrote() one at a time.
 */
#ifndef RBLK_CORE_DURABLE_H
#define RBLK_CORE_DURABLE_H

#include "proto/wire/types.h"

struct core_durable {
	u64 next;     /* FLUSH to be sent */
	u64 flushed;  /* the last one that succeeded */
	u64 floor;    /* a FLUSH below was sent before a loss: it fails, also if it is sent again */
	u8 epoch[16]; /* the volume's cache epoch as of the last OPEN */
	bool known;   /* there was one */
	bool lost;    /* acknowledged writes may be lost: every FLUSH fails */
};

/* Nothing was written yet; every writer begins with 0. */
static inline void core_durable_init(struct core_durable *durable)
{
	memset(durable, 0, sizeof(*durable));
	durable->next = 1;
}

/* A write without FUA was acknowledged, on this writer. Any thread, one for each writer at a time.
 */
static inline void core_durable_wrote(const struct core_durable *durable, u64 *writer)
{
	u64 next = *(const volatile u64 *)&durable->next;

	if (*writer != next)
		*writer = next;
}

/* A FLUSH is about to be sent: its number. It does not cover writes acknowledged from here on.
 */
static inline u64 core_durable_flush(struct core_durable *durable)
{
	return durable->next++;
}

/*
 * Was this FLUSH, which waits or whose connection is lost, sent before a loss? Then it fails even
 * if the loss is acknowledged meanwhile.
 */
static inline bool core_durable_outlived(const struct core_durable *durable, u64 number)
{
	return number < durable->floor;
}

/* That FLUSH has succeeded. */
static inline void core_durable_flushed(struct core_durable *durable, u64 number)
{
	if (number > durable->flushed)
		durable->flushed = number;
}

/* Has this writer an acknowledged write that no FLUSH has covered? */
static inline bool core_durable_dirty(const struct core_durable *durable, u64 writer)
{
	return writer > durable->flushed;
}

/*
 * The volume was opened. `dirty`: some writer is. True: acknowledged writes may have been lost, and
 * from now on FLUSH fails until core_durable_acknowledge(). What was written before is then neither
 * durable nor dirty any more.
 */
static inline bool core_durable_opened(struct core_durable *durable, const u8 epoch[16], bool dirty)
{
	bool changed = durable->known && memcmp(durable->epoch, epoch, sizeof(durable->epoch));

	memcpy(durable->epoch, epoch, sizeof(durable->epoch));
	durable->known = true;
	if (!changed)
		return false;
	durable->flushed = durable->next++;
	if (dirty) {
		durable->lost = true;
		durable->floor = durable->next;
	}
	return dirty;
}

/* The users of the volume have acknowledged the loss. */
static inline void core_durable_acknowledge(struct core_durable *durable)
{
	durable->lost = false;
}

#endif
