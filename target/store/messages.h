/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages from any thread to one: a lock-free stack that its owner takes whole and turns round, and an eventfd that is
 * written when the stack was empty, so that a sleeping owner wakes once for a burst. Each ring has one (ring.h), by which
 * all that other threads have for its reactor comes.
 */
#ifndef RBLK_TARGET_STORE_MESSAGES_H
#define RBLK_TARGET_STORE_MESSAGES_H

#include <stdatomic.h>
#include <stdbool.h>

struct tgt_reactor; /* the owner of the ring, which this room only hands on */

/*
 * Embedded in whatever is sent, first. The sender's until it is sent, then the receiver's: `run` is called once, on the
 * thread of the ring, and may free it or send it on. Messages of one sender to one ring are run in order.
 */
struct tgt_message {
	struct tgt_message *next;
	void (*run)(struct tgt_reactor *reactor, struct tgt_message *message);
	bool wakes; /* the stack was empty: its sender writes fd */
};

struct tgt_messages {
	struct tgt_reactor *reactor; /* whose they are, or NULL */
	_Atomic unsigned int *expected, own_expected; /* that are to come, or have not run yet */
	_Atomic(struct tgt_message *) top;
	int fd;			   /* readable when there may be messages */
	int owed;		   /* the owner's: messages taken that write fd, less what was read there */
	struct tgt_message *taken; /* likewise: of the stack, and not given out yet */
};

int tgt_messages_init(struct tgt_messages *messages);  /* 0 or negative errno */
/* It is empty and owes nothing by then: a sender whose message has run may still be about to write fd. */
void tgt_messages_fini(struct tgt_messages *messages);

/* Any thread. But for fd nothing of `messages` is touched after the owner can find the message. */
void tgt_messages_send(struct tgt_messages *messages, struct tgt_message *message);
/* The owner: at most so many of those that have arrived, oldest first, linked by next; NULL if nothing has. */
struct tgt_message *tgt_messages_take(struct tgt_messages *messages, unsigned int most);
/* The owner: runs at most so many of those that have arrived, oldest first. Returns how many. */
unsigned int tgt_messages_run(struct tgt_messages *messages, unsigned int most);
/* The owner, before it sleeps on fd: takes back writes. True: nothing is there. */
bool tgt_messages_settle(struct tgt_messages *messages);

#endif
