/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A command needs this of an open volume: the channel to it, and a count of its users. serve/ embeds
 * one in each handle and ends the handle when the last user has ended. The reactor's thread only.
 */
#ifndef RBLK_TARGET_ACCESS_H
#define RBLK_TARGET_ACCESS_H

#include <stdbool.h>
#include <stdint.h>
#include "proto/wire/message.h"
#include "target/io/counts.h"
#include "target/io/limit.h"
#include "target/store/channel.h"

/* Limits that an open volume can have: the volume's, and the initiator's. */
#define TGT_ACCESS_BUCKETS 2u

struct tgt_access {
	struct tgt_channel *channel; /* NULL: the volume was removed and its users have ended */
	struct tgt_counts *counts; /* never NULL: of its commands, or shared with others */
	struct tgt_portion *portion; /* of its session's memory for data, with all handles of this volume (share.h) */
	bool read_only;	       /* opened so, or the volume is */
	/* The commands that a reservation refuses to its session: a mask of tgt_refused. It and
	 * `registered` change with the volume's reservation (serve/rights.c). */
	uint8_t refused;
	bool registered; /* its initiator has a key */
	uint8_t flags;	 /* that all its commands have: RBLK_CMD_PRIORITY by the rules, or 0 (serve/limits.c) */
	bool limited;	 /* by one of: (likewise) */
	struct tgt_token_bucket *buckets[TGT_ACCESS_BUCKETS]; /* NULL: none */
	uint32_t users; /* commands in flight, and transfers to or from the store's memory */
	void (*idle)(struct tgt_access *access); /* called after the last user has ended; fixed */
};

static inline void tgt_access_get(struct tgt_access *access)
{
	access->users++;
}

static inline void tgt_access_put(struct tgt_access *access)
{
	if (--access->users == 0)
		access->idle(access);
}

#endif
