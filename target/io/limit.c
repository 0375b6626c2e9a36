/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sells and spends the time of limits. */
#include "target/io/limit.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000ull
/* The most bytes of one operation that count, so that its cost is a number. */
#define BYTES_MAX (1ull << 30)

/* That one bucket leaves to the others; so that sums of them are numbers, too. */
#define DEBT_NS_MAX (3600 * (int64_t)NS_PER_S)

struct tgt_limit {
	_Atomic unsigned int refs;
	_Atomic uint32_t buckets;	 /* that it has had so far */
	uint64_t per_s[TGT_LIMIT_KINDS]; /* fixed; 0: no limit */
	uint64_t burst_ns;		 /* fixed: time that nobody used is sold for so long */
	/* Until when time is sold: on a clock's time, not in a duration. A line of its own for each. */
	struct {
		_Alignas(64) _Atomic uint64_t until_ns;
	} sold[TGT_LIMIT_KINDS];
};

uint64_t tgt_limit_per_s(const struct tgt_limit *limit, enum tgt_limit_kind kind)
{
	return limit ? limit->per_s[kind] : 0;
}

bool tgt_limit_is_set(const struct tgt_limit_config *config)
{
	return config->iops || config->rate_bytes;
}

struct tgt_limit *tgt_limit_create(const struct tgt_limit_config *config)
{
	struct tgt_limit *limit = aligned_alloc(64, sizeof(*limit));

	if (!limit)
		return NULL;
	memset(limit, 0, sizeof(*limit));
	atomic_init(&limit->refs, 1);
	limit->per_s[TGT_LIMIT_OPERATIONS] = config->iops;
	limit->per_s[TGT_LIMIT_BYTES] = config->rate_bytes;
	limit->burst_ns = config->burst_ms * 1000000ull;
	return limit;
}

bool tgt_limit_same(const struct tgt_limit *a, const struct tgt_limit *b)
{
	return a && b && memcmp(a->per_s, b->per_s, sizeof(a->per_s)) == 0 && a->burst_ns == b->burst_ns;
}

struct tgt_limit *tgt_limit_ref(struct tgt_limit *limit)
{
	atomic_fetch_add(&limit->refs, 1);
	return limit;
}

void tgt_limit_put(struct tgt_limit *limit)
{
	if (limit && atomic_fetch_sub(&limit->refs, 1) == 1)
		free(limit);
}

/*
 * Sells up to want_ns of the time before end_ns: now_ns, or UINT64_MAX for a debt, which is taken from the future.
 * Returns how much.
 */
static uint64_t limit_sell(struct tgt_limit *limit, enum tgt_limit_kind kind, uint64_t now_ns, uint64_t end_ns,
			   uint64_t want_ns)
{
	uint64_t oldest_ns = now_ns > limit->burst_ns ? now_ns - limit->burst_ns : 0;
	_Atomic uint64_t *sold = &limit->sold[kind].until_ns;
	uint64_t until_ns = atomic_load_explicit(sold, memory_order_relaxed), from_ns, take_ns;

	do {
		from_ns = until_ns > oldest_ns ? until_ns : oldest_ns;
		if (from_ns >= end_ns)
			return 0;
		take_ns = end_ns - from_ns < want_ns ? end_ns - from_ns : want_ns;
	} while (!atomic_compare_exchange_weak_explicit(sold, &until_ns, from_ns + take_ns,
							memory_order_relaxed, memory_order_relaxed));
	return take_ns;
}

/* -- buckets ----------------------------------------------------------------------------------- */

void tgt_token_bucket_init(struct tgt_token_bucket *bucket, struct tgt_limit *limit)
{
	memset(bucket, 0, sizeof(*bucket));
	bucket->limit = limit;
	/* Each bucket's is another; and the same in each run of the simulator. */
	bucket->jitter = 2654435769u * atomic_fetch_add(&limit->buckets, 1);
}

