/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Letters go through the mailbox of the reactor, like all other messages to it. */
#include "target/serve/letter.h"

#include "target/serve/reactor_impl.h"

void tgt_letter_send(struct tgt_reactor *to, struct tgt_letter *letter)
{
	atomic_fetch_add(&to->peers->letters, 1);
	tgt_mailbox_send(&to->mailbox, &letter->mail);
}

void tgt_letter_read(struct tgt_reactor *reactor, struct tgt_letter *letter)
{
	letter->read(reactor, letter);
	/* Only now, because letters that it sent are counted by then. */
	atomic_fetch_sub(&reactor->peers->letters, 1);
}

void tgt_peers_join(struct tgt_reactor *reactor)
{
	struct tgt_peers *peers = reactor->peers;

	reactor->is_peer = true;
	peers->reactors[atomic_load(&peers->count)] = reactor;
	atomic_fetch_add(&peers->count, 1);
}

void tgt_peers_leave(struct tgt_reactor *reactor)
{
	atomic_fetch_sub(&reactor->peers->count, 1);
	reactor->is_peer = false;
}

void tgt_peers_empty(struct tgt_reactor *reactor)
{
	if (!reactor->is_peer || reactor->is_empty)
		return;
	reactor->is_empty = true;
	atomic_fetch_add(&reactor->peers->empty, 1);
}

/*
 * In this order: when all are empty, only a letter that is read sends another one, and that is
 * counted before the first one is subtracted.
 */
bool tgt_peers_ended(const struct tgt_reactor *reactor)
{
	const struct tgt_peers *peers = reactor->peers;

	return !reactor->is_peer || (atomic_load(&peers->empty) == atomic_load(&peers->count) &&
	       !atomic_load(&peers->letters));
}
