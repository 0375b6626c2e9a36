/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rates of the last five minutes: a sample each two seconds, of the whole target, of each volume
 * that it serves and of each initiator that it tells apart, which bounds it (some 4 KiB each). Made of
 * views, so reactors do no more than for anybody who looks. The thread of the room's services.
 */
#ifndef RBLK_TARGET_WATCH_HISTORY_H
#define RBLK_TARGET_WATCH_HISTORY_H

#include <jansson.h>
#include "target/watch/view.h"

#define TGT_HISTORY_NS 2000000000ull
#define TGT_HISTORY_SAMPLES 150u

/* The subject of a series. An initiator that has proven its name is another one than who only says it. */
enum tgt_history_kind {
	TGT_HISTORY_TOTAL, /* without a name */
	TGT_HISTORY_VOLUME,
	TGT_HISTORY_INITIATOR,
	TGT_HISTORY_PROVEN,
};

struct tgt_history;

/* Counters were 0 at that time (env_now_ns()). NULL: no memory. */
struct tgt_history *tgt_history_create(uint64_t now_ns);
/* Until the next sample is due; -1: history is NULL. */
int tgt_history_timeout_ms(const struct tgt_history *history, uint64_t now_ns);
/* A sample. Without effect on what is looked at; a view in which a reactor is missing is none. */
void tgt_history_add(struct tgt_history *history, const struct tgt_view *view);
/* Adds the last sample's rates to the object, with the keys of `rblkctl top --json`; null: not known. */
void tgt_history_rates(const struct tgt_history *history, enum tgt_history_kind kind, const char *name, json_t *object);
/*
 * {"times_s": [...], "reads_per_s": [...], ...}, the oldest first: when each sample was taken, since the
 * epoch, and the same rates. A new reference; NULL: no memory, or nothing of that name is known.
 */
json_t *tgt_history_curves(const struct tgt_history *history, enum tgt_history_kind kind, const char *name);
void tgt_history_destroy(struct tgt_history *history); /* NULL: no effect */

#endif
