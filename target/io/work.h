/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The steps of a turn with its lists. serve/ calls these in the order of a turn. The reactor's
 * thread only.
 */
#ifndef RBLK_TARGET_WORK_H
#define RBLK_TARGET_WORK_H

#include "target/io/io_queue.h"

/* Empty lists; the fields that are fixed after creation are the caller's to set. */
void tgt_work_init(struct tgt_loop *loop);

/* Postponed to this turn: pieces of checksums, READs. Returns how many there were. */
unsigned int tgt_work_resume(struct tgt_loop *loop);
/* Gives released memory to the I/O queues in turn. */
void tgt_work_feed(struct tgt_loop *loop);
/* Timer: commands that have waited too long for memory are answered BUSY. */
void tgt_work_expire(struct tgt_loop *loop);
/* Timer: close I/O queues whose peer accepts nothing (C8). */
void tgt_work_check_taken(struct tgt_loop *loop);
/* Post everything that the turn has made: receives, replies, READs. */
void tgt_work_post(struct tgt_loop *loop);

/* There is work for the next turn even if nothing arrives. */
static inline bool tgt_work_has_more(const struct tgt_loop *loop)
{
	return !TAILQ_EMPTY(&loop->resumed) || !TAILQ_EMPTY(&loop->dirty) ||
	       (loop->memory_freed && (!TAILQ_EMPTY(&loop->starving) || !TAILQ_EMPTY(&loop->bounded)));
}

/* No command and no transfer is under way on any open I/O queue. */
bool tgt_work_is_idle(const struct tgt_loop *loop);

#endif
