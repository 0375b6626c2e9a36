/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The initiators that counts tell apart when their sessions have ended (tally.h): one number for
 * each name, for as long as the process lives. A proven name and the same one without a proof are
 * two. Names cost a peer nothing, so there are bounds (tallies.h); those beyond them share one
 * number. Any thread, under a lock, when a volume is opened.
 */
#ifndef RBLK_TARGET_COUNTED_H
#define RBLK_TARGET_COUNTED_H

#include <stdbool.h>
#include "proto/wire/payload.h"

struct tgt_counted;
struct tgt_host_key;

/* NULL: no memory. */
struct tgt_counted *tgt_counted_create(void);
void tgt_counted_destroy(struct tgt_counted *counted); /* NULL: no effect */

/* The number of a name, or TGT_COUNTED_OTHER. `from`: the host that says it. */
unsigned int tgt_counted_number(struct tgt_counted *counted, const char name[RBLK_NAME_BYTES],
				bool proven, const struct tgt_host_key *from);

#endif
