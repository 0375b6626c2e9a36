/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * OPEN: for writing it waits for the writes of ended connections (F5), and if the store's memory is
 * to be registered, for its preparation. The reactor's thread only.
 */
#ifndef RBLK_TARGET_OPEN_H
#define RBLK_TARGET_OPEN_H

#include "target/serve/session.h"

/* The command, RECEIVED, with its payload: it is answered or held. */
void tgt_open_begin(struct tgt_session *session, struct tgt_request *request, const char *capsule,
		    uint32_t bytes);
/* Held OPENs: continue those that can, refuse those that have waited too long. */
void tgt_open_retry(struct tgt_reactor *reactor);

#endif