void tgt_token_bucket_fini(struct tgt_token_bucket *bucket, uint64_t now_ns)
{
	for (unsigned int i = 0; i < TGT_LIMIT_KINDS; i++) {
		int64_t credit_ns = bucket->kinds[i].credit_ns;

		if (credit_ns < 0)
			limit_sell(bucket->limit, (enum tgt_limit_kind)i, now_ns, UINT64_MAX,
				   credit_ns < -DEBT_NS_MAX ? (uint64_t)DEBT_NS_MAX : (uint64_t)-credit_ns);
	}
	tgt_limit_put(bucket->limit);
}

/* Twice what it has used, so that it can use more; all its debt; and what it has counts. */
static uint64_t kind_wants(const struct tgt_token_bucket_kind *kind)
{
	uint64_t want_ns = 2 * kind->used_ns;

	if (kind->credit_ns > 0)
		return want_ns > (uint64_t)kind->credit_ns ? want_ns - (uint64_t)kind->credit_ns : 0;
	if (want_ns < TGT_LIMIT_QUANTUM_NS)
		want_ns = TGT_LIMIT_QUANTUM_NS;
	return want_ns + (uint64_t)-kind->credit_ns;
}

static void bucket_buy(struct tgt_token_bucket *bucket, uint64_t now_ns)
{
	uint64_t wait_ns = 0;

	for (unsigned int i = 0; i < TGT_LIMIT_KINDS; i++) {
		struct tgt_token_bucket_kind *kind = &bucket->kinds[i];

		if (!bucket->limit->per_s[i])
			continue;
		kind->credit_ns += (int64_t)limit_sell(bucket->limit, (enum tgt_limit_kind)i, now_ns,
						       now_ns, kind_wants(kind));
		kind->used_ns = 0;
		if (kind->credit_ns <= 0 && (uint64_t)-kind->credit_ns + TGT_LIMIT_WAIT_NS > wait_ns)
			wait_ns = (uint64_t)-kind->credit_ns + TGT_LIMIT_WAIT_NS;
	}
	/* Time that is not bought within the burst is lost. */
	if (wait_ns > bucket->limit->burst_ns / 2)
		wait_ns = bucket->limit->burst_ns / 2;
	bucket->jitter = bucket->jitter * 1664525u + 1013904223u;
	/* None is owed: about a quantum, each bucket a little different. */
	if (!wait_ns)
		wait_ns = TGT_LIMIT_QUANTUM_NS / 4 * 3 + bucket->jitter % (TGT_LIMIT_QUANTUM_NS / 2);
	bucket->next_ns = now_ns + wait_ns;
}

static bool bucket_has_credit(const struct tgt_token_bucket *bucket)
{
	for (unsigned int i = 0; i < TGT_LIMIT_KINDS; i++)
		if (bucket->limit->per_s[i] && bucket->kinds[i].credit_ns <= 0)
			return false;
	return true;
}

bool tgt_token_bucket_ready(struct tgt_token_bucket *bucket, uint64_t now_ns)
{
	if (bucket_has_credit(bucket))
		return true;
	if (now_ns < bucket->next_ns)
		return false;
	bucket_buy(bucket, now_ns);
	return bucket_has_credit(bucket);
}

static void kind_use(struct tgt_token_bucket *bucket, enum tgt_limit_kind i, uint64_t units)
{
	uint64_t per_s = bucket->limit->per_s[i], cost_ns;

	if (!per_s)
		return;
	cost_ns = (units * NS_PER_S + per_s / 2) / per_s;
	bucket->kinds[i].credit_ns -= (int64_t)cost_ns;
	bucket->kinds[i].used_ns += cost_ns;
}

void tgt_token_bucket_use(struct tgt_token_bucket *bucket, uint64_t bytes)
{
	kind_use(bucket, TGT_LIMIT_OPERATIONS, 1);
	kind_use(bucket, TGT_LIMIT_BYTES, bytes < BYTES_MAX ? bytes : BYTES_MAX);
}
