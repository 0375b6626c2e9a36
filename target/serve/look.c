/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A message to each reactor, this one included. It is answered after a whole turn in which no connection had
 * anything more.
 */
#include "target/serve/look.h"

#include <stdlib.h>
#include "proto/core/trace.h"
#include "target/serve/peers.h"
#include "target/serve/reactor_impl.h"

/*
 * A reactor that is busy always has something. What had come when it was asked is long taken after so many
 * turns: each visits every connection that has something.
 */
#define LOOK_TURNS_MAX 64u

struct look_ask {
	struct tgt_message message; /* first */
	struct tgt_look *look;
	unsigned int turns;
};

/* Freed when it was released and all messages are back. */
struct tgt_look {
	struct tgt_reactor *reactor;
	unsigned int away; /* messages */
	bool released;
	struct look_ask asks[TGT_REACTORS_MAX];
};

static void look_free(struct tgt_look *look)
{
	if (look->released && !look->away)
		free(look);
}

/* At the reactor that asks. */
static void look_answered(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct tgt_look *look = ((struct look_ask *)message)->look;

	(void)reactor;
	look->away--;
	look_free(look);
}

/* In its first turn the reactor may have polled before the message was sent. */
static void look_read(struct tgt_reactor *reactor, struct tgt_message *message)
{
	struct look_ask *ask = (struct look_ask *)message;
	unsigned int turns = ask->turns++;

	if (turns && (!reactor->polled || turns == LOOK_TURNS_MAX)) {
		message->run = look_answered;
		tgt_reactor_send(ask->look->reactor, message);
		return;
	}
	/* The next poll looks at all descriptors. */
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		fab_arm(reactor->fabrics[i].fab);
	tgt_reactor_send(reactor, message);
}

struct tgt_look *tgt_look_begin(struct tgt_reactor *reactor)
{
	struct tgt_peers *peers = reactor->peers;
	struct tgt_look *look = calloc(1, sizeof(*look));

	rblk_trace_look_begin(reactor);
	if (!look)
		return NULL;
	look->reactor = reactor;
	/* Alone without a thread (in tests): nobody else to ask, and its own messages may not be run. */
	look->away = reactor->is_peer ? atomic_load(&peers->count) : 0;
	for (unsigned int i = 0; i < look->away; i++) {
		look->asks[i].message.run = look_read;
		look->asks[i].look = look;
		tgt_reactor_send(peers->reactors[i], &look->asks[i].message);
	}
	return look;
}

bool tgt_look_is_over(const struct tgt_look *look)
{
	rblk_trace_look(!look->away);
	return !look->away;
}

void tgt_look_end(struct tgt_look *look)
{
	rblk_trace_look_end(!look->away);
	look->released = true;
	look_free(look);
}
