/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many queries of discovery are answered: so many of one address, and so many in all. Its memory
 * is the struct's, whoever asks and however often. Pure: the caller has the clock. One thread.
 */
#ifndef RBLK_TARGET_WATCH_DISCOVERY_LIMIT_H
#define RBLK_TARGET_WATCH_DISCOVERY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* An address may have BURST answers at once, and then RATE in each second. */
#define TGT_DISCOVERY_BURST 16
#define TGT_DISCOVERY_RATE 2
/* All addresses together, likewise. */
#define TGT_DISCOVERY_BURST_ALL 128
#define TGT_DISCOVERY_RATE_ALL 64

/* Addresses that are remembered: SETS * WAYS. */
#define TGT_DISCOVERY_SETS 128
#define TGT_DISCOVERY_WAYS 4

struct tgt_discovery_asker {
	uint8_t address[16];
	uint64_t paid_ns; /* the answers that it has had are paid for by then; 0: the entry is free */
};

struct tgt_discovery_limit {
	uint64_t seed;	      /* random: nobody knows which addresses share a set */
	uint64_t all_paid_ns; /* as paid_ns, for all addresses together */
	struct tgt_discovery_asker askers[TGT_DISCOVERY_SETS][TGT_DISCOVERY_WAYS];
};

void tgt_discovery_limit_init(struct tgt_discovery_limit *limit, uint64_t seed);
/* May this address (IPv4 as IPv6 maps it) be answered now? True counts as an answer. */
bool tgt_discovery_limit_take(struct tgt_discovery_limit *limit, const uint8_t address[16],
			      uint64_t now_ns);

#endif
