/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small helpers for messages. Any thread. */
#ifndef RBLK_TARGET_TEXT_H
#define RBLK_TARGET_TEXT_H

/* "%u volume%s": 1 volume, 2 volumes. */
#define TGT_S(count) ((count) == 1 ? "" : "s")

#endif
