/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Completions: gathered over a turn, packed into as few messages as they fit. Called by the flush
 * of transfer.c only.
 */
#ifndef RBLK_TARGET_REPLY_H
#define RBLK_TARGET_REPLY_H

#include "target/io/io_queue.h"

/*
 * Up to this many reads of one turn are completed each by its own RDMA WRITE WITH IMMEDIATE; more
 * share one SEND behind their WRITEs. K immediates are K messages and K completions at the
 * initiator, the SEND makes K + 1 messages and one completion.
 */
#define TGT_REPLY_IMMEDIATES 2u

/* Add what io_queue->done allows to the chain. False: the send queue is full, continue later. */
bool tgt_reply_add(struct tgt_io_queue *io_queue);
/* Likewise io_queue->chained: replies that must stay behind the READs before them (F2). */
bool tgt_reply_add_chained(struct tgt_io_queue *io_queue);

#endif
