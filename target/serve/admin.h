/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The commands that are not block I/O: naming, listing, opening, closing, fencing, aborting,
 * keeping alive, measuring. Called by request.c for a request that is RECEIVED; each answers it or
 * holds it.
 */
#ifndef RBLK_TARGET_ADMIN_H
#define RBLK_TARGET_ADMIN_H

#include "target/io/request.h"

bool tgt_admin_is(uint8_t opcode);
/* capsule: what the initiator tells, or NULL; volume: the command's handle. */
void tgt_admin_begin(struct tgt_request *request, const char *capsule, uint32_t capsule_bytes,
		     uint32_t volume);
/* OPENs that are HELD: see whether they can go on, or have waited long enough. */
void tgt_admin_retry_opens(struct tgt_reactor *reactor);
/* A HELD request's connection is lost: nothing waits for it any more. */
void tgt_admin_drop(struct tgt_request *request);
/* `queue` has ended entirely: answer the FENCE commands that waited for it. */
void tgt_admin_fenced(struct tgt_session *session, uint16_t index);

#endif
