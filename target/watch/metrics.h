/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Views as metrics, in the text format of Prometheus 0.0.4; names by its conventions. rblkd(8) has
 * the list. */
#ifndef RBLK_TARGET_WATCH_METRICS_H
#define RBLK_TARGET_WATCH_METRICS_H

#include "target/watch/methods.h"

/* The caller's, to be freed with free(); NULL: no memory. */
char *tgt_metrics_text(const struct tgt_methods *methods, const struct tgt_view *view,
		       size_t *bytes);

#endif
