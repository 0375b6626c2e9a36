/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The methods that change the configuration: reload, change, save. They take requests apart; the
 * changer, which is another thread's, carries them out, and the answer is given when it has. One thread.
 */
#ifndef RBLK_TARGET_WATCH_ALTER_H
#define RBLK_TARGET_WATCH_ALTER_H

#include "target/base/change.h"
#include "target/watch/rpc.h"

/* The results have what was done; rblkctl(1) says what the parameters are. */
json_t *tgt_alter(struct tgt_rpc_call *call, const struct tgt_changer *changer,
		  enum tgt_change_kind kind);

#endif
