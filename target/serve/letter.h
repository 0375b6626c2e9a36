/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Letters: messages from one reactor to another, and what the reactors of a process know of each
 * other. Letters from one sender to one receiver are read in order. Only control goes by letter,
 * never I/O.
 */
#ifndef RBLK_TARGET_LETTER_H
#define RBLK_TARGET_LETTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include "target/base/settings.h"
#include "target/serve/mailbox.h"

struct tgt_reactor;
struct tgt_rulebook;
struct tgt_unserved;
struct tgt_names;

/* Head of a letter. The receiver owns it from tgt_letter_send() on; `read` is called on its thread. */
struct tgt_letter {
	struct tgt_mail mail; /* first */
	void (*read)(struct tgt_reactor *reactor, struct tgt_letter *letter);
};

/*
 * The reactors of a process that have a thread. The creator of the first reactor makes one, all zero
 * but for the rules and the initiators' names; it outlives the last. All are started before one gets a login.
 */
struct tgt_peers {
	struct tgt_reactor *reactors[TGT_REACTORS_MAX]; /* control thread writes */
	_Atomic unsigned int count;
	_Atomic unsigned int empty;   /* how many of them drain and have no session left */
	_Atomic unsigned int letters; /* sent and not read yet */
	struct tgt_rulebook *rules;   /* fixed; NULL: everyone may do everything (tests) */
	struct tgt_unserved *unserved; /* fixed; NULL: nothing is missing (tests) */
	struct tgt_names *names; /* fixed; NULL: initiators are not told apart (tests) */
};

/* Both reactors belong to one process. */
void tgt_letter_send(struct tgt_reactor *to, struct tgt_letter *letter);
/* The receiver's thread: reads it. */
void tgt_letter_read(struct tgt_reactor *reactor, struct tgt_letter *letter);

/* Control thread. Before the reactor's thread begins; and after that has failed. */
void tgt_peers_join(struct tgt_reactor *reactor);
void tgt_peers_leave(struct tgt_reactor *reactor);

/* The reactor's thread: it drains and has no session, and will get none. Idempotent. */
void tgt_peers_empty(struct tgt_reactor *reactor);
/* All reactors are empty and no letter is in flight: none will be sent to this one. */
bool tgt_peers_ended(const struct tgt_reactor *reactor);

#endif
