/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Families of metrics that are not counts of reactors: what the process takes, its limits, and the last reload. metrics.c has the others. */
#ifndef RBLK_TARGET_WATCH_METRICS_PROCESS_H
#define RBLK_TARGET_WATCH_METRICS_PROCESS_H

#include <stdio.h>
#include "target/watch/methods.h"

void tgt_metrics_process(FILE *out, const struct tgt_methods *methods);
void tgt_metrics_limits(FILE *out, const struct tgt_methods *methods, const struct tgt_view *view);

#endif
