/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who uses a volume. Any thread but a reactor's. */
#ifndef RBLK_TARGET_WATCH_USERS_H
#define RBLK_TARGET_WATCH_USERS_H

#include "target/watch/view.h"

/*
 * How many sessions have it open, or, if `connected`, of those that have a connection; words (TGT_ERROR_BYTES), if any
 * has: "session 3 [ADDRESS] NAME has it open". Asks the reactors, and waits for their answers, but not for long:
 * without them it is 1.
 */
unsigned int tgt_watch_users(const struct tgt_watch_source *source, const char *volume, bool connected, char *words);

#endif
