/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a reactor is doing, into the log: who is served, with what. The reactor's thread only. */
#ifndef RBLK_TARGET_STATUS_H
#define RBLK_TARGET_STATUS_H

struct tgt_reactor;

void tgt_status_log(const struct tgt_reactor *reactor);

#endif
