/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Queries of discovery that each break one rule: nobody answers them, and the target counts them as malformed.
 */
#ifndef RBLK_TESTS_DISCOVER_TWISTS_H
#define RBLK_TESTS_DISCOVER_TWISTS_H

#include <stdbool.h>
#include <string.h>
#include "proto/wire/wire_check.h"

static inline struct rblk_wire_discover discover_query(uint8_t nonce)
{
	return (struct rblk_wire_discover){
		.magic = rblk_to_le32(RBLK_MAGIC),
		.version = rblk_to_le16(RBLK_DISCOVER_VERSION),
		.type = rblk_to_le16(RBLK_DISCOVER_QUERY),
		.nonce = {nonce},
	};
}

/* The i-th, *bytes of 2 * RBLK_DISCOVER_BYTES at `query`. False: there are no more. */
static inline bool discover_twist(unsigned int i, struct rblk_wire_discover query[2], size_t *bytes)
{
	static const size_t lengths[] = {0, 1, 4, 63, 511, 513, 1024};
	const unsigned int others = sizeof(lengths) / sizeof(lengths[0]);

	query[0] = query[1] = discover_query((uint8_t)(i < others ? 1 : 2 + i));
	*bytes = i < others ? lengths[i] : sizeof(*query);
	if (i < others)
		return true;
	switch (i - others) {
	case 0: query->magic = 0; return true;
	case 1: query->version = rblk_to_le16(2); return true;
	case 2: query->type = 0; return true;
	case 3: query->type = rblk_to_le16(RBLK_DISCOVER_ANSWER); return true; /* an answer asks for none */
	case 4: query->name[0] = '*'; return true;
	case 5: query->name[63] = 'x'; return true;
	case 6: query->instance[0] = 1; return true;
	case 7: query->protocol = rblk_to_le16(1); return true;
	case 8: query->portal_count = rblk_to_le16(0xffff); return true;
	case 9: query->reserved[0] = 1; return true;
	case 10: query->portals[15].reserved[4] = 1; return true;
	case 11: query->portals[0].kind = 1; return true;
	default: return false;
	}
}

#endif
