/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A limit of operations and bytes a second, and a reactor's bucket at it. The limit sells time: an operation costs
 * the part of a second that it takes of each of its two kinds. A bucket buys as much as it has used lately,
 * for some milliseconds in advance, so that reactors meet at the limit a few hundred times a second at most,
 * however many operations there are, and all of them together get what the limit has.
 */
#ifndef RBLK_TARGET_LIMIT_H
#define RBLK_TARGET_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "target/base/settings.h"

/* A bucket buys so much time in advance, and no more often than this, if there is time to be had. */
#define TGT_LIMIT_QUANTUM_NS 5000000ull
/* The least that it waits for time that there is not. */
#define TGT_LIMIT_WAIT_NS 1000000ull

enum tgt_limit_kind { TGT_LIMIT_OPERATIONS, TGT_LIMIT_BYTES, TGT_LIMIT_KINDS };

/* Shared by reactors; freed with the last reference. */
struct tgt_limit;

/* A reactor's part of it; the reactor's thread only. */
struct tgt_token_bucket {
	TAILQ_ENTRY(tgt_token_bucket) link;			    /* loop->buckets */
	struct tgt_limit *limit;    /* a reference */
	unsigned int users;	    /* handles */
	unsigned int blocked;	    /* requests that wait for it (throttle.c) */
	uint64_t next_ns;	    /* when it may buy again */
	uint32_t jitter;	    /* so that buckets take turns in being first */
	struct tgt_token_bucket_kind {
		int64_t credit_ns; /* bought and not used; less than 0: used in advance */
		uint64_t used_ns;  /* since it has bought last */
	} kinds[TGT_LIMIT_KINDS];
};

TAILQ_HEAD(tgt_token_bucket_list, tgt_token_bucket);

/* Does it limit anything? */
bool tgt_limit_is_set(const struct tgt_limit_config *config);
/* Made of the same settings? NULL: of none. */
bool tgt_limit_same(const struct tgt_limit *a, const struct tgt_limit *b);
/* Returns how many of that kind a second; 0: no limit. NULL: likewise. */
uint64_t tgt_limit_per_s(const struct tgt_limit *limit, enum tgt_limit_kind kind);
/* NULL: no memory. */
struct tgt_limit *tgt_limit_create(const struct tgt_limit_config *config);
struct tgt_limit *tgt_limit_ref(struct tgt_limit *limit);
void tgt_limit_put(struct tgt_limit *limit); /* NULL: no effect */

/* Takes over the reference. */
void tgt_token_bucket_init(struct tgt_token_bucket *bucket, struct tgt_limit *limit);
/* Time that it has used in advance is the limit's from now on: whoever has a bucket later waits for it. */
void tgt_token_bucket_fini(struct tgt_token_bucket *bucket, uint64_t now_ns);
/* May an operation begin? Otherwise not before next_ns. */
bool tgt_token_bucket_ready(struct tgt_token_bucket *bucket, uint64_t now_ns);
/* One of so many bytes begins. One that is larger than what is left is paid for later. */
void tgt_token_bucket_use(struct tgt_token_bucket *bucket, uint64_t bytes);

#endif
