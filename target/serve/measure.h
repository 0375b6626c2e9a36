/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Measuring connections (`rblk ping`'s one-sided modes): queues that expose one page of this
 * process to their peer, and therefore have a protection domain, receives and replies of their own.
 * To their lanes they are queues like others. The reactor's thread only.
 */
#ifndef RBLK_TARGET_MEASURE_H
#define RBLK_TARGET_MEASURE_H

#include "target/serve/queue.h"

/* Credits and message size for a login of a measuring session. Credits 0: there are too many. */
void tgt_measure_terms(const struct tgt_reactor *reactor, uint16_t wanted,
		       struct tgt_queue_terms *terms);
/* As tgt_queue_create(). */
int tgt_measure_create(struct tgt_session *session, struct tgt_fabric *fabric,
		       struct tgt_device *device, struct fab_request *request,
		       const struct tgt_queue_terms *terms, struct tgt_queue **queue);

#endif
