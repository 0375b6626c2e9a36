/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between the gateways of a store that several machines serve (F5, F10): OPEN's fence at all others, and the answer
 * to theirs. The reactor's thread only, but for tgt_gateways_begin() and tgt_gateways_end().
 */
#ifndef RBLK_TARGET_GATEWAYS_H
#define RBLK_TARGET_GATEWAYS_H

#include <stdbool.h>
#include "proto/wire/message.h"

struct tgt_reactor;
struct tgt_session;
struct tgt_volume;
struct tgt_gateways_fence;

/*
 * Asks all other gateways of the volume to end what they have of the session's earlier epochs, and of connections
 * that have ended. RBLK_OK: tgt_gateways_fence_end() releases it, whether it is done or not. RBLK_E_BUSY: too many of
 * the session's host are under way. RBLK_E_NO_RESOURCES: no memory.
 */
enum rblk_status tgt_gateways_fence_begin(const struct tgt_session *session, struct tgt_volume *volume,
					  struct tgt_gateways_fence **begun);
/* Nothing of that can land any more. One that has failed never is; the store has said why. */
bool tgt_gateways_fence_is_done(const struct tgt_gateways_fence *fence);
/* The session is an NVMe host's, whose I/O is another gateway's. */
bool tgt_gateways_fence_is_held(const struct tgt_gateways_fence *fence);
void tgt_gateways_fence_end(struct tgt_gateways_fence *fence);

/* Control thread. The first reactor has begun: others' asks are answered from now on. */
void tgt_gateways_begin(struct tgt_reactor *reactor);
/* Before the first of them is freed. Idempotent. */
void tgt_gateways_end(struct tgt_reactor *reactor);

#endif
