/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The initiators that counts tell apart when their sessions have ended (stats.h): one number for
 * each name, for as long as the process lives. A proven name and the same one without a proof are
 * two. Names cost a peer nothing, so there are bounds (stats_table.h); those beyond them share one
 * number. Any thread, under a lock, when a volume is opened.
 */
#ifndef RBLK_TARGET_NAMES_H
#define RBLK_TARGET_NAMES_H

#include <stdbool.h>
#include "proto/wire/payload.h"

struct tgt_names;
struct tgt_host_key;

/* NULL: no memory. */
struct tgt_names *tgt_names_create(void);
void tgt_names_destroy(struct tgt_names *names); /* NULL: no effect */

/* The number of a name, or TGT_NAMES_OTHER. `from`: the host that says it. */
unsigned int tgt_names_number(struct tgt_names *names, const char name[RBLK_NAME_BYTES],
			      bool proven, const struct tgt_host_key *from);

#endif
