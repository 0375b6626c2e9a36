/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * FENCE: ends an incarnation of a queue permanently; the answer says that nothing of it is in
 * flight any more, its storage I/O included (F5). Of one volume: that nothing of it changes that
 * any more, or BUSY. The reactor's thread only.
 */
#ifndef RBLK_TARGET_FENCE_H
#define RBLK_TARGET_FENCE_H

#include "target/serve/session.h"

/* The command, RECEIVED: it is answered or held. volume: a handle, or 0. */
void tgt_fence_begin(struct tgt_session *session, struct tgt_request *request, uint32_t volume);
/* A queue of this slot has ended entirely: answer the FENCEs that waited for nothing else. */
void tgt_fence_done(struct tgt_queue_slot *slot);
/* Once in each turn: those of a volume go on. */
void tgt_fence_retry(struct tgt_reactor *reactor);

#endif
