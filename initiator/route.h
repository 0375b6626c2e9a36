/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which queue, and so which path, a command goes by: the session's policy (rblk_session_options), and queues that are not
 * connected or have no credit are passed over. The session's thread.
 */
#ifndef RBLK_INITIATOR_ROUTE_H
#define RBLK_INITIATOR_ROUTE_H

#include "initiator/session.h"

/* Choose the queue for the next commands: it stays the same for a whole message. */
void ini_route_next(struct rblk_session *session);
/* A slot of that queue, or else of the next one in turn that has a credit; NULL: of none. */
struct ini_slot *ini_route_take(struct rblk_session *session);

#endif
