/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A letter to each reactor, this one included. It is answered after a whole turn in which no connection had
 * anything more.
 */
#include "target/serve/look.h"

#include <stdlib.h>
#include "target/serve/letter.h"
#include "target/serve/reactor_impl.h"

/*
 * A reactor that is busy always has something. What had come when it was asked is long taken after so many
 * turns: each visits every connection that has something.
 */
#define LOOK_TURNS_MAX 64u

struct look_ask {
	struct tgt_letter letter; /* first */
	struct tgt_look *look;
	unsigned int turns;
};

/* Freed when it was released and all letters are back. */
struct tgt_look {
	struct tgt_reactor *reactor;
	unsigned int away; /* letters */
	bool released;
	struct look_ask asks[TGT_REACTORS_MAX];
};

static void look_free(struct tgt_look *look)
{
	if (look->released && !look->away)
		free(look);
}

/* At the reactor that asks. */
static void look_answered(struct tgt_reactor *reactor, struct tgt_letter *letter)
{
	struct tgt_look *look = ((struct look_ask *)letter)->look;

	(void)reactor;
	look->away--;
	look_free(look);
}

/* In its first turn the reactor may have polled before the letter was sent. */
static void look_read(struct tgt_reactor *reactor, struct tgt_letter *letter)
{
	struct look_ask *ask = (struct look_ask *)letter;
	unsigned int turns = ask->turns++;

	if (turns && (!reactor->polled || turns == LOOK_TURNS_MAX)) {
		letter->read = look_answered;
		tgt_letter_send(ask->look->reactor, letter);
		return;
	}
	/* The next poll looks at all descriptors. */
	for (unsigned int i = 0; i < reactor->fabric_count; i++)
		fab_arm(reactor->fabrics[i].fab);
	tgt_letter_send(reactor, letter);
}

struct tgt_look *tgt_look_begin(struct tgt_reactor *reactor)
{
	struct tgt_peers *peers = reactor->peers;
	struct tgt_look *look = calloc(1, sizeof(*look));

	if (!look)
		return NULL;
	look->reactor = reactor;
	/* Alone without a thread (in tests): nobody else to ask, and its own mail may not be taken. */
	look->away = reactor->is_peer ? atomic_load(&peers->count) : 0;
	for (unsigned int i = 0; i < look->away; i++) {
		look->asks[i].letter.read = look_read;
		look->asks[i].look = look;
		tgt_letter_send(peers->reactors[i], &look->asks[i].letter);
	}
	return look;
}

bool tgt_look_is_over(const struct tgt_look *look)
{
	return !look->away;
}

void tgt_look_end(struct tgt_look *look)
{
	look->released = true;
	look_free(look);
}
