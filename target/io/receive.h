/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The buffers of a device's shared receive queue. A buffer is posted, or being read, or held by commands
 * whose in-capsule data has not been stored yet. A buffer without holds is posted again in a chain,
 * before the replies of the same turn, so that a credit is never ahead of its receive (C5). The
 * reactor's thread only.
 */
#ifndef RBLK_TARGET_RECEIVE_H
#define RBLK_TARGET_RECEIVE_H

#include <sys/queue.h>
#include "proto/fabric/fabric.h"
#include "target/store/dma_memory.h"

/* wr_id of a receive: this bit, the number of its struct tgt_receives (bits 32..62), the buffer's
 * index. Sends leave the bit clear. */
#define TGT_WR_RECEIVE (1ull << 63)

TAILQ_HEAD(tgt_receives_list, tgt_receives);

/* Buffers come in chunks, as need grows: so many chunks, and so many buffers in each. */
#define TGT_RECEIVES_CHUNKS 128u
#define TGT_RECEIVES_CHUNK 512u

/*
 * serve/device.c maps and registers it once, and undoes both with the device; tgt_receives_init() and _fini() leave it
 * as it is. At most TGT_RECEIVES_CHUNK * buffer_bytes.
 */
struct tgt_receives_chunk {
	struct tgt_dma_memory memory;
	struct fab_mr *mr;
	uint32_t lkey;
};

/* Created and freed by serve/ with the device that it belongs to. */
struct tgt_receives {
	TAILQ_ENTRY(tgt_receives) idle_link; /* in *idle_list while a buffer is to be posted */
	struct tgt_receives_list *idle_list; /* the turn's */
	bool is_listed;
	uint32_t number;	   /* the device's index, in wr_id: where a completion finds this struct */
	struct fab_device *device; /* whose SRQ */
	struct tgt_receives_chunk chunks[TGT_RECEIVES_CHUNKS];
	uint32_t buffer_bytes; /* of each; a message may be as long */
	uint32_t count, most;  /* buffers that exist, and the most there can be */
	uint32_t promised;     /* buffers promised by credits and reserved tags */
	uint16_t *holds; /* per buffer: commands that still need it */
	uint32_t *idle;	 /* stack of buffers to be posted */
	uint32_t idle_count;
};

/* Initially without a buffer. At most TGT_RECEIVES_CHUNKS * TGT_RECEIVES_CHUNK; `idle_list`
 * outlives it. 0 or -ENOMEM. */
int tgt_receives_init(struct tgt_receives *receives, struct tgt_receives_list *idle_list,
		      uint32_t buffer_bytes, uint32_t most);
/* The next chunk, which has memory: `count` buffers more, idle; only the last may be smaller. The caller posts. */
void tgt_receives_add(struct tgt_receives *receives, uint32_t count);
void tgt_receives_fini(struct tgt_receives *receives);

static inline char *tgt_receives_buffer(const struct tgt_receives *receives, uint32_t index)
{
	return receives->chunks[index / TGT_RECEIVES_CHUNK].memory.base +
	       (size_t)(index % TGT_RECEIVES_CHUNK) * receives->buffer_bytes;
}

/* One hold more or less. A buffer without holds is idle. */
static inline void tgt_receives_hold(struct tgt_receives *receives, uint32_t index)
{
	receives->holds[index]++;
}

static inline void tgt_receives_release(struct tgt_receives *receives, uint32_t index)
{
	if (--receives->holds[index])
		return;
	receives->idle[receives->idle_count++] = index;
	if (!receives->is_listed) {
		receives->is_listed = true;
		TAILQ_INSERT_TAIL(receives->idle_list, receives, idle_link);
	}
}

/* Post what is idle. 0 or negative errno: the queue takes no more, or the device is lost. */
int tgt_receives_post(struct tgt_receives *receives);

#endif
