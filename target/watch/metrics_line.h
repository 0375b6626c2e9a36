/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The lines of Prometheus' text format: a family's help and type, and the labels and the value of a series. All labels and
 * values are escaped here. Any thread.
 */
#ifndef RBLK_TARGET_WATCH_METRICS_LINE_H
#define RBLK_TARGET_WATCH_METRICS_LINE_H

#include <stdint.h>
#include <stdio.h>

/* Before the family's series. type: counter, gauge, histogram, summary. */
void tgt_metrics_family(FILE *out, const char *name, const char *type, const char *help);
/* before: "{" for the first one, "," for the others. */
void tgt_metrics_label(FILE *out, const char *before, const char *name, const char *value);
/* The end of a line that has labels. */
void tgt_metrics_u64(FILE *out, uint64_t value);
void tgt_metrics_seconds(FILE *out, double seconds);

#endif
