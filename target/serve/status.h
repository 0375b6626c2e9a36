/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Logs what a reactor is doing: its sessions and their resources. For tgt_reactor_call(), without a volume. */
#ifndef RBLK_TARGET_STATUS_H
#define RBLK_TARGET_STATUS_H

#include "target/serve/peers.h"

tgt_reactor_run tgt_status_log;

#endif
