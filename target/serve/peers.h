/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reactors of a process know this of each other, and send each other messages. Those from one sender to one receiver are
 * run in order. Only control goes by message, never I/O.
 */
#ifndef RBLK_TARGET_PEERS_H
#define RBLK_TARGET_PEERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include "target/base/settings.h"
#include "target/store/messages.h"

struct tgt_reactor;
struct tgt_rulebook;
struct tgt_volume;
struct tgt_unserved;
struct tgt_names;

/*
 * The reactors of a process that have a thread. The creator of the first reactor makes one, all zero
 * but for the rules and the initiators' names; it outlives the last. All are started before one gets a login.
 */
struct tgt_peers {
	struct tgt_reactor *reactors[TGT_REACTORS_MAX]; /* control thread writes */
	_Atomic unsigned int count;
	_Atomic unsigned int empty;    /* how many of them drain and have no session left */
	_Atomic unsigned int messages; /* to any of them, that are to come, or have not run yet */
	_Atomic bool ended;	       /* once all were empty, and no message was left */
	struct tgt_rulebook *rules;   /* fixed; NULL: everyone may do everything (tests) */
	struct tgt_unserved *unserved; /* fixed; NULL: nothing is missing (tests) */
	struct tgt_names *names; /* fixed; NULL: initiators are not told apart (tests) */
};

/* Any thread. message->run() is called on the reactor's thread, which owns the message from now on. */
void tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message);

/*
 * Likewise, a call of `run` there; takes over the reference to the volume, or NULL, and puts it after that. False: no memory,
 * and the reference is gone.
 */
typedef void tgt_reactor_run(struct tgt_reactor *reactor, struct tgt_volume *volume);
bool tgt_reactor_call(struct tgt_reactor *to, tgt_reactor_run *run, struct tgt_volume *volume);
/* The same on each of these reactors; the reference stays the caller's. Those for which there is no memory are left out. */
void tgt_reactors_call(struct tgt_reactor *const *reactors, unsigned int count, tgt_reactor_run *run,
		       struct tgt_volume *volume);

/* Control thread. Before the reactor's thread begins; and after that has failed. */
void tgt_peers_join(struct tgt_reactor *reactor);
void tgt_peers_leave(struct tgt_reactor *reactor);

/* The reactor's thread: it drains and has no session, and will get none. Idempotent. */
void tgt_peers_empty(struct tgt_reactor *reactor);
/* All reactors are empty and no message is in flight between them: none will be sent to this one but by other threads. */
bool tgt_peers_ended(const struct tgt_reactor *reactor);

#endif
