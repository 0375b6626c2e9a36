/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Receive buffers: those of a device's shared receive queue, or the own ones of a measuring
 * connection. A buffer is posted, or being read, or held by commands whose in-capsule data has not
 * been stored yet; what is free again is posted in chains, before the replies of the same turn, so
 * that a credit is never ahead of its receive. Its reactor's thread only.
 */
#ifndef RBLK_TARGET_INBOX_H
#define RBLK_TARGET_INBOX_H

#include "proto/fabric/fabric.h"

/* wr_id of a receive: this bit, the device's index, the buffer's index. Sends leave the bit clear.
 */
#define TGT_WR_RECEIVE (1ull << 63)

struct tgt_inbox {
	struct fab_device *device; /* whose SRQ; NULL: conn's own */
	struct fab_conn *conn;
	char *base;	       /* count * buffer_bytes; the owner's memory */
	uint32_t buffer_bytes; /* of each; a message may be as long */
	uint32_t count;
	uint32_t lkey;
	uint16_t *holds; /* per buffer: commands that still need it */
	uint32_t *idle;	 /* stack of buffers to be posted */
	uint32_t idle_count;
};

/* Everything idle; the caller posts. 0 or -ENOMEM. */
int tgt_inbox_init(struct tgt_inbox *inbox, char *base, uint32_t buffer_bytes, uint32_t count,
		   uint32_t lkey);
void tgt_inbox_fini(struct tgt_inbox *inbox);

static inline char *tgt_inbox_buffer(const struct tgt_inbox *inbox, uint32_t index)
{
	return inbox->base + (size_t)index * inbox->buffer_bytes;
}

/* A hold more or less. A buffer whose last hold goes is idle. */
static inline void tgt_inbox_hold(struct tgt_inbox *inbox, uint32_t index)
{
	inbox->holds[index]++;
}

static inline void tgt_inbox_release(struct tgt_inbox *inbox, uint32_t index)
{
	if (--inbox->holds[index] == 0)
		inbox->idle[inbox->idle_count++] = index;
}

/* Post what is idle. 0 or negative errno: the queue takes no more, a lost device. */
int tgt_inbox_post(struct tgt_inbox *inbox);

#endif
