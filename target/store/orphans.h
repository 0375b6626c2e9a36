/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A volume's orphans (F5): writes that are still under way though their connection has ended, of
 * any session. An OPEN for writing waits for those that are there when it comes, and not for later
 * ones, so that an initiator whose connections keep breaking cannot keep others out. Orphans are
 * counted in buckets; an OPEN remembers which buckets were not empty, and later orphans go to
 * another bucket. Lock-free; any reactor's thread.
 */
#ifndef RBLK_TARGET_ORPHANS_H
#define RBLK_TARGET_ORPHANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TGT_ORPHAN_BUCKETS 64u

/* All zero: none. */
struct tgt_orphans {
	_Atomic unsigned int buckets[TGT_ORPHAN_BUCKETS];
	_Atomic unsigned int current; /* where the next one is counted */
};

/* One more; the number is for tgt_orphans_end(), and never 0. */
uint8_t tgt_orphans_begin(struct tgt_orphans *orphans);
void tgt_orphans_end(struct tgt_orphans *orphans, uint8_t number);

/* Those that are there now; 0: none. Later ones are counted elsewhere while a bucket is empty. */
uint64_t tgt_orphans_now(struct tgt_orphans *orphans);
/* Those of `there` that remain. A bucket that was seen empty is not waited for again. */
uint64_t tgt_orphans_left(const struct tgt_orphans *orphans, uint64_t then);

#endif
