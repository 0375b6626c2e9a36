/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * blk-mq's tags, which the disks of a session share: the tag set, its operations, and the end of
 * what a queue has answered. Called by disk.c, session.c, waiting.c and works.c; sleeps, but where
 * it is said.
 */
#ifndef RBLK_KMOD_BLK_MQ_H
#define RBLK_KMOD_BLK_MQ_H

#include <linux/types.h>

struct rblk_disk;
struct rblk_io;
struct rblk_queue;
struct rblk_session;

/*
 * Tags of blk-mq's that no disk gets: the lowest of each hardware context. See rblk_mq_share().
 */
#define RBLK_MQ_RESERVED 1

/*
 * If there are none yet: as many hardware contexts and tags as the session's connections have now.
 */
int rblk_mq_create(struct rblk_session *session);
/*
 * With session->lifecycle held. The session has several disks, or is about to: from now on no
 * single one may take all tags. It has one again: that may, soon.
 */
void rblk_mq_share(struct rblk_session *session);
void rblk_mq_unshare(struct rblk_session *session);
/* No disk uses them any more. */
void rblk_mq_destroy(struct rblk_session *session);

/*
 * Any context. Takes a tag for a request: of the queue *route, or of another one, which *route is
 * then. A large request goes to a queue that has fewer of them; a request whose own queue is lost,
 * to any that has a tag left. False: none is free.
 */
bool rblk_mq_take_tag(struct rblk_session *session, struct rblk_io *io, u8 *route);
/*
 * Is a request being ended that the queue has answered, or that is the disk's (one of them NULL)?
 * Its handler runs, a softirq of another CPU is to end it, or a poller has it in a batch.
 */
bool rblk_mq_ends(struct rblk_session *session, const struct rblk_queue *queue,
		  const struct rblk_disk *disk);
/*
 * The queue is drained: wait for requests that it has answered before, and that are still being
 * ended: they use their slots. As the drain has ended the handlers, none is added: there is one for
 * each tag of the queue at most, and what ends it waits for nothing, whatever other queues do.
 */
void rblk_mq_settle(struct rblk_queue *queue);

#endif
