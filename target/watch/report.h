/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Views as JSON. Keys are as those of `rblk --json`: times in nanoseconds, sizes in bytes, both
 * integers; a key has one meaning. All return a new reference, or NULL: no memory.
 */
#ifndef RBLK_TARGET_WATCH_REPORT_H
#define RBLK_TARGET_WATCH_REPORT_H

#include <jansson.h>
#include "target/watch/view.h"

/* paths: with each of their connections. */
json_t *tgt_report_sessions(const struct tgt_view *view, bool paths);
/* The list of what is configured and not served: [{"volume": or "address":, "reason":}]; problems: with that of each.
 */
json_t *tgt_report_missing(const struct tgt_view *view, enum tgt_unserved_kind kind, bool problems);
/* problems: with those of each, and why. */
json_t *tgt_report_volumes(const struct tgt_view *view, bool problems);
json_t *tgt_report_reactors(const struct tgt_view *view);
/* Connections that have ended, by why. */
json_t *tgt_report_ends(const struct tgt_view *view);
/* The results of logins. */
json_t *tgt_report_logins(const struct tgt_view *view);
/* All counts of each session and volume, with latencies by bucket: of what programs take differences. */
json_t *tgt_report_counts(const struct tgt_view *view);

#endif
