/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The reactors of peers.h, from the first one's start to the common end. */
#include "target/serve/peers.h"

#include <stdlib.h>
#include "target/serve/reactor_impl.h"
#include "target/store/volume.h"

void tgt_reactor_send(struct tgt_reactor *to, struct tgt_message *message)
{
	tgt_ring_send(to->ring, message);
}

struct call {
	struct tgt_message message; /* first */
	tgt_reactor_run *run;
	struct tgt_volume *volume; /* a reference, or NULL */
};

static void call_run(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct call *call = (struct call *)message;

	call->run(reactor, call->volume);
	if (call->volume)
		tgt_volume_put(call->volume);
	free(call);
}

bool tgt_reactor_call(struct tgt_reactor *to, tgt_reactor_run *run, struct tgt_volume *volume)
{
	struct call *call = malloc(sizeof(*call));

	if (!call) {
		if (volume)
			tgt_volume_put(volume);
		return false;
	}
	*call = (struct call){.message.run = call_run, .run = run, .volume = volume};
	tgt_reactor_send(to, &call->message);
	return true;
}

void tgt_reactors_call(struct tgt_reactor *const *reactors, unsigned int count, tgt_reactor_run *run,
		       struct tgt_volume *volume)
{
	for (unsigned int i = 0; i < count; i++)
		tgt_reactor_call(reactors[i], run, volume ? tgt_volume_ref(volume) : NULL);
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
 * In this order: when all are empty, only a message that is run sends another one, and that is counted before the first
 * one is subtracted. For good: what other threads send to a reactor that has ended is run when it is destroyed.
 */
bool tgt_peers_ended(const struct tgt_reactor *reactor)
{
	struct tgt_peers *peers = reactor->peers;

	/* Alone, or its thread has never begun. */
	if (!reactor->is_peer)
		return !peers || !atomic_load(&peers->messages);
	if (atomic_load(&peers->empty) == atomic_load(&peers->count) && !atomic_load(&peers->messages))
		atomic_store(&peers->ended, true);
	return atomic_load(&peers->ended);
}
