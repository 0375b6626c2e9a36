/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that are not answered in time (command_ms). The target is asked to drop such a command
 * (ABORT):
 *   dropped       it had not begun; it is sent again, or fails when that has gone on for too long
 *                 (waiting.c)
 *   not dropped   storage has begun it: it waits for that, however long it takes, and is asked for
 *                 again each time. A volume that hangs costs the disks that share its connections
 *                 nothing
 *   not there     its answer is lost, and so is the connection, because its memory is the target's
 *                 until then (F4)
 *   not answered  the connection is lost
 */
#ifndef RBLK_KMOD_OVERDUE_H
#define RBLK_KMOD_OVERDUE_H

#include <linux/blk-mq.h>

struct rblk_disk;
struct rblk_io;
struct rblk_queue;

/* blk-mq's .timeout: the request was started so long ago, or looked at here. */
enum blk_eh_timer_return rblk_overdue_check(struct request *rq);
/*
 * The target is asked to drop what it has not begun of the disk's. Commands may be left: ask again.
 */
void rblk_overdue_drop(struct rblk_queue *queue, const struct rblk_disk *disk);
/* ABORT of the next one. By drive_work. */
void rblk_overdue_abort(struct rblk_queue *queue);
/* It has been overdue for so long that it is to fail, and not to be sent again. */
bool rblk_overdue_ends(struct rblk_io *io);

#endif
