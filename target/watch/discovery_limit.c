/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The limits of discovery_limit.h. A bucket is one time, until which its answers are paid for: each
 * adds its price, and none may be bought further ahead than the burst.
 */
#include "target/watch/discovery_limit.h"

#include <stddef.h>
#include <string.h>

#define SECOND_NS 1000000000ull
#define PRICE_NS (SECOND_NS / TGT_DISCOVERY_RATE)
#define PRICE_ALL_NS (SECOND_NS / TGT_DISCOVERY_RATE_ALL)

void tgt_discovery_limit_init(struct tgt_discovery_limit *limit, uint64_t seed)
{
	memset(limit, 0, sizeof(*limit));
	limit->seed = seed;
}

/* FNV-1a over the seed and the address: which set it is looked for in. */
static unsigned int limit_set(const struct tgt_discovery_limit *limit, const uint8_t address[16])
{
	uint64_t hash = 0xcbf29ce484222325ull ^ limit->seed;

	for (unsigned int i = 0; i < 16; i++)
		hash = (hash ^ address[i]) * 0x100000001b3ull;
	return (unsigned int)((hash ^ hash >> 32) % TGT_DISCOVERY_SETS);
}

/* Is there room for one more answer? `paid_ns` may lie in the past. */
static bool bucket_has(uint64_t paid_ns, uint64_t price_ns, unsigned int burst, uint64_t now_ns)
{
	return paid_ns <= now_ns || paid_ns - now_ns <= price_ns * (burst - 1);
}

static uint64_t bucket_pay(uint64_t paid_ns, uint64_t price_ns, uint64_t now_ns)
{
	return (paid_ns > now_ns ? paid_ns : now_ns) + price_ns;
}

/*
 * The address's own entry, or one whose address has paid all: to forget that one changes nothing. NULL:
 * all are in use. Thus nobody gets rid of his own entry by asking in the name of others.
 */
static struct tgt_discovery_asker *limit_find(struct tgt_discovery_limit *limit,
					      const uint8_t address[16], uint64_t now_ns)
{
	struct tgt_discovery_asker *set = limit->askers[limit_set(limit, address)], *spare = NULL;

	for (unsigned int i = 0; i < TGT_DISCOVERY_WAYS; i++) {
		if (set[i].paid_ns > now_ns && !memcmp(set[i].address, address, 16))
			return &set[i];
		if (set[i].paid_ns <= now_ns)
			spare = &set[i];
	}
	if (spare) {
		memcpy(spare->address, address, 16);
		spare->paid_ns = 0;
	}
	return spare;
}

bool tgt_discovery_limit_take(struct tgt_discovery_limit *limit, const uint8_t address[16],
			      uint64_t now_ns)
{
	struct tgt_discovery_asker *asker;

	if (!bucket_has(limit->all_paid_ns, PRICE_ALL_NS, TGT_DISCOVERY_BURST_ALL, now_ns))
		return false;
	asker = limit_find(limit, address, now_ns);
	if (!asker || !bucket_has(asker->paid_ns, PRICE_NS, TGT_DISCOVERY_BURST, now_ns))
		return false;
	asker->paid_ns = bucket_pay(asker->paid_ns, PRICE_NS, now_ns);
	limit->all_paid_ns = bucket_pay(limit->all_paid_ns, PRICE_ALL_NS, now_ns);
	return true;
}
