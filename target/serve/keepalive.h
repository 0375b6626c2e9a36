/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keep-alive: queues that are silent for too long are probed, then closed. The reactor's thread
 * only.
 */
#ifndef RBLK_TARGET_KEEPALIVE_H
#define RBLK_TARGET_KEEPALIVE_H

#include "target/serve/reactor_impl.h"

/* Timer: probe and close. */
void tgt_keepalive_check(struct tgt_reactor *reactor);
/* A login found no room: close queues of silent peers, even without a keep-alive time. */
void tgt_keepalive_press(struct tgt_reactor *reactor);

#endif
