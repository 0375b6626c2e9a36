/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Poll, then arm: how long a loop that found nothing goes on looking before it sleeps. Waking up
 * costs tens of microseconds, so looking pays while the next work is expected sooner than `max_ns`,
 * and not at all otherwise. Learns from the gaps between work; clock readings in, a decision out.
 */
#ifndef RBLK_CORE_SPIN_H
#define RBLK_CORE_SPIN_H

#include "proto/wire/types.h"

struct core_spin {
	u64 max_ns;	   /* longest spin; 0: never spin. (u64)-1: never sleep */
	u64 gap_ns;	   /* running average of the gaps between work */
	u64 idle_since_ns; /* of the first turn without work; 0: the last turn had some */
};

void core_spin_init(struct core_spin *spin, u64 max_ns);

/* After each turn: how much there was to do in it. True: sleep now, until something arrives. */
bool core_spin_turn(struct core_spin *spin, u64 now_ns, unsigned int work);

#endif
