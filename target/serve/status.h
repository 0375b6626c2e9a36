/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Logs what a reactor is doing: its sessions and their resources. The reactor's thread only. */
#ifndef RBLK_TARGET_STATUS_H
#define RBLK_TARGET_STATUS_H

struct tgt_reactor;

void tgt_status_log(const struct tgt_reactor *reactor);

#endif
