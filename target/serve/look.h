/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A look: every reactor of the process takes what has come to its connections, ends included. A client
 * that was killed and started again has ended connections on any reactor, and one that is late has not
 * seen that yet: commands of the old process may begin there (F5). The reactor's thread only.
 */
#ifndef RBLK_TARGET_LOOK_H
#define RBLK_TARGET_LOOK_H

#include <stdbool.h>

struct tgt_reactor;
struct tgt_look;

/* Ask all. NULL: no memory. tgt_look_end() releases it, whether it is over or not. */
struct tgt_look *tgt_look_begin(struct tgt_reactor *reactor);
/* Every connection that had ended when it began is closed: its writes are orphans. */
bool tgt_look_is_over(const struct tgt_look *look);
void tgt_look_end(struct tgt_look *look);

#endif
