/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A barrier: every reactor of the process takes what has come to its connections, ends included. A client
 * that was killed and started again has ended connections on any reactor, and one that is late has not
 * seen that yet: commands of the old process may begin there (F5). The reactor's thread only.
 */
#ifndef RBLK_TARGET_BARRIER_H
#define RBLK_TARGET_BARRIER_H

#include <stdbool.h>

struct tgt_reactor;
struct tgt_barrier;

/* Ask all. NULL: no memory. tgt_barrier_end() releases it, whether it is over or not. */
struct tgt_barrier *tgt_barrier_begin(struct tgt_reactor *reactor);
/* Every connection that had ended when it began is closed: its writes are orphans. */
bool tgt_barrier_is_over(const struct tgt_barrier *barrier);
void tgt_barrier_end(struct tgt_barrier *barrier);

#endif
