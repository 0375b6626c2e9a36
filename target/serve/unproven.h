/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queues of a session that has proven its name: until one has proven it, too (authenticate.h), it is
 * DENIED everything but AUTHENTICATE, KEEPALIVE and PING.
 */
#ifndef RBLK_TARGET_UNPROVEN_H
#define RBLK_TARGET_UNPROVEN_H

#include "target/serve/queue.h"

/* For a new queue of this session, or of this remote session of one. */
const struct tgt_io_queue_ops *tgt_unproven_ops(const struct tgt_session *session);

#endif
