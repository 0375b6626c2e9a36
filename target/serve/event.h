/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events: messages to a session that no command asked for. One is outstanding at a time, on queue
 * 0; the others wait as bits in the session and its handles. The reactor's thread only.
 */
#ifndef RBLK_TARGET_EVENT_H
#define RBLK_TARGET_EVENT_H

#include "target/serve/session.h"

/* Something has changed: queue 0 sends it in this turn, if it may. */
void tgt_event_kick(struct tgt_session *session);
/* An event is due for an open volume. */
void tgt_event_volume(struct tgt_handle *handle, bool removed);
/* A handle ends: drop its events. */
void tgt_event_forget(struct tgt_handle *handle);
/* The next event, for a reply of queue 0. */
void tgt_event_next(struct tgt_session *session, struct rblk_wire_completion *event);
/* KEEPALIVE on queue 0 has confirmed event `number`. */
void tgt_event_seen(struct tgt_session *session, uint32_t number);
/* Another incarnation of queue 0: numbers start again, and unconfirmed events are sent again, but for DRAINING. */
void tgt_event_restart(struct tgt_session *session);

#endif
