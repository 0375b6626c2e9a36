/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The method that ends sessions. One thread. */
#ifndef RBLK_TARGET_WATCH_KICK_H
#define RBLK_TARGET_WATCH_KICK_H

#include "target/watch/rpc.h"
#include "target/watch/view.h"

/* Parameters: initiator, a name, or session, a number. The result has those of the view that end. */
json_t *tgt_kick(struct tgt_rpc_call *call, const struct tgt_watch_source *source,
		 const struct tgt_view *view);

#endif
