/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Daemon events as JSON, under the name events, and the method of the control socket that has them. */
#ifndef RBLK_TARGET_WATCH_DAEMON_EVENTS_H
#define RBLK_TARGET_WATCH_DAEMON_EVENTS_H

#include "target/base/daemon_event.h"
#include "target/watch/rpc.h"

/* The most events of one answer. */
#define TGT_DAEMON_EVENTS_ANSWER 200u

/* A new reference, or NULL: no memory. What is not known is left out. */
json_t *tgt_daemon_event_report(const struct tgt_daemon_event *event);
/* {"events": [...], "last": NUMBER}: the first ones after a number. */
json_t *tgt_daemon_events_report(uint64_t after);
/* Parameter "after": a number, 0 if it is left out. */
json_t *tgt_daemon_events_method(struct tgt_rpc_call *call);

#endif
