/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * blk-mq's tags, which the disks of a session share: the tag set, its operations, and holding all its
 * disks back. Called by disk.c, session.c and works.c; sleeps.
 */
#ifndef RBLK_KMOD_TAGSET_H
#define RBLK_KMOD_TAGSET_H

struct rblk_session;

/* Tags of blk-mq's that no disk gets: the lowest of each hardware context. See rblk_tagset_share(). */
#define RBLK_TAGSET_RESERVED 1

/* If there are none yet: as many hardware contexts and tags as the session's connections have now. */
int rblk_tagset_create(struct rblk_session *session);
/*
 * With session->lifecycle held. The session has several disks, or is about to: from now on no single one may take
 * all tags. It has one again: that may, soon.
 */
void rblk_tagset_share(struct rblk_session *session);
void rblk_tagset_unshare(struct rblk_session *session);
/* No disk uses them any more. */
void rblk_tagset_destroy(struct rblk_session *session);

/* With session->lifecycle held: hold back all disks' requests that are not yet started / let them continue. */
void rblk_tagset_quiesce(struct rblk_session *session);
void rblk_tagset_unquiesce(struct rblk_session *session);
/*
 * Wait for requests that were answered before the drain and are still being ended on some CPU: they use
 * their slots.
 */
void rblk_tagset_settle(struct rblk_session *session);

#endif
