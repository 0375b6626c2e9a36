/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Families of metrics whose series are sessions, or the volumes that a session has open. metrics.c has the others. */
#ifndef RBLK_TARGET_WATCH_METRICS_SESSIONS_H
#define RBLK_TARGET_WATCH_METRICS_SESSIONS_H

#include <stdio.h>
#include "target/watch/view.h"

void tgt_metrics_sessions(FILE *out, const struct tgt_view *view);

#endif
