/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a journal permits a block to hold. A write lasts from its line W to its end: the line that
 * says how it ended, or, where that is unknown, the next life's O. If one of two writes to
 * a block began after the other's end, it is the later one; others may take effect in either order.
 *
 * A write is durable when it was acknowledged with FUA, or was acknowledged before a flush began
 * that succeeded. A flush that failed voids the promise of all writes that were acknowledged and
 * not durable by then: no later flush makes them durable (F7). A block may hold the value of any
 * write than which no durable one is later. Strictly, where no cache can have been lost, every
 * acknowledged write counts as durable.
 */
#ifndef RBLK_TESTS_PROMISE_HISTORY_H
#define RBLK_TESTS_PROMISE_HISTORY_H

#include "tests/promise/journal.h"

struct promise_history;

struct promise_history *
promise_history_create(const struct promise_range *range); /* NULL: no memory */
void promise_history_destroy(struct promise_history *history);
/* The next record of the journal. False: it cannot follow what came before, `why` says how. */
bool promise_history_take(struct promise_history *history, const struct promise_record *record,
			  char *why);

/*
 * All of a journal's. NULL: `why`. *range: its head's; *keep: the bytes of whole lines; *cut: the
 * last was not.
 */
struct promise_history *promise_history_read(const char *path, struct promise_range *range,
					     int64_t *keep, bool *cut, char *why);

enum promise_verdict {
	PROMISE_KEPT,
	PROMISE_NOT_WRITTEN, /* no such write of that block, or it was never begun */
	PROMISE_STALE,	     /* *by is later and durable */
};
/* May `block` hold the value of write `op` (0: that it had before the first)? */
enum promise_verdict promise_history_judge(const struct promise_history *history, uint64_t block,
					   uint64_t op, bool strict, uint64_t *by);

struct promise_counts {
	uint64_t lives, writes, acknowledged, failed, durable, flushes, flushes_begun,
		flushes_failed;
};
struct promise_counts promise_history_counts(const struct promise_history *history);

#endif
