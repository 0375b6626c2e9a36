/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * RESERVE and RESERVATIONS. The reactor's thread only.
 */
#ifndef RBLK_TARGET_RESERVE_H
#define RBLK_TARGET_RESERVE_H

#include "target/serve/session.h"

/* Answers the request, or holds it until the change is in force and the writes that it stops
 * have ended. */
void tgt_reserve_begin(struct tgt_session *session, struct tgt_request *request,
		       const char *capsule, uint32_t bytes, uint32_t volume);
void tgt_reserve_report(struct tgt_session *session, struct tgt_request *request, uint32_t volume);
/* Each turn: go on with changes that wait. */
void tgt_reserve_retry(struct tgt_reactor *reactor);

#endif
