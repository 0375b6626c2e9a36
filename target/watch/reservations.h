/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The methods of the control socket about reservations of volumes: who has registered, and clearing. The thread of the room. */
#ifndef RBLK_TARGET_WATCH_RESERVATIONS_H
#define RBLK_TARGET_WATCH_RESERVATIONS_H

#include "target/watch/rpc.h"
#include "target/watch/view.h"

/* Lists those of all volumes, or of the parameter "volume" alone. */
json_t *tgt_reservations_method(struct tgt_rpc_call *call, const struct tgt_watch_source *source);
/* Begins to clear the parameter "volume"; with "force", as initiators may rely on it. */
json_t *tgt_clear_method(struct tgt_rpc_call *call, const struct tgt_watch_source *source);

#endif
