/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages from any thread to one: a lock-free stack that its owner takes whole and turns round,
 * and an eventfd that is written when the stack was empty, so that a sleeping owner wakes once for
 * a burst. Messages are the senders' allocations and become the owner's.
 */
#ifndef RBLK_TARGET_MAILBOX_H
#define RBLK_TARGET_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>

/* Head of every message. */
struct tgt_mail {
	struct tgt_mail *next;
};

struct tgt_mailbox {
	_Atomic(struct tgt_mail *) top;
	int fd;		   /* readable when there may be mail */
	unsigned int owed; /* the owner's: non-empty takes whose write to fd was not read yet */
	struct tgt_mail *taken; /* likewise: of the stack, and not given out yet */
};

int tgt_mailbox_init(struct tgt_mailbox *mailbox);  /* 0 or negative errno */
void tgt_mailbox_fini(struct tgt_mailbox *mailbox); /* empty */

void tgt_mailbox_send(struct tgt_mailbox *mailbox, struct tgt_mail *mail); /* any thread */
/* The owner: at most so many of those that have arrived, oldest first, linked by next; NULL if nothing has. */
struct tgt_mail *tgt_mailbox_take(struct tgt_mailbox *mailbox, unsigned int most);
/* The owner, before it sleeps on fd: takes back writes whose mail it has. True: nothing is there.
 */
bool tgt_mailbox_settle(struct tgt_mailbox *mailbox);

#endif
