/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A message to each reactor, this one included. It is answered after a whole turn in which no connection had
 * anything more.
 */
#include "target/serve/barrier.h"

#include <stdlib.h>
#include "proto/core/trace.h"
#include "target/serve/peers.h"
#include "target/serve/reactor_impl.h"

/*
 * A reactor that is busy always has something. After so many turns it has long taken what had come when it was asked:
 * each turn visits every connection that has something.
 */
#define BARRIER_TURNS_MAX 64u

struct barrier_ask {
	struct tgt_message message; /* first */
	struct tgt_barrier *barrier;
	unsigned int turns;
};

/* Freed when it was released and all messages are back. */
struct tgt_barrier {
	struct tgt_reactor *reactor;
	unsigned int away; /* messages */
	bool released;
	struct barrier_ask asks[TGT_REACTORS_MAX];
};

static void barrier_free(struct tgt_barrier *barrier)
{
	if (barrier->released && !barrier->away)
		free(barrier);
}

/* At the reactor that asks. */
static void barrier_answered(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_barrier *barrier = ((struct barrier_ask *)message)->barrier;

	barrier->away--;
	barrier_free(barrier);
}

/* In its first turn the reactor may have polled before the message was sent. */
static void barrier_read(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct barrier_ask *ask = (struct barrier_ask *)message;
	unsigned int turns = ask->turns++;

	if (turns && (!reactor->polled || turns == BARRIER_TURNS_MAX)) {
		message->run = barrier_answered;
		tgt_reactor_send(ask->barrier->reactor, message);
		return;
	}
	/* The next poll looks at all descriptors. */
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		fab_arm(reactor->fabrics[i].fab);
	tgt_reactor_send(reactor, message);
}

struct tgt_barrier *tgt_barrier_begin(struct tgt_reactor *reactor)
{
	struct tgt_peers *peers = reactor->peers;
	struct tgt_barrier *barrier = calloc(1, sizeof(*barrier));

	rblk_trace_barrier_begin(reactor);
	if (!barrier)
		return NULL;
	barrier->reactor = reactor;
	/* Alone without a thread (in tests): nobody else to ask, and its own messages may not be run. */
	barrier->away = reactor->is_peer ? atomic_load(&peers->count) : 0;
	for (unsigned int i = 0; i < barrier->away; i++) {
		barrier->asks[i].message.run = barrier_read;
		barrier->asks[i].barrier = barrier;
		tgt_reactor_send(peers->reactors[i], &barrier->asks[i].message);
	}
	return barrier;
}

bool tgt_barrier_is_over(const struct tgt_barrier *barrier)
{
	rblk_trace_barrier(!barrier->away);
	return !barrier->away;
}

void tgt_barrier_end(struct tgt_barrier *barrier)
{
	rblk_trace_barrier_end(!barrier->away);
	barrier->released = true;
	barrier_free(barrier);
}
