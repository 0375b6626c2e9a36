/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One question to all reactors, and their snapshots. Any thread but a reactor's. */
#ifndef RBLK_TARGET_WATCH_ASK_H
#define RBLK_TARGET_WATCH_ASK_H

#include "target/serve/snapshot.h"

/*
 * The snapshot of each reactor, by its index; NULL where one has not answered within timeout_ms, or has
 * ended. The caller frees each. 0 or -ENOMEM. An answer that comes later is freed by the reactor.
 */
int tgt_snapshot_ask(struct tgt_reactor *const *reactors, unsigned int count, unsigned int timeout_ms,
		     struct tgt_snapshot *out[TGT_REACTORS_MAX]);

#endif
