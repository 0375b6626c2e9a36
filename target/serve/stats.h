/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who counts what: the stats of each handle, of each volume and of each initiator (names.h),
 * whose own have what handles left when they were closed. So the sum of a volume's stats and of its
 * handles' stats is all that this reactor has done with it; likewise an initiator's, as it was
 * called when it opened them. Handles beyond a bound count directly into their volume's and for no
 * initiator, so that a snapshot takes a bounded time. The reactor's thread only; snapshot.c copies them for others.
 */
#ifndef RBLK_TARGET_STATS_H
#define RBLK_TARGET_STATS_H

#include "target/serve/stats_table.h"

/* Its channel has been opened: sets access.counts. */
void tgt_stats_open(struct tgt_handle *handle);
/* Before its channel is released: what was counted goes to the volume and the initiator, and nothing more is. */
void tgt_stats_close(struct tgt_handle *handle);

void tgt_stats_table_init(struct tgt_stats_table *stats_table);
void tgt_stats_table_fini(struct tgt_stats_table *stats_table); /* no handle is left */

#endif
