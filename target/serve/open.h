/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * OPEN, for writing behind the writes that ended connections have left with the store (F5), and
 * where a device is to know the store's memory, behind its preparation. The reactor's thread only.
 */
#ifndef RBLK_TARGET_OPEN_H
#define RBLK_TARGET_OPEN_H

#include "target/serve/session.h"

/* The command, RECEIVED, with its payload: it is answered or held. */
void tgt_open_begin(struct tgt_session *session, struct tgt_request *request, const char *capsule,
		    uint32_t bytes);
/* A held one ends without an answer. */
void tgt_open_drop(struct tgt_session *session, struct tgt_request *request);
/* Those that are held: see whether they can go on, or have waited long enough. */
void tgt_open_retry(struct tgt_reactor *reactor);

#endif
