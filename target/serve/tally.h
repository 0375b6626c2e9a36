/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who counts what: a tally for each handle; and one for each volume and for each initiator (names.h),
 * which have what handles left when they were closed. So the sum of a volume's tally and of its
 * handles' tallies is all that this reactor has done with it; likewise an initiator's, as it was
 * called when it opened them. Handles beyond a bound count directly into their volume's and for no
 * initiator, so that a census takes a bounded time. The reactor's thread only; census.c copies them for others.
 */
#ifndef RBLK_TARGET_TALLY_H
#define RBLK_TARGET_TALLY_H

#include "target/serve/tallies.h"

/* Its channel has been opened: sets access.counts. */
void tgt_tally_open(struct tgt_handle *handle);
/* Before its channel is released: what was counted goes to the volume and the initiator, and nothing more is. */
void tgt_tally_close(struct tgt_handle *handle);

void tgt_tallies_init(struct tgt_tallies *tallies);
void tgt_tallies_fini(struct tgt_tallies *tallies); /* no handle is left */

#endif
