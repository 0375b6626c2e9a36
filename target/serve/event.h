/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events: what a session is told that it did not ask for. One is outstanding at a time, on queue 0;
 * the others wait as bits in the session and its handles. The reactor's thread only.
 */
#ifndef RBLK_TARGET_EVENT_H
#define RBLK_TARGET_EVENT_H

#include "target/serve/session.h"

/* Something has changed: queue 0 says it, if it may, in this turn. */
void tgt_event_kick(struct tgt_session *session);
/* An event is due for an open volume. */
void tgt_event_volume(struct tgt_handle *handle, bool removed);
/* A handle ends: nothing is left to say of it. */
void tgt_event_forget(struct tgt_handle *handle);
/* The next event, for a reply of queue 0. */
void tgt_event_next(struct tgt_session *session, struct rblk_wire_completion *event);
/* KEEPALIVE has said that event `number` was seen. */
void tgt_event_seen(struct tgt_session *session, uint32_t number);
/* Another incarnation of queue 0: numbers begin anew, and what was not seen is said again. */
void tgt_event_restart(struct tgt_session *session);

#endif
