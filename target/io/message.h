/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A message from the peer: checked by its validator, then against what the I/O queue has granted, then
 * split into requests. Called by the reactor for each receive. The reactor's thread only.
 */
#ifndef RBLK_TARGET_MESSAGE_H
#define RBLK_TARGET_MESSAGE_H

#include "target/io/io_queue.h"

/* A message has arrived in buffer `index` of `receives`; the caller holds the buffer. */
void tgt_message_receive(struct tgt_io_queue *io_queue, struct tgt_receives *receives, uint32_t index,
			 uint32_t bytes);

#endif
