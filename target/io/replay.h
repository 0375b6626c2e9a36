/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * F8: a session's reply cache. Commands that are not idempotent (COMPARE_AND_WRITE, RESERVE) carry
 * an operation number; a number that was answered gets the same answer when it is sent again, and
 * nothing is done twice. The last RBLK_OPERATIONS_MAX answers are kept, so a session cannot have
 * more of these commands outstanding. serve/ embeds one in each session; it ends with the epoch.
 * The threads of all reactors that have queues of the session call it.
 */
#ifndef RBLK_TARGET_REPLAY_H
#define RBLK_TARGET_REPLAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "proto/wire/message.h"

struct tgt_answer {
	uint64_t number; /* 0: free */
	uint64_t result;
	uint16_t status; /* enum rblk_status */
	bool under_way;	 /* no answer yet */
};

/* tgt_replay_init() and _fini(). Number n has the slot n modulo their count. */
struct tgt_replay {
	pthread_mutex_t lock;
	struct tgt_answer answers[RBLK_OPERATIONS_MAX];
};

enum tgt_operation {
	TGT_OPERATION_NEW,     /* do it now; outstanding until tgt_replay_end() */
	TGT_OPERATION_KNOWN,   /* *answer is set to its answer */
	TGT_OPERATION_LATER,   /* a retry, and its first attempt is dropped only now: its volume was fenced before its queue */
	TGT_OPERATION_INVALID, /* seen before and no retry, outstanding, or too old to be known */
};

void tgt_replay_init(struct tgt_replay *answers); /* the memory is all zero */
void tgt_replay_fini(struct tgt_replay *answers);

enum tgt_operation tgt_replay_begin(struct tgt_replay *answers, uint64_t number, bool retry,
				     struct tgt_answer *answer);
/* It has this answer. If something was done it is kept, and nothing is done again; otherwise the number may come again. */
void tgt_replay_end(struct tgt_replay *answers, uint64_t number, enum rblk_status status,
		     uint64_t result);

#endif
