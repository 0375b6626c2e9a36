/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The tallies of a reactor: the structs. tally.h says what they are, and fills them. */
#ifndef RBLK_TARGET_TALLIES_H
#define RBLK_TARGET_TALLIES_H

#include <stdalign.h>
#include <sys/queue.h>
#include "proto/wire/payload.h"
#include "target/io/counts.h"

/* Handles with a tally of their own: of a reactor, and of one session. */
#define TGT_TALLIES_MAX 1024u
#define TGT_TALLIES_OF_SESSION 64u

struct tgt_handle;

struct tgt_tally {
	TAILQ_ENTRY(tgt_tally) link;	/* a handle's: reactor->tallies.handles */
	const struct tgt_handle *handle; /* whose it is; NULL: a volume's */
	char volume[RBLK_NAME_BYTES];
	/* No other thread's writes are in its cache lines. */
	alignas(64) struct tgt_counts counts;
};

TAILQ_HEAD(tgt_tally_list, tgt_tally);

struct tgt_tallies {
	struct tgt_tally_list handles;
	unsigned int count;			     /* in it */
	struct tgt_tally *volumes[RBLK_VOLUMES_MAX]; /* by volume->slot; NULL: never opened here */
	struct tgt_counts lost;			     /* for want of memory: in no census */
};

#endif
