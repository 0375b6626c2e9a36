/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that are started and on no queue. Each waits for one of these:
 *   TIME   the target could not begin it (BUSY, DRAINING, GONE, or dropped by ABORT): sent again
 *          after a delay that grows (C6)
 *   READY  a queue that takes commands, or a free tag of one; that its volume is open; and the
 *          fence of what has failed of a disk of the same volume (F5)
 *   LOST   it was on a connection that is lost: the fence of that, unless it is a read (F5); then
 *          it is READY
 */
#ifndef RBLK_KMOD_WAITING_H
#define RBLK_KMOD_WAITING_H

#include <linux/blk-mq.h>

struct rblk_session;
struct rblk_disk;
struct rblk_io;
struct rblk_queue;

/* How long to wait before something is sent for the n-th time again, n from 1. */
static inline unsigned int rblk_waiting_pause_ms(unsigned int n)
{
	return 5u << (n < 8 ? n : 8); /* 10 ms to 1.3 s */
}

/* For how long the same request may be sent again and again, though a target answers. */
unsigned int rblk_waiting_give_up_ms(struct rblk_io *io);

/* Answered: take it, if it is to be sent again. Softirq, or the queue's poller. */
bool rblk_waiting_refused(struct rblk_io *io);
/*
 * No queue takes it: it is READY from then on (jiffies), or ended at once if nothing is to wait any
 * more. Any context.
 */
void rblk_waiting_hold(struct rblk_io *io, unsigned long at);
/*
 * Does any volume wait for the fence of the queue, with commands that were lost or for those that
 * have failed (F5)? *handle is the next one above *handle by which such a volume is open now; 0:
 * none is.
 */
bool rblk_waiting_next_volume(struct rblk_session *session, unsigned int queue, u32 *handle);
/*
 * Its commands may be sent, and those that were lost again: this incarnation is fenced for that
 * volume. No effect if it is no longer what is waited for. Any context.
 */
void rblk_waiting_release_volume(struct rblk_session *session, unsigned int queue, u32 handle,
				 u64 epoch, u32 incarnation);
/*
 * The queue that takes it now; RBLK_NO_ROUTE: none does, its volume is not open, or a fence is
 * owed. Any context.
 */
u8 rblk_waiting_route(struct rblk_io *io);
/*
 * Sleeps. The queue is drained and its keys are dead (F4): its requests are unmapped and LOST.
 */
void rblk_waiting_take_lost(struct rblk_queue *queue);
/* F5: what is LOST of this queue may be sent again; before it is fenced, what needs no fence. */
void rblk_waiting_release(struct rblk_session *session, unsigned int queue, bool fenced);
/*
 * Sleeps. A disk whose volume has just been opened: another one, which is detached, may have
 * failed commands to that volume that were lost, and the target may carry those out until their
 * fence (F5). Nothing is sent until the target has said for this volume that it does not:
 * disk->unfenced. That and the next are asked for at once; session->wait is woken when one is
 * known.
 */
void rblk_waiting_owe(struct rblk_disk *disk);
/*
 * A RESERVE was lost with the queue: the next one of each disk, as it may be of the same volume,
 * waits for its own volume's fence of that (disk->reserve_unfenced). Any context.
 */
void rblk_waiting_owe_reserve(struct rblk_session *session, unsigned int queue);
/*
 * Sends what is READY and has a queue. By drive_work: so whatever was routed to a queue is on it
 * before drive_work lets that be closed.
 */
void rblk_waiting_send_due(struct rblk_session *session);
/* A gate, the session's or a disk's, was closed: end what may not wait any more. Any context. */
void rblk_waiting_sweep(struct rblk_session *session);

/*
 * -- overdue.c: requests that are not answered in time (command_ms). The target is asked to drop
 * such a command (ABORT):
 *   dropped       it had not begun; it is sent again, or fails when that has gone on for too long
 *                 (waiting.c)
 *   not dropped   storage has begun it: it waits for that, however long it takes, and is asked for
 *                 again each time. A volume that hangs costs the disks that share its connections
 *                 nothing
 *   not there     its answer is lost, and so is the connection, because its memory is the target's
 *                 until then (F4)
 *   not answered  the connection is lost
 */

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

/*
 * With queue->lock held: commands wait for a SEND. That or its acknowledgement may be lost, so if
 * it is the last one still when late_work runs, CORE_CLOCK_LATE_MS later, they go.
 */
void rblk_overdue_watch_send(struct rblk_queue *queue);
void rblk_overdue_send(struct work_struct *work);

#endif
